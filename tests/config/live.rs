//! Does a change hold everywhere within a second, whichever way it is made, and with nothing restarted?
//!
//! Times are the database's: of the change, from its record; of what follows, from the history of the requests or from
//! the clock when it was seen.

use std::sync::Arc;

use serde_json::json;
use tidegate::{
    internals::worker::{self, WorkerOptions},
    request::Request,
    stage::{Check, JsonText, Readiness, Receipt, Sent, Stages, Transact},
};
use tokio::{sync::Notify, task::JoinSet};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    cli::commands::{err, run},
    http::Api,
    support::{TestDatabase, eventually, race::submit_many, rest},
};

/// The ways to change a setting.
#[derive(Debug, Clone, Copy)]
enum Door {
    Function,
    HandSql(&'static str),
    CommandLine,
    Http,
}

impl Door {
    async fn set(self, database: &TestDatabase, api: &Api, name: &str, value: &str) {
        match self {
            Self::Function => {
                database.execute(&format!("select tidegate.config_set('{name}', '{value}')")).await;
            }
            Self::HandSql(sql) => database.execute(sql).await,
            Self::CommandLine => {
                let set = run(&database.url, &["config", "set", name, value]).await;
                assert!(set.status.success(), "{}", err(&set));
            }
            Self::Http => {
                let set = api.patch("/v1/admin/config", &json!({ name: value })).await;
                assert_eq!(set.status, 200, "{set:?}");
            }
        }
    }
}

/// Seconds of the database's clock since the last recorded change.
async fn since_change(database: &TestDatabase) -> f64 {
    database
        .text("select extract(epoch from clock_timestamp() - max(at)) from tidegate.config_change")
        .await
        .unwrap()
        .parse()
        .unwrap()
}

/// The number of the last recorded change.
async fn last_change(database: &TestDatabase) -> i64 {
    database.number("select max(id) from tidegate.config_change").await
}

/// Seconds of the database's clock since the first change after number `last`; none before there is one.
async fn since_change_after(database: &TestDatabase, last: i64) -> Option<f64> {
    let since = database
        .text(&format!(
            "select extract(epoch from clock_timestamp() - min(at)) from tidegate.config_change where id > {last}"
        ))
        .await;
    since.map(|seconds| seconds.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_eta_of_a_waiting_request_follows_every_change_at_every_node_within_a_second() {
    let database = TestDatabase::new().await;
    let nodes = [Api::of(&database).await, Api::of(&database).await];
    // Ten before it, and no worker claims: p = 10, P = 2 s, T = 0.1 s, M = 0.2 are 4 s.
    submit_many(&database, "direct", 10).await;
    let waiting = nodes[0].submit("direct").await;
    // Four before it in the readiness queue, Q = 11.
    submit_many(&database, "public_decrypt", 4).await;
    let queued = nodes[1].submit("public-decrypt").await;
    assert_eq!(nodes[0].get(&waiting).await.body["eta_seconds"], 4);

    for (door, name, value, poll, eta) in [
        // ceil((10/D + 2 + 0.1) 1.2)
        (Door::Function, "tx.per_seconds", "1", &waiting, 15),
        (Door::CommandLine, "tx.per_seconds", "0.5", &waiting, 27),
        (Door::Http, "tx.per_seconds", "2", &waiting, 9),
        (Door::HandSql("update tidegate.queue set per_seconds = 1 where name = 'tx'"), "", "", &waiting, 15),
        (Door::Http, "direct_processing_seconds", "12", &waiting, 27),
        (Door::CommandLine, "tx_confirmation_ms", "3000", &waiting, 30),
        (Door::Function, "safety_margin", "0", &waiting, 25),
        (Door::Http, "max_seconds", "20", &waiting, 20),
        (Door::CommandLine, "max_seconds", "1000", &waiting, 25),
        (Door::Http, "min_seconds", "100", &waiting, 100),
        (Door::Function, "min_seconds", "1", &waiting, 25),
        (Door::CommandLine, "tx.paused", "true", &waiting, 1000),
        (Door::Http, "tx.paused", "false", &waiting, 25),
        // ceil(4/C + 11/1 + 4 + 3): a check counts as a second.
        (Door::Http, "readiness.max_concurrency", "4", &queued, 19),
        (Door::CommandLine, "readiness.max_concurrency", "1", &queued, 22),
        (Door::Function, "readiness.max_concurrency", "none", &queued, 18),
        (Door::HandSql("select tidegate.pause('readiness')"), "", "", &queued, 1000),
    ] {
        let last = last_change(&database).await;
        let followed = async {
            for (number, node) in nodes.iter().enumerate() {
                loop {
                    let asked = since_change_after(&database, last).await;
                    let said = &node.get(poll).await.body["eta_seconds"];
                    if *said == eta {
                        break;
                    }
                    assert!(
                        asked.is_none_or(|seconds| seconds < 1.0),
                        "{door:?} {name} {value}: asked {asked:?} s later, node {number} says {said}, not {eta}"
                    );
                    rest().await;
                }
            }
        };
        tokio::join!(door.set(&database, &nodes[0], name, value), followed);
    }
}

struct Instant;

impl Transact for Instant {
    type Payload = JsonText;

    async fn send(&self, _: &Request) -> Sent {
        Sent::Receipt(Receipt { reference: None, response: Some(json!({}).into()) })
    }
}

/// A check that goes on until it is told otherwise.
struct Held(Arc<Notify>);

impl Readiness for Held {
    type Payload = JsonText;

    async fn check(&self, _: &Request) -> Check {
        self.0.notified().await;
        Check::Ready
    }
}

/// Workers that run until the value is dropped.
struct Fleet {
    _workers: JoinSet<()>,
    _stop: DropGuard,
}

impl Fleet {
    fn of(database: &TestDatabase, size: usize, release: &Arc<Notify>) -> Self {
        let stop = CancellationToken::new();
        let mut workers = JoinSet::new();
        for number in 0..size {
            let mut stages = Stages::new();
            for kind in ["public_decrypt", "user_decrypt"] {
                stages = stages.readiness(kind, Held(Arc::clone(release))).transact(kind, Instant);
            }
            for kind in ["input_proof", "direct"] {
                stages = stages.transact(kind, Instant);
            }
            let options = WorkerOptions { name: format!("worker-{number}"), ..WorkerOptions::default() };
            let (store, stop) = (database.store.clone(), stop.clone());
            workers.spawn(async move {
                worker::run(store, stages, options, stop).await.unwrap();
            });
        }
        Self { _workers: workers, _stop: stop.drop_guard() }
    }
}

/// How many sends began between so many seconds after the last change.
async fn sends(database: &TestDatabase, from: f64, to: f64) -> i64 {
    eventually("the time has passed", || async { since_change(database).await > to }).await;
    database
        .number(&format!(
            "select count(*) from tidegate.request_event as e, (select max(at) as at from tidegate.config_change) as c
             where e.cause = 'claimed' and e.at >= c.at + interval '{from} s' and e.at < c.at + interval '{to} s'"
        ))
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn all_workers_keep_the_pace_of_a_new_rate_within_a_second_of_its_change() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;
    Door::Function.set(&database, &api, "tx.per_seconds", "1").await;
    submit_many(&database, "direct", 400).await;
    let _fleet = Fleet::of(&database, 2, &Arc::default());
    eventually("they have begun", || async {
        database.number("select count(*) from tidegate.request_event where cause = 'claimed'").await > 0
    })
    .await;

    // Of the two seconds from one second after the change on: what the new rate gives, the most (D × 2 + burst, and what
    // is claimed up to 100 ms ahead) and, where it is faster than before, no less than half of it.
    for (door, value, least, most) in [
        (Door::Function, "20", 20, 43),
        (Door::CommandLine, "2", 2, 6),
        (Door::Http, "25", 25, 54),
        (Door::HandSql("update tidegate.queue set per_seconds = 1 where name = 'tx'"), "", 1, 4),
        (Door::Http, "0", 0, 0),
        (Door::CommandLine, "30", 30, 64),
    ] {
        door.set(&database, &api, "tx.per_seconds", value).await;
        let sent = sends(&database, 1.0, 3.0).await;
        assert!((least..=most).contains(&sent), "{door:?} {value}: {sent} sends");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_workers_stop_and_go_on_within_a_second_of_a_pause() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;
    Door::Function.set(&database, &api, "tx.per_seconds", "20").await;
    submit_many(&database, "direct", 400).await;
    let _fleet = Fleet::of(&database, 2, &Arc::default());

    for door in [Door::Http, Door::CommandLine, Door::Function] {
        door.set(&database, &api, "tx.paused", "true").await;
        assert_eq!(sends(&database, 1.0, 1.5).await, 0, "{door:?}");
        door.set(&database, &api, "tx.paused", "false").await;
        assert!(sends(&database, 0.0, 1.0).await > 0, "{door:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_workers_check_as_many_at_once_as_a_new_limit_allows_within_a_second() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;
    Door::Function.set(&database, &api, "readiness.max_concurrency", "2").await;
    submit_many(&database, "public_decrypt", 60).await;
    let release = Arc::new(Notify::new());
    let _fleet = Fleet::of(&database, 2, &release);
    let held =
        || database.number("select count(*) from tidegate.leased_request where queue = 'readiness' and in_force");
    eventually("two are checked", || async { held().await == 2 }).await;

    for (door, value) in [(Door::Http, 5), (Door::CommandLine, 9), (Door::Function, 14)] {
        let limit = value.to_string();
        let seen = async {
            eventually(&format!("{value} are checked"), || async { held().await == value }).await;
            since_change(&database).await
        };
        let set = door.set(&database, &api, "readiness.max_concurrency", &limit);
        let ((), took) = tokio::join!(set, seen);
        assert!(took < 1.0, "{door:?} {value}: {took} s");
    }

    // A lower one takes nothing away from those who hold: no other begins until they have ended.
    Door::Http.set(&database, &api, "readiness.max_concurrency", "3").await;
    for _ in 0..14 {
        release.notify_one();
    }
    eventually("the new limit is kept", || async { held().await == 3 }).await;
}
