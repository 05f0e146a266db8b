//! A process's own copy of something small in the database, so that a request costs no statement.
//!
//! It is read again only while somebody asks, never by two at once, and never handed out beyond an age: whoever asks
//! for an older one waits for the next. One that is about to reach that age is read again behind its users' backs.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::OwnedMutexGuard, time::Instant};

use crate::error::StoreError;

/// How long a failure is handed out without another attempt: what fails for good must not be tried for every request.
const FAILURE_HOLDS: Duration = Duration::from_millis(100);

/// What a copy is made of.
pub(crate) trait Source: Send + Sync + 'static {
    /// The copy.
    type Copy: Send + Sync;

    /// Reads it; `before` is the last copy, for sources that tell what changed since.
    fn read(
        &self,
        before: Option<Arc<Self::Copy>>,
    ) -> impl Future<Output = Result<Self::Copy, StoreError>> + Send;
}

/// How old a copy may become.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ages {
    /// From this age on it is read again while it is still used.
    pub(crate) fresh: Duration,
    /// From this age on it is not used any more.
    pub(crate) usable: Duration,
}

/// The copy. Cheap to clone; clones share it.
pub(crate) struct LocalCopy<S: Source>(Arc<Inner<S>>);

struct Inner<S: Source> {
    source: S,
    ages: Ages,
    state: Mutex<State<S::Copy>>,
    /// Held by whoever reads.
    reading: Arc<tokio::sync::Mutex<()>>,
}

struct State<C> {
    /// The last copy, and when its reading *began*: it is at least as young as that.
    copy: Option<(Arc<C>, Instant)>,
    /// The last failure, and when it was known.
    failure: Option<(Arc<StoreError>, Instant)>,
}

impl<S: Source> Clone for LocalCopy<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S: Source> fmt::Debug for LocalCopy<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalCopy")
            .field("ages", &self.0.ages)
            .finish_non_exhaustive()
    }
}

impl<S: Source> LocalCopy<S> {
    pub(crate) fn new(source: S, ages: Ages) -> Self {
        Self(Arc::new(Inner {
            source,
            ages,
            state: Mutex::new(State {
                copy: None,
                failure: None,
            }),
            reading: Arc::default(),
        }))
    }

    /// A copy no older than `usable`.
    ///
    /// # Errors
    ///
    /// When there is none and it cannot be read. Those who wait together fail together, with one statement.
    pub(crate) async fn get(&self) -> Result<Arc<S::Copy>, Arc<StoreError>> {
        let asked = Instant::now();
        if let Some((copy, began)) = self.0.usable() {
            if began.elapsed() >= self.0.ages.fresh
                && let Ok(turn) = Arc::clone(&self.0.reading).try_lock_owned()
            {
                let inner = Arc::clone(&self.0);
                tokio::spawn(async move {
                    if let Err(error) = inner.read(&turn).await {
                        tracing::debug!(%error, "a local copy could not be read again yet");
                    }
                });
            }
            return Ok(copy);
        }
        let turn = Arc::clone(&self.0.reading).lock_owned().await;
        match self.0.known_since(asked) {
            Some(outcome) => outcome,
            None => self.0.read(&turn).await,
        }
    }

    /// The last copy, however old it is; `None` when there was none yet.
    pub(crate) fn last(&self) -> Option<Arc<S::Copy>> {
        let state = self.0.state();
        state.copy.as_ref().map(|(copy, _)| Arc::clone(copy))
    }
}

impl<S: Source> Inner<S> {
    async fn read(&self, _turn: &OwnedMutexGuard<()>) -> Result<Arc<S::Copy>, Arc<StoreError>> {
        let began = Instant::now();
        let before = self.state().copy.as_ref().map(|(copy, _)| Arc::clone(copy));
        match self.source.read(before).await {
            Ok(copy) => {
                let copy = Arc::new(copy);
                self.state().copy = Some((Arc::clone(&copy), began));
                Ok(copy)
            }
            Err(error) => {
                let error = Arc::new(error);
                self.state().failure = Some((Arc::clone(&error), Instant::now()));
                Err(error)
            }
        }
    }

    fn usable(&self) -> Option<(Arc<S::Copy>, Instant)> {
        let state = self.state();
        let (copy, began) = state.copy.as_ref()?;
        (began.elapsed() < self.ages.usable).then(|| (Arc::clone(copy), *began))
    }

    /// What somebody else's reading brought since `asked`, or just before.
    fn known_since(&self, asked: Instant) -> Option<Result<Arc<S::Copy>, Arc<StoreError>>> {
        if let Some((copy, _)) = self.usable() {
            return Some(Ok(copy));
        }
        let state = self.state();
        let (error, at) = state.failure.as_ref()?;
        (*at + FAILURE_HOLDS >= asked).then(|| Err(Arc::clone(error)))
    }

    fn state(&self) -> MutexGuard<'_, State<S::Copy>> {
        // Nothing that holds the lock can leave the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    use tokio::sync::Semaphore;

    use super::*;

    /// Counts its readings; each waits for a permit.
    #[derive(Default)]
    struct Counter {
        readings: AtomicU32,
        fails: AtomicBool,
        permits: Option<Semaphore>,
    }

    impl Source for Arc<Counter> {
        type Copy = u32;

        async fn read(&self, _: Option<Arc<u32>>) -> Result<u32, StoreError> {
            let reading = self.readings.fetch_add(1, Ordering::SeqCst) + 1;
            if let Some(permits) = &self.permits {
                permits.acquire().await.unwrap().forget();
            }
            if self.fails.load(Ordering::SeqCst) {
                return Err(StoreError::Unavailable("on purpose".to_owned()));
            }
            Ok(reading)
        }
    }

    const AGES: Ages = Ages {
        fresh: Duration::from_millis(500),
        usable: Duration::from_secs(1),
    };

    #[tokio::test(start_paused = true)]
    async fn a_young_copy_is_used_an_older_one_read_again_meanwhile_and_an_old_one_never_used() {
        let source = Arc::new(Counter::default());
        let copy = LocalCopy::new(Arc::clone(&source), AGES);

        assert_eq!(*copy.get().await.unwrap(), 1);
        tokio::time::advance(Duration::from_millis(499)).await;
        assert_eq!(*copy.get().await.unwrap(), 1);
        assert_eq!(source.readings.load(Ordering::SeqCst), 1);

        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(*copy.get().await.unwrap(), 1);
        tokio::task::yield_now().await;
        assert_eq!(*copy.get().await.unwrap(), 2);

        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(*copy.get().await.unwrap(), 3);
        assert_eq!(source.readings.load(Ordering::SeqCst), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn many_who_ask_at_once_share_one_reading_and_its_failure() {
        for fails in [false, true] {
            let source = Arc::new(Counter {
                permits: Some(Semaphore::new(0)),
                fails: fails.into(),
                ..Counter::default()
            });
            let copy = LocalCopy::new(Arc::clone(&source), AGES);
            let asking: Vec<_> = (0..100)
                .map(|_| {
                    let copy = copy.clone();
                    tokio::spawn(async move { copy.get().await.is_err() })
                })
                .collect();
            tokio::task::yield_now().await;

            source.permits.as_ref().unwrap().add_permits(100);

            for asking in asking {
                assert_eq!(asking.await.unwrap(), fails);
            }
            assert_eq!(source.readings.load(Ordering::SeqCst), 1);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_kept_for_a_moment_only_and_an_old_copy_does_not_replace_it() {
        let source = Arc::new(Counter::default());
        let copy = LocalCopy::new(Arc::clone(&source), AGES);
        copy.get().await.unwrap();

        source.fails.store(true, Ordering::SeqCst);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(copy.get().await.is_err());
        source.fails.store(false, Ordering::SeqCst);
        assert!(copy.get().await.is_err());
        tokio::time::advance(FAILURE_HOLDS + Duration::from_millis(1)).await;
        assert_eq!(*copy.get().await.unwrap(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_who_leaves_lets_the_next_one_read() {
        let source = Arc::new(Counter {
            permits: Some(Semaphore::new(0)),
            ..Counter::default()
        });
        let copy = LocalCopy::new(Arc::clone(&source), AGES);
        let leaving = tokio::spawn({
            let copy = copy.clone();
            async move { copy.get().await.is_ok() }
        });
        tokio::task::yield_now().await;
        leaving.abort();
        assert!(leaving.await.is_err());

        source.permits.as_ref().unwrap().add_permits(1);

        assert_eq!(*copy.get().await.unwrap(), 2);
    }
}
