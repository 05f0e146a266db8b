//! Does a request take as many shares as its check finds out, and as nothing but its check does?

use std::time::Duration;

use serde_json::{Value, json};
use tidegate::{
    Kind, Stages, Submitted, Tidegate,
    request::{Request, RequestId},
    stage::{Check, Sent},
};

use crate::support::{
    TestDatabase, eventually,
    race::{Held, Session, against, expire_leases, in_flight, settle, sound},
};

fn set(held: &Held, threshold: i32) -> String {
    format!("select tidegate.set_response_threshold('{}'::tidegate.lease, {threshold})", held.lease)
}

async fn threshold(database: &TestDatabase, id: RequestId) -> i64 {
    let sql = format!("select response_threshold from tidegate.request where id = '{id}'");
    database.number(&sql).await
}

/// A request that is being checked.
async fn checked(database: &TestDatabase, session: &mut Session, kind: &str) -> Held {
    database.submit(kind).await;
    session.claim("readiness", 1).await.remove(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_takes_as_many_shares_as_were_set_at_its_check() {
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;
    for (kind, shares) in [("public_decrypt", 3), ("user_decrypt", 1), ("user_decrypt", 2)] {
        let held = checked(&database, &mut session, kind).await;
        let id = held.id;
        // The last one counts.
        assert_eq!(session.text(&set(&held, 7)).await, "t");
        assert_eq!(session.text(&set(&held, shares)).await, "t");
        session.texts(&settle("settle_passed", [&held], "")).await;
        let sent = session.claim("tx", 1).await;
        let respond = |part: i32| format!("select outcome from tidegate.respond('1', id => '{id}', part => 'p{part}')");
        assert_eq!(session.text(&respond(1)).await, "early");
        session.texts(&settle("settle_receipt", &sent, "")).await;
        for part in 2..=shares {
            let outcome = if part == shares { "completed" } else { "stored" };
            assert_eq!(session.text(&respond(part)).await, outcome, "{kind} {shares}");
        }
        assert_eq!(database.status(id).await, "completed");
        let causes = database.causes(id).await;
        assert_eq!(causes.last().unwrap(), "threshold_reached", "{causes:?}");
    }
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_holder_of_the_check_sets_a_threshold_and_only_before_it_has_passed() {
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;
    let first = checked(&database, &mut session, "user_decrypt").await;
    expire_leases(&database, "readiness").await;
    let second = session.claim("readiness", 1).await.remove(0);
    assert_eq!(second.id, first.id);
    assert_eq!(session.text(&set(&first, 9)).await, "f", "taken over");
    assert_eq!(session.text(&set(&second, 2)).await, "t");
    for forged in
        [format!("row('readiness', 0, '{}')", second.id), second.lease.replace("readiness", "tx"), "null".to_owned()]
    {
        let lease = if forged.starts_with('(') { format!("'{forged}'") } else { forged };
        let sql = format!("select tidegate.set_response_threshold({lease}::tidegate.lease, 9)");
        assert_eq!(session.text(&sql).await, "f", "{lease}");
    }
    session.texts(&settle("settle_passed", [&second], "")).await;
    assert_eq!(session.text(&set(&second, 9)).await, "f", "passed");
    assert_eq!(threshold(&database, second.id).await, 2);

    let cancelled = checked(&database, &mut session, "user_decrypt").await;
    session.texts(&format!("select outcome from tidegate.cancel('{}')", cancelled.id)).await;
    assert_eq!(session.text(&set(&cancelled, 9)).await, "f", "cancelled");
    let (sent, held) = in_flight(&database).await;
    assert_eq!(session.text(&set(&held[0], 9)).await, "f", "a send is no check");
    assert_eq!(threshold(&database, sent).await, 1);
    for wrong in ["0", "-1", "null"] {
        let refused = database.refused(&format!("select tidegate.set_response_threshold(null, {wrong})")).await;
        assert_eq!(refused.code, "TG007", "{wrong}");
    }
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_threshold_and_a_settle_at_once_the_first_one_counts() {
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;

    let held = checked(&database, &mut session, "user_decrypt").await;
    let mut setter = Session::begin(&database).await;
    assert_eq!(setter.text(&set(&held, 2)).await, "t");
    let passed = against(&database, &mut setter, true, &settle("settle_passed", [&held], "")).await;
    assert_eq!(passed, [held.id.to_string()]);
    assert_eq!(threshold(&database, held.id).await, 2);

    let held = checked(&database, &mut session, "user_decrypt").await;
    let mut settler = Session::begin(&database).await;
    settler.texts(&settle("settle_passed", [&held], "")).await;
    assert_eq!(against(&database, &mut settler, true, &set(&held, 2)).await, ["f"]);
    assert_eq!(threshold(&database, held.id).await, 3, "that of its kind");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stage_sets_the_threshold_of_the_request_that_it_checks() {
    let database = TestDatabase::unlimited().await;
    let tidegate = Tidegate::from_pool(database.pool.clone());
    tidegate.register(Kind::decrypt("report")).await.unwrap();
    let stages = Stages::new()
        .check("report", {
            let tidegate = tidegate.clone();
            move |request: Request<i32>| {
                let tidegate = tidegate.clone();
                async move {
                    let set = tidegate.set_response_threshold(&request, request.payload).await;
                    assert!(set.unwrap(), "it holds its lease");
                    Check::Ready
                }
            }
        })
        .send("report", |_: Request<i32>| async { Sent::receipt("r-1") });
    let worker = tidegate.worker(stages).start().await.unwrap();
    let Submitted::Accepted(ticket) = tidegate.submit("report", &2).await.unwrap() else { panic!("it is new") };
    eventually("it is sent", || async { database.status(ticket.id).await == "receipt_received" }).await;
    for part in ["a", "b"] {
        tidegate.respond("r-1", &json!(part)).part(part).await.unwrap();
    }
    let ended = tidegate.wait(ticket.id, Duration::from_secs(30)).await.unwrap();
    let response: Value = ended.response().unwrap();
    assert_eq!(response, json!({ "shares": { "a": "a", "b": "b" } }));
    worker.stop().await.unwrap();
}
