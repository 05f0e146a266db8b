//! Does the checker find rates, concurrent checks and quotas that are exceeded?

use tidegate_faults::journal::Disturbance;

use super::{
    CHECKS, CLAIM_RATE, QUOTA, QUOTA_AT_REST, SEND_RATE, broken, found, seen,
    story::{BEGIN, id, insert, quota_count, told},
};

/// Twenty more requests, all claimed at the same time, and sent at once or one by one.
fn crowd(spread: f64) -> (String, Vec<(f64, u128, &'static str, &'static str)>) {
    let life = "processing/submitted tx_in_flight/claimed completed/receipt";
    let numbers = 100..120;
    let sql = numbers.clone().map(|number| insert(number, "direct", "direct", "crowd", life)).collect();
    let log = numbers
        .flat_map(|number| {
            let at = 2.0 + (number - 100) as f64 * spread;
            [(at, number, "direct", "send"), (at, number, "direct", "taken")]
        })
        .collect();
    (sql, log)
}

#[tokio::test]
async fn a_rate_that_is_not_kept_is_found_unless_something_held_the_calls_back() {
    let (sql, at_once) = crowd(0.0);
    let verdict = told(&sql, &at_once, |_| {}).await;
    assert_eq!(broken(&verdict), [SEND_RATE], "{verdict}");
    let (sql, paced) = crowd(0.1);
    let verdict = told(&sql, &paced, |_| {}).await;
    assert!(verdict.holds(), "{verdict}");

    for (sort, rules) in [("downstream_frozen", &[][..]), ("postgres_killed", &[SEND_RATE])] {
        let (sql, at_once) = crowd(0.0);
        let verdict = told(&sql, &at_once, |evidence| {
            evidence.disturbances.push(Disturbance { sort, from_us: BEGIN - 1_000_000, to_us: BEGIN + 1_500_000 });
        })
        .await;
        assert_eq!(broken(&verdict), rules, "{sort}");
    }

    let (sql, paced) = crowd(0.1);
    let verdict = told(&sql, &paced, |evidence| evidence.limits[0].per_second = 1).await;
    assert_eq!(broken(&verdict), [CLAIM_RATE, SEND_RATE]);
}

#[tokio::test]
async fn checks_too_many_at_once_are_found() {
    let begun = [(1.25, 1, "user_decrypt", "check"), (1.30, 3, "user_decrypt", "check")];
    let ended = [(1.35, 1, "user_decrypt", "ready"), (1.36, 3, "user_decrypt", "ready")];
    let mut log = begun.to_vec();
    log.extend(ended);
    seen(&log, &[CHECKS]).await;
    seen(&[(1.3, 1, "user_decrypt", "check_beyond_limit")], &[CHECKS]).await;
}

#[tokio::test]
async fn an_exceeded_quota_is_found_and_one_that_is_not_released() {
    let verdict = told("", &[], |evidence| evidence.quota_counts.push(quota_count(11))).await;
    assert_eq!(broken(&verdict), [QUOTA]);
    let counted = format!("insert into tidegate.quota_usage values ('kind direct', '{}')", id(1));
    found(&counted, &[QUOTA_AT_REST]).await;
    found("update tidegate.gate set state = 'too_many_requests' where kind = 'direct'", &[QUOTA_AT_REST]).await;
}
