//! The budget of a policy, and the message when it is exceeded.

use proptest::prelude::*;

use super::*;
use crate::testing::{TestError, milliseconds};

/// Five attempts of 10 s: `W_retry` is 50,000 + 750 + 1250 + 2250 + 4250 = 58,500 ms.
fn policy() -> RetryPolicy {
    RetryPolicy {
        attempts: 5,
        backoff: Backoff { cap: milliseconds(5000), ..Backoff::default() },
        timeout: milliseconds(10_000),
        deadline: milliseconds(60_000),
        margin: milliseconds(1500),
        ..RetryPolicy::default()
    }
}

#[test]
fn the_bound_has_the_timeouts_and_the_waits_with_jitter_below_the_cap() {
    assert_eq!(policy().w_retry(), milliseconds(58_500));
    let mut capped = policy();
    capped.backoff.cap = milliseconds(2000);
    assert_eq!(capped.w_retry(), milliseconds(50_000 + 750 + 1250 + 2000 + 2000));
    for attempts in [0, 1] {
        let once = RetryPolicy { attempts, ..policy() };
        assert_eq!(once.w_retry(), milliseconds(10_000), "no wait");
    }
}

#[test]
fn a_policy_may_use_up_its_budget_and_not_a_millisecond_more() {
    let mut policy = policy();
    assert_eq!(policy.check(), Ok(()));
    policy.margin += milliseconds(1);
    let refused = policy.check().unwrap_err();
    assert_eq!(
        refused.to_string(),
        "W_retry ≤ deadline − margin does not hold: attempts · timeout + Σ min(cap, base · factor^k + jitter) = \
         5 · 10000 + (750 + 1250 + 2250 + 4250) = 58500 ms > 60000 − 1501 = 58499 ms"
    );
    assert_eq!(refused.0.w_retry(), milliseconds(58_500));
    assert_eq!(refused.0.budget(), milliseconds(58_499));
}

#[test]
fn the_inequality_is_readable_for_one_attempt_for_many_and_for_fractions() {
    let one = RetryPolicy {
        attempts: 1,
        deadline: milliseconds(5),
        margin: milliseconds(9),
        timeout: Duration::from_micros(10_250),
        ..policy()
    };
    let text = one.check().unwrap_err().to_string();
    assert!(text.ends_with("= 1 · 10.25 = 10.25 ms > 5 − 9 = 0 ms"), "{text}");
    let mut many = policy();
    many.attempts = 100;
    let text = many.check().unwrap_err().to_string();
    let sum = "(750 + 1250 + 2250 + 4250 + 5000 + 5000 + … 99 waits in all) = 1483500 ms";
    assert!(text.contains(sum), "{text}");
}

#[test]
fn the_ready_made_policy_can_hold() {
    assert_eq!(RetryPolicy::default().w_retry(), milliseconds(12_250));
    assert_eq!(RetryPolicy::default().check(), Ok(()));
}

#[test]
fn stages_add_up_and_branches_take_the_longest() {
    let bounds = [3, 8, 5].map(Duration::from_secs);
    assert_eq!(serial(bounds), Duration::from_secs(16));
    assert_eq!(parallel(bounds), Duration::from_secs(8));
    assert_eq!(serial([]), Duration::ZERO);
    assert_eq!(parallel([]), Duration::ZERO);
    assert_eq!(serial([Duration::MAX, Duration::MAX]), Duration::MAX);
}

#[test]
fn nothing_overflows() {
    let longest = RetryPolicy {
        attempts: u32::MAX,
        backoff: Backoff { base: Duration::MAX, factor: 1000.0, cap: Duration::MAX, jitter: Duration::MAX },
        timeout: Duration::MAX,
        deadline: milliseconds(1),
        ..policy()
    };
    assert_eq!(longest.w_retry(), Duration::MAX);
    assert!(longest.check().is_err());
}

#[test]
fn a_listed_class_or_code_is_retried_and_an_excluded_code_or_a_refusal_never() {
    let listed = RetryOn::from_iter(["5xx", "busy", "4xx", "no_such_account"]);
    let all_but_one = RetryOn::from_iter(["5xx", "!http_501", "http_501"]);
    for (retry_on, class, code, lists) in [
        (&listed, Class::ServerError, "http_503", true),
        (&listed, Class::Other, "busy", true),
        (&listed, Class::Other, "", false),
        (&listed, Class::Timeout, "timeout", false),
        (&listed, Class::Refused, "no_such_account", false),
        (&RetryOn::default(), Class::Refused, "http_404", false),
        (&RetryOn::from_iter([""]), Class::Other, "", false),
        (&all_but_one, Class::ServerError, "http_503", true),
        (&all_but_one, Class::ServerError, "", true),
        (&all_but_one, Class::ServerError, "http_501", false),
    ] {
        assert_eq!(retry_on.lists(&TestError::new(class, code)), lists, "{class:?} {code}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_closed_forms_are_the_sums(attempts in 1..200_u32, p_drop in 0.0..=1.0_f64) {
        let policy = RetryPolicy { attempts, ..policy() };
        let sum: f64 = (1..=attempts).map(|k| p_drop.powf(f64::from(k - 1))).sum();
        prop_assert!((policy.expected_attempts(p_drop) - sum).abs() < 1e-9 * sum);
        // A request without success has used up all its attempts.
        let last: f64 = 1.0 - p_drop.powf(f64::from(attempts));
        prop_assert!((policy.p_ok(p_drop) - last).abs() < 1e-12);
    }

    #[test]
    fn near_certain_loss_is_still_counted_well(attempts in 1..200_u32, short in 1e-15..1e-6_f64) {
        let policy = RetryPolicy { attempts, ..policy() };
        prop_assert!((policy.expected_attempts(1.0 - short) - f64::from(attempts)).abs() < 0.03);
    }
}
