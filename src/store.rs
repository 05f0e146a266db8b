//! One async method for each SQL function that Rust calls; the only user of `sql/queries`.
//!
//! The database decides, these methods report. A settle returns the requests that moved, and its caller has to check
//! them.

/// The text of a statement in `sql/queries`.
macro_rules! statement {
    ($file:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/sql/queries/", $file))
    };
}

/// Runs a statement for no longer than the store's time limit: a file of `sql/queries` or its text, with parameters, or
/// a query.
///
/// A connection whose answer is late is closed, not kept: the answer must not reach the next statement.
macro_rules! run {
    ($store:expr, $fetch:ident $query:ident $file:literal($($parameter:expr),*)) => {
        run!($store, sqlx::$query(statement!($file))$(.bind($parameter))*, $fetch)
    };
    ($store:expr, $fetch:ident $query:ident $sql:ident($($parameter:expr),*)) => {
        run!($store, sqlx::$query($sql)$(.bind($parameter))*, $fetch)
    };
    ($store:expr, $query:expr, $fetch:ident) => {{
        let store = $store;
        let answer = async {
            let mut connection = store.connection().await?;
            match tokio::time::timeout(store.time_limit, $query.$fetch(connection.get())).await {
                Ok(answer) => {
                    let answer = answer?;
                    store.connections.give(connection, &store.pool);
                    Ok(answer)
                }
                Err(_) => {
                    connection.discard();
                    Err(crate::error::StoreError::Unavailable(format!(
                        "no answer within {} s",
                        store.time_limit.as_secs()
                    )))
                }
            }
        };
        store.errors.record(answer.await, &store.pool)
    }};
}

mod answers;
mod audits;
mod claims;
mod columns;
mod configuration;
mod connections;
mod errors;
mod gates;
mod history;
mod installation;
mod keys;
mod kinds;
mod leases;
mod lists;
mod news;
mod operations;
mod outlooks;
mod policies;
mod recovery;
mod resolutions;
mod settles;
mod singletons;
mod statistics;
mod submissions;
mod timeouts;
mod webhook_operations;
mod webhooks;

use std::{sync::Arc, time::Duration};

use sqlx::{PgPool, postgres::PgPoolOptions};

pub use self::{
    answers::*, audits::*, claims::*, configuration::*, gates::*, history::*, installation::*, keys::*, kinds::*,
    leases::*, lists::*, news::*, operations::*, outlooks::*, policies::*, recovery::*, resolutions::*, settles::*,
    statistics::*, submissions::*, timeouts::*, webhook_operations::*, webhooks::*,
};
use self::{
    connections::{Connection, Connections},
    errors::DatabaseErrors,
};
use crate::{
    database,
    error::{Result, StoreError},
    schema,
};

/// The default time limit of a statement: longer than the `statement_timeout` of its session.
const TIME_LIMIT: Duration = Duration::from_secs(20);

/// The database, through the functions that the engine calls.
#[derive(Debug, Clone)]
pub struct Store {
    pool: PgPool,
    connections: Arc<Connections>,
    /// The time limit of a statement.
    pub(crate) time_limit: Duration,
    /// The operator on whose behalf the configuration is changed.
    actor: Option<Arc<str>>,
    errors: Arc<DatabaseErrors>,
}

impl Store {
    /// A store over connections to a migrated database.
    #[must_use]
    pub fn new(pool: PgPool) -> Self {
        Self { pool, connections: Arc::default(), time_limit: TIME_LIMIT, actor: None, errors: Arc::default() }
    }

    /// The same store with this time limit for each statement. A server that cannot be reached any more cannot cancel a
    /// statement itself.
    #[must_use]
    pub fn with_time_limit(mut self, time_limit: Duration) -> Self {
        self.time_limit = time_limit;
        self
    }

    /// The same database over a pool of its own, connected when it is first used: its statements never wait for a
    /// connection that other callers use. It ends when this store's pool is closed.
    #[must_use]
    pub fn with_own_pool(&self, connections: u32) -> Self {
        Self {
            pool: database::own_pool(&self.pool, connections, None),
            connections: Arc::new(self.connections.below(&self.pool)),
            ..self.clone()
        }
    }

    /// How many errors of the database this store and its clones have had, by sort.
    pub fn error_counts(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        self.errors.counts()
    }

    /// A connection, for a transaction.
    pub(crate) async fn connection(&self) -> Result<Connection> {
        self.connections.take(&self.pool).await
    }

    /// How many connections there are, and how many of them are idle.
    #[must_use]
    pub fn connections_now(&self) -> (usize, usize) {
        let size = self.pool.size() as usize;
        let idle = self.pool.num_idle() + self.connections.free();
        (size, idle.min(size))
    }

    /// How its pool is set up.
    #[must_use]
    pub fn pool_options(&self) -> &PgPoolOptions {
        self.pool.options()
    }

    /// The connections, for callers with a transaction of their own.
    #[must_use]
    pub fn pool(&self) -> &PgPool {
        self.connections.give_back();
        &self.pool
    }

    /// Makes sure that the database answers and has a schema this program can work with.
    ///
    /// A schema of another build is allowed, because old and new programs run side by side during an upgrade.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotMigrated`] or [`StoreError::Unavailable`].
    pub async fn check_ready(&self) -> Result<()> {
        self.check_schema().await.map(|_| ())
    }

    /// As [`Store::check_ready`], and that the database takes writes.
    ///
    /// # Errors
    ///
    /// As there; [`StoreError::Unavailable`], too, when it is a standby or read-only.
    pub async fn check_writable(&self) -> Result<()> {
        if self.check_schema().await? {
            return Err(StoreError::Unavailable("the database is read-only: a standby, or set so".to_owned()));
        }
        Ok(())
    }

    /// Makes sure that a schema is applied; returns whether the database is read-only.
    async fn check_schema(&self) -> Result<bool> {
        let applied: Option<(String, bool, Option<String>)> = run!(self, fetch_optional query_as "ready.sql"())?;
        let (applied, is_read_only, missing) =
            applied.ok_or_else(|| StoreError::NotMigrated("its schema was never applied whole".to_owned()))?;
        if let Some(missing) = missing {
            return Err(StoreError::NotMigrated(format!("missing: {missing}")));
        }
        let own = schema::fingerprint();
        if applied != own {
            tracing::debug!(applied, own, "the schema is of another build");
        }
        Ok(is_read_only)
    }
}
