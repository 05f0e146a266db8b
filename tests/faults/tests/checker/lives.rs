//! Does the checker find histories that cannot be, and requests that ended too early?

use super::{
    CARRIED, CLAIMED, EFFECTS, ENDED, GIVEN, LEGAL, POISON, REST, TOLD, TOLD_BY_EVENTS, broken, found,
    story::{id, told, with_ids},
};

#[tokio::test]
async fn a_skipped_status_is_found() {
    let skipped = "delete from tidegate.stored_event where request_id = '{1}' and transition_no = 2;
                   update tidegate.stored_event set transition_no = 2, from_status = 'processing'
                   where request_id = '{1}' and transition_no = 3;
                   update tidegate.request set transition_no = 2 where id = '{1}'";
    let skipped = skipped.replace("{1}", &id(1).to_string());
    // Its send was not claimed either.
    found(&skipped, &[LEGAL, CLAIMED]).await;
}

#[tokio::test]
async fn histories_that_cannot_be_are_found() {
    for (sql, rules) in [
        // A cause that does not belong to the edge.
        (
            "update tidegate.stored_event set cause = 'response' where request_id = '{1}' and transition_no = 3",
            &[LEGAL, GIVEN][..],
        ),
        // A step of another flow.
        (
            "update tidegate.stored_event set to_status = 'queued' where request_id = '{7}' and transition_no = 1",
            &[LEGAL],
        ),
        // A step that takes place before the one it follows.
        (
            "update tidegate.stored_event set at = at - interval '3 seconds' where request_id = '{5}' and transition_no = 5",
            &[LEGAL],
        ),
        // A hand's edit, which no fault makes.
        (
            "update tidegate.stored_event set cause = 'hand_edit' where request_id = '{3}' and transition_no = 3",
            &[LEGAL],
        ),
        // A row that moved on without its history.
        ("update tidegate.request set req_status = 'timed_out' where id = '{2}'", &[TOLD_BY_EVENTS, EFFECTS][..1]),
        (
            "delete from tidegate.stored_event where request_id = '{7}' and transition_no = 2",
            &[ENDED, TOLD_BY_EVENTS, TOLD],
        ),
        // Stuck.
        (
            "update tidegate.request set req_status = 'tx_in_flight', transition_no = 2 where id = '{4}';
          delete from tidegate.stored_event where request_id = '{4}' and transition_no = 3",
            &[ENDED, TOLD],
        ),
        // Ended twice.
        (
            "insert into tidegate.stored_event (request_id, transition_no, from_status, to_status, at, attempt, cause)
          values ('{4}', 4, 'failure', 'failure', to_timestamp(1800000009), 1, 'internal_error');
          update tidegate.request set transition_no = 4 where id = '{4}'",
            &[ENDED, LEGAL],
        ),
        // A poison payload that went through.
        ("update tidegate.request set error = null where id = '{6}'", &[POISON]),
        // Events without a request.
        (
            "update tidegate.stored_event set request_id = gen_random_uuid() where request_id = '{7}'",
            &[ENDED, TOLD_BY_EVENTS, TOLD],
        ),
        // A message that no claim takes.
        ("select pgmq.send('tx', '{}')", &[REST]),
    ] {
        found(&with_ids(sql), rules).await;
    }
}

#[tokio::test]
async fn a_request_that_is_given_up_too_early_is_found() {
    for (cause, rules) in
        [("deadline_exceeded", &[CARRIED][..]), ("attempts_exhausted", &[CARRIED]), ("cancelled", &[])]
    {
        let sql = format!(
            "update tidegate.stored_event set cause = '{cause}' where request_id = '{}' and transition_no = 2",
            id(8)
        );
        let verdict = told(&sql, &[], |evidence| {
            evidence.carried_us.insert("patient".to_owned(), 1_000_001);
        })
        .await;
        assert_eq!(broken(&verdict), rules, "{cause}");
    }
}
