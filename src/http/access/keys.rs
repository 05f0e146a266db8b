//! This node's copy of the API keys, so that a call costs no statement.
//!
//! It is read again only while calls come in, never twice at once, and not used beyond an age: a call that finds an
//! older one waits for the next. A reading that fails fails all the calls that wait for it.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use moka::{Expiry, future::Cache};

use crate::{
    api_key::{KeyHash, Scope},
    error::StoreError,
    store::{KeyChange, Store},
};

/// How long after its reading *began* a copy is used: a revoked key is refused after a second at the latest.
const USABLE: Duration = Duration::from_secs(1);

/// How long a failure is handed out without another attempt: what fails for good must not be tried for every call.
const FAILURE_HOLDS: Duration = Duration::from_millis(100);

/// How often all keys are read instead of what has changed: a database that was restored may have gone back.
const WHOLE_EVERY: Duration = Duration::from_secs(60);

/// Keys in one statement.
const BATCH: i32 = 1000;

/// How long figures wait for the latest keys.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a reading of the keys has come to. Those who wait for it share one error, which cannot be cloned.
type Reading = Result<Arc<Keys>, Arc<StoreError>>;

/// The keys, and whether a caller has to show one.
#[derive(Debug)]
pub(super) struct KnownKeys {
    store: Store,
    /// The latest reading, as long as it may be used.
    latest: Cache<(), Reading>,
    /// The last copy, however old.
    last: Mutex<Option<Arc<Keys>>>,
    /// Set for good by the first key seen.
    required: AtomicBool,
}

/// How old the keys may be that a call is let in by.
#[derive(Debug, Clone, Copy)]
pub(super) enum Freshness {
    /// A second.
    Second,
    /// However old, when the database cannot be asked.
    Any,
}

/// All keys, as of one moment.
#[derive(Debug)]
pub(super) struct Keys {
    by_id: Arc<HashMap<String, Arc<Key>>>,
    version: i64,
    read_whole_at: Instant,
    /// When they began to be read: they are at least as young as that.
    began: Instant,
}

/// One of them.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) id: String,
    /// What the records of changes call its holder.
    pub(super) actor: String,
    pub(super) hash: KeyHash,
    pub(super) scopes: Vec<Scope>,
    pub(super) submitter: String,
    pub(super) revoked: bool,
}

impl From<KeyChange> for Key {
    fn from(change: KeyChange) -> Self {
        Self {
            actor: format!("key {}", change.id),
            id: change.id,
            hash: change.hash,
            scopes: change.scopes,
            submitter: change.submitter,
            revoked: change.revoked,
        }
    }
}

/// How long a reading is used.
struct Ages;

impl Expiry<(), Reading> for Ages {
    fn expire_after_create(&self, (): &(), reading: &Reading, at: Instant) -> Option<Duration> {
        Some(match reading {
            Ok(keys) => USABLE.saturating_sub(at.saturating_duration_since(keys.began)),
            Err(_) => FAILURE_HOLDS,
        })
    }
}

impl KnownKeys {
    /// Those of this store; `required` when one has to be shown even though there is none.
    pub(super) fn new(store: Store, required: bool) -> Self {
        Self {
            store,
            latest: Cache::builder().expire_after(Ages).build(),
            last: Mutex::default(),
            required: required.into(),
        }
    }

    /// The keys; `None` when callers do not have to show one.
    pub(super) async fn required(self: &Arc<Self>, freshness: Freshness) -> Result<Option<Arc<Keys>>, Arc<StoreError>> {
        let read = match freshness {
            Freshness::Second => self.latest().await,
            Freshness::Any => tokio::time::timeout(PATIENCE, self.latest())
                .await
                .unwrap_or_else(|_| unavailable("the keys take too long to read")),
        };
        let keys = match (freshness, read, self.last().clone()) {
            (_, Ok(keys), _) | (Freshness::Any, Err(_), Some(keys)) => keys,
            (Freshness::Any, Err(_), None) if !self.required.load(Ordering::Relaxed) => {
                return Ok(None);
            }
            (_, Err(error), _) => return Err(error),
        };
        if !keys.by_id.is_empty() {
            self.required.store(true, Ordering::Relaxed);
        }
        Ok(self.required.load(Ordering::Relaxed).then_some(keys))
    }

    /// A copy no older than a second.
    async fn latest(self: &Arc<Self>) -> Reading {
        let asked = Instant::now();
        loop {
            let reading = match self.latest.get(&()).await {
                Some(reading) => reading,
                None => self.read_together().await,
            };
            match &reading {
                // One that had begun before may have become too old meanwhile; the next one has not.
                Ok(keys) if keys.began < asked && keys.began.elapsed() >= USABLE => {}
                _ => return reading,
            }
        }
    }

    /// The reading that is under way, or one that begins. A task of its own waits for it, so that a caller who leaves
    /// does not stop it for the others.
    async fn read_together(self: &Arc<Self>) -> Reading {
        let keys = Arc::clone(self);
        let reading = async move { keys.latest.get_with((), keys.read()).await };
        tokio::spawn(reading)
            .await
            .unwrap_or_else(|_| unavailable("the reading of the keys broke down"))
    }

    async fn read(&self) -> Reading {
        let began = Instant::now();
        let before = self.last().clone();
        let read = self.read_since(before.as_deref(), began).await;
        let keys = Arc::new(read.map_err(|error| {
            tracing::debug!(%error, "cannot read the API keys");
            Arc::new(error)
        })?);
        *self.last() = Some(Arc::clone(&keys));
        Ok(keys)
    }

    async fn read_since(&self, before: Option<&Keys>, began: Instant) -> Result<Keys, StoreError> {
        let mut keys = match before {
            Some(before) if before.read_whole_at.elapsed() < WHOLE_EVERY => Keys {
                by_id: Arc::clone(&before.by_id),
                began,
                ..*before
            },
            _ => Keys {
                by_id: Arc::default(),
                version: 0,
                read_whole_at: began,
                began,
            },
        };
        loop {
            let changes = self.store.key_changes(keys.version, BATCH).await?;
            if changes.is_empty() {
                return Ok(keys);
            }
            let by_id = Arc::make_mut(&mut keys.by_id);
            for change in changes {
                keys.version = change.version;
                by_id.insert(change.id.clone(), Arc::new(change.into()));
            }
        }
    }

    fn last(&self) -> MutexGuard<'_, Option<Arc<Keys>>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unavailable(why: &str) -> Reading {
    Err(Arc::new(StoreError::Unavailable(why.to_owned())))
}

impl Keys {
    /// The key of this id, revoked or not.
    pub(super) fn get(&self, id: &str) -> Option<&Arc<Key>> {
        self.by_id.get(id)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::join_all;
    use sqlx::postgres::PgPoolOptions;

    use super::*;

    /// Without a database, so that every reading fails.
    fn cut_off(required: bool) -> Arc<KnownKeys> {
        let pool = PgPoolOptions::new()
            .acquire_timeout(Duration::from_millis(20))
            .connect_lazy("postgres://user@127.0.0.1:1/absent")
            .unwrap();
        Arc::new(KnownKeys::new(Store::new(pool), required))
    }

    /// A copy that began to be read so long ago.
    fn read_before(age: Duration) -> Arc<Keys> {
        let began = Instant::now() - age;
        Arc::new(Keys {
            by_id: Arc::default(),
            version: 0,
            read_whole_at: began,
            began,
        })
    }

    #[test]
    fn a_copy_is_used_for_a_second_from_the_beginning_of_its_reading_and_a_failure_for_a_moment() {
        let copy = read_before(Duration::ZERO);
        let failure = unavailable("on purpose");
        let used_for = |reading: &Reading, took_ms| {
            let at = copy.began + Duration::from_millis(took_ms);
            Ages.expire_after_create(&(), reading, at)
        };

        let read = Ok(Arc::clone(&copy));
        assert_eq!(used_for(&read, 300), Some(Duration::from_millis(700)));
        assert_eq!(used_for(&read, 1500), Some(Duration::ZERO));
        assert_eq!(used_for(&failure, 1500), Some(FAILURE_HOLDS));
    }

    #[tokio::test]
    async fn a_young_copy_is_used_and_an_old_one_read_again() {
        let known = cut_off(true);
        let young = read_before(Duration::ZERO);
        known.latest.insert((), Ok(Arc::clone(&young))).await;
        assert!(Arc::ptr_eq(&known.latest().await.unwrap(), &young));

        // Its reading took too long for calls that came after it had begun.
        known.latest.insert((), Ok(read_before(USABLE))).await;
        assert!(known.latest().await.is_err());
    }

    #[tokio::test]
    async fn calls_at_once_share_a_failure_and_the_next_call_asks_again() {
        let known = cut_off(true);
        let together = join_all((0..10).map(|_| known.latest())).await;
        let failure = together[0].as_ref().unwrap_err();
        for reading in &together {
            assert!(Arc::ptr_eq(reading.as_ref().unwrap_err(), failure));
        }

        tokio::time::sleep(FAILURE_HOLDS).await;

        assert!(!Arc::ptr_eq(&known.latest().await.unwrap_err(), failure));
    }

    #[tokio::test]
    async fn figures_are_shown_by_the_last_copy_however_old_and_calls_are_not_let_in_by_it() {
        assert!(matches!(cut_off(false).required(Freshness::Any).await, Ok(None)));
        let known = cut_off(true);
        assert!(known.required(Freshness::Any).await.is_err());
        let old = read_before(Duration::from_secs(3600));
        *known.last() = Some(Arc::clone(&old));

        let shown_by = known.required(Freshness::Any).await.unwrap().unwrap();
        assert!(Arc::ptr_eq(&shown_by, &old));
        assert!(known.required(Freshness::Second).await.is_err());
    }
}
