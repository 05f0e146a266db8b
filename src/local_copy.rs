//! A process's own copy of something small in the database, so that a request costs no statement.
//!
//! It is read again only while somebody asks, never twice at once, and never handed out beyond an age: whoever asks
//! for an older one waits for the next. One that is about to reach that age is read again behind its users' backs.
//! Readings are tasks of their own: whoever stops waiting for one does not stop it.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::watch, time::Instant};

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
}

struct State<C> {
    /// The last copy.
    copy: Option<Dated<C>>,
    /// The last failure, and when it was known.
    failure: Option<(Arc<StoreError>, Instant)>,
    /// Where the outcome of the reading that is under way will be.
    reading: Option<watch::Receiver<Option<Outcome<C>>>>,
}

type Outcome<C> = Result<Dated<C>, Arc<StoreError>>;

/// A copy, and when its reading *began*: it is at least as young as that.
struct Dated<C> {
    copy: Arc<C>,
    began: Instant,
}

impl<C> Clone for Dated<C> {
    fn clone(&self) -> Self {
        Self {
            copy: Arc::clone(&self.copy),
            began: self.began,
        }
    }
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
                reading: None,
            }),
        }))
    }

    /// A copy no older than `usable`.
    ///
    /// # Errors
    ///
    /// When there is none and it cannot be read. Those who wait together fail together, with one statement.
    pub(crate) async fn get(&self) -> Result<Arc<S::Copy>, Arc<StoreError>> {
        let asked = Instant::now();
        loop {
            let mut reading = match self.ask() {
                Asked::Usable(copy) => return Ok(copy),
                Asked::Failed(error) => return Err(error),
                Asked::Reading(reading) => reading,
            };
            let outcome = match reading.wait_for(Option::is_some).await {
                Ok(outcome) => outcome.clone(),
                Err(_) => None,
            };
            match outcome {
                // One that was begun before may have become too old meanwhile; the next one has not.
                Some(Ok(read)) if read.began >= asked || self.0.is_usable(&read) => {
                    return Ok(read.copy);
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error),
                None => {
                    return Err(Arc::new(StoreError::Unavailable(
                        "its reading broke down".to_owned(),
                    )));
                }
            }
        }
    }

    /// The last copy, however old.
    pub(crate) fn last(&self) -> Option<Arc<S::Copy>> {
        let state = self.0.state();
        state.copy.as_ref().map(|last| Arc::clone(&last.copy))
    }

    /// What there is; sees to it that a copy is being read when there is need for one.
    fn ask(&self) -> Asked<S::Copy> {
        let inner = &self.0;
        let mut state = inner.state();
        if let Some(last) = state.copy.clone().filter(|last| inner.is_usable(last)) {
            if last.began.elapsed() >= inner.ages.fresh {
                self.reading(&mut state);
            }
            return Asked::Usable(last.copy);
        }
        match &state.failure {
            Some((error, at)) if at.elapsed() <= FAILURE_HOLDS => Asked::Failed(Arc::clone(error)),
            _ => Asked::Reading(self.reading(&mut state)),
        }
    }

    /// The reading that is under way, or one that begins.
    fn reading(&self, state: &mut State<S::Copy>) -> watch::Receiver<Option<Outcome<S::Copy>>> {
        // One that broke down has closed its channel.
        if let Some(reading) = &state.reading
            && reading.has_changed().is_ok()
        {
            return reading.clone();
        }
        let (tell, reading) = watch::channel(None);
        state.reading = Some(reading.clone());
        let inner = Arc::clone(&self.0);
        tokio::spawn(async move {
            let outcome = inner.read().await;
            // Nobody may be waiting.
            let _ = tell.send(Some(outcome));
        });
        reading
    }
}

/// What somebody who asks for a copy finds.
enum Asked<C> {
    Usable(Arc<C>),
    /// Of late; it is not tried again yet.
    Failed(Arc<StoreError>),
    Reading(watch::Receiver<Option<Outcome<C>>>),
}

impl<S: Source> Inner<S> {
    async fn read(&self) -> Outcome<S::Copy> {
        let began = Instant::now();
        let before = self
            .state()
            .copy
            .as_ref()
            .map(|last| Arc::clone(&last.copy));
        let read = self.source.read(before).await;
        let mut state = self.state();
        state.reading = None;
        match read {
            Ok(copy) => {
                let copy = Arc::new(copy);
                let read = Dated { copy, began };
                state.copy = Some(read.clone());
                Ok(read)
            }
            Err(error) => {
                tracing::debug!(%error, "a local copy could not be read");
                let error = Arc::new(error);
                state.failure = Some((Arc::clone(&error), Instant::now()));
                Err(error)
            }
        }
    }

    fn is_usable(&self, copy: &Dated<S::Copy>) -> bool {
        copy.began.elapsed() < self.ages.usable
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
    async fn whoever_stops_waiting_leaves_the_reading_to_the_next_one() {
        let source = Arc::new(Counter {
            permits: Some(Semaphore::new(0)),
            ..Counter::default()
        });
        let copy = LocalCopy::new(Arc::clone(&source), AGES);
        for _ in 0..3 {
            let leaving = tokio::time::timeout(Duration::from_millis(100), copy.get());
            assert!(leaving.await.is_err());
        }

        source.permits.as_ref().unwrap().add_permits(1);

        assert_eq!(*copy.get().await.unwrap(), 1);
        assert_eq!(source.readings.load(Ordering::SeqCst), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_reading_that_took_too_long_serves_those_who_asked_before_it_began() {
        let source = Arc::new(Counter {
            permits: Some(Semaphore::new(0)),
            ..Counter::default()
        });
        let copy = LocalCopy::new(Arc::clone(&source), AGES);
        let ask = || {
            let copy = copy.clone();
            tokio::spawn(async move { *copy.get().await.unwrap() })
        };
        let first = ask();
        tokio::task::yield_now().await;
        tokio::time::advance(Duration::from_secs(1)).await;
        let second = ask();
        tokio::task::yield_now().await;

        source.permits.as_ref().unwrap().add_permits(2);

        assert_eq!((first.await.unwrap(), second.await.unwrap()), (1, 2));
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_copy_is_there_at_any_age() {
        let source = Arc::new(Counter::default());
        let copy = LocalCopy::new(Arc::clone(&source), AGES);
        assert!(copy.last().is_none());
        copy.get().await.unwrap();
        source.fails.store(true, Ordering::SeqCst);
        tokio::time::advance(Duration::from_secs(3600)).await;

        assert!(copy.get().await.is_err());
        assert_eq!(copy.last().as_deref(), Some(&1));
    }
}
