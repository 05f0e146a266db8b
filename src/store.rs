//! One async method for each SQL function that Rust calls; the only user of `sql/queries`.
//!
//! The database decides, these methods report. What moved is always a return value: whoever settles looks at it.

/// Asks the database, for no longer than the store's patience.
///
/// A connection that does not answer in time is closed, not given back: whatever it still brings belongs to nobody.
macro_rules! ask {
    ($store:expr, $query:expr, $fetch:ident) => {{
        let store = $store;
        let asked = async {
            let mut connection = store.connection().await?;
            match tokio::time::timeout(store.patience, $query.$fetch(connection.get())).await {
                Ok(answer) => {
                    let answer = answer?;
                    store.connections.give(connection, &store.pool);
                    Ok(answer)
                }
                Err(_) => {
                    connection.discard();
                    Err(crate::error::StoreError::Unavailable(format!(
                        "no answer within {} s",
                        store.patience.as_secs()
                    )))
                }
            }
        };
        asked
            .await
            .inspect(|_| store.troubles.answered(&store.pool))
            .inspect_err(|error| store.troubles.note(error, &store.pool))?
    }};
}

mod answers;
mod audits;
mod claims;
mod configuration;
mod connections;
mod effects;
mod explanations;
mod gate_copy;
mod gates;
mod invariants;
mod keys;
mod leases;
mod lists;
mod news;
mod operations;
mod outlooks;
mod policies;
mod recovery;
mod redrives;
mod settles;
mod statistics;
mod submissions;
mod timeouts;
mod troubles;
mod webhook_operations;
mod webhooks;
mod words;

use std::{sync::Arc, time::Duration};

use sqlx::{
    PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};

pub use self::{
    answers::{Cancelled, Responded, Response},
    audits::{AuditStep, ContractRow},
    claims::{Claimed, Hedging, Slot},
    configuration::{ConfigChange, ConfigRecord, ConfigSetting},
    explanations::Reason,
    gate_copy::GateRow,
    gates::{CapMarks, Gate, GateChange, GateHold, Watched},
    invariants::{Invariant, Slice, Violation},
    keys::{CreatedKey, KeyChange, ListedKey, RevokedKey},
    leases::Lease,
    lists::{ListedRequest, Page, PageWish},
    news::{Progress, Seen},
    operations::{KindOfQueue, MaintenanceOverview, QueueOverview, RequestCount, Setting, WorkerOverview},
    outlooks::{Eta, Outlook, Owner},
    policies::{EstimatorOverview, StageLevel},
    recovery::{DeadlineStep, Lives, Recover, RecoverStep, ResponseStep, StrayStep, WrongCount},
    redrives::{Redrive, RedriveStep},
    settles::{Moved, Passed, Retry, Settle, Snooze},
    statistics::{EtaQuality, PollCount, SubmissionCount},
    submissions::{Admission, Submission, Submitted, Ticket},
    timeouts::KnownTimeout,
    webhook_operations::{CallbackHost, DeliveryRecord, SigningSecret, WebhookCounts},
    webhooks::{Attempted, Delivery},
};
use self::{
    connections::{Connection, Connections},
    troubles::Troubles,
};
use crate::{error::StoreError, schema};

/// How long an answer is waited for, unless said otherwise: longer than the database works on a statement.
const PATIENCE: Duration = Duration::from_secs(20);

/// The database, as the engine sees it.
#[derive(Debug, Clone)]
pub struct Store {
    pool: PgPool,
    connections: Arc<Connections>,
    patience: Duration,
    /// For whom the configuration is changed.
    actor: Option<Arc<str>>,
    troubles: Arc<Troubles>,
}

impl Store {
    /// A store over connections to a migrated database.
    #[must_use]
    pub fn new(pool: PgPool) -> Self {
        Self {
            pool,
            connections: Arc::default(),
            patience: PATIENCE,
            actor: None,
            troubles: Arc::default(),
        }
    }

    /// The same store, waiting no longer than this for an answer. A server that is cut off from us cannot time a
    /// statement out for us.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// The same database over connections of its own, made when they are first needed: what they are for never waits
    /// for what keeps the others busy.
    #[must_use]
    pub fn beside(&self, connections: u32) -> Self {
        let pool = self.pool.options().clone();
        Self {
            pool: pool
                .min_connections(0)
                .max_connections(connections)
                .connect_lazy_with(PgConnectOptions::clone(&self.pool.connect_options())),
            connections: Arc::default(),
            ..self.clone()
        }
    }

    /// How long an answer is waited for.
    pub(crate) fn patience(&self) -> Duration {
        self.patience
    }

    /// How often this store and its clones had trouble with the database, by sort.
    pub fn troubles(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        self.troubles.counts()
    }

    /// A connection, for a transaction.
    pub(crate) async fn connection(&self) -> Result<Connection, StoreError> {
        self.connections.take(&self.pool).await
    }

    /// How many connections there are, and how many of them are idle.
    pub(crate) fn connections_now(&self) -> (usize, usize) {
        let size = self.pool.size() as usize;
        let idle = self.pool.num_idle() + self.connections.free();
        (size, idle.min(size))
    }

    /// How its pool is set up.
    pub(crate) fn pool_options(&self) -> &PgPoolOptions {
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
    pub async fn check_ready(&self) -> Result<(), StoreError> {
        self.applied().await.map(|_| ())
    }

    /// As [`Store::check_ready`], and that the database takes writes.
    ///
    /// # Errors
    ///
    /// As there; [`StoreError::Unavailable`], too, when it is a standby or read-only.
    pub async fn check_writable(&self) -> Result<(), StoreError> {
        if self.applied().await?.read_only {
            return Err(StoreError::Unavailable(
                "the database is read-only: a standby, or set so".to_owned(),
            ));
        }
        Ok(())
    }

    /// The schema that is applied.
    async fn applied(&self) -> Result<Applied, StoreError> {
        let applied: Option<Applied> = ask!(
            self,
            sqlx::query_as(include_str!("../sql/queries/ready.sql")),
            fetch_optional
        );
        let applied =
            applied.ok_or_else(|| StoreError::NotMigrated("its schema was never applied whole".to_owned()))?;
        let own = schema::fingerprint();
        if applied.fingerprint != own {
            tracing::debug!(applied = applied.fingerprint, own, "the schema is of another build");
        }
        Ok(applied)
    }
}

/// What `ready.sql` tells.
#[derive(sqlx::FromRow)]
struct Applied {
    fingerprint: String,
    read_only: bool,
}
