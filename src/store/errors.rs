//! Counts errors of the database by sort, and logs when it is unavailable and available again. Errors of callers do not
//! count.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use sqlx::PgPool;

use crate::{
    database,
    error::{Result, StoreError},
    lock::lock,
};

const SORTS: [&str; 4] = ["unavailable", "busy", "not_migrated", "other"];

/// The time without a failure after which the database counts as available again: single answers come between failures.
const RECOVERED_AFTER: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct DatabaseErrors {
    counts: [AtomicU64; SORTS.len()],
    is_away: AtomicBool,
    /// When the database became unavailable, and when it failed last.
    away: Mutex<Option<(Instant, Instant)>>,
}

impl DatabaseErrors {
    /// Counts the error of a result. Logs the first error that finds the database unavailable, and the first answer
    /// after.
    pub(super) fn record<T>(&self, answer: Result<T>, pool: &PgPool) -> Result<T> {
        match &answer {
            Ok(_) => self.answered(pool),
            Err(error) => self.failed(error, pool),
        }
        answer
    }

    fn failed(&self, error: &StoreError, pool: &PgPool) {
        let sort = match error {
            StoreError::Unavailable(_) => 0,
            // A transaction that does not end is an error of the database, too.
            StoreError::GateBusy(_) => 1,
            StoreError::Database(_) if error.is_transient() => 1,
            StoreError::NotMigrated(_) => 2,
            StoreError::Database(_) => 3,
            _ => return,
        };
        self.counts[sort].fetch_add(1, Ordering::Relaxed);
        if let StoreError::Unavailable(why) = error {
            let now = Instant::now();
            let mut away = lock(&self.away);
            let since = away.map_or(now, |(since, _)| since);
            if away.is_none() {
                tracing::warn!(
                    database = address(pool),
                    why,
                    "the database is unavailable; calls are refused and workers wait until it is back"
                );
            }
            *away = Some((since, now));
            self.is_away.store(true, Ordering::Relaxed);
        }
    }

    fn answered(&self, pool: &PgPool) {
        if !self.is_away.load(Ordering::Relaxed) {
            return;
        }
        let mut away = lock(&self.away);
        if let Some((since, failed)) = *away
            && failed.elapsed() >= RECOVERED_AFTER
        {
            tracing::warn!(database = address(pool), away_s = since.elapsed().as_secs(), "the database is back");
            *away = None;
            self.is_away.store(false, Ordering::Relaxed);
        }
    }

    pub(super) fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        let counts = self.counts.each_ref().map(|count| count.load(Ordering::Relaxed));
        SORTS.into_iter().zip(counts)
    }
}

/// The address of the database.
fn address(pool: &PgPool) -> String {
    let options = pool.connect_options();
    let database = options.get_database().unwrap_or(options.get_username());
    format!("{}/{database}", database::address(&options))
}
