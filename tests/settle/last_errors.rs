//! Is the last error of a stage still known when a deadline, the attempts or an operator have ended its request?

use serde_json::{Value, json};
use tidegate::{
    Kind, Outlook, Stages, Submitted, Tidegate,
    request::{Request, RequestError, RequestId, Status},
    stage::{Check, Sent},
};

use crate::support::{TestDatabase, eventually};

/// Pays after a check of the funds. Backoffs are long enough for a test to act before the next attempt.
async fn payouts() -> (TestDatabase, Tidegate) {
    let database = TestDatabase::unlimited().await;
    let tidegate = Tidegate::from_pool(database.pool.clone());
    tidegate.register(Kind::direct("payout")).await.unwrap();
    tidegate.register(Kind::decrypt("audit")).await.unwrap();
    database
        .execute(
            "update tidegate.policy set attempts = 3, base_ms = 300000, cap_ms = 300000, jitter_ms = 0
             where kind in ('payout', 'audit')",
        )
        .await;
    (database, tidegate)
}

fn broke() -> RequestError {
    let details = json!({"wallet": "hot\0", "needs": [3, {"cents": 700}]});
    RequestError::new("no_funds", "the wallet is empty", true).with_details(details)
}

fn details(error: &RequestError) -> Value {
    serde_json::from_str(error.details.as_ref().unwrap().get()).unwrap()
}

/// Sends and checks that fail in this way, until the request has this status.
async fn run(database: &TestDatabase, tidegate: &Tidegate, stages: Stages, kind: &str, until: &str) -> RequestId {
    let Submitted::Accepted(ticket) = tidegate.submit(kind, &json!({})).await.unwrap() else {
        panic!("{kind}");
    };
    let worker = tidegate.worker(stages).start().await.unwrap();
    let seen = format!("select count(*) from tidegate.request where id = '{}' and {until}", ticket.id);
    eventually(until, || async { database.number(&seen).await == 1 }).await;
    worker.stop().await.unwrap();
    ticket.id
}

fn failing() -> Stages {
    Stages::new()
        .send("payout", |_: Request<Value>| async { Sent::Retry { error: broke(), after: None, may_have_left: false } })
        .check("audit", |_: Request<Value>| async { Check::Retry { error: broke(), after: None } })
}

async fn outlook(tidegate: &Tidegate, id: RequestId) -> Outlook {
    tidegate.get(id).await.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_keeps_the_last_error_with_its_details() {
    let (database, tidegate) = payouts().await;
    for (kind, deadline, code) in [
        ("payout", "deadline_at", "deadline_exceeded"),
        ("audit", "readiness_deadline_at", "readiness_timed_out"),
        ("audit", "deadline_at", "deadline_exceeded"),
    ] {
        let id = run(&database, &tidegate, failing(), kind, "error is not null").await;
        let live = outlook(&tidegate, id).await;
        assert_eq!((live.error.unwrap().code.as_str(), live.last_error), ("no_funds", None));

        let past = format!("update tidegate.request set {deadline} = now() - interval '1 second' where id = '{id}'");
        database.execute(&past).await;
        database.execute("select tidegate.expire_by_readiness(), tidegate.expire_by_deadline()").await;

        let ended = outlook(&tidegate, id).await;
        assert!(ended.status.is_terminal(), "{kind}");
        assert_eq!(ended.error.unwrap().code, code);
        let last = ended.last_error.unwrap();
        assert_eq!((last.code.as_str(), last.message.as_str()), ("no_funds", "the wallet is empty"));
        assert_eq!(details(&last), json!({"wallet": "hot", "needs": [3, {"cents": 700}]}));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_attempt_and_an_operator_keep_it_too() {
    let (database, tidegate) = payouts().await;
    database.execute("update tidegate.policy set attempts = 1 where kind in ('payout', 'audit')").await;
    let sent = Stages::new()
        .send("payout", |_: Request<Value>| async { Sent::Retry { error: broke(), after: None, may_have_left: true } });
    let exhausted = run(&database, &tidegate, sent, "payout", "req_status = 'failure'").await;
    let unready = run(&database, &tidegate, failing(), "audit", "req_status = 'timed_out'").await;
    let cancelled = run(&database, &tidegate, failing(), "payout", "error is not null").await;
    tidegate.cancel(cancelled).await.unwrap();

    for (id, code) in [(exhausted, "attempts_exhausted"), (unready, "readiness_timed_out"), (cancelled, "cancelled")] {
        let ended = outlook(&tidegate, id).await;
        assert_eq!(ended.error.unwrap().code, code);
        assert_eq!(details(&ended.last_error.unwrap())["wallet"], "hot", "{code}");
        let history = format!(
            "select detail #>> '{{last_error,code}}' from tidegate.request_event
             where request_id = '{id}' order by transition_no desc limit 1"
        );
        assert_eq!(database.text(&history).await.as_deref(), Some("no_funds"), "{code}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_succeeds_leaves_no_error() {
    let (database, tidegate) = payouts().await;
    database.execute("update tidegate.policy set base_ms = 0, cap_ms = 0 where kind in ('payout', 'audit')").await;
    let stages = Stages::new()
        .send("payout", |request: Request<Value>| async move {
            if request.attempt > 1 {
                return Sent::response("paid");
            }
            Sent::Retry { error: broke(), after: None, may_have_left: false }
        })
        .check("audit", |request: Request<Value>| async move {
            match request.attempt {
                1 => Check::Retry { error: broke(), after: None },
                _ => Check::Snooze { after: Some(std::time::Duration::from_secs(600)) },
            }
        });
    let paid = run(&database, &tidegate, stages.clone(), "payout", "req_status = 'completed'").await;
    let snoozed = run(&database, &tidegate, stages, "audit", "readiness_waits = 1 and lease is null").await;
    tidegate.cancel(snoozed).await.unwrap();

    let paid = outlook(&tidegate, paid).await;
    assert_eq!((paid.status, paid.error, paid.last_error), (Status::Completed, None, None));
    assert_eq!(outlook(&tidegate, snoozed).await.last_error, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stage_that_refuses_for_good_gives_callers_its_details() {
    let (database, tidegate) = payouts().await;
    let stages = Stages::new().send("payout", |_: Request<Value>| async { Sent::Rejected(broke()) });
    let id = run(&database, &tidegate, stages, "payout", "req_status = 'failure'").await;

    let ended = outlook(&tidegate, id).await;
    assert_eq!(ended.last_error, None);
    assert_eq!(details(&ended.error.unwrap())["needs"][1]["cents"], 700);
}
