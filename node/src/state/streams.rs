//! How many streams of events a node has, of each API key too, and when they are refreshed.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use tidegate::internals::{lock::lock, store::Store};
use tokio::{sync::Semaphore, time::Instant};

use super::{options::HttpOptions, outlooks::Outlooks};

/// The shared state of the node's streams.
pub(crate) struct Streams {
    /// Not those of waiting calls: refreshes must not delay answers.
    pub(crate) outlooks: Outlooks,
    pub(crate) permits: Arc<Semaphore>,
    /// How many streams each key may have open, and has.
    most_of_a_key: usize,
    of_keys: Mutex<HashMap<String, usize>>,
    /// How long each stream is open.
    pub(crate) time: Duration,
    /// Refreshes fall on whole periods since then, so that streams are refreshed together.
    began: Instant,
}

impl Streams {
    pub(crate) fn new(store: Store, options: &HttpOptions) -> Self {
        Self {
            outlooks: Outlooks::new(store, 1),
            permits: Arc::new(Semaphore::new(options.streams_max.min(Semaphore::MAX_PERMITS))),
            // So that no key takes those of all others.
            most_of_a_key: options.streams_max.div_ceil(2),
            of_keys: Mutex::default(),
            time: options.stream_time,
            began: Instant::now(),
        }
    }

    /// A place among the streams of a key, if one is free; without API keys there is always one.
    pub(crate) fn of_key(self: &Arc<Self>, key: Option<&str>) -> Option<KeyShare> {
        let key = key.map(str::to_owned);
        if let Some(key) = &key {
            let mut of_keys = lock(&self.of_keys);
            let open = of_keys.entry(key.clone()).or_default();
            if *open >= self.most_of_a_key {
                return None;
            }
            *open += 1;
        }
        Some(KeyShare { key, streams: Arc::clone(self) })
    }

    /// The next time at which whole periods have passed.
    pub(crate) fn next_refresh(&self, period: Duration) -> Instant {
        let passed = self.began.elapsed().as_millis() / period.as_millis();
        let periods = u32::try_from(passed + 1).unwrap_or(u32::MAX);
        self.began + period * periods
    }
}

/// A place among the streams of a key, until it is dropped.
pub(crate) struct KeyShare {
    key: Option<String>,
    streams: Arc<Streams>,
}

impl Drop for KeyShare {
    fn drop(&mut self) {
        let Some(key) = &self.key else { return };
        let mut of_keys = lock(&self.streams.of_keys);
        if let Some(open) = of_keys.get_mut(key) {
            *open -= 1;
            if *open == 0 {
                of_keys.remove(key);
            }
        }
    }
}
