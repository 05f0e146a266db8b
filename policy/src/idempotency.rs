//! One result for all calls of one key.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    future::Future,
    hash::Hash,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::watch, time::Instant};

#[cfg(test)]
mod tests;

/// Makes a function idempotent: `f(x; key) = f(x; key)` within `window` since a key was first seen.
///
/// `key_fn` must be pure, and its key must identify the call: another `x` of the same key gets the first one's result.
/// Of the calls of one key the first runs `f`; calls that begin while it runs wait for its result, success or failure, and
/// later calls within the window get its value. At `window` after the first call began, and after a failure, the next
/// call runs `f` again, as the relay accepts a key again.
///
/// When a first call is dropped or panics, one of the waiting calls becomes the first. A key takes up memory until a
/// call begins after its window. The clock is tokio's, monotonic (P75-1).
///
/// Source: the seed's chapter 5, VII, whose window is `Delta_t_dedup`; P75-5 requires it to be at least `span_reorder`,
/// the longest delay of a duplicate. The keys are in the memory of this process only.
pub fn ensure_idempotent<X, K, T, E, F, G, Fut>(window: Duration, key_fn: G, f: F) -> Idempotent<K, T, E, F, G>
where
    G: Fn(&X) -> K,
    F: Fn(X) -> Fut,
    Fut: Future<Output = Result<T, E>>,
{
    Idempotent {
        key_fn,
        f,
        window,
        keys: Mutex::new(Keys { entries: HashMap::new(), by_age: BTreeMap::new(), next: 0 }),
    }
}

/// A function made idempotent by [`ensure_idempotent`].
pub struct Idempotent<K, T, E, F, G> {
    key_fn: G,
    f: F,
    window: Duration,
    keys: Mutex<Keys<K, T, E>>,
}

impl<K, T, E, F, G> fmt::Debug for Idempotent<K, T, E, F, G> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Idempotent").field("window", &self.window).finish_non_exhaustive()
    }
}

impl<K: Clone + Eq + Hash, T: Clone, E: Clone, F, G> Idempotent<K, T, E, F, G> {
    /// `f(x)`, or the earlier result for this key.
    ///
    /// # Errors
    ///
    /// The failure of `f`, in this call or in the one it has waited for.
    pub async fn call<X, Fut>(&self, x: X) -> Result<T, E>
    where
        G: Fn(&X) -> K,
        F: Fn(X) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let key = (self.key_fn)(&x);
        loop {
            match self.enter(&key) {
                Entered::Follows(mut outcome) => {
                    // Without an outcome the first call was dropped: the next round begins another.
                    if let Ok(outcome) = outcome.wait_for(Option::is_some).await
                        && let Some(outcome) = outcome.clone()
                    {
                        return outcome;
                    }
                }
                Entered::Leads(mut first) => {
                    let outcome = (self.f)(x).await;
                    first.result = Some(outcome.clone());
                    return outcome;
                }
            }
        }
    }

    /// The number of keys in memory, including those whose window is over and that no call has removed yet.
    pub fn keys(&self) -> usize {
        lock(&self.keys).entries.len()
    }

    fn enter(&self, key: &K) -> Entered<'_, K, T, E> {
        let mut keys = lock(&self.keys);
        // Read under the lock, so that entries are numbered by age.
        let began = Instant::now();
        keys.forget_before(began, self.window);
        if let Some(entry) = keys.entries.get(key) {
            return Entered::Follows(entry.outcome.clone());
        }
        let number = keys.next;
        keys.next += 1;
        let (sender, outcome) = watch::channel(None);
        keys.by_age.insert(number, key.clone());
        let entry = Entry { number, began, outcome };
        keys.entries.insert(key.clone(), entry);
        Entered::Leads(First { keys: &self.keys, key: key.clone(), number, outcome: sender, result: None })
    }
}

fn lock<K, T, E>(keys: &Mutex<Keys<K, T, E>>) -> MutexGuard<'_, Keys<K, T, E>> {
    // Of the caller's code, only the comparison and the cloning of keys runs under the lock.
    keys.lock().unwrap_or_else(PoisonError::into_inner)
}

type Outcome<T, E> = Option<Result<T, E>>;

/// The keys of the last window.
struct Keys<K, T, E> {
    entries: HashMap<K, Entry<T, E>>,
    /// The same keys by the number of their entry, which is by age.
    by_age: BTreeMap<u64, K>,
    next: u64,
}

/// The first call of a key, and its outcome.
struct Entry<T, E> {
    number: u64,
    began: Instant,
    outcome: watch::Receiver<Outcome<T, E>>,
}

enum Entered<'a, K: Eq + Hash, T, E> {
    Leads(First<'a, K, T, E>),
    Follows(watch::Receiver<Outcome<T, E>>),
}

impl<K: Eq + Hash, T, E> Keys<K, T, E> {
    fn forget_before(&mut self, now: Instant, window: Duration) {
        while let Some(oldest) = self.by_age.first_entry() {
            let over =
                self.entries.get(oldest.get()).is_none_or(|entry| now.saturating_duration_since(entry.began) >= window);
            if !over {
                return;
            }
            let (number, key) = oldest.remove_entry();
            self.forget(number, &key);
        }
    }

    /// Removes a key, unless it has been accepted again since.
    fn forget(&mut self, number: u64, key: &K) {
        self.by_age.remove(&number);
        if self.entries.get(key).is_some_and(|entry| entry.number == number) {
            self.entries.remove(key);
        }
    }
}

/// The first call of a key, while it runs. When it is dropped without a result, a waiting call takes its place.
struct First<'a, K: Eq + Hash, T, E> {
    keys: &'a Mutex<Keys<K, T, E>>,
    key: K,
    number: u64,
    outcome: watch::Sender<Outcome<T, E>>,
    result: Outcome<T, E>,
}

impl<K: Eq + Hash, T, E> Drop for First<'_, K, T, E> {
    fn drop(&mut self) {
        let result = self.result.take();
        if !matches!(result, Some(Ok(_))) {
            // Before the waiting calls get the failure: a call after them runs `f` again.
            lock(self.keys).forget(self.number, &self.key);
        }
        if result.is_some() {
            self.outcome.send_replace(result);
        }
    }
}
