//! This node's copy of the API keys.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use crate::{
    api_key::{KeyHash, Scope},
    error::StoreError,
    local_copy::{Ages, LocalCopy, Source},
    store::{KeyChange, Store},
};

/// A revoked key is refused after a second at the latest.
const AGES: Ages = Ages {
    fresh: Duration::from_millis(500),
    usable: Duration::from_secs(1),
};

/// How often all keys are read instead of what has changed: a database that was restored may have gone back.
const WHOLE_EVERY: Duration = Duration::from_secs(60);

/// Keys in one statement.
const BATCH: i32 = 1000;

/// How long figures wait for the latest keys.
const PATIENCE: Duration = Duration::from_secs(2);

/// The keys, and whether one has to be shown. Cheap to clone; clones share what they know.
#[derive(Debug, Clone)]
pub(super) struct KnownKeys {
    copy: LocalCopy<KeysOf>,
    /// Set for good by the first key seen.
    required: Arc<AtomicBool>,
}

/// How old the keys may be that a call is let in by.
#[derive(Debug, Clone, Copy)]
pub(super) enum Freshness {
    /// A second.
    Second,
    /// However old, when the database cannot be asked.
    Any,
}

#[derive(Debug)]
struct KeysOf(Store);

/// All keys, as of one moment.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    by_id: Arc<HashMap<String, Arc<Key>>>,
    version: i64,
    read_whole_at: Instant,
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

impl Source for KeysOf {
    type Copy = Keys;

    async fn read(&self, before: Option<Arc<Keys>>) -> Result<Keys, StoreError> {
        let mut keys = match before {
            Some(before) if before.read_whole_at.elapsed() < WHOLE_EVERY => Keys::clone(&before),
            _ => Keys {
                by_id: Arc::default(),
                version: 0,
                read_whole_at: Instant::now(),
            },
        };
        loop {
            let changes = self.0.key_changes(keys.version, BATCH).await?;
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
}

impl KnownKeys {
    /// Those of this store; `required` when one has to be shown even though there is none.
    pub(super) fn new(store: Store, required: bool) -> Self {
        Self {
            copy: LocalCopy::new(KeysOf(store), AGES),
            required: Arc::new(required.into()),
        }
    }

    /// The keys; `None` when nobody has to show one.
    pub(super) async fn required(
        &self,
        freshness: Freshness,
    ) -> Result<Option<Arc<Keys>>, Arc<StoreError>> {
        let keys = match self.latest(freshness).await {
            Ok(keys) => keys,
            Err(error) => match (freshness, self.copy.last()) {
                (Freshness::Any, Some(last)) => last,
                (Freshness::Any, None) if !self.required.load(Ordering::Relaxed) => {
                    return Ok(None);
                }
                _ => return Err(error),
            },
        };
        if !keys.by_id.is_empty() {
            self.required.store(true, Ordering::Relaxed);
        }
        Ok(self.required.load(Ordering::Relaxed).then_some(keys))
    }

    async fn latest(&self, freshness: Freshness) -> Result<Arc<Keys>, Arc<StoreError>> {
        match freshness {
            Freshness::Second => self.copy.get().await,
            Freshness::Any => tokio::time::timeout(PATIENCE, self.copy.get())
                .await
                .unwrap_or_else(|_| {
                    let why = "the keys take too long to read".to_owned();
                    Err(Arc::new(StoreError::Unavailable(why)))
                }),
        }
    }
}

impl Keys {
    /// The key of this id, revoked or not.
    pub(super) fn get(&self, id: &str) -> Option<&Arc<Key>> {
        self.by_id.get(id)
    }
}
