//! Does `audit_replay` find and name everything that was tampered with?

use tidegate::request::RequestId;
use uuid::Uuid;

use super::{eventful, remarks, sound};
use crate::support::{
    TestDatabase,
    race::{STORE_HISTORY, Session},
};

#[tokio::test(flavor = "multi_thread")]
async fn shares_are_counted_and_a_response_is_there() {
    let database = TestDatabase::unlimited().await;
    let id = database.request_in("user_decrypt", "receipt_received").await;
    for part in 1..=3 {
        sound(&database, id).await;
        database.execute(&format!("select tidegate.respond('{part}', id => '{id}', part => 'p{part}')")).await;
    }
    assert_eq!(database.status(RequestId(id)).await, "completed");
    sound(&database, id).await;

    tampered(
        &database,
        id,
        "delete from tidegate.response_part where request_id = $id and part = 'p2'",
        &["completed_without_its_shares"],
    )
    .await;
    tampered(
        &database,
        id,
        "update tidegate.request set response = null where id = $id",
        &["completed_request_without_response"],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_legal_hand_edit_is_shown_as_one_and_is_no_finding() {
    let database = TestDatabase::unlimited().await;
    let id = database.request_in("direct", "processing").await;
    database.execute(&format!("update tidegate.request set req_status = 'failure' where id = '{id}'")).await;

    sound(&database, id).await;
    let remarks = remarks(&database, id).await;
    assert_eq!(remarks.len(), 1);
    assert!(remarks[0].starts_with("2: hand_edit: by hand, by "), "{remarks:?}");
}

/// Does SQL past every trigger, in which `$id` is the request; looks; and undoes it. Each finding has what is expected: of
/// invariants their names.
async fn tampered(database: &TestDatabase, id: Uuid, sql: &str, expected: &[&str]) {
    let sql = sql.replace("$id", &format!("'{id}'"));
    let mut session = Session::open_as_superuser(database).await;
    session.execute("begin; set local session_replication_role = replica").await;
    session.execute(STORE_HISTORY).await;
    session.execute(&sql).await;
    let mut found = session
        .texts(&format!(
            "select concat_ws(': ', transition_no, finding) from tidegate.audit_replay('{id}') where finding is not null"
        ))
        .await;
    session.rollback().await;
    for rule in database.column("select ': ' || rule from tidegate.invariant").await {
        found.iter_mut().for_each(|finding| *finding = finding.replace(&rule, ""));
    }
    assert_eq!(found.len(), expected.len(), "{sql}: {found:#?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.contains(expected), "{sql}: {found}, not {expected}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_change_by_hand_is_found_and_named() {
    let database = TestDatabase::unlimited().await.with_short_policies().await;
    let id = eventful(&database).await;
    let event = "update tidegate.stored_event set";
    let of = |number: i32| format!("where request_id = $id and transition_no = {number}");
    for (sql, expected) in [
        // A status that was skipped, with and without its number.
        (
            format!("delete from tidegate.stored_event {}", of(5)),
            vec!["6: history_with_a_gap"],
        ),
        (
            format!(
                "delete from tidegate.stored_event {};
                 {event} transition_no = 8 {};
                 update tidegate.request set transition_no = 8 where id = $id",
                of(8),
                of(9)
            ),
            vec!["8: history_with_a_gap; history_with_a_miscounted_send", "the row was tx_in_flight at "],
        ),
        (
            format!("{event} from_status = 'queued' {}", of(1)),
            vec!["1: history_with_a_gap; history_with_an_illegal_step"],
        ),
        // A wrong number.
        (
            format!("{event} transition_no = 12 {}", of(9)),
            vec!["12: history_does_not_end_at_the_status; history_with_a_gap"],
        ),
        // A step that is no step.
        (
            format!("{event} cause = 'verdict_accepted' {}", of(9)),
            vec!["9: history_does_not_end_at_the_status; history_with_an_illegal_step"],
        ),
        // An attempt too many, and one that was not counted.
        (
            format!("{event} attempt = attempt + 5 where request_id = $id and transition_no >= 8"),
            vec![
                "8: history_with_a_miscounted_send; attempt 8 of at most 5 (policy version 3), and one search for a receipt",
                "9: attempts_counted_wrongly",
            ],
        ),
        (
            format!("{event} attempt = 1 {}", of(4)),
            vec!["4: history_with_a_miscounted_send", "5: history_with_a_miscounted_send"],
        ),
        // An event after the end.
        (
            "insert into tidegate.stored_event
             select request_id, 10, 'completed', 'failure', at, attempt, 'internal_error' from tidegate.request_event
             where request_id = $id and transition_no = 9"
                .to_owned(),
            vec!["10: history_does_not_end_at_the_status; history_with_an_illegal_step"],
        ),
        // A row that disagrees: its status, its times, its count.
        (
            "update tidegate.request set req_status = 'failure' where id = $id".to_owned(),
            vec!["9: history_does_not_end_at_the_status"],
        ),
        (
            "update tidegate.request set finished_at = '2026-01-01Z' where id = $id".to_owned(),
            vec!["the row was finished at 2026-01-01"],
        ),
        (
            "update tidegate.request set tx_attempt = 2 where id = $id".to_owned(),
            vec!["9: attempts_counted_wrongly"],
        ),
        // Too long a send, and with that too long in all.
        (
            format!(
                "{event} at = at + interval '10 minutes' {};
                 update tidegate.request set finished_at = finished_at + interval '10 minutes' where id = $id",
                of(9)
            ),
            vec![
                "ms: its call takes at most 20000 ms, and its lease 30000 ms",
                "in calls and backoffs: more than W_retry 50000 ms",
                "time_in_the_future",
            ],
        ),
        // Past its deadline.
        (
            "update tidegate.request set finished_at = finished_at + interval '2 hours' where id = $id;
             update tidegate.stored_event set at = at + interval '2 hours', from_status = 'processing', cause = 'claimed'
             where request_id = $id and transition_no = 9"
                .to_owned(),
            vec!["after its deadline of", "time_in_the_future"],
        ),
        (
            "update tidegate.request set response = null where id = $id".to_owned(),
            vec!["completed_request_without_response"],
        ),
    ] {
        tampered(&database, id, &sql, &expected).await;
    }
    sound(&database, id).await;
}
