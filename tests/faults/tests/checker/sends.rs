//! Does the checker find sends and effects too many, and ends that do not fit what was executed?

use super::{
    CLAIMED, DONE, EFFECTS, ENDED, EXECUTED, FACTS, HEDGES, KNOWN, LEGAL, ONCE, TOLD_OF_EXECUTION, TWICE, broken,
    found, seen,
    story::{BEGIN, end, id, insert, insert_at, told, with_ids},
};

#[tokio::test]
async fn a_word_about_an_execution_that_is_wrong_is_found() {
    for (sql, rules) in [
        ("update tidegate.outcome set executed = 'no', source = 'settle' where request_id = '{4}'", &[FACTS][..]),
        (
            "update tidegate.request set tx_unsent = 1 where id = '{4}'; delete from tidegate.outcome where request_id = '{4}'",
            &[FACTS],
        ),
        ("update tidegate.outcome set executed = 'unknown', source = 'attempts' where request_id = '{5}'", &[]),
        (
            "insert into tidegate.outcome (request_id, kind, executed, source) values ('{6}', 'direct', 'yes', 'settle')",
            &[FACTS],
        ),
    ] {
        found(&with_ids(sql), rules).await;
    }
    for (number, word, rules) in
        [(4, "no", &[TOLD_OF_EXECUTION][..]), (6, "yes", &[TOLD_OF_EXECUTION]), (6, "no", &[]), (15, "no", &[])]
    {
        let verdict = told("", &[], |evidence| {
            evidence.told.push(end(number, "failure", Some(word)));
        })
        .await;
        assert_eq!(broken(&verdict), rules, "{number} {word} {verdict}");
    }
    // What may have been executed is not to be repeated.
    let verdict = told("", &[], |evidence| evidence.told[1].retryable = true).await;
    assert_eq!(broken(&verdict), [TOLD_OF_EXECUTION]);
    // The word of an operator who has not said it.
    let verdict = told("", &[], |evidence| evidence.resolutions.clear()).await;
    assert_eq!(broken(&verdict), [EXECUTED, FACTS, TOLD_OF_EXECUTION], "{verdict}");
}

#[tokio::test]
async fn a_double_send_is_found() {
    // Where it may happen never, and where each send needs a claim of its own.
    seen(&[(2.5, 4, "single_shot", "send")], &[CLAIMED, ONCE]).await;
    seen(&[(2.5, 3, "booking", "send")], &[CLAIMED]).await;
    // Before its second claim.
    let early = told("", &[], |evidence| {
        for line in &mut evidence.downstream {
            if line.id == Some(id(5)) && &*line.event == "send" {
                line.at_us = BEGIN + 2_100_000;
            }
        }
    })
    .await;
    assert_eq!(broken(&early), [CLAIMED]);
    // Both under its second claim, and none under the first.
    for (second, rules) in [(4.3, &[CLAIMED][..]), (5.9, &[CLAIMED]), (1.5, &[])] {
        let again = told("", &[], |evidence| {
            for line in &mut evidence.downstream {
                if line.id == Some(id(5)) && &*line.event == "send" && line.us == 2_100_000 {
                    line.at_us = BEGIN + (second * 1e6) as i64 + 4_000_000;
                }
            }
            for event in evidence.lives.get_mut(&id(5)).unwrap().events.iter_mut().skip(3) {
                event.at_us += 4_000_000;
            }
            for line in &mut evidence.downstream {
                if line.id == Some(id(5)) && line.us > 4_000_000 {
                    line.at_us += 4_000_000;
                }
            }
        })
        .await;
        assert_eq!(broken(&again), rules, "{second}");
    }
    // As something that it is not.
    let other = told("", &[], |evidence| {
        for line in &mut evidence.downstream {
            if line.id == Some(id(3)) {
                line.kind = "direct".into();
            }
        }
    })
    .await;
    assert_eq!(broken(&other), [KNOWN]);
    // And one without a request.
    seen(&[(2.5, 99, "direct", "send")], &[KNOWN]).await;
}

#[tokio::test]
async fn what_is_completed_and_was_not_taken_is_found() {
    seen(&[(2.2, 1, "direct", "rejected")], &[DONE]).await;
    seen(&[(2.2, 3, "booking", "taken")], &[TWICE]).await;
    seen(&[(2.2, 4, "single_shot", "taken")], &[TWICE]).await;
    // A receipt that the downstream did not give, of a request that has failed since.
    let verdict = told("", &[], |evidence| {
        evidence.downstream.retain(|line| line.id != Some(id(5)) || &*line.event != "taken");
    })
    .await;
    assert_eq!(broken(&verdict), [FACTS, DONE]);
    let verdict = told("", &[], |evidence| {
        evidence.downstream.retain(|line| line.id != Some(id(1)));
    })
    .await;
    assert_eq!(broken(&verdict), [TOLD_OF_EXECUTION, DONE]);
}

#[tokio::test]
async fn an_effect_too_many_or_too_few_is_found() {
    for sql in [
        format!("insert into public.booking values ('{}')", id(3)),
        format!("insert into public.booking values ('{}')", id(6)),
        format!("insert into public.booking values ('{}')", id(1)),
        format!("insert into public.booking values ('{}')", id(9)),
        "delete from public.booking".to_owned(),
    ] {
        found(&sql, &[EFFECTS]).await;
    }
}

#[tokio::test]
async fn a_repeat_is_judged_by_the_id_that_it_is_sent_under() {
    let lost = "processing/submitted tx_in_flight/claimed failure/attempts_exhausted";
    let done = "processing/submitted tx_in_flight/claimed completed/receipt";
    let story = insert(30, "unsure", "direct", "r", lost)
        + &insert_at(10, 31, "unsure", "direct", "r", done)
        + &with_ids(
            "insert into tidegate.redrive (request_id, redriven_as, on_behalf_of) values ('{30}', '{31}', 'ops');
             insert into public.repeated values ('{30}');",
        );
    let repeats = with_ids("update tidegate.request set send_id = '{30}' where id = '{31}'");
    let log = [(2.1, 30, "unsure", "send"), (2.1, 30, "unsure", "taken"), (12.1, 30, "unsure", "send")];
    let verdict = told(&(story.clone() + &repeats), &log, |_| {}).await;
    assert!(verdict.holds(), "{verdict}");
    // Under its own id it was neither claimed so often nor taken.
    let verdict = told(&story, &log, |_| {}).await;
    assert_eq!(broken(&verdict), [CLAIMED, DONE], "{verdict}");
}

#[tokio::test]
async fn a_hedge_too_many_is_found() {
    seen(&[(4.2, 13, "hedged", "send")], &[HEDGES]).await;
    // More than one claim may have: at a downstream of its own share, and all under the second claim.
    let late = [(4.2, 13, "hedged", "send"), (4.3, 13, "hedged", "send"), (4.4, 13, "hedged", "send")];
    let verdict = told("", &late, |evidence| {
        evidence.hedging.insert("hedged".to_owned(), (2, 9.0));
        for line in evidence.downstream.iter_mut().filter(|line| line.id == Some(id(13))) {
            line.at_us = BEGIN + 14_100_000;
        }
        for event in &mut evidence.lives.get_mut(&id(13)).unwrap().events[3..] {
            event.at_us += 10_000_000;
        }
    })
    .await;
    assert_eq!(broken(&verdict), [CLAIMED]);
    // Both calls of a claim settle.
    let twice =
        "insert into tidegate.stored_event (request_id, transition_no, from_status, to_status, at, attempt, cause)
                 values ('{13}', 6, 'completed', 'completed', to_timestamp(1800000006), 2, 'receipt');
                 update tidegate.request set transition_no = 6 where id = '{13}'";
    found(&with_ids(twice), &[ENDED, LEGAL]).await;
    // It was hedged without a policy that allows it.
    let verdict = told("", &[], |evidence| evidence.hedging.clear()).await;
    assert_eq!(broken(&verdict), [CLAIMED]);
}
