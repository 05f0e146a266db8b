//! Combines additions: those that arrive while a round runs are one batch for the next round.
//!
//! Each key has a buffer of pending additions, and rounds that take a batch of it each. A round begins as soon as one is
//! due ([`Rounds::is_due`]); only [`Rounds::begin`] may delay it, and the batch grows meanwhile. The rounds of a key run
//! in tasks that end when there is nothing to take: an idle key costs nothing.
//!
//! A round that panics is logged and costs its own batch. The next round goes on.

use std::{
    collections::HashMap,
    fmt::Debug,
    future::ready,
    hash::Hash,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex},
};

use futures_util::FutureExt;
use tokio::sync::SemaphorePermit;
use tokio_util::task::TaskTracker;

use crate::lock::lock;

/// The buffers and rounds of one use.
pub trait Rounds: Send + Sync + 'static {
    /// The name of the rounds in the log.
    const NAME: &'static str;

    /// Whether the buffer of an idle key is kept, for buffers with more state than pending additions.
    const KEEPS_BUFFERS: bool = false;

    /// Rounds of different keys are independent.
    type Key: Clone + Debug + Eq + Hash + Send + Sync;
    /// The buffer of a key.
    type Pending: Default + Send;
    /// The input of a round.
    type Batch: Send;

    /// How many rounds of a key run at once at most.
    fn at_once(&self) -> usize {
        1
    }

    /// Waits before a batch is taken. A permit is held until the round has ended.
    fn begin(&self) -> impl Future<Output = Option<SemaphorePermit<'_>>> + Send {
        ready(None)
    }

    /// Whether a round would find a batch to take, of a buffer with an addition.
    fn is_due(&self, _pending: &Self::Pending) -> bool {
        true
    }

    /// Takes the next batch; `None` when nothing is pending.
    fn take(&self, pending: &mut Self::Pending) -> Option<Self::Batch>;

    /// A round.
    fn run(&self, key: &Self::Key, batch: Self::Batch) -> impl Future<Output = ()> + Send;
}

/// Buffers additions, and runs the rounds.
pub struct Coalescer<R: Rounds> {
    /// Its use.
    pub rounds: R,
    entries: Mutex<HashMap<R::Key, Entry<R::Pending>>>,
    tasks: TaskTracker,
}

#[derive(Default)]
struct Entry<P> {
    pending: P,
    /// At least one while a round is due.
    tasks: usize,
}

impl<R: Rounds> Coalescer<R> {
    /// Without any buffer.
    pub fn new(rounds: R) -> Arc<Self> {
        let tasks = TaskTracker::new();
        // `wait` needs a closed tracker, which still accepts tasks.
        tasks.close();
        Arc::new(Self { rounds, entries: Mutex::default(), tasks })
    }

    /// Adds to the buffer of a key, for callers within a runtime.
    pub fn add(self: &Arc<Self>, key: R::Key, add: impl FnOnce(&mut R::Pending)) {
        let mut entries = lock(&self.entries);
        let entry = entries.entry(key.clone()).or_default();
        add(&mut entry.pending);
        if entry.tasks < self.rounds.at_once() && self.rounds.is_due(&entry.pending) {
            entry.tasks += 1;
            self.tasks.spawn(Arc::clone(self).work(key));
        }
    }

    /// Waits until nothing is pending and no round runs.
    pub async fn idle(&self) {
        self.tasks.wait().await;
    }

    /// Runs rounds until nothing is pending.
    async fn work(self: Arc<Self>, key: R::Key) {
        loop {
            match AssertUnwindSafe(self.round(&key)).catch_unwind().await {
                Ok(true) => {}
                Ok(false) => return,
                Err(_) => {
                    tracing::error!(round.of = R::NAME, round.key = ?key, "a round panicked");
                }
            }
        }
    }

    /// Runs a round, if an addition is pending.
    async fn round(&self, key: &R::Key) -> bool {
        let _permit = self.rounds.begin().await;
        let Some(batch) = self.take(key) else {
            return false;
        };
        self.rounds.run(key, batch).await;
        true
    }

    /// The next batch; without one, the calling task ends.
    fn take(&self, key: &R::Key) -> Option<R::Batch> {
        let mut entries = lock(&self.entries);
        let entry = entries.get_mut(key)?;
        let batch = self.rounds.take(&mut entry.pending);
        if batch.is_none() {
            // Under the lock: the next addition starts another task.
            entry.tasks -= 1;
            if entry.tasks == 0 && !R::KEEPS_BUFFERS {
                entries.remove(key);
            }
        }
        batch
    }
}

#[cfg(test)]
mod tests {
    use std::mem;

    use tokio::{sync::Semaphore, task::yield_now};

    use super::*;

    const POISON: u32 = 13;
    /// Waits for another addition.
    const NOT_DUE: u32 = 0;

    /// Notes its rounds as they begin; each ends with a permit.
    struct Noted {
        noted: Mutex<Vec<(&'static str, Vec<u32>)>>,
        ends: Semaphore,
        /// Permits that rounds wait for before they begin.
        turns: Semaphore,
        at_once: usize,
    }

    impl Rounds for Noted {
        const NAME: &'static str = "tests";

        type Key = &'static str;
        type Pending = Vec<u32>;
        type Batch = Vec<u32>;

        fn at_once(&self) -> usize {
            self.at_once
        }

        async fn begin(&self) -> Option<SemaphorePermit<'_>> {
            self.turns.acquire().await.ok()
        }

        fn is_due(&self, pending: &Vec<u32>) -> bool {
            pending.iter().any(|number| *number != NOT_DUE)
        }

        fn take(&self, pending: &mut Vec<u32>) -> Option<Vec<u32>> {
            (!pending.is_empty()).then(|| mem::take(pending))
        }

        async fn run(&self, key: &&'static str, batch: Vec<u32>) {
            let poisoned = batch.contains(&POISON);
            self.noted.lock().unwrap().push((key, batch));
            self.ends.acquire().await.unwrap().forget();
            assert!(!poisoned, "on purpose");
        }
    }

    fn coalescer(at_once: usize, turns: usize) -> Arc<Coalescer<Noted>> {
        Coalescer::new(Noted {
            noted: Mutex::default(),
            ends: Semaphore::new(0),
            turns: Semaphore::new(turns),
            at_once,
        })
    }

    impl Coalescer<Noted> {
        async fn push(self: &Arc<Self>, key: &'static str, number: u32) {
            self.add(key, |pending| pending.push(number));
            yield_now().await;
        }

        /// The rounds since the last call.
        fn noted(&self) -> Vec<(&'static str, Vec<u32>)> {
            mem::take(&mut self.rounds.noted.lock().unwrap())
        }

        /// Lets all rounds end; the rest of them.
        async fn finish(&self) -> Vec<(&'static str, Vec<u32>)> {
            self.rounds.ends.add_permits(100);
            self.idle().await;
            assert!(lock(&self.entries).is_empty(), "an idle key leaves nothing behind");
            self.noted()
        }
    }

    #[tokio::test]
    async fn the_first_addition_is_a_round_of_its_own_and_later_ones_share_the_next() {
        let coalescer = coalescer(1, 10);

        coalescer.push("a", 1).await;
        coalescer.push("a", 2).await;
        coalescer.push("a", 3).await;

        assert_eq!(coalescer.noted(), [("a", vec![1])]);
        assert_eq!(coalescer.finish().await, [("a", vec![2, 3])]);
        coalescer.push("a", 4).await;
        assert_eq!(coalescer.finish().await, [("a", vec![4])]);
    }

    #[tokio::test]
    async fn an_addition_that_is_not_due_starts_no_task_and_goes_with_the_next_round() {
        let coalescer = coalescer(1, 10);

        coalescer.push("a", NOT_DUE).await;
        assert!(coalescer.tasks.is_empty());
        coalescer.push("a", 1).await;

        assert_eq!(coalescer.finish().await, [("a", vec![NOT_DUE, 1])]);
    }

    #[tokio::test]
    async fn keys_do_not_wait_for_each_other() {
        let coalescer = coalescer(1, 10);

        coalescer.push("a", 1).await;
        coalescer.push("b", 2).await;

        assert_eq!(coalescer.noted(), [("a", vec![1]), ("b", vec![2])]);
        assert!(coalescer.finish().await.is_empty());
    }

    #[tokio::test]
    async fn no_more_rounds_of_a_key_run_at_once_than_may() {
        let coalescer = coalescer(2, 10);

        for number in 1..=4 {
            coalescer.push("a", number).await;
        }

        assert_eq!(coalescer.noted(), [("a", vec![1]), ("a", vec![2])]);
        assert_eq!(coalescer.finish().await, [("a", vec![3, 4])]);
    }

    #[tokio::test]
    async fn a_batch_grows_while_its_round_waits_for_its_turn() {
        let coalescer = coalescer(1, 1);
        coalescer.push("a", 1).await;

        coalescer.push("b", 2).await;
        coalescer.push("b", 3).await;

        assert_eq!(coalescer.noted(), [("a", vec![1])]);
        assert_eq!(coalescer.finish().await, [("b", vec![2, 3])]);
    }

    #[tokio::test]
    async fn a_panic_costs_its_batch_only() {
        let coalescer = coalescer(1, 1);

        coalescer.push("a", POISON).await;
        coalescer.push("a", 1).await;

        assert_eq!(coalescer.noted(), [("a", vec![POISON])]);
        assert_eq!(coalescer.finish().await, [("a", vec![1])]);
        coalescer.push("a", 2).await;
        assert_eq!(coalescer.finish().await, [("a", vec![2])]);
    }
}
