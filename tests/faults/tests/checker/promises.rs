//! Does the checker find answers that do not hold: lost requests and responses, changed ends, answers out of nowhere?

use super::{
    ANSWERED, BESIDES, GIVEN, KNOWN, NOT_SENT_AGAIN, PROMISED, SINGLE, TOLD, broken, found,
    story::{cancel, end, id, insert, told},
};

#[tokio::test]
async fn a_lost_request_is_found() {
    let lost = format!(
        "delete from tidegate.request where id = '{0}'; delete from tidegate.stored_event where request_id = '{0}'",
        id(2)
    );
    found(&lost, &[PROMISED, KNOWN]).await;
    // Promised to two callers as one request.
    let verdict = told("", &[], |evidence| evidence.promises[2].id = id(1)).await;
    assert_eq!(broken(&verdict), [PROMISED, SINGLE]);
    let verdict = told("", &[], |evidence| evidence.promises[2].kind = "direct").await;
    assert_eq!(broken(&verdict), [PROMISED]);
}

#[tokio::test]
async fn an_end_that_changed_after_it_was_told_is_found() {
    for (number, state) in [(1, "failure"), (1, "unknown"), (4, "cancelled"), (9, "completed")] {
        let verdict = told("", &[], |evidence| {
            evidence.told.push(end(number, state, None));
        })
        .await;
        assert_eq!(broken(&verdict), [TOLD], "{number} {state}");
    }
}

#[tokio::test]
async fn a_response_that_was_taken_and_is_nowhere_is_found() {
    let timed_out = format!(
        "update tidegate.request set req_status = 'timed_out' where id = '{0}';
         update tidegate.stored_event set to_status = 'timed_out', cause = 'response_timed_out'
         where request_id = '{0}' and transition_no = 5",
        id(2)
    );
    found(&timed_out, &[ANSWERED]).await;
}

#[tokio::test]
async fn a_send_after_an_answered_cancel_is_found() {
    for (status, seconds, rules) in
        [(202, 3.5, &[NOT_SENT_AGAIN][..]), (200, 3.5, &[NOT_SENT_AGAIN]), (409, 3.5, &[]), (202, 4.5, &[])]
    {
        let verdict = told("", &[], |evidence| evidence.cancels.push(cancel(13, status, seconds))).await;
        assert_eq!(broken(&verdict), rules, "{status} {seconds}");
    }
}

#[tokio::test]
async fn a_submission_without_a_key_that_was_made_twice_is_found() {
    let life = "processing/submitted failure/cancelled";
    found(&insert(18, "direct", "direct", "b", life), &[SINGLE]).await;
}

#[tokio::test]
async fn an_answer_that_nobody_gave_is_found() {
    for (number, event) in [(2, "delivered"), (5, "delivered")] {
        let verdict = told("", &[], |evidence| {
            let place =
                evidence.downstream.iter().rposition(|line| line.id == Some(id(number)) && &*line.event == event);
            evidence.downstream.remove(place.unwrap());
            evidence.downstream.retain(|line| &*line.event != "delivered_late");
        })
        .await;
        assert_eq!(broken(&verdict), [GIVEN], "{number}");
    }
}

#[tokio::test]
async fn what_went_wrong_besides_counts() {
    let verdict = told("", &[], |evidence| evidence.wrong.push("a 500".to_owned())).await;
    assert_eq!(broken(&verdict), [BESIDES]);
}
