//! How often the database was in the way, and whether it is away. What callers do wrong does not count.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use sqlx::PgPool;

use crate::error::StoreError;

const SORTS: [&str; 4] = ["unavailable", "busy", "not_migrated", "other"];

/// How long nothing must have failed until the database counts as back: answers between failures are no end of them.
const CALM: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct Troubles {
    counts: [AtomicU64; SORTS.len()],
    is_away: AtomicBool,
    /// When the database went away, and when it failed last.
    away: Mutex<Option<(Instant, Instant)>>,
}

impl Troubles {
    /// Counts an error. The first that finds the database away is logged.
    pub(super) fn note(&self, error: &StoreError, pool: &PgPool) {
        let sort = match error {
            StoreError::Unavailable(_) => 0,
            // A transaction that does not end is the database's trouble, too.
            StoreError::GateBusy(_) => 1,
            StoreError::Database(_) if error.is_transient() => 1,
            StoreError::NotMigrated(_) => 2,
            StoreError::Database(_) => 3,
            _ => return,
        };
        self.counts[sort].fetch_add(1, Ordering::Relaxed);
        if let StoreError::Unavailable(why) = error {
            let now = Instant::now();
            let mut away = self.away.lock().unwrap_or_else(PoisonError::into_inner);
            let since = away.map_or(now, |(since, _)| since);
            if away.is_none() {
                tracing::warn!(
                    database = place(pool),
                    why,
                    "the database is away; calls are refused and work stands still until it is back"
                );
            }
            *away = Some((since, now));
            self.is_away.store(true, Ordering::Relaxed);
        }
    }

    /// Takes note of an answer. The first after the database was away is logged.
    pub(super) fn answered(&self, pool: &PgPool) {
        if !self.is_away.load(Ordering::Relaxed) {
            return;
        }
        let mut away = self.away.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((since, failed)) = *away
            && failed.elapsed() >= CALM
        {
            tracing::warn!(
                database = place(pool),
                away_s = since.elapsed().as_secs(),
                "the database is back"
            );
            *away = None;
            self.is_away.store(false, Ordering::Relaxed);
        }
    }

    pub(super) fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        let counts = self.counts.each_ref().map(|count| count.load(Ordering::Relaxed));
        SORTS.into_iter().zip(counts)
    }
}

/// Where the connections of a pool lead.
fn place(pool: &PgPool) -> String {
    let options = pool.connect_options();
    let database = options.get_database().unwrap_or(options.get_username());
    match options.get_socket() {
        Some(socket) => format!("{}/{database}", socket.display()),
        None => format!("{}:{}/{database}", options.get_host(), options.get_port()),
    }
}
