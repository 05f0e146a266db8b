//! Does the checker find webhooks that are not delivered, differ, show another end, or have no valid signature?

use tidegate_faults::receiver::{Answer, Arrival};

use super::{
    REACHED, SAME, SIGNED, TOLD_BY_WEBHOOK, broken, found,
    story::{ARRIVES, BEGIN, arrival, id, signature, told, with_ids},
};

/// An error in the receiver's log alone breaks this rule and no other.
async fn arrived(change: impl Fn(&mut Vec<Arrival>), rule: &str) {
    let verdict = told("", &[], |evidence| change(&mut evidence.arrivals)).await;
    assert_eq!(broken(&verdict), [rule], "{verdict}");
}

#[tokio::test]
async fn an_end_that_is_not_delivered_is_found() {
    for sql in [
        "delete from tidegate.webhook_delivery",
        "update tidegate.webhook_delivery set state = 'pending', finished_at = null",
        "update tidegate.webhook_delivery set state = 'failed'",
    ] {
        let verdict = told(sql, &[], |_| {}).await;
        assert!(broken(&verdict).contains(&REACHED), "{sql}: {verdict}");
    }
    arrived(|arrivals| arrivals[1].answer = Answer::Busy, REACHED).await;
    // One that its receiver has refused permanently has failed.
    let verdict = told("update tidegate.webhook_delivery set state = 'failed'", &[], |evidence| {
        evidence.arrivals[1].answer = Answer::Gone;
    })
    .await;
    assert!(verdict.holds(), "{verdict}");
    // A callback that was not stored, and a delivery that nothing asked for.
    found("update tidegate.request set callback_url = null", &[REACHED]).await;
    let other = "insert into tidegate.webhook_delivery (request_id, id, url, host_port, state, attempt, finished_at)
                 values ('{4}', '{91}', 'http://receiver/own', 'receiver:80', 'delivered', 1, now())";
    found(&with_ids(other), &[REACHED]).await;
}

#[tokio::test]
async fn attempts_that_differ_are_found() {
    arrived(|arrivals| arrivals[1].attempt = "1".to_owned(), SAME).await;
    arrived(|arrivals| arrivals[1].attempt = "3".to_owned(), SAME).await;
    arrived(
        |arrivals| {
            let mut other = arrival("1", Answer::Accepted);
            other.delivery = id(91).to_string();
            other.signature = signature(&other.delivery, ARRIVES, &other.body);
            arrivals.push(other);
        },
        SAME,
    )
    .await;
    arrived(
        |arrivals| {
            let body = arrivals[1].body.replace('{', "{ ");
            arrivals[1].signature = signature(&arrivals[1].delivery, ARRIVES, &body);
            arrivals[1].body = body;
        },
        SAME,
    )
    .await;
}

#[tokio::test]
async fn a_webhook_that_tells_another_end_is_found() {
    for sql in [
        "update tidegate.request set finished_at = finished_at + interval '1 microsecond' where id = '{1}'",
        "update tidegate.request set finished_at = finished_at + interval '9 seconds' where id = '{1}'",
    ] {
        found(&with_ids(sql), &[TOLD_BY_WEBHOOK]).await;
    }
    for (word, other) in [("completed", "failure"), ("direct", "other"), (&*id(1).to_string(), &*id(4).to_string())] {
        let replace = |arrivals: &mut Vec<Arrival>| {
            for arrival in arrivals {
                arrival.body = arrival.body.replace(word, other);
                arrival.signature = signature(&arrival.delivery, ARRIVES, &arrival.body);
            }
        };
        arrived(replace, TOLD_BY_WEBHOOK).await;
    }
    // It arrived before the end.
    arrived(
        |arrivals| {
            for arrival in arrivals {
                arrival.at_us = BEGIN + 2_000_000;
                let second = BEGIN / 1_000_000 + 2;
                arrival.second = second.to_string();
                arrival.signature = signature(&arrival.delivery, second, &arrival.body);
            }
        },
        TOLD_BY_WEBHOOK,
    )
    .await;
}

#[tokio::test]
async fn a_webhook_without_a_signature_in_force_is_found() {
    for wrong in ["", "v1,", "v1,00", "v1a,00"] {
        arrived(|arrivals| arrivals[0].signature = wrong.to_owned(), SIGNED).await;
    }
    arrived(|arrivals| arrivals[0].second = "then".to_owned(), SIGNED).await;
    // Of another body, long before it arrived, and with a secret that was over, or not there yet.
    arrived(|arrivals| arrivals[0].signature = signature(&arrivals[0].delivery, ARRIVES, "{}"), SIGNED).await;
    arrived(|arrivals| arrivals[0].at_us += 100_000_000, SIGNED).await;
    for sql in ["expires_at = '2026-06-01'", "created_at = '2028-01-01'"] {
        found(&format!("update tidegate.webhook_secret set {sql}"), &[SIGNED]).await;
    }
}
