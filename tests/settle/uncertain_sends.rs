//! What becomes of a send that may have left, where a policy changes under way, calls are hedged, and effects are slow?

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use serde_json::json;
use sqlx::PgConnection;
use tidegate::{
    internals::worker::WorkerOptions,
    request::{Request, RequestError},
    stage::{Effect, Found, JsonText, Receipt, Sent, Transact},
};
use tokio::sync::Semaphore;

use crate::{
    support::{
        TestDatabase, eventually,
        race::{expire_leases, history},
    },
    worker::lives::{Running, all_stages},
};

async fn ended(database: &TestDatabase) -> i64 {
    database.number("select count(*) from tidegate.request where req_status in ('completed', 'failure')").await
}

/// The first call never had a connection, and says so only after the second has been lost half-way.
#[derive(Clone)]
struct LostHalfWay {
    calls: Arc<AtomicU32>,
    second: Arc<Semaphore>,
}

impl Transact for LostHalfWay {
    type Payload = JsonText;

    async fn send(&self, _: &Request) -> Sent {
        let may_have_left = self.calls.fetch_add(1, Ordering::SeqCst) > 0;
        if may_have_left {
            self.second.add_permits(1);
        } else {
            let _ = self.second.acquire().await.unwrap();
        }
        let code = if may_have_left { "connection_lost" } else { "connect" };
        Sent::Retry {
            error: RequestError::new(code, "no answer", true),
            after: may_have_left.then_some(Duration::from_secs(3000)),
            may_have_left,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hedged_send_may_have_left_when_any_of_its_calls_may() {
    let database = TestDatabase::unlimited().await;
    database
        .execute(
            "update tidegate.policy
             set hedge_safe = true, hedge_after_ms = 1, hedge_max = 1, hedge_share = 1, retry_on = '{5xx}'
             where kind = 'direct' and stage = 'tx'",
        )
        .await;
    let sends = LostHalfWay { calls: Arc::default(), second: Arc::new(Semaphore::new(0)) };
    let id = database.submit("direct").await;
    let running =
        Running::start(&database.store, all_stages().transact("direct", sends.clone()), WorkerOptions::default());
    eventually("it has ended", || async { ended(&database).await == 1 }).await;
    running.stop().await;

    assert_eq!(sends.calls.load(Ordering::SeqCst), 2);
    let error = database.text(&format!("select error ->> 'code' from tidegate.request where id = '{id}'")).await;
    assert_eq!(error.as_deref(), Some("outcome_unknown"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_send_begun_at_most_once_is_not_repeated_when_the_policy_changes_meanwhile() {
    let database = TestDatabase::unlimited().await;
    let semantics = |semantics: &str| {
        format!("update tidegate.policy set semantics = '{semantics}' where kind = 'direct' and stage = 'tx'")
    };
    let mut lives = Vec::new();
    for recovered in [false, true] {
        database.execute(&semantics("at_most_once")).await;
        let id = database.submit("direct").await;
        assert_eq!(database.claim_tx(1).await.len(), 1);
        // Its worker is killed, and the policy changes.
        database.execute(&semantics("at_least_once")).await;
        expire_leases(&database, "tx").await;
        if recovered {
            database.execute("select tidegate.recover()").await;
        }
        assert!(database.claim_tx(1).await.is_empty(), "it is sent again");
        lives.push(history(&database, id).await);
    }
    for life in lives {
        assert!(life.ends_with("outcome_unknown"), "{life:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hedged_send_waits_as_long_as_any_of_its_calls_was_asked_to() {
    let database = TestDatabase::unlimited().await.with_short_policies().await;
    database
        .execute(
            "update tidegate.policy
             set hedge_safe = true, hedge_after_ms = 1, hedge_max = 1, hedge_share = 1
             where kind = 'direct' and stage = 'tx'",
        )
        .await;
    let sends = LostHalfWay { calls: Arc::default(), second: Arc::new(Semaphore::new(0)) };
    let id = database.submit("direct").await;
    let running = Running::start(&database.store, all_stages().transact("direct", sends), WorkerOptions::default());
    // 50 minutes are more than the stage has: it waits until one more attempt fits.
    let waits =
        "select count(*) from pgmq.q_tx where vt between now() + interval '80 s' and now() + interval '2 minutes'";
    eventually("it waits", || async { database.number(waits).await == 1 }).await;
    running.stop().await;
    let life = history(&database, id).await;
    assert_eq!(life, "submitted claimed send_retried");
}

/// Effects that each take an eighth of a settle's time.
#[derive(Clone, Default)]
struct Slow(Arc<AtomicU32>);

impl Transact for Slow {
    type Payload = JsonText;

    async fn send(&self, _: &Request) -> Sent {
        self.0.fetch_add(1, Ordering::SeqCst);
        Sent::Receipt(Receipt { reference: None, response: Some(json!({}).into()) })
    }
}

impl Effect for Slow {
    async fn write(&self, transaction: &mut PgConnection, _: &Request, _: &Receipt) -> Result<(), sqlx::Error> {
        sqlx::query("select pg_sleep(0.05)").execute(transaction).await?;
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_whose_effects_take_long_together_is_settled_in_parts() {
    let database = TestDatabase::unlimited().await;
    for _ in 0..64 {
        database.submit("direct").await;
    }
    let stage = Slow::default();
    let options = WorkerOptions {
        queues: vec!["tx".to_owned()],
        lease: Duration::from_secs(2),
        batch: 64,
        concurrency: 64,
        ..WorkerOptions::default()
    };
    let stages = all_stages().transact_with_effect("direct", stage.clone());
    let running = Running::start(&database.store, stages, options);
    eventually("all have ended", || async { ended(&database).await == 64 }).await;
    running.stop().await;

    let completed = database.number("select count(*) from tidegate.request where req_status = 'completed'").await;
    assert_eq!((completed, stage.0.load(Ordering::SeqCst)), (64, 64));
}

/// Sends, and looks for receipts, that go as the list says: the first attempt by its first word, and so on.
#[derive(Clone)]
struct Script {
    sends: Arc<Mutex<Vec<&'static str>>>,
    looks: Arc<Mutex<Vec<&'static str>>>,
}

impl Script {
    fn of(sends: &[&'static str], looks: &[&'static str]) -> Self {
        let reversed = |words: &[&'static str]| {
            let words = words.iter().rev().copied().collect();
            Arc::new(Mutex::new(words))
        };
        Self { sends: reversed(sends), looks: reversed(looks) }
    }

    /// Runs one `direct` to its end, and says how that was.
    async fn play(&self, database: &TestDatabase) -> String {
        let id = database.submit("direct").await;
        let running =
            Running::start(&database.store, all_stages().transact("direct", self.clone()), WorkerOptions::default());
        eventually("it has ended", || async { ended(database).await == 1 }).await;
        running.stop().await;
        assert!(self.sends.lock().unwrap().is_empty());
        assert!(self.looks.lock().unwrap().is_empty());
        history(database, id).await
    }
}

impl Transact for Script {
    type Payload = JsonText;

    async fn send(&self, _: &Request) -> Sent {
        let word = self.sends.lock().unwrap().pop().expect("one send too many");
        if word == "ok" {
            return Sent::Receipt(Receipt { reference: None, response: Some(json!({}).into()) });
        }
        Sent::Retry { error: RequestError::new(word, "no answer", true), after: None, may_have_left: word != "connect" }
    }

    async fn find_receipt(&self, _: &Request) -> Result<Found, RequestError> {
        match self.looks.lock().unwrap().pop() {
            Some("none") | None => Ok(Found::Nothing),
            Some(code) => Err(RequestError::new(code, "no answer", true)),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_that_fails_is_no_send_that_may_have_left() {
    let database = TestDatabase::unlimited().await;
    database
        .execute(
            "update tidegate.policy set semantics = 'at_most_once', base_ms = 1, cap_ms = 1, jitter_ms = 0
             where kind = 'direct' and stage = 'tx'",
        )
        .await;
    // The downstream is away for two attempts, of which the second only asks for a receipt.
    let life = Script::of(&["connect", "ok"], &["connect", "none"]).play(&database).await;
    assert!(life.ends_with("receipt"), "{life}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_that_is_not_retried_may_follow_an_earlier_attempt_that_left() {
    let database = TestDatabase::unlimited().await;
    database
        .execute(
            "update tidegate.policy set retry_on = '{timeout}', base_ms = 1, cap_ms = 1, jitter_ms = 0
             where kind = 'direct' and stage = 'tx'",
        )
        .await;
    let life = Script::of(&["timeout", "connect"], &["none"]).play(&database).await;
    assert!(life.ends_with("outcome_unknown"), "{life}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receipt_that_the_downstream_does_not_show_does_not_make_a_request_rejected() {
    let database = TestDatabase::unlimited().await;
    database
        .execute(
            "update tidegate.policy set base_ms = 1, cap_ms = 1, jitter_ms = 0
             where kind = 'direct' and stage = 'tx'",
        )
        .await;
    let life = Script::of(&["timeout", "ok"], &["http_403", "none"]).play(&database).await;
    assert!(life.ends_with("receipt"), "{life}");
}

/// The first call waits to be let go, and then succeeds or is lost; the second is refused at once.
#[derive(Clone)]
struct RefusedBeside {
    succeeds: bool,
    calls: Arc<AtomicU32>,
    first: Arc<Semaphore>,
}

impl Transact for RefusedBeside {
    type Payload = JsonText;

    async fn send(&self, _: &Request) -> Sent {
        if self.calls.fetch_add(1, Ordering::SeqCst) > 0 {
            return Sent::Rejected(RequestError::new("http_409_twice", "it is under way already", false));
        }
        let _ = self.first.acquire().await.unwrap();
        if self.succeeds {
            return Sent::response(json!("done"));
        }
        Sent::Retry { error: RequestError::new("connection_lost", "no answer", true), after: None, may_have_left: true }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_hedge_waits_for_the_call_beside_it() {
    for succeeds in [true, false] {
        let database = TestDatabase::unlimited().await;
        database
            .execute(
                "update tidegate.policy set hedge_safe = true, hedge_after_ms = 1, hedge_max = 3, hedge_share = 1
                 where kind = 'direct' and stage = 'tx'",
            )
            .await;
        let sends = RefusedBeside { succeeds, calls: Arc::default(), first: Arc::new(Semaphore::new(0)) };
        let id = database.submit("direct").await;
        let stages = all_stages().transact("direct", sends.clone());
        let running = Running::start(&database.store, stages, WorkerOptions::default());
        eventually("it is hedged", || async { sends.calls.load(Ordering::SeqCst) == 2 }).await;
        assert_eq!(database.status(id).await, "tx_in_flight");
        sends.first.add_permits(1);
        eventually("it has ended", || async { ended(&database).await == 1 }).await;
        running.stop().await;

        assert_eq!(sends.calls.load(Ordering::SeqCst), 2, "no further hedge");
        let told = format!(
            "select concat_ws(' ', req_status, tidegate.executed(r), error ->> 'message')
             from tidegate.request as r where id = '{id}'"
        );
        let expected = if succeeds {
            "completed yes"
        } else {
            "failure unknown it is under way already; another call of it may have been executed: poll it, ask the downstream, or send it again under a new key"
        };
        assert_eq!(database.value(&told).await, expected);
    }
}
