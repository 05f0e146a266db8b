//! The session of `migrate`, and its waits for locks.

use std::{
    iter,
    time::{Duration, Instant},
};

use sqlx::{Executor, PgConnection, Postgres};

use super::{MigrateError, Migrations, StatementError, history::History};
use crate::database;

/// The name of its sessions in `pg_stat_activity`.
pub(super) const APPLICATION_NAME: &str = "tidegate migrate";

/// The key of the lock that delays a second `migrate` on the same database ("tide" in ASCII).
const LOCK_KEY: i64 = 0x7469_6465;

/// The time limit of a lock. Submissions wait behind `migrate` meanwhile, so it is short, and the lock is tried again.
pub(super) const LOCK_TIMEOUT: &str = "100ms";

/// The time for which locks are tried again.
pub(super) const RETRY_LIMIT: Duration = Duration::from_secs(60);

/// The pause before a lock is tried again, in which other sessions go on.
const PAUSE: Duration = Duration::from_millis(500);

/// Whether an error was caused by a lock of another session.
fn is_for_a_lock(error: &MigrateError) -> bool {
    let first: &dyn std::error::Error = error;
    iter::successors(Some(first), |error| error.source())
        .filter_map(|cause| cause.downcast_ref::<StatementError>())
        .any(StatementError::is_for_a_lock)
}

/// The connection of `migrate`. Its lock lasts as long as it does.
pub(super) struct Session {
    pub(super) connection: PgConnection,
}

impl Session {
    pub(super) async fn open(url: &str) -> Result<Self, MigrateError> {
        let connection = database::connect_one(url, APPLICATION_NAME).await?;
        let mut session = Self { connection };
        // Independent of the defaults of server, database and user; finds no functions outside of pg_catalog.
        session
            .batch(&format!(
                "set search_path = pg_catalog, pg_temp; set default_transaction_isolation = 'read committed';
                 set standard_conforming_strings = on; set statement_timeout = 0; set lock_timeout = '{LOCK_TIMEOUT}'"
            ))
            .await?;
        Ok(session)
    }

    /// Lets the session's SQL make no group role.
    pub(super) async fn make_no_role(&mut self) -> Result<(), MigrateError> {
        self.batch("select set_config('tidegate.roles', 'existing', false)").await
    }

    /// Whether the database keeps what `migrate` has made: those of early versions do not.
    pub(super) async fn has_objects(&mut self) -> Result<bool, MigrateError> {
        self.value(
            "select exists (
               select from pg_attribute where attrelid = to_regclass('tidegate.schema_state') and attname = 'objects'
             )",
        )
        .await
    }

    /// The history of a schema.
    pub(super) fn history(&mut self, set: &Migrations) -> Result<History<'_>, MigrateError> {
        History::new(&mut self.connection, set)
    }

    /// Waits before another try of the statements that have failed since `began`, if they fail for a lock and there is
    /// time.
    pub(super) async fn wait_for_lock(&mut self, began: Instant, error: MigrateError) -> Result<(), MigrateError> {
        if !is_for_a_lock(&error) {
            return Err(error);
        }
        let holders = self.holders().await?;
        if began.elapsed() >= RETRY_LIMIT {
            return Err(MigrateError::Locked(holders));
        }
        tracing::warn!(holders, "waiting for locks of other transactions");
        tokio::time::sleep(PAUSE).await;
        Ok(())
    }

    /// The sessions that hold locks on the tables, the longest transaction first, as a text.
    async fn holders(&mut self) -> Result<String, MigrateError> {
        self.value(
            "select coalesce(string_agg(h.holder, ', '), 'they have ended')
                 from (
                   (select format('process %s (%s, in a transaction for %s s)', a.pid,
                     coalesce(nullif(a.application_name, ''), a.usename::text, '?'),
                     round(extract(epoch from clock_timestamp() - a.xact_start))) as holder
                   from pg_stat_activity as a
                   where a.pid <> pg_backend_pid() and a.xact_start < clock_timestamp() - interval '100 ms' and exists (
                     select
                     from pg_locks as l
                     join pg_class as c on c.oid = l.relation
                     where l.pid = a.pid and l.granted and c.relnamespace::regnamespace::text !~ '^(pg_.*|information_schema)$'
                   )
                   order by a.xact_start
                   limit 5)
                   union all
                   select format('prepared transaction %s (%s, for %s s: commit prepared or rollback prepared)', p.gid, p.owner,
                     round(extract(epoch from clock_timestamp() - p.prepared)))
                   from pg_prepared_xacts as p
                   where p.database = current_database() and exists (
                     select
                     from pg_locks as x
                     join pg_locks as l on l.virtualtransaction = x.virtualtransaction and l.pid is null
                     join pg_class as c on c.oid = l.relation
                     where x.locktype = 'transactionid' and x.transactionid = p.transaction and x.pid is null
                       and c.relnamespace::regnamespace::text !~ '^(pg_.*|information_schema)$'
                   )
                   limit 5
                 ) as h",
        )
        .await
    }

    /// Waits for any other `migrate` of this database, and says so. Gives up only if the holder of the lock is something
    /// else.
    pub(super) async fn lock(&mut self) -> Result<(), MigrateError> {
        let began = Instant::now();
        let mut told = None;
        while !self.value::<bool>(&format!("select pg_try_advisory_lock({LOCK_KEY})")).await? {
            let holder: Option<(bool, String)> = sqlx::query_as(
                "select a.application_name = $1, format('process %s (%s)', a.pid, coalesce(nullif(a.application_name, ''), a.usename::text, '?'))
                 from pg_locks as l
                 join pg_stat_activity as a on a.pid = l.pid
                 where l.locktype = 'advisory' and l.granted and l.database = (select oid from pg_database where datname = current_database())
                   and l.classid = ($2::bigint >> 32)::oid and l.objid = ($2::bigint & 4294967295)::oid and l.objsubid = 1",
            )
            .bind(APPLICATION_NAME)
            .bind(LOCK_KEY)
            .fetch_optional(&mut self.connection)
            .await?;
            if let Some((is_migrate, holder)) = holder {
                if !is_migrate && began.elapsed() >= RETRY_LIMIT {
                    return Err(MigrateError::Locked(format!("{holder}, with the advisory lock of `migrate`")));
                }
                if told.as_ref() != Some(&holder) {
                    tracing::warn!(holder, "waiting for the advisory lock of `migrate`");
                    told = Some(holder);
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    }

    pub(super) async fn batch(&mut self, sql: &str) -> Result<(), MigrateError> {
        self.connection.execute(sql).await?;
        Ok(())
    }

    pub(super) async fn exists(&mut self, table: &str) -> Result<bool, MigrateError> {
        let found = sqlx::query_scalar("select to_regclass($1) is not null").bind(table);
        Ok(found.fetch_one(&mut self.connection).await?)
    }

    pub(super) async fn has_pgmq_extension(&mut self) -> Result<bool, MigrateError> {
        self.value("select exists (select from pg_extension where extname = 'pgmq')").await
    }

    pub(super) async fn value<T>(&mut self, sql: &str) -> Result<T, MigrateError>
    where
        T: for<'r> sqlx::Decode<'r, Postgres> + sqlx::Type<Postgres> + Send + Unpin,
    {
        Ok(sqlx::query_scalar(sql).fetch_one(&mut self.connection).await?)
    }
}
