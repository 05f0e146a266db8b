//! Tests of `ensure_idempotent`: which calls share a result, the results of waiting calls, when a key is removed.

use std::{
    cell::Cell,
    future::{pending, ready},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use futures_util::{FutureExt, poll};
use tokio::{
    sync::{Barrier, Notify, Semaphore},
    task::{JoinSet, yield_now},
    time::{advance, sleep},
};

use super::*;

const WINDOW: Duration = Duration::from_secs(60);
const MOMENT: Duration = Duration::from_nanos(1);

/// An idempotent function whose calls all have the key `()`; `run` gets 1, 2, … for each run.
fn numbered<T, E, F: Future<Output = Result<T, E>>>(
    run: impl Fn(u32) -> F,
) -> Idempotent<(), T, E, impl Fn(()) -> F, impl Fn(&())> {
    let runs = Cell::new(0);
    let run = move |()| {
        runs.set(runs.get() + 1);
        run(runs.get())
    };
    ensure_idempotent(WINDOW, |(): &()| (), run)
}

#[tokio::test(start_paused = true)]
async fn later_calls_of_a_key_get_the_one_result_up_to_the_edge_of_the_window() {
    let runs = Cell::new(0);
    let run = |x: u32| {
        runs.set(runs.get() + 1);
        ready(Ok::<_, ()>((x, runs.get())))
    };
    let counted = ensure_idempotent(WINDOW, |x: &u32| *x, run);
    assert_eq!(counted.call(1).await, Ok((1, 1)));
    assert_eq!(counted.call(2).await, Ok((2, 2)), "another key");
    advance(WINDOW - MOMENT).await;
    assert_eq!(counted.call(1).await, Ok((1, 1)), "just inside");
    advance(MOMENT).await;
    assert_eq!(counted.call(1).await, Ok((1, 3)), "just outside");
    advance(WINDOW - MOMENT).await;
    assert_eq!(counted.call(1).await, Ok((1, 3)), "in a window of its own");
}

#[tokio::test(start_paused = true)]
async fn after_a_failure_the_next_call_runs_again() {
    let fails_once = numbered(|run| async move { if run == 1 { Err("down") } else { Ok(run) } });
    assert_eq!(fails_once.call(()).await, Err("down"));
    assert_eq!(fails_once.keys(), 0);
    assert_eq!(fails_once.call(()).await, Ok(2));
    assert_eq!(fails_once.call(()).await, Ok(2));
}

#[tokio::test(start_paused = true)]
async fn the_window_runs_from_when_the_first_call_began() {
    // The first run lasts from 0 to 90 s, the second from 60 to 150 s.
    let slow = numbered(|run| async move {
        sleep(WINDOW + WINDOW / 2).await;
        Ok::<_, ()>(run)
    });
    let began = Instant::now();
    let within_window = async {
        sleep(WINDOW - Duration::from_millis(1)).await;
        (slow.call(()).await, began.elapsed())
    };
    let after_window = async {
        sleep(WINDOW).await;
        (slow.call(()).await, began.elapsed())
    };
    let (first, within_window, after_window) = tokio::join!(slow.call(()), within_window, after_window);
    assert_eq!(first, Ok(1));
    assert_eq!(within_window, (Ok(1), WINDOW * 3 / 2));
    assert_eq!(after_window, (Ok(2), WINDOW * 5 / 2), "though the first still ran");
    assert_eq!(slow.keys(), 1);
    assert_eq!(slow.call(()).await, Ok(3), "the second call's window ended at 120 s");
}

#[tokio::test(start_paused = true)]
async fn a_failure_after_the_window_does_not_remove_the_newer_result() {
    let slow = numbered(|run| async move {
        if run == 1 {
            sleep(WINDOW * 3 / 2).await;
            return Err("too late");
        }
        Ok(run)
    });
    let after_window = async {
        sleep(WINDOW).await;
        slow.call(()).await
    };
    let (first, after_window) = tokio::join!(slow.call(()), after_window);
    assert_eq!((first, after_window), (Err("too late"), Ok(2)));
    assert_eq!(slow.call(()).await, Ok(2), "still remembered");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_concurrent_calls_of_a_key_one_runs() {
    const CALLERS: usize = 64;
    static RUNS: AtomicU32 = AtomicU32::new(0);
    static CALLS_WAITING: Semaphore = Semaphore::const_new(0);
    static RUN_MAY_END: Semaphore = Semaphore::const_new(0);
    let run = |_: u32| async {
        let _ = RUN_MAY_END.acquire().await;
        Ok::<_, ()>(RUNS.fetch_add(1, Ordering::SeqCst))
    };
    let once = Arc::new(ensure_idempotent(WINDOW, |key: &u32| *key, run));
    let together = Arc::new(Barrier::new(CALLERS));
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let (once, together) = (Arc::clone(&once), Arc::clone(&together));
        callers.spawn(async move {
            together.wait().await;
            let mut call = pin!(once.call(1));
            assert!(poll!(&mut call).is_pending());
            CALLS_WAITING.add_permits(1);
            call.await
        });
    }
    CALLS_WAITING.acquire_many(64).await.unwrap().forget();
    RUN_MAY_END.add_permits(1);
    assert_eq!(callers.join_all().await, [Ok(0); CALLERS]);
    assert_eq!(RUNS.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn calls_that_wait_for_a_failure_share_it() {
    let fails = numbered(|run| async move {
        sleep(Duration::from_secs(1)).await;
        Err::<(), _>(run)
    });
    let outcomes = tokio::join!(fails.call(()), fails.call(()), fails.call(()));
    assert_eq!(outcomes, (Err(1), Err(1), Err(1)));
}

#[tokio::test(start_paused = true)]
async fn a_first_call_that_is_dropped_hands_over_to_one_that_waits() {
    let first_runs = Notify::new();
    let hangs_once = numbered(|run| {
        let first_runs = &first_runs;
        async move {
            if run == 1 {
                first_runs.notify_one();
                pending::<()>().await;
            }
            // Not ready at its first poll, so the other call has to wait for it.
            yield_now().await;
            Ok::<_, ()>(run)
        }
    });
    let dropped = async {
        tokio::select! {
            _ = hangs_once.call(()) => unreachable!("it hangs"),
            () = async { first_runs.notified().await; sleep(Duration::from_secs(1)).await } => {}
        }
    };
    let (_, one, other) = tokio::join!(dropped, hangs_once.call(()), hangs_once.call(()));
    assert_eq!((one, other), (Ok(2), Ok(2)));
}

#[tokio::test(start_paused = true)]
async fn a_first_call_that_panics_hands_over_too() {
    let panics_once = numbered(|run| async move {
        sleep(Duration::from_secs(1)).await;
        assert!(run > 1, "the first call");
        Ok::<_, ()>(run)
    });
    let panics = std::panic::AssertUnwindSafe(panics_once.call(())).catch_unwind();
    let (panicked, one, other) = tokio::join!(panics, panics_once.call(()), panics_once.call(()));
    assert!(panicked.is_err());
    assert_eq!((one, other), (Ok(2), Ok(2)));
}

#[tokio::test(start_paused = true)]
async fn keys_whose_window_is_over_are_removed() {
    // Every tenth call fails, which removes its key at once.
    let run = |x: u32| ready(if x.is_multiple_of(10) { Err(x) } else { Ok(x) });
    let idempotent = ensure_idempotent(WINDOW, |x: &u32| *x, run);
    for x in 0..100_000 {
        let _ = idempotent.call(x).await;
        advance(WINDOW / 1000).await;
        assert!(idempotent.keys() <= 1000, "{}", idempotent.keys());
        assert_eq!(idempotent.keys(), lock(&idempotent.keys).by_age.len(), "both maps have the same keys");
    }
    advance(WINDOW).await;
    let _ = idempotent.call(1).await;
    assert_eq!(idempotent.keys(), 1);
}

#[tokio::test(start_paused = true)]
async fn without_a_window_nothing_is_shared_or_remembered() {
    let runs = Cell::new(0);
    let run = |()| {
        runs.set(runs.get() + 1);
        ready(Ok::<_, ()>(runs.get()))
    };
    let each = ensure_idempotent(Duration::ZERO, |(): &()| (), run);
    assert_eq!((each.call(()).await, each.call(()).await), (Ok(1), Ok(2)));
    assert_eq!(each.keys(), 1, "a key whose window is over stays until the next call");
}
