//! Does one call settle whatever comes of a round of calls, each as by itself, and in the order of all locks?

use crate::support::{
    TestDatabase,
    race::{Held, Session, leases, settle, submit_many},
};

/// A settle of these leases with an outcome for each, by its members: where each request is now, in the order of the leases.
fn round(held: &[Held], outcomes: &[&str]) -> String {
    let member = |name: &str, sort: &str| {
        let values = outcomes.iter().map(|members| format!("('{members}'::jsonb ->> '{name}')::{sort}"));
        format!("array[{}]::{sort}[]", values.collect::<Vec<_>>().join(", "))
    };
    format!(
        "select concat_ws(' ', s.req_status, s.queue, s.wake)
         from unnest({leases}) with ordinality as l(queue, token, id, place)
         left join tidegate.settle({leases}, {}, {}, {}, {}, {}, {}) as s using (id)
         order by l.place",
        member("outcome", "text"),
        member("error", "jsonb"),
        member("after", "interval"),
        member("may_have_left", "boolean"),
        member("reference", "text"),
        member("response", "jsonb"),
        leases = leases(held),
    )
}

const ERROR: &str = r#""error": {"code": "503", "message": "busy"}"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_round_of_sends_ends_each_by_its_outcome() {
    let database = TestDatabase::unlimited().await;
    submit_many(&database, "direct", 6).await;
    let mut session = Session::open(&database).await;
    let held = session.claim("tx", 6).await;
    let other = Session::open(&database).await.texts(&settle("settle_released", &held[5..], "")).await;
    assert_eq!(other.len(), 1);

    let told = session
        .texts(&round(
            &held,
            &[
                r#"{"outcome": "receipt", "response": {"paid": 1}}"#,
                &format!(r#"{{"outcome": "rejected", {ERROR}}}"#),
                r#"{"outcome": "receipt", "reference": "r-2"}"#,
                r#"{"outcome": "released"}"#,
                &format!(r#"{{"outcome": "retry", "may_have_left": false, {ERROR}}}"#),
                r#"{"outcome": "receipt", "reference": "r-5"}"#,
            ],
        ))
        .await;

    assert_eq!(told, ["completed", "failure", "receipt_received", "processing", "processing", ""]);
    let causes = "select cause || ' ' || coalesce(reference, '-') || ' ' || coalesce(tx_unsent::text, '-')
                  from tidegate.request order by id";
    assert_eq!(
        database.column(causes).await,
        ["receipt - 0", "rejected - 1", "receipt r-2 0", "released - 0", "send_retried - 1", "released - 0"]
    );
    assert_eq!(database.number("select count(*) from tidegate.claim").await, 0);
    assert_eq!(database.violations().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_round_of_checks_ends_each_by_its_outcome_and_names_the_queue_to_wake() {
    let database = TestDatabase::unlimited().await;
    submit_many(&database, "public_decrypt", 5).await;
    let mut session = Session::open(&database).await;
    let held = session.claim("readiness", 5).await;

    let told = session
        .texts(&round(
            &held,
            &[
                r#"{"outcome": "snoozed", "after": "10 minutes"}"#,
                r#"{"outcome": "passed"}"#,
                &format!(r#"{{"outcome": "retry", {ERROR}}}"#),
                &format!(r#"{{"outcome": "rejected", {ERROR}}}"#),
                r#"{"outcome": "released"}"#,
            ],
        ))
        .await;

    assert_eq!(told, ["queued", "processing tx t", "queued", "failure", "queued"]);
    let attempts = "select readiness_attempt || ' ' || readiness_waits || ' ' || coalesce(error ->> 'code', '-')
                    from tidegate.request order by id";
    assert_eq!(database.column(attempts).await, ["1 1 -", "1 0 -", "1 0 503", "1 0 503", "0 0 -"]);
    assert_eq!(database.violations().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outcome_that_is_none_or_too_many_of_them_move_nothing() {
    let database = TestDatabase::unlimited().await;
    submit_many(&database, "direct", 2).await;
    let mut session = Session::open(&database).await;
    let held = session.claim("tx", 2).await;
    for outcomes in [
        &[][..],
        &[r#"{"outcome": "taken"}"#],
        &[r#"{"outcome": "receipt"}"#, r#"{"outcome": "taken"}"#],
        &[r#"{"outcome": "receipt"}"#, "{}"],
        &[r#"{"outcome": "receipt"}"#, r#"{"outcome": "receipt"}"#, r#"{"outcome": "receipt"}"#],
    ] {
        let (code, message) = session.attempt(&round(&held, outcomes)).await.unwrap_err();
        assert_eq!(code, "TG007");
        let words = "a settle has one outcome for each lease, or one for all: released, snoozed, retry, passed, receipt, rejected";
        assert_eq!(message, words);
    }
    // Of the other stage: nothing is in that state.
    let checks = [r#"{"outcome": "passed"}"#, r#"{"outcome": "snoozed"}"#];
    assert_eq!(session.texts(&round(&held, &checks)).await, ["", ""]);
    assert_eq!(session.texts("select id from tidegate.settle('{}', '{}')").await, Vec::<String>::new());
    assert_eq!(database.number("select count(*) from tidegate.request where req_status = 'tx_in_flight'").await, 2);
}

/// Two rounds in which each sort by itself would lock requests of the other's in the other order.
#[tokio::test(flavor = "multi_thread")]
async fn rounds_of_several_sorts_lock_all_their_requests_in_order() {
    let database = TestDatabase::unlimited().await;
    submit_many(&database, "direct", 4).await;
    let mut session = Session::open(&database).await;
    let held = session.claim("tx", 4).await;
    let (low, high) = (held[0].id, held[3].id);
    // Another transaction has the lowest: the round waits for it, and holds no other row meanwhile.
    let mut holder = Session::begin(&database).await;
    holder.texts(&format!("select 1 from tidegate.request where id = '{low}' for update")).await;
    let outcomes = [
        r#"{"outcome": "receipt"}"#,
        r#"{"outcome": "rejected"}"#,
        r#"{"outcome": "released"}"#,
        r#"{"outcome": "retry"}"#,
    ];
    let waiting = session.start(&round(&held, &outcomes));
    waiting.until_blocked_by(&database, &holder).await;
    let free =
        format!("select count(*) from (select from tidegate.request where id = '{high}' for update skip locked) as r");
    assert_eq!(holder.texts(&free).await, ["1"]);
    holder.commit().await;
    assert_eq!(waiting.finish().await.1, ["receipt_received", "failure", "processing", "processing"]);
}

/// Receipts whose references are answered at the same time, beside retries of the same queue.
#[tokio::test(flavor = "multi_thread")]
async fn a_round_takes_the_lock_of_references_before_its_requests() {
    let database = TestDatabase::unlimited().await;
    submit_many(&database, "direct", 2).await;
    let mut session = Session::open(&database).await;
    let held = session.claim("tx", 2).await;
    let mut answering = Session::begin(&database).await;
    assert_eq!(answering.texts("select outcome from tidegate.respond('1', reference => 'r')").await, ["early"]);

    let outcomes = [r#"{"outcome": "retry"}"#, r#"{"outcome": "receipt", "reference": "r"}"#];
    let waiting = session.start(&round(&held, &outcomes));
    waiting.until_blocked_by(&database, &answering).await;
    let free = "select count(*) from (select from tidegate.request for update skip locked) as r";
    assert_eq!(answering.texts(free).await, ["2"], "no request is locked before the reference");
    answering.commit().await;

    assert_eq!(waiting.finish().await.1, ["processing", "completed"]);
    assert_eq!(database.violations().await, Vec::<String>::new());
}
