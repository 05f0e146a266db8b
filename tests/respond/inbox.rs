//! Does a response that comes too early or too late find its place?

use crate::support::{
    TestDatabase,
    race::{Session, history, receipt, settle, sound},
};

#[tokio::test(flavor = "multi_thread")]
async fn an_early_response_waits_for_its_receipt_by_reference_and_by_id() {
    for (address, before_claim) in [("reference", true), ("reference", false), ("id", true), ("id", false)] {
        let database = TestDatabase::unlimited().await;
        let id = database.submit("direct").await;
        let mut session = Session::open(&database).await;
        let name = if address == "id" { id.to_string() } else { "ref-1".to_owned() };
        let respond = format!("select outcome from tidegate.respond('42', {address} => '{name}')");
        if before_claim {
            assert_eq!(session.text(&respond).await, "early");
        }
        let held = session.claim("tx", 1).await;
        if !before_claim {
            assert_eq!(session.text(&respond).await, "early");
        }

        session.texts(&settle("settle_receipt", &held, "array['ref-1']")).await;

        assert_eq!(history(&database, id).await, "submitted claimed receipt response");
        assert_eq!(
            database.text(&format!("select response from tidegate.request where id = '{id}'")).await.as_deref(),
            Some("42")
        );
        assert_eq!(session.text(&respond).await, "late", "a second one");
        assert_eq!(database.number("select count(*) from tidegate.response_inbox where late").await, 1);
        sound(&database).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_and_its_receipt_at_once_meet_in_both_orders() {
    for address in ["reference", "id"] {
        for response_first in [true, false] {
            for first_commits in [true, false] {
                let case = format!("{address}, response first {response_first}, commits {first_commits}");
                let database = TestDatabase::unlimited().await;
                let id = database.submit("direct").await;
                let mut holder = Session::open(&database).await;
                let held = holder.claim("tx", 1).await;
                let name = if address == "id" { id.to_string() } else { "ref-1".to_owned() };
                let respond = format!("select outcome from tidegate.respond('42', {address} => '{name}')");
                let settle = settle("settle_receipt", &held, "array['ref-1']");
                let (one, two) = if response_first { (&respond, &settle) } else { (&settle, &respond) };

                let mut first = Session::begin(&database).await;
                first.texts(one).await;
                let second = Session::open(&database).await.start(two);
                second.until_blocked_by(&database, &first).await;
                if first_commits {
                    first.commit().await;
                } else {
                    first.rollback().await;
                }
                second.finish().await;
                if !first_commits {
                    first.texts(one).await;
                }

                assert_eq!(database.status(id).await, "completed", "{case}");
                assert_eq!(history(&database, id).await, "submitted claimed receipt response", "{case}");
                assert_eq!(database.number("select count(*) from tidegate.response_inbox").await, 0, "{case}");
                sound(&database).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn late_responses_are_kept_and_marked() {
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;
    let id = receipt(&database, "direct", Some("ref-1")).await;
    session.execute(&format!("select tidegate.time_out(array['{id}'::uuid])")).await;

    assert_eq!(session.text("select outcome from tidegate.respond('1', reference => 'ref-1')").await, "late");
    assert_eq!(session.text(&format!("select outcome from tidegate.respond('2', id => '{id}')")).await, "late");

    assert_eq!(
        session.texts("select request_id::text || ' ' || response::text || ' ' || late from tidegate.response_inbox order by id").await,
        [format!("{id} 1 true"), format!("{id} 2 true")]
    );
    session.execute("select tidegate.sweep_inbox()").await;
    assert_eq!(history(&database, id).await, "submitted claimed receipt response_timed_out");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sweep_applies_what_waits_in_the_inbox_for_requests_that_await_it() {
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;
    let by_id = receipt(&database, "direct", None).await;
    let by_reference = receipt(&database, "direct", Some("ref-1")).await;
    let ended = receipt(&database, "direct", Some("ref-2")).await;
    let in_flight = database.submit("direct").await;
    session.claim("tx", 1).await;
    session.execute(&format!("select tidegate.time_out(array['{ended}'::uuid])")).await;
    // As if a restored backup had lost the applying.
    session
        .execute(&format!(
            "insert into tidegate.response_inbox (request_id, reference, response) values
               ('{by_id}', null, '1'), (null, 'ref-1', '2'), (null, 'ref-2', '3'), ('{in_flight}', null, '4'),
               (null, 'unknown', '5'), ('00000000-0000-7000-8000-000000000000', null, '6')"
        ))
        .await;

    assert_eq!(session.text("select tidegate.sweep_inbox()").await, "2");

    assert_eq!(database.status(by_id).await, "completed");
    assert_eq!(database.status(by_reference).await, "completed");
    assert_eq!(database.status(in_flight).await, "tx_in_flight");
    assert_eq!(
        session.texts("select response::text || ' ' || late from tidegate.response_inbox order by id").await,
        ["3 true", "4 false", "5 false", "6 false"]
    );
    assert_eq!(session.text("select tidegate.sweep_inbox()").await, "0");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn early_responses_of_unsent_requests_do_not_keep_the_sweep_from_later_ones() {
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;
    let waiting = receipt(&database, "direct", None).await;
    for _ in 0..5 {
        let unsent = database.submit("direct").await;
        session.execute(&format!("select tidegate.respond('1', id => '{unsent}')")).await;
    }
    session
        .execute(&format!("insert into tidegate.response_inbox (request_id, response) values ('{waiting}', '1')"))
        .await;

    session.execute("select tidegate.sweep_inbox(5)").await;
    session.execute("select tidegate.sweep_inbox(5)").await;

    assert_eq!(database.status(waiting).await, "completed");
}
