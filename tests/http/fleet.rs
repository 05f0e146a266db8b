//! Do all nodes have the right state of the gates, whatever is lost, killed, made up or started again?

mod refusals;
mod under_load;

use futures_util::future::join_all;
use serde_json::json;
use tidegate::internals::{
    database::{self, PoolSettings},
    listener,
    store::Store,
};
use tidegate_node::{
    Node, NodeOptions,
    internals::{LISTENER_NAME, serve},
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::Api;
use crate::support::{
    TestDatabase, eventually, patient,
    race::{Session, leases, submit_many},
};

/// The marks of the seed, and refusals told as computed, without jitter.
async fn stage() -> TestDatabase {
    let database = TestDatabase::unlimited().await;
    database
        .execute(
            "update tidegate.gate set high_water = 30, low_water = 15;
             update tidegate.setting set jitter = 0",
        )
        .await;
    database
}

/// A node as `tidegate serve` runs it, over connections of its own.
struct Member {
    api: Api,
    node: Node,
}

impl Member {
    async fn start(database: &TestDatabase, listens: bool) -> Self {
        let pool = database::connect(&database.url, &patient()).await.unwrap();
        let store = Store::new(pool);
        let node = Node::of_store(store.clone(), NodeOptions::default());
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = tcp.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        if listens {
            let settings = PoolSettings { application_name: LISTENER_NAME.to_owned(), ..patient() };
            let listened = database::connect_to_listen(&database.url, &settings).unwrap();
            tokio::spawn(listener::listen(listened, store.clone(), node.subscribers(), shutdown.clone()));
        }
        let served = tokio::spawn(serve(tcp, node.router(), shutdown.clone()));
        let api = Api::of_server(address, shutdown, served);
        Self { api, node }
    }

    /// Whether it knows that the gate of the tx queue is open.
    fn knows(&self, open: bool) -> bool {
        self.node
            .gates()
            .all()
            .is_some_and(|(gates, _)| gates.iter().any(|gate| gate.name == "tx" && gate.accepting == open))
    }

    async fn stop(self) {
        self.api.shutdown.cancel();
        self.api.served.await.unwrap().unwrap();
    }
}

/// So many nodes, listening.
async fn fleet(database: &TestDatabase, members: usize) -> Vec<Member> {
    let fleet = join_all((0..members).map(|_| Member::start(database, true))).await;
    eventually("they listen", || async { nodes(database).await == i64::try_from(members).unwrap() }).await;
    fleet
}

async fn nodes(database: &TestDatabase) -> i64 {
    let counted = "select distinct nodes from tidegate.gate_copy()";
    database.number(counted).await
}

async fn all_know(fleet: &[Member], open: bool) {
    eventually("every node knows", || async { fleet.iter().all(|member| member.knows(open)) }).await;
}

/// Every node refuses by itself, or lets in.
async fn all_say(fleet: &[Member], open: bool) {
    all_know(fleet, open).await;
    for member in fleet {
        // What was made up may be heard just now.
        eventually("the node says so", || async {
            let said = member.api.post("/v1/direct", &json!({})).await;
            said.status == if open { 202 } else { 429 }
        })
        .await;
    }
}

async fn fill(database: &TestDatabase) {
    submit_many(database, "direct", 30).await;
}

/// Serves so many requests.
async fn drain(database: &TestDatabase, count: i32) {
    let mut session = Session::open(database).await;
    let held = session.claim("tx", count).await;
    reject(&mut session, &held).await;
    session.close().await;
}

async fn reject(session: &mut Session, held: &[crate::support::race::Held]) {
    session.texts(&format!("select id from tidegate_internal.settle_rejected({}, null)", leases(held))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_node_hears_of_a_flip_and_counts_the_others() {
    let database = stage().await;
    let fleet = fleet(&database, 3).await;
    fill(&database).await;
    all_say(&fleet, false).await;
    drain(&database, 15).await;
    all_say(&fleet, true).await;
    assert_eq!(nodes(&database).await, 3);
    for member in fleet {
        member.stop().await;
    }
    eventually("no node listens", || async { nodes(&database).await == 0 }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flip_without_notification_is_known_within_the_interval() {
    let database = stage().await;
    let mut fleet = fleet(&database, 2).await;
    fleet.push(Member::start(&database, false).await);
    all_know(&fleet, true).await;
    for (state, open) in [("too_many_requests", false), ("accepting", true), ("too_many_requests", false)] {
        // Without an epoch of its own, too.
        database
            .execute(&format!("update tidegate.gate set state = '{state}', forced = true where queue = 'tx'"))
            .await;
        all_say(&fleet, open).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_listener_comes_back_and_has_missed_nothing() {
    let database = stage().await;
    let fleet = fleet(&database, 3).await;
    // Until they are gone: a session that is about to end would be counted among those that listen again.
    let kill = format!(
        "select count(pg_terminate_backend(pid, 30000)) from pg_stat_activity
         where datname = current_database() and application_name = '{LISTENER_NAME}'"
    );
    for round in 0..3 {
        assert_eq!(database.number(&kill).await, 3);
        fill(&database).await;
        all_say(&fleet, false).await;
        eventually("they listen again", || async { nodes(&database).await == 3 }).await;
        assert_eq!(database.number(&kill).await, 3);
        drain(&database, 30 + round).await;
        drain(&database, 1000).await;
        all_say(&fleet, true).await;
        eventually("they listen again", || async { nodes(&database).await == 3 }).await;
        drain(&database, 1000).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn notifications_that_are_made_up_late_or_nonsense_do_not_last() {
    let database = stage().await;
    let fleet = fleet(&database, 3).await;
    all_know(&fleet, true).await;
    let say = async |signal: &str, epoch: i64| {
        let payload = json!({"queue": "tx", "signal": signal, "depth": 30, "epoch": epoch});
        let notify = format!("select pg_notify('tidegate_gate', '{payload}')");
        database.execute(&notify).await;
    };

    say("TOO_MANY_REQUESTS", i64::MAX).await;
    all_say(&fleet, true).await;
    fill(&database).await;
    all_say(&fleet, false).await;
    for epoch in [0, 1, i64::MIN, i64::MAX] {
        say("ACCEPTING_REQUESTS", epoch).await;
    }
    for nonsense in ["", "{", "42", "[[[[", "{\"queue\":7}", "'' or 1=1"] {
        let nonsense = nonsense.replace('\'', "''");
        database.execute(&format!("select pg_notify('tidegate_gate', '{nonsense}')")).await;
    }
    all_say(&fleet, false).await;
    // And the three that were let in before.
    drain(&database, 18).await;
    all_say(&fleet, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_start_while_the_gate_is_closed_refuse_from_the_first_call_on() {
    let database = stage().await;
    let mut fleet = fleet(&database, 2).await;
    fill(&database).await;
    all_say(&fleet, false).await;

    // One is started again, and one joins late, with nothing heard.
    fleet.remove(0).stop().await;
    for listens in [true, false] {
        let late = Member::start(&database, listens).await;
        assert_eq!(late.api.post("/v1/direct", &json!({})).await.status, 429);
        fleet.push(late);
    }
    all_say(&fleet, false).await;

    // All are.
    for member in fleet {
        member.stop().await;
    }
    let fleet = join_all((0..3).map(|_| Member::start(&database, true))).await;
    for member in &fleet {
        let refused = member.api.post("/v1/direct", &json!({})).await;
        refused.assert_problem(429, "gate_closed");
    }
    all_say(&fleet, false).await;
    drain(&database, 15).await;
    all_say(&fleet, true).await;
}
