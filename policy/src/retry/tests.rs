//! When an attempt is retried, after which wait, and when not.

use std::{
    cell::RefCell,
    future::{Ready, pending},
    rc::Rc,
};

use proptest::prelude::*;
use rand::{SeedableRng, rngs::StdRng};

use super::*;
use crate::{
    Backoff, Class, RetryOn,
    testing::{TestError, milliseconds},
};

/// Three attempts of 100 ms, waits of 50 and 100 ms: `W_retry` is 450 ms.
fn policy() -> RetryPolicy {
    RetryPolicy {
        attempts: 3,
        backoff: Backoff { base: milliseconds(50), factor: 2.0, cap: milliseconds(1000), jitter: Duration::ZERO },
        timeout: milliseconds(100),
        deadline: milliseconds(1000),
        margin: milliseconds(100),
        ..RetryPolicy::default()
    }
}

fn rng() -> StdRng {
    StdRng::seed_from_u64(5)
}

const DOWN: TestError = TestError::new(Class::ServerError, "");

fn later(value: u64) -> TestError {
    TestError::new(Class::Throttled, "").after(milliseconds(value))
}

/// The outcome of a call with these answers, how long it took, and when its attempts began.
async fn tried(
    policy: &RetryPolicy,
    answers: &[Result<u32, TestError>],
) -> (Result<u32, RetryError<TestError>>, u128, Vec<u128>) {
    let began = Instant::now();
    let starts = RefCell::new(Vec::new());
    let outcome = retry(policy, &CancellationToken::new(), rng(), |attempt| {
        starts.borrow_mut().push(began.elapsed().as_millis());
        let answer = answers[attempt as usize - 1];
        async move { answer }
    })
    .await;
    (outcome, began.elapsed().as_millis(), starts.into_inner())
}

#[tokio::test(start_paused = true)]
async fn a_failed_attempt_is_repeated_after_the_backoff() {
    let (outcome, _, starts) = tried(&policy(), &[Err(DOWN), Err(DOWN), Ok(7)]).await;
    assert_eq!(outcome, Ok(7));
    assert_eq!(starts, [0, 50, 150]);
}

#[tokio::test(start_paused = true)]
async fn when_all_attempts_are_used_up_the_error_has_the_last_failure() {
    let (outcome, took, _) = tried(&policy(), &[Err(DOWN), Err(DOWN), Err(later(5))]).await;
    let error = outcome.unwrap_err();
    assert_eq!(error.to_string(), "all 3 attempts failed; the last: throttled");
    assert_eq!(took, 150);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_never_retried_and_other_failures_only_when_listed() {
    let refusal = TestError::new(Class::Refused, "").after(milliseconds(1));
    let (outcome, took, _) = tried(&policy(), &[Err(refusal)]).await;
    let last = AttemptError::Failed(refusal);
    assert_eq!(outcome, Err(RetryError::NotRetried { attempts: 1, last }));
    assert_eq!(took, 0);

    let mut only_timeouts = policy();
    only_timeouts.retry_on = RetryOn::from_iter(["timeout"]);
    let (outcome, _, starts) = tried(&only_timeouts, &[Err(DOWN)]).await;
    assert!(matches!(outcome, Err(RetryError::NotRetried { .. })));
    assert_eq!(starts.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_does_not_answer_ends_with_its_timeout_and_all_of_them_with_w_retry() {
    let began = Instant::now();
    let call = |_| pending::<Result<(), TestError>>();
    let outcome = retry(&policy(), &CancellationToken::new(), rng(), call).await;
    assert_eq!(began.elapsed(), policy().w_retry());
    let limit = milliseconds(100);
    let last = AttemptError::TimedOut(TimedOut { limit });
    assert_eq!(outcome, Err(RetryError::Exhausted { attempts: 3, last }));
}

#[tokio::test(start_paused = true)]
async fn the_dependency_s_retry_after_overrides_the_backoff_either_way() {
    let (outcome, _, starts) = tried(&policy(), &[Err(later(5)), Err(later(700)), Ok(1)]).await;
    assert_eq!(outcome, Ok(1));
    assert_eq!(starts, [0, 5, 705]);

    let mut fixed = policy();
    fixed.respect_retry_after = false;
    let (_, _, starts) = tried(&fixed, &[Err(later(5)), Err(later(700)), Ok(1)]).await;
    assert_eq!(starts, [0, 50, 150]);
}

#[tokio::test(start_paused = true)]
async fn a_retry_after_that_the_budget_cannot_hold_ends_it_at_once() {
    let (outcome, took, starts) = tried(&policy(), &[Err(later(300)), Err(later(600))]).await;
    assert_eq!(
        outcome,
        Err(RetryError::DeadlineExceeded {
            attempts: 2,
            last: Some(AttemptError::Failed(later(600))),
            wait: milliseconds(600),
            left: milliseconds(600),
        })
    );
    assert_eq!((took, starts), (300, vec![0, 300]), "not a moment of sleep");
    let (outcome, _, _) = tried(&policy(), &[Err(DOWN.after(Duration::MAX))]).await;
    assert!(matches!(outcome, Err(RetryError::DeadlineExceeded { .. })));
}

#[tokio::test(start_paused = true)]
async fn an_attempt_after_a_long_wait_has_what_is_left() {
    let began = Instant::now();
    let call = async |attempt| match attempt {
        1 => Err(later(850)),
        _ => pending::<Result<(), _>>().await,
    };
    let outcome = retry(&policy(), &CancellationToken::new(), rng(), call).await;
    assert_eq!(began.elapsed(), policy().budget());
    let Err(RetryError::DeadlineExceeded { attempts: 2, last, .. }) = outcome else { panic!("{outcome:?}") };
    let limit = milliseconds(50);
    assert_eq!(last, Some(AttemptError::TimedOut(TimedOut { limit })));
}

#[tokio::test(start_paused = true)]
async fn an_outer_limit_counts_too() {
    let outcome = with_timeout(milliseconds(40), tried(&policy(), &[Err(DOWN)])).await;
    let (outcome, took, _) = outcome.expect("it ends before the limit");
    assert!(matches!(outcome, Err(RetryError::DeadlineExceeded { attempts: 1, .. })));
    assert_eq!(took, 0);
}

#[tokio::test(start_paused = true)]
async fn a_policy_over_its_budget_is_refused_before_the_first_call() {
    let mut impossible = policy();
    impossible.deadline = milliseconds(500);
    let (outcome, _, starts) = tried(&impossible, &[]).await;
    assert!(matches!(outcome, Err(RetryError::OverBudget(_))));
    assert!(starts.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_budget_is_rounded_down_to_whole_milliseconds() {
    let mut tight = policy();
    tight.deadline = Duration::from_micros(550_900);
    let began = Instant::now();
    // It can be moved to another thread.
    let outcome = tokio::spawn(async move {
        let call = |attempt| async move {
            match attempt {
                1 => Err(later(400)),
                _ => pending::<Result<(), TestError>>().await,
            }
        };
        retry(&tight, &CancellationToken::new(), rng(), call).await
    });
    let outcome = outcome.await.unwrap();
    assert!(matches!(outcome, Err(RetryError::DeadlineExceeded { attempts: 2, .. })));
    assert_eq!(began.elapsed(), milliseconds(450));
}

/// Cancels after so many milliseconds.
fn cancelled_after(value: u64) -> CancellationToken {
    let cancel = CancellationToken::new();
    let token = cancel.clone();
    tokio::spawn(async move {
        sleep(milliseconds(value)).await;
        token.cancel();
    });
    cancel
}

#[tokio::test(start_paused = true)]
async fn cancellation_drops_the_running_call() {
    let running = Rc::new(());
    let began = Instant::now();
    let call = |_| {
        let running = running.clone();
        async move {
            let _running = running;
            pending::<Result<(), TestError>>().await
        }
    };
    let outcome = retry(&policy(), &cancelled_after(30), rng(), call).await;
    assert_eq!(outcome, Err(RetryError::Cancelled { attempts: 1 }));
    assert_eq!(Rc::strong_count(&running), 1, "no call runs");
    assert_eq!(began.elapsed(), milliseconds(30));
}

#[tokio::test(start_paused = true)]
async fn cancellation_ends_a_wait_and_beats_the_retry() {
    let began = Instant::now();
    let outcome: Result<(), _> = retry(&policy(), &cancelled_after(30), rng(), |attempt| async move {
        assert_eq!(attempt, 1);
        Err(DOWN)
    })
    .await;
    assert_eq!(outcome, Err(RetryError::Cancelled { attempts: 1 }));
    assert_eq!(began.elapsed(), milliseconds(30));

    // Nor is there one when no wait is needed.
    let mut at_once = policy();
    at_once.backoff.cap = Duration::ZERO;
    let cancel = CancellationToken::new();
    let outcome: Result<(), _> = retry(&at_once, &cancel, rng(), |_| {
        cancel.cancel();
        async { Err(DOWN) }
    })
    .await;
    assert_eq!(outcome, Err(RetryError::Cancelled { attempts: 1 }));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_cancelled_before_is_not_begun() {
    let cancel = CancellationToken::new();
    cancel.cancel();
    let outcome = retry(&policy(), &cancel, rng(), |_| -> Ready<Result<(), TestError>> { panic!("begun") }).await;
    assert_eq!(outcome, Err(RetryError::Cancelled { attempts: 0 }));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_answer_and_no_retry_after_exceeds_the_deadline(
        script in prop::collection::vec((0..300_u64, prop::option::of(0..2000_u64)), 5),
        attempts in 1..=5_u32,
        jitter in 0..100_u64,
        seed in any::<u64>(),
    ) {
        let mut policy = RetryPolicy { attempts, deadline: milliseconds(1600), ..policy() };
        policy.backoff.jitter = milliseconds(jitter);
        prop_assume!(policy.check().is_ok());
        let has_retry_after = script.iter().any(|(_, retry_after)| retry_after.is_some());
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build()?;
        let took = runtime.block_on(async {
            let began = Instant::now();
            let rng = StdRng::seed_from_u64(seed);
            let outcome: Result<(), _> = retry(&policy, &CancellationToken::new(), rng, |attempt| {
                let (takes, retry_after) = script[attempt as usize - 1];
                async move {
                    sleep(milliseconds(takes)).await;
                    let error = retry_after.map_or(DOWN, |after| DOWN.after(milliseconds(after)));
                    Err(error)
                }
            })
            .await;
            assert!(outcome.is_err());
            began.elapsed()
        });
        prop_assert!(took <= policy.budget());
        prop_assert!(has_retry_after || took <= policy.w_retry());
    }
}
