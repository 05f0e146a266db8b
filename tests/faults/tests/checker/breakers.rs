//! Does the checker find breakers that break their rules, and sends past them?

use tidegate_faults::journal::Disturbance;

use super::{
    FLIPS, PROBES, broken, found,
    story::{BEGIN, insert_at, told},
};

#[tokio::test]
async fn a_breaker_that_breaks_its_rules_is_found() {
    for sql in [
        // Half open too early; from closed; a change that is missing.
        "update tidegate.breaker_event set at = at - interval '1 second' where epoch = 2",
        "delete from tidegate.breaker_event where epoch <= 2",
        "update tidegate.breaker_event set state = 'closed' where epoch = 1",
    ] {
        let verdict = told(sql, &[], |_| {}).await;
        assert!(broken(&verdict).contains(&FLIPS), "{sql}: {verdict}");
    }
}

#[tokio::test]
async fn a_send_past_a_breaker_is_found() {
    let life = "processing/submitted tx_in_flight/claimed failure/rejected";
    let claimed_at = |number, second: i64| insert_at(second - 2, number, "direct", "direct", "m", life);
    for (seconds, rules) in [
        (&[111][..], &[][..]),
        (&[113], &[PROBES]),
        (&[125], &[PROBES]),
        (&[120], &[]),
        (&[120, 120], &[PROBES]),
        (&[133, 133, 133], &[]),
    ] {
        let sql: String = seconds.iter().zip(50..).map(|(second, number)| claimed_at(number, *second)).collect();
        found(&sql, rules).await;
    }
    // A lock delays the commit of the change.
    let verdict = told(&claimed_at(50, 113), &[], |evidence| {
        evidence.disturbances.push(Disturbance {
            sort: "table_locked",
            from_us: BEGIN + 109_000_000,
            to_us: BEGIN + 114_000_000,
        });
    })
    .await;
    assert!(verdict.holds(), "{verdict}");
}
