//! One async method for each SQL function that Rust calls; the only user of `sql/queries`, which has a file
//! for each module here.
//!
//! The database decides, these methods report. A settle returns the requests that moved, and its caller has to check
//! them.

/// A statement of this module, by its name in the module's file of `sql/queries`.
macro_rules! statement {
    ($name:literal) => {
        const { crate::store::statements::find(SQL, $name) }
    };
}

/// Runs a statement for no longer than the store's time limit: one of this module by its name, or the text of one, with
/// parameters, or a query.
///
/// A connection whose answer is late is closed, not kept: the answer must not reach the next statement.
macro_rules! run {
    ($store:expr, $fetch:ident $query:ident $name:literal($($parameter:expr),*)) => {
        run!($store, sqlx::$query(statement!($name))$(.bind($parameter))*, $fetch)
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
mod fair;
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
mod pages;
mod policies;
mod recovery;
mod resolutions;
mod settles;
mod singletons;
mod statements;
mod statistics;
mod submissions;
mod timeouts;
mod webhook_operations;
mod webhooks;

use std::{sync::Arc, time::Duration};

use sqlx::{PgPool, postgres::PgPoolOptions};

pub use self::{
    answers::*, audits::*, claims::*, configuration::*, fair::*, gates::*, history::*, installation::*, keys::*,
    kinds::*, leases::*, lists::*, news::*, operations::*, outlooks::*, pages::*, policies::*, recovery::*,
    resolutions::*, settles::*, statistics::*, submissions::*, timeouts::*, webhook_operations::*, webhooks::*,
};
use self::{
    connections::{Connection, Connections},
    errors::DatabaseErrors,
};
use crate::{database, error::Result};

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
}
