//! Do all nodes have the right state of the gates, whatever is lost, killed, made up or started again?

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use futures_util::future::join_all;
use reqwest::RequestBuilder;
use serde_json::{Value, json};
use sqlx::postgres::PgListener;
use tidegate::internals::{
    api_key::Scope,
    database::{self, PoolSettings},
    listener,
    store::Store,
};
use tidegate_node::{
    HttpOptions, Node, NodeOptions,
    internals::{LISTENER_NAME, serve},
};
use tokio::{io::AsyncWriteExt, net::TcpListener};
use tokio_util::sync::CancellationToken;

use super::{Answer, Api, access::key, answer, read_to_end};
use crate::support::{
    TestDatabase, campaign, eventually,
    race::{DEPTH, Session, leases, sound, submit_many},
    rest,
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
        let pool = database::connect(&database.url, &PoolSettings::default()).await.unwrap();
        let store = Store::new(pool);
        let node = Node::of_store(store.clone(), NodeOptions::default());
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = tcp.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        if listens {
            let settings = PoolSettings { application_name: LISTENER_NAME.to_owned(), ..PoolSettings::default() };
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

/// Counts the statements that submit, and makes each of them fail; the submitting function as it was, to put it back.
async fn fail_submissions(database: &TestDatabase) -> String {
    let stored = "select pg_get_functiondef('tidegate_internal.require_kind(text)'::regprocedure)";
    let stored = database.text(stored).await.unwrap();
    database
        .execute(
            "create sequence public.submitting;
             create or replace function tidegate_internal.require_kind(p_kind text) returns tidegate.kind
             language plpgsql as $$
             begin
               perform nextval('public.submitting');
               raise lock_not_available using message = 'a submission has come this far';
             end;
             $$",
        )
        .await;
    stored
}

/// What a node answers by itself. One that got no CPU for a while reads its copies again before it knows what to answer:
/// what it has left to the database until then has failed there.
async fn answer_of_node(database: &TestDatabase, failed: &AtomicUsize, request: impl Fn() -> RequestBuilder) -> Answer {
    let mut known = None;
    for _ in 0..100 {
        let answered = answer(request()).await;
        if answered.status.as_u16() < 500 {
            known = Some(answered);
            break;
        }
        failed.fetch_add(1, Ordering::SeqCst);
        tokio::task::yield_now().await;
    }
    let submitted = "select coalesce(pg_sequence_last_value('public.submitting'), 0)";
    let submitted = usize::try_from(database.number(submitted).await).unwrap();
    let failed = failed.load(Ordering::SeqCst);
    assert!(submitted <= failed, "{submitted} submitting statements for {failed} failed calls");
    known.expect("the node knows")
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
    let kill = format!(
        "select count(pg_terminate_backend(pid)) from pg_stat_activity
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

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_gate_costs_no_statement_without_a_key_and_replays_are_answered() {
    let database = stage().await;
    let alice = key(&database, "alice", &[Scope::Submit]).await;
    let fleet = fleet(&database, 1).await;
    let (api, node) = (&fleet[0].api, &fleet[0]);
    let posting = |path: &str| api.posting(path, &json!([1])).bearer_auth(alice.expose());
    let keyed = |name: &str| posting("/v1/direct").header("idempotency-key", name);
    let first = answer(keyed("first")).await;
    assert_eq!(first.status, 202);
    fill(&database).await;
    eventually("the node knows", || async { node.knows(false) }).await;

    let stored = fail_submissions(&database).await;
    let failed = AtomicUsize::new(0);
    for _ in 0..20 {
        for path in ["/v1/direct", "/v1/direct/batch", "/v1/public-decrypt"] {
            let refused = answer_of_node(&database, &failed, || posting(path)).await;
            refused.assert_problem(429, "gate_closed");
            assert!(refused.header("ratelimit").starts_with("\"tx\";r=0;t="));
        }
    }
    // Whatever else it asks for, and whatever its body is.
    let called_back = || posting("/v1/direct").header("tidegate-callback-url", "https://example.com");
    let refused = answer_of_node(&database, &failed, called_back).await;
    refused.assert_problem(429, "gate_closed");
    let nonsense = || posting("/v1/direct").body("{");
    let refused = answer_of_node(&database, &failed, nonsense).await;
    refused.assert_problem(429, "gate_closed");
    // Who may not call learns nothing of it.
    let unknown = || api.posting("/v1/direct", &json!({}));
    let refused = answer_of_node(&database, &failed, unknown).await;
    refused.assert_problem(401, "unauthenticated");
    database.execute(&stored).await;

    let replayed = answer(keyed("first")).await;
    assert_eq!(replayed.status, 202, "{replayed:?}");
    assert_eq!(replayed.header("idempotency-replayed"), "true");
    assert_eq!(replayed.body["job_id"], first.body["job_id"]);
    let fresh = answer(keyed("second")).await;
    fresh.assert_problem(429, "gate_closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_or_large_submission_to_a_closed_gate_gets_its_429() {
    let database = stage().await;
    let member = Member::start(&database, false).await;
    fill(&database).await;
    eventually("the node knows", || async { member.knows(false) }).await;
    let head = "POST /v1/direct HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";

    // The body ends too late, if at all: it is not taken for the next call.
    let stalled = format!("{head}content-length: 10\r\n\r\n{{");
    let said = read_to_end(member.api.raw(&stalled).await).await;
    assert!(said.starts_with("HTTP/1.1 429 "), "{said}");
    let said = said.to_ascii_lowercase();
    for header in ["connection: close", "retry-after: "] {
        assert!(said.contains(&format!("\r\n{header}")), "{said}");
    }

    // As much as an open gate would take, and the connection serves on.
    let longest = HttpOptions::default().body_limit;
    let mut sending = member.api.raw(&format!("{head}content-length: {longest}\r\n\r\n")).await;
    sending.write_all(&vec![b'1'; longest]).await.unwrap();
    let next = "GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    sending.write_all(next.as_bytes()).await.unwrap();
    let said = read_to_end(sending).await;
    assert!(said.starts_with("HTTP/1.1 429 "), "{said}");
    assert!(said.contains("HTTP/1.1 200 "), "{said}");
    member.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_count_refusals_by_copy_and_database_and_show_closed_gates() {
    let database = stage().await;
    let fleet = fleet(&database, 1).await;
    let api = &fleet[0].api;
    fill(&database).await;
    all_know(&fleet, false).await;
    for _ in 0..3 {
        api.post("/v1/direct", &json!({})).await;
    }
    api.post_with_key("/v1/direct", "k", &json!({})).await;

    let figures = api.get("/metrics").await.body;
    let figures = figures.as_str().unwrap();
    for figure in [
        r#"tidegate_gate_refusals_total{kind="direct",by="copy"} 3"#,
        r#"tidegate_gate_refusals_total{kind="direct",by="database"} 1"#,
        r#"tidegate_submissions_total{kind="direct",outcome="refused"} 4"#,
        r#"tidegate_gate_copy_closed{gate="tx"} 1"#,
        r#"tidegate_gate_copy_closed{gate="readiness"} 0"#,
        "tidegate_gate_copy_age_seconds ",
    ] {
        assert!(figures.contains(figure), "{figure} in {figures}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn those_beyond_the_room_are_told_later_with_a_key_or_without() {
    let database = stage().await;
    database.execute("update tidegate.queue set per_seconds = 1 where name = 'tx'").await;
    let fleet = fleet(&database, 1).await;
    let api = &fleet[0].api;
    fill(&database).await;
    all_know(&fleet, false).await;

    let mut told = Vec::new();
    for nth in 0..40 {
        let refused = if nth % 2 == 0 {
            api.post("/v1/direct", &json!({})).await
        } else {
            api.post_with_key("/v1/direct", &format!("k{nth}"), &json!({})).await
        };
        told.push(refused.retry_after());
    }

    // 15 above the low mark at 1 per second, margin 0.2; less what has passed since.
    assert!((1..=18).contains(&told[0]), "{told:?}");
    // 25 more than there is room for come one by one, in 1.2 s each, less what has passed since.
    assert!((35..=48).contains(&told[39]), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_never_fits_is_refused_for_good_and_one_that_will_until_it_does() {
    let database = stage().await;
    let fleet = fleet(&database, 1).await;
    let api = &fleet[0].api;
    let batch = |count: usize| Value::from(vec![1; count]);

    let never = api.post("/v1/direct/batch", &batch(40)).await;
    never.assert_problem(422, "batch_too_large");
    assert_eq!(never.body["retryable"], false);
    for number in ["40", "30", "\"tx\""] {
        assert!(never.detail().contains(number), "{never:?}");
    }
    submit_many(&database, "direct", 15).await;
    let later = api.post("/v1/direct/batch", &batch(20)).await;
    later.assert_problem(429, "gate_closed");
    assert_eq!(database.number(DEPTH).await, 15);
    let whole = api.post("/v1/direct/batch", &batch(15)).await;
    assert_eq!(whole.status, 202);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_whose_lock_is_kept_is_a_503_with_retry_after() {
    let database = stage().await;
    // Who waits for less gives up sooner.
    database
        .execute(
            "do $$ begin execute format('alter database %I set lock_timeout = 100', current_database()); end $$;
             select tidegate.quota_set(kind => 'direct', high_water => 1000)",
        )
        .await;
    let member = Member::start(&database, false).await;
    let mut holder = Session::begin(&database).await;
    holder.execute("select tidegate.submit('direct', '{}')").await;

    for path in ["/v1/direct", "/v1/direct/batch"] {
        let busy = member.api.post(path, &json!([1])).await;
        busy.assert_problem(503, "gate_busy");
        assert_eq!(busy.body["retryable"], true);
        assert!(busy.detail().starts_with("nothing was stored"), "{busy:?}");
        assert_eq!(busy.retry_after(), 5);
    }
    holder.rollback().await;
    assert_eq!(member.api.post("/v1/direct", &json!({})).await.status, 202);
    member.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_callers_at_three_nodes_never_pass_the_mark_and_every_flip_is_told_once() {
    let database = stage().await;
    let fleet = fleet(&database, 3).await;
    let mut listener = PgListener::connect(&database.url).await.unwrap();
    listener.listen("tidegate_gate").await.unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let mut watch = Session::open(&database).await;
    let watched = tokio::spawn({
        let over = Arc::clone(&over);
        async move {
            let mut deepest = 0;
            while !over.load(Ordering::SeqCst) {
                let depth = watch.text(DEPTH).await;
                deepest = deepest.max(depth.parse::<i64>().unwrap());
                rest().await;
            }
            deepest
        }
    });
    let mut workers = Vec::new();
    for _ in 0..3 {
        let mut session = Session::open(&database).await;
        let over = Arc::clone(&over);
        workers.push(tokio::spawn(async move {
            // Not before the callers have reached the mark: else work may keep up with them.
            while session.text("select state from tidegate.gate where name = 'tx'").await == "accepting" {
                rest().await;
            }
            while !over.load(Ordering::SeqCst) {
                let held = session.claim("tx", 1).await;
                if !held.is_empty() {
                    reject(&mut session, &held).await;
                }
            }
        }));
    }
    let taken = Arc::new(AtomicUsize::new(0));
    let callers = (0..100).map(|number: usize| {
        let api = &fleet[number % 3].api;
        let (client, single, batch) = (api.client.clone(), api.url("/v1/direct"), api.url("/v1/direct/batch"));
        let taken = Arc::clone(&taken);
        tokio::spawn(async move {
            let mut round = 0;
            while taken.load(Ordering::SeqCst) < campaign(90, 400) {
                round += 1;
                let (posting, count) = match (number + round) % 10 {
                    0 => (client.post(&batch).json(&vec![1; 7]), 7),
                    1 => {
                        let key = format!("{number}-{round}");
                        (client.post(&single).header("idempotency-key", key).json(&1), 1)
                    }
                    _ => (client.post(&single).json(&1), 1),
                };
                let status = posting.send().await.unwrap().status();
                assert!(status == 202 || status == 429, "{status}");
                if status == 202 {
                    taken.fetch_add(count, Ordering::SeqCst);
                } else {
                    rest().await;
                }
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.unwrap();
    }
    let served = || async { database.number(DEPTH).await == 0 };
    eventually("everything has been served", served).await;
    over.store(true, Ordering::SeqCst);
    for worker in workers {
        worker.await.unwrap();
    }

    let deepest = watched.await.unwrap();
    assert!(deepest <= 30, "{deepest} messages were in the queue");
    let mut session = Session::open(&database).await;
    session.execute("select tidegate.gates_evaluate()").await;
    let history = session
        .texts(
            "select h.signal, h.depth, h.epoch from tidegate.gate_history as h
             where h.gate = 'tx' order by h.epoch",
        )
        .await;
    assert!(history.len() >= 2, "{history:?}");
    let mut at_the_mark = 0;
    for (place, flip) in history.iter().enumerate() {
        let [signal, depth, epoch] = flip.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{flip}");
        };
        let depth: i64 = depth.parse().unwrap();
        let (expected, at) = [("TOO_MANY_REQUESTS", 30), ("ACCEPTING_REQUESTS", 15)][place % 2];
        assert_eq!((signal, epoch), (expected, &*(place + 1).to_string()), "{history:?}");
        // A settle that began while the gate was open, and commits after others have come near the mark, takes it below.
        assert!(depth == at || (depth < at && at == 15), "{history:?}");
        at_the_mark += i32::from(depth == at);
        let told = listener.recv().await.unwrap();
        let told: Value = serde_json::from_str(told.payload()).unwrap();
        assert_eq!(told, json!({"queue": "tx", "signal": signal, "depth": depth, "epoch": place + 1}));
    }
    // All closings, and half of the openings.
    assert!(at_the_mark * 4 >= 3 * i32::try_from(history.len()).unwrap() - 2, "{history:?}");
    all_say(&fleet, true).await;
    let marker = "select pg_notify('tidegate_gate', 'the last')";
    session.execute(marker).await;
    // Nothing else was told.
    assert_eq!(listener.recv().await.unwrap().payload(), "the last");
    sound(&database).await;
}
