//! Which calls share a result, and the results of waiting calls.

use std::{
    cell::Cell,
    future::{pending, ready},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use futures_util::FutureExt;
use tokio::{
    sync::{Barrier, Notify, Semaphore},
    task::{JoinSet, yield_now},
    time::{advance, sleep},
};

use super::*;

const WINDOW: Duration = Duration::from_secs(60);
const MOMENT: Duration = Duration::from_nanos(1);

/// An idempotent function of one key, which gets the number of its run.
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
    let slow = numbered(|run| async move {
        sleep(WINDOW + WINDOW / 2).await;
        Ok::<_, ()>(run)
    });
    let began = Instant::now();
    let followed = async {
        sleep(WINDOW - Duration::from_millis(1)).await;
        (slow.call(()).await, began.elapsed())
    };
    let anew = async {
        sleep(WINDOW).await;
        (slow.call(()).await, began.elapsed())
    };
    let (first, followed, anew) = tokio::join!(slow.call(()), followed, anew);
    assert_eq!(first, Ok(1));
    assert_eq!(followed, (Ok(1), WINDOW * 3 / 2));
    assert_eq!(anew, (Ok(2), WINDOW * 5 / 2), "though the first still ran");
    assert_eq!(slow.keys(), 1);
    assert_eq!(slow.call(()).await, Ok(3), "and that one's window is over too");
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
    let anew = async {
        sleep(WINDOW).await;
        slow.call(()).await
    };
    let (first, anew) = tokio::join!(slow.call(()), anew);
    assert_eq!((first, anew), (Err("too late"), Ok(2)));
    assert_eq!(slow.call(()).await, Ok(2), "still remembered");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_concurrent_calls_of_a_key_one_runs() {
    const CALLERS: usize = 64;
    static RUNS: AtomicU32 = AtomicU32::new(0);
    static GO_ON: Semaphore = Semaphore::const_new(0);
    let run = |_: u32| async {
        let _ = GO_ON.acquire().await;
        Ok::<_, ()>(RUNS.fetch_add(1, Ordering::SeqCst))
    };
    let once = Arc::new(ensure_idempotent(WINDOW, |key: &u32| *key, run));
    let together = Arc::new(Barrier::new(CALLERS));
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let (once, together) = (Arc::clone(&once), Arc::clone(&together));
        callers.spawn(async move {
            together.wait().await;
            once.call(1).await
        });
    }
    GO_ON.add_permits(1);
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
    let stuck_once = numbered(|run| {
        let first_runs = &first_runs;
        async move {
            if run == 1 {
                first_runs.notify_one();
                pending::<()>().await;
            }
            yield_now().await;
            Ok::<_, ()>(run)
        }
    });
    let dropped = async {
        tokio::select! {
            _ = stuck_once.call(()) => unreachable!("it is stuck"),
            () = async { first_runs.notified().await; sleep(Duration::from_secs(1)).await } => {}
        }
    };
    let (_, one, other) = tokio::join!(dropped, stuck_once.call(()), stuck_once.call(()));
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
    let fails = |x: u32| ready(if x.is_multiple_of(10) { Err(x) } else { Ok(x) });
    let passes = ensure_idempotent(WINDOW, |x: &u32| *x, fails);
    for x in 0..100_000 {
        let _ = passes.call(x).await;
        advance(WINDOW / 1000).await;
        assert!(passes.keys() <= 1000, "{}", passes.keys());
        assert_eq!(passes.keys(), lock(&passes.keys).by_age.len());
    }
    advance(WINDOW).await;
    let _ = passes.call(1).await;
    assert_eq!(passes.keys(), 1);
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
    assert_eq!(each.keys(), 1);
}
