//! Does the checker find redrives that make two requests, change a request, or lose a key?

use tidegate_faults::ledger::Promise;

use super::{
    ENDED, KEYS, REDRIVEN, SINGLE, TOLD_BY_EVENTS, broken, found,
    story::{id, insert, insert_at, told, with_ids},
};

#[tokio::test]
async fn a_redrive_that_makes_another_request_or_two_is_found() {
    for (sql, rules) in [
        ("delete from tidegate.redrive", &[SINGLE][..]),
        // Of a request that has not failed.
        ("update tidegate.request set req_status = 'processing' where id = '{7}'", &[ENDED, TOLD_BY_EVENTS, REDRIVEN]),
        ("update tidegate.request set finished_at = finished_at + interval '20 seconds' where id = '{7}'", &[REDRIVEN]),
        // Of one that an operator has to name the code of.
        ("update tidegate.request set error = '{\"code\": \"cancelled\"}' where id = '{7}'", &[REDRIVEN]),
        // Of one that may have been executed.
        ("update tidegate.request set tx_attempt = 1 where id = '{7}'", &[REDRIVEN]),
        // As another request.
        ("update tidegate.request set payload = '{\"mark\": \"x\"}' where id = '{11}'", &[REDRIVEN]),
        ("update tidegate.request set submitter = 'other' where id = '{11}'", &[REDRIVEN]),
        // As one that is gone.
        (
            "delete from tidegate.request where id = '{11}'; delete from tidegate.stored_event where request_id = '{11}'",
            &[REDRIVEN],
        ),
    ] {
        found(&with_ids(sql), rules).await;
    }
    // One that may have been sent, and may be sent once only.
    let copy = insert_at(10, 12, "single_shot", "direct", "d", "processing/submitted failure/attempts_exhausted");
    let link = "insert into tidegate.redrive (request_id, redriven_as, on_behalf_of) values ('{4}', '{12}', 'ops')";
    found(&(copy + &with_ids(link)), &[REDRIVEN]).await;
    // Two requests as one.
    let link = "insert into tidegate.redrive (request_id, redriven_as, on_behalf_of) values ('{8}', '{11}', 'ops')";
    let verdict = told(&with_ids(link), &[], |_| {}).await;
    assert!(!verdict.of(REDRIVEN).is_empty(), "{verdict}");
}

#[tokio::test]
async fn a_copy_that_loses_the_key_of_its_original_is_found() {
    let copied = insert(20, "direct", "direct", "k", "processing/submitted failure/attempts_exhausted")
        + &insert_at(10, 21, "direct", "direct", "k", "processing/submitted tx_in_flight/claimed completed/receipt")
        + &with_ids(
            "insert into tidegate.redrive (request_id, redriven_as, on_behalf_of) values ('{20}', '{21}', 'ops');
             insert into tidegate.dedup (scope, key, fingerprint, request_id, first_seen, dedup_window, expires_at)
             values ('', 'k', '', '{20}', '2026-01-01', '1 day', 'infinity');",
        );
    let log = [(12.1, 21, "direct", "send"), (12.1, 21, "direct", "taken")];
    let again = insert_at(40, 22, "direct", "direct", "k", "processing/submitted failure/attempts_exhausted");
    let lost = "delete from tidegate.dedup where key = 'k'".to_owned();
    for (more, rules) in [(String::new(), &[][..]), (again, &[KEYS]), (lost, &[KEYS])] {
        let verdict = told(&(copied.clone() + &more), &log, |evidence| {
            for number in [20, 21] {
                evidence.promises.push(Promise {
                    id: id(number),
                    kind: "direct",
                    mark: "k".to_owned(),
                    keyed: true,
                    calls_back: false,
                    way: "sql",
                });
            }
        })
        .await;
        assert_eq!(broken(&verdict), rules, "{more}");
    }
}

#[tokio::test]
async fn what_a_caller_has_submitted_again_is_no_redrive() {
    let ends = |cause| format!("processing/submitted failure/{cause}");
    let story = insert(30, "direct", "direct", "s", &ends("cancelled"))
        + &insert_at(10, 31, "direct", "direct", "t", &ends("attempts_exhausted"));
    for (by, rules) in [("null", &[][..]), ("'ops'", &[REDRIVEN])] {
        let link = format!(
            "insert into tidegate.redrive (request_id, redriven_as, on_behalf_of) values ('{{30}}', '{{31}}', {by})"
        );
        let verdict = told(&(story.clone() + &with_ids(&link)), &[], |_| {}).await;
        assert_eq!(broken(&verdict), rules, "{by}");
    }
}
