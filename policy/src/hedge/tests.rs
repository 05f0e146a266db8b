//! The winner of a race of calls, the end of the others, and the number of hedges.

use std::{
    cell::{Cell, RefCell},
    future::pending,
    rc::Rc,
    sync::Barrier,
};

use proptest::prelude::*;
use tokio::time::{Instant, sleep};

use super::*;

const AFTER: Duration = Duration::from_millis(100);

/// A share that allows every hedge.
fn generous() -> HedgeShare {
    HedgeShare::new(1.0)
}

/// Calls that take so many milliseconds and end so.
fn calls(script: &[(u64, Result<u32, u32>)]) -> impl Fn(u32) -> Scripted {
    move |number| {
        let (takes, result) = script[number as usize];
        Box::pin(async move {
            sleep(Duration::from_millis(takes)).await;
            result
        })
    }
}

type Scripted = std::pin::Pin<Box<dyn Future<Output = Result<u32, u32>>>>;

#[tokio::test(start_paused = true)]
async fn a_race_ends_with_the_first_success_or_with_the_first_call_s_error_once_no_call_runs() {
    let fail_early = || vec![(500, Ok(5)), (10, Err(1)), (10, Err(2))];
    for (earlier_calls, script, outcome, hedges, winner, took) in [
        // One that answers in time is not hedged.
        (0, vec![(99, Ok(7))], Ok(7), 0, 0, 99),
        (0, vec![(40, Err(4))], Err(4), 0, 0, 40),
        // A first call that fails does not end its hedge.
        (0, vec![(120, Err(0)), (500, Ok(5))], Ok(5), 1, 1, 600),
        (0, vec![(120, Err(0)), (500, Err(1))], Err(0), 1, 0, 600),
        // A hedge that fails does not end the first call. The share allows one, and then two.
        (0, fail_early(), Ok(5), 1, 0, 500),
        (1, fail_early(), Ok(5), 2, 0, 500),
    ] {
        let share = generous();
        for _ in 0..earlier_calls {
            share.call();
        }
        let began = Instant::now();
        let hedged = hedge(AFTER, 3, &share, calls(&script)).await;
        assert_eq!(began.elapsed(), Duration::from_millis(took), "{script:?}");
        let ended = (hedged.outcome, hedged.hedges, hedged.winner);
        assert_eq!(ended, (outcome, hedges, winner), "{script:?}");
        let counts = (share.calls(), share.hedges());
        assert_eq!(counts, (earlier_calls + 1, u64::from(hedges)), "{script:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_success_wins_and_the_others_are_dropped_where_they_are() {
    let share = HedgeShare::new(1.0);
    share.call();
    let running = Rc::new(());
    let began = Instant::now();
    let hedged = hedge(AFTER, 2, &share, |number| {
        let running = running.clone();
        async move {
            let _running = running;
            match number {
                1 => sleep(Duration::from_millis(150)).await,
                _ => pending().await,
            }
            Ok::<_, ()>(number)
        }
    })
    .await;

    assert_eq!((hedged.outcome, hedged.hedges, hedged.winner), (Ok(1), 2, 1));
    assert_eq!(began.elapsed(), Duration::from_millis(250));
    assert_eq!(Rc::strong_count(&running), 1, "no call runs");
}

#[tokio::test(start_paused = true)]
async fn hedges_start_one_after_the_other_and_no_more_than_allowed() {
    let share = generous();
    for _ in 0..10 {
        share.call();
    }
    let started = RefCell::new(Vec::new());
    let began = Instant::now();
    let never = hedge(AFTER, 3, &share, |number| {
        started.borrow_mut().push((number, began.elapsed().as_millis()));
        pending::<Result<(), ()>>()
    });
    let timed_out = tokio::time::timeout(Duration::from_secs(10), never).await;
    assert!(timed_out.is_err());
    assert_eq!(started.into_inner(), [(0, 0), (1, 100), (2, 200), (3, 300)]);
    assert_eq!(share.hedges(), 3);
}

#[tokio::test(start_paused = true)]
async fn without_permission_there_is_no_hedge_and_the_share_is_not_touched() {
    let share = generous();
    let asked = Cell::new(0);
    let refused = |_| {
        asked.set(asked.get() + 1);
        ready(false)
    };
    let hedged = hedge_if(AFTER, 3, &share, refused, calls(&[(1000, Ok(1))])).await;
    assert_eq!((hedged.outcome, hedged.hedges), (Ok(1), 0));
    assert_eq!(asked.get(), 1, "a refusal holds");

    // Permission that is still waited for when the answer comes.
    let hedged = hedge_if(AFTER, 3, &share, |_| pending(), calls(&[(1000, Ok(1))])).await;
    assert_eq!((hedged.outcome, hedged.hedges), (Ok(1), 0));
    let failed = hedge_if(AFTER, 3, &share, |_| pending(), calls(&[(1000, Err(1))])).await;
    assert_eq!((failed.outcome, failed.hedges), (Err(1), 0));
    assert_eq!(share.hedges(), 0);
    assert_eq!(share.earned.load(Ordering::Relaxed), 3 * ONE_HEDGE);
}

#[tokio::test(start_paused = true)]
async fn a_permission_may_take_time_and_delays_the_hedge() {
    let share = generous();
    let slot = |_| async {
        sleep(Duration::from_millis(50)).await;
        true
    };
    let began = Instant::now();
    let hedged = hedge_if(AFTER, 1, &share, slot, calls(&[(10_000, Ok(0)), (10, Ok(1))])).await;
    assert_eq!((hedged.outcome, hedged.hedges), (Ok(1), 1));
    assert_eq!(began.elapsed(), Duration::from_millis(160));
}

#[tokio::test(start_paused = true)]
async fn of_many_slow_calls_one_in_twenty_is_hedged() {
    let share = HedgeShare::default();
    for _ in 0..1000 {
        let hedged = hedge(AFTER, 1, &share, calls(&[(200, Ok(0)), (5, Ok(1))])).await;
        assert!(hedged.outcome.is_ok());
        assert!(share.hedges() * 20 <= share.calls());
    }
    assert_eq!((share.calls(), share.hedges()), (1000, 50));
}

#[tokio::test]
async fn a_race_can_move_between_threads_if_its_calls_can() {
    let race = tokio::spawn(async {
        let call = |number| ready(Ok::<_, ()>(number));
        hedge_if(AFTER, 1, &generous(), |_| ready(true), call).await
    });
    assert_eq!(race.await.unwrap().outcome, Ok(0));
}

#[test]
fn the_share_is_exact_with_concurrent_callers() {
    const THREADS: usize = 8;
    const CALLS: u64 = 20_000;
    let share = HedgeShare::new(0.07);
    let barrier = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                barrier.wait();
                for _ in 0..CALLS {
                    share.call();
                    if let Some(reservation) = share.reserve() {
                        reservation.spend();
                    }
                }
            });
        }
    });
    let calls = CALLS * THREADS as u64;
    assert_eq!(share.calls(), calls);
    assert_eq!(share.hedges(), calls * 7 / 100);
}

#[test]
fn many_calls_without_hedges_save_up_a_hundred_of_them() {
    let share = HedgeShare::new(0.5);
    for _ in 0..10_000 {
        share.call();
    }
    while let Some(reservation) = share.reserve() {
        reservation.spend();
    }
    assert_eq!(share.hedges(), SAVED_HEDGES);
}

#[test]
fn odd_shares_are_within_reason() {
    for (share, expected) in [
        (0.05, 50_000),
        (0.29, 290_000),
        (0.0, 0),
        (-1.0, 0),
        (7.0, 1_000_000),
        (f64::INFINITY, 1_000_000),
        (1e-9, 0),
        (f64::NAN, 0),
    ] {
        assert_eq!(millionths(share), expected, "{share}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn hedges_never_exceed_their_share(
        part in 0.0..1.0_f64,
        steps in prop::collection::vec((any::<bool>(), any::<bool>()), 1..500),
    ) {
        let share = HedgeShare::new(part);
        for (calls, spends) in steps {
            if calls {
                share.call();
            } else if let Some(reservation) = share.reserve()
                && spends
            {
                reservation.spend();
            }
            let allowed = part.mul_add(share.calls() as f64, 1e-6);
            prop_assert!(share.hedges() as f64 <= allowed, "{share:?}");
        }
    }
}
