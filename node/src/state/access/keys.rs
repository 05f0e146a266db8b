//! This node's copy of the API keys, so that a call costs no statement.
//!
//! It is read again only while calls arrive, by one statement at a time, and used up to an age: a call that finds an
//! older copy waits for the next. A read that fails fails all the calls that wait for it.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use tidegate::internals::{
    api_key::ApiKey,
    error::StoreError,
    lock::lock,
    store::{KeyChange, Store},
};

/// How long a copy is used after its read *began*: a revoked key is refused after a second at the latest.
const USABLE: Duration = Duration::from_secs(1);

/// How long a failure is returned without another attempt: a lasting failure must not cost a statement for each call.
const FAILURE_HOLDS: Duration = Duration::from_millis(100);

/// How often all keys are read instead of the changes: a database that was restored may have gone back.
const WHOLE_EVERY: Duration = Duration::from_secs(60);

/// Keys in one statement.
const BATCH: i32 = 1000;

/// How long metrics wait for the latest keys.
const PATIENCE: Duration = Duration::from_secs(2);

/// The result of a read. The calls that wait for it share one error, which cannot be cloned.
type Reading = Result<Arc<Keys>, Arc<StoreError>>;

/// The keys, and whether calls need one.
#[derive(Debug)]
pub(super) struct KnownKeys {
    store: Store,
    state: Mutex<State>,
    /// Held by the task that reads.
    reading: tokio::sync::Mutex<()>,
    /// Set permanently by the first key.
    required: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    /// The last copy, however old.
    copy: Option<Arc<Keys>>,
    /// The failure of a later read, and its time.
    failure: Option<(Instant, Arc<StoreError>)>,
}

impl State {
    /// The reading for a call that arrived at `asked`; `None` when the keys have to be read.
    fn usable(&self, asked: Instant, now: Instant) -> Option<Reading> {
        if let Some((failed_at, error)) = &self.failure {
            return (now < *failed_at + FAILURE_HOLDS).then(|| Err(Arc::clone(error)));
        }
        // A call may use a copy that began to be read after its arrival, however long that took.
        let copy = self.copy.as_ref()?;
        (now < copy.began + USABLE || copy.began >= asked).then(|| Ok(Arc::clone(copy)))
    }
}

/// All keys, as of one moment.
#[derive(Debug)]
pub(super) struct Keys {
    /// Each key with its latest change.
    by_id: Arc<HashMap<String, Arc<KeyChange>>>,
    version: i64,
    read_whole_at: Instant,
    /// When the read began: the copy is no older than that.
    began: Instant,
}

impl KnownKeys {
    /// The keys of this store; `required` when calls need one even though none exists.
    pub(super) fn new(store: Store, required: bool) -> Self {
        Self { store, state: Mutex::default(), reading: tokio::sync::Mutex::default(), required: required.into() }
    }

    /// The keys; `None` when calls need none. They are at most a second old; with `accepts_old`, of any age when they
    /// cannot be read.
    pub(super) async fn required(self: &Arc<Self>, accepts_old: bool) -> Result<Option<Arc<Keys>>, Arc<StoreError>> {
        let time_limit = if accepts_old { PATIENCE } else { Duration::MAX };
        let read = tokio::time::timeout(time_limit, self.latest()).await;
        let read = read.unwrap_or_else(|_| unavailable("reading the keys takes too long"));
        let copy = lock(&self.state).copy.clone();
        let keys = match (read, copy) {
            (Ok(keys), _) => keys,
            (Err(_), Some(keys)) if accepts_old => keys,
            (Err(_), None) if accepts_old && !self.required.load(Ordering::Relaxed) => return Ok(None),
            (Err(error), _) => return Err(error),
        };
        if !keys.by_id.is_empty() {
            self.required.store(true, Ordering::Relaxed);
        }
        Ok(self.required.load(Ordering::Relaxed).then_some(keys))
    }

    /// A copy no older than a second.
    async fn latest(self: &Arc<Self>) -> Reading {
        let asked = Instant::now();
        if let Some(reading) = lock(&self.state).usable(asked, asked) {
            return reading;
        }
        // In its own task: a caller that leaves does not cancel the read for the others.
        let keys = Arc::clone(self);
        let reading = tokio::spawn(async move {
            let _turn = keys.reading.lock().await;
            let usable = lock(&keys.state).usable(asked, Instant::now());
            match usable {
                Some(reading) => reading,
                None => keys.read().await,
            }
        });
        reading.await.unwrap_or_else(|_| unavailable("reading the keys panicked"))
    }

    async fn read(&self) -> Reading {
        let began = Instant::now();
        let before = lock(&self.state).copy.clone();
        let read = self.read_since(before.as_deref(), began).await;
        let mut state = lock(&self.state);
        match read {
            Ok(keys) => {
                let keys = Arc::new(keys);
                state.copy = Some(Arc::clone(&keys));
                state.failure = None;
                Ok(keys)
            }
            Err(error) => {
                tracing::debug!(%error, "failed to read the API keys");
                let error = Arc::new(error);
                state.failure = Some((Instant::now(), Arc::clone(&error)));
                Err(error)
            }
        }
    }

    async fn read_since(&self, before: Option<&Keys>, began: Instant) -> Result<Keys, StoreError> {
        let mut keys = match before {
            Some(before) if before.read_whole_at.elapsed() < WHOLE_EVERY => {
                Keys { by_id: Arc::clone(&before.by_id), began, ..*before }
            }
            _ => Keys::none(began),
        };
        loop {
            let changes = self.store.key_changes(keys.version, BATCH).await?;
            if changes.is_empty() {
                return Ok(keys);
            }
            let by_id = Arc::make_mut(&mut keys.by_id);
            for change in changes {
                keys.version = change.version;
                by_id.insert(change.id.clone(), Arc::new(change));
            }
        }
    }
}

fn unavailable(reason: &str) -> Reading {
    Err(Arc::new(StoreError::Unavailable(reason.to_owned())))
}

impl Keys {
    /// Before the first key is read.
    fn none(began: Instant) -> Self {
        Self { by_id: Arc::default(), version: 0, read_whole_at: began, began }
    }

    /// The live key that is shown.
    pub(super) fn live(&self, shown: &ApiKey) -> Option<&Arc<KeyChange>> {
        self.get(shown.id()).filter(|known| known.hash.is_of(shown) && !known.revoked)
    }

    /// The key of this id, revoked or not.
    pub(super) fn get(&self, id: &str) -> Option<&Arc<KeyChange>> {
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

    /// A copy whose read began so long ago.
    fn read_before(age: Duration) -> Arc<Keys> {
        Arc::new(Keys::none(Instant::now() - age))
    }

    #[test]
    fn a_copy_is_used_for_a_second_from_the_beginning_of_its_reading_and_a_failure_for_a_moment() {
        let copy = read_before(Duration::ZERO);
        let after = |ms| copy.began + Duration::from_millis(ms);
        let read = State { copy: Some(Arc::clone(&copy)), failure: None };
        let is_usable = |state: &State, now_ms| state.usable(after(now_ms), after(now_ms)).is_some();

        assert!(is_usable(&read, 999) && !is_usable(&read, 1000) && !is_usable(&read, 1500));

        let failed =
            State { failure: Some((after(1500), Arc::new(StoreError::Unavailable("on purpose".to_owned())))), ..read };
        assert!(failed.usable(after(1500), after(1599)).unwrap().is_err());
        assert!(!is_usable(&failed, 1600));
    }

    #[tokio::test]
    async fn a_young_copy_is_used_and_an_old_one_read_again() {
        let known = cut_off(true);
        let young = read_before(Duration::ZERO);
        lock(&known.state).copy = Some(Arc::clone(&young));
        assert!(Arc::ptr_eq(&known.latest().await.unwrap(), &young));

        // Its read took too long for calls that arrived after it had begun.
        lock(&known.state).copy = Some(read_before(USABLE));
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
    async fn metrics_are_served_by_the_last_copy_however_old_and_other_calls_are_not() {
        assert!(matches!(cut_off(false).required(true).await, Ok(None)));
        let known = cut_off(true);
        assert!(known.required(true).await.is_err());
        let old = read_before(Duration::from_secs(3600));
        lock(&known.state).copy = Some(Arc::clone(&old));

        let served_by = known.required(true).await.unwrap().unwrap();
        assert!(Arc::ptr_eq(&served_by, &old));
        assert!(known.required(false).await.is_err());
    }
}
