//! The session of `migrate`, and its waits for locks.

use std::{
    iter,
    str::FromStr,
    time::{Duration, Instant},
};

use tokio_postgres::{
    NoTls,
    error::SqlState,
    types::{FromSql, ToSql},
};

use super::{HISTORY_TABLE, LOCK_KEY, MigrateError, comments, fingerprint, runner, sql_files};

/// The time limit of a lock. Submissions wait behind `migrate` meanwhile, so it is short, and the lock is tried again.
const LOCK_TIMEOUT: &str = "100ms";

/// Locks that do not block writers, so they may wait: an automatic vacuum yields only to a session that waits for a
/// second.
const KEEP_VACUUM_AWAY: &str = "do $$
  declare
    v_table regclass;
  begin
    for v_table in
      select c.oid from pg_class as c where c.relnamespace = 'tidegate'::regnamespace and c.relkind in ('r', 'p') order by c.oid
    loop
      execute format('lock table only %s in share update exclusive mode', v_table);
    end loop;
  end $$";

/// The time for which locks are tried again.
const RETRY_LIMIT: Duration = Duration::from_secs(60);

/// The pause before a lock is tried again, in which other sessions go on.
const PAUSE: Duration = Duration::from_millis(500);

/// Whether an error was caused by a lock of another session.
fn is_for_a_lock(error: &MigrateError) -> bool {
    let first: &dyn std::error::Error = error;
    iter::successors(Some(first), |error| error.source())
        .filter_map(|cause| cause.downcast_ref::<tokio_postgres::Error>()?.code())
        .any(|code| [&SqlState::LOCK_NOT_AVAILABLE, &SqlState::T_R_DEADLOCK_DETECTED].contains(&code))
}

/// One connection of the migrating driver. Its lock lasts as long as it does.
pub(super) struct Session {
    pub(super) client: tokio_postgres::Client,
}

impl Session {
    pub(super) async fn open(url: &str) -> Result<Self, MigrateError> {
        let config = tokio_postgres::Config::from_str(url)
            .map_err(|error| MigrateError::Unavailable(format!("the database URL cannot be read: {error}")))?;
        let connected = config.connect(NoTls).await;
        let (client, connection) = connected.map_err(|error| MigrateError::Unavailable(reason(&error)))?;
        // Ends by itself when the client is dropped.
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "the migrating connection ended");
            }
        });
        let session = Self { client };
        // Independent of the defaults of server, database and user; finds no functions outside of pg_catalog.
        session
            .batch(&format!(
                "set search_path = pg_catalog, pg_temp; set default_transaction_isolation = 'read committed';
                 set standard_conforming_strings = on; set statement_timeout = 0; set lock_timeout = '{LOCK_TIMEOUT}'"
            ))
            .await?;
        Ok(session)
    }

    /// Refuses a database on which a later migration would fail.
    pub(super) async fn check_fitness(&self) -> Result<(), MigrateError> {
        let settings = "select current_setting('server_encoding'), current_setting('server_version_num')::integer,
                          current_setting('server_version'), current_setting('transaction_read_only') = 'on'";
        let row = self.client.query_one(settings, &[]).await?;
        let (encoding, number, version): (String, i32, String) = (row.get(0), row.get(1), row.get(2));
        let reason = if encoding != "UTF8" {
            format!(
                "the database's encoding is {encoding}, and payloads are JSON of any language: \
                 create database … template template0 encoding 'UTF8'"
            )
        } else if number < 140_000 {
            format!("this is PostgreSQL {version}, and 14 is the oldest that Tidegate runs on")
        } else if row.get(3) {
            "the database is read-only: a standby, or set so".to_owned()
        } else {
            return Ok(());
        };
        Err(MigrateError::Unfit(reason))
    }

    /// Migrations that were not applied yet, in order.
    pub(super) async fn pending(&mut self) -> Result<Vec<String>, MigrateError> {
        let applied = if self.exists(HISTORY_TABLE).await? {
            runner()
                .get_applied_migrations_async(&mut self.client)
                .await
                .map_err(MigrateError::Migration)?
        } else {
            Vec::new()
        };
        let is_applied = |version| applied.iter().any(|done| done.version() == version);
        Ok(runner()
            .get_migrations()
            .iter()
            .filter(|migration| !is_applied(migration.version()))
            .map(ToString::to_string)
            .collect())
    }

    /// Waits before another try of the statements that have failed since `began`, if they fail for a lock and there is
    /// time.
    pub(super) async fn wait_for_lock(&self, began: Instant, error: MigrateError) -> Result<(), MigrateError> {
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
    async fn holders(&self) -> Result<String, MigrateError> {
        self.value(
            "select coalesce(string_agg(h.holder, ', '), 'they have ended')
                 from (
                   select format('process %s (%s, in a transaction for %s s)', a.pid,
                     coalesce(nullif(a.application_name, ''), a.usename::text, '?'),
                     round(extract(epoch from clock_timestamp() - a.xact_start))) as holder
                   from pg_stat_activity as a
                   where a.pid <> pg_backend_pid() and a.xact_start < clock_timestamp() - interval '100 ms' and exists (
                     select
                     from pg_locks as l
                     join pg_class as c on c.oid = l.relation
                     where l.pid = a.pid and l.granted and c.relnamespace::regnamespace::text in ('tidegate', 'pgmq')
                   )
                   order by a.xact_start
                   limit 5
                 ) as h",
            &[],
        )
        .await
    }

    /// Waits for any other `migrate` of this database.
    pub(super) async fn lock(&self) -> Result<(), MigrateError> {
        self.batch(&format!(
            "set lock_timeout = 0; select pg_advisory_lock({LOCK_KEY}); set lock_timeout = '{LOCK_TIMEOUT}'"
        ))
        .await
    }

    pub(super) async fn batch(&self, sql: &str) -> Result<(), MigrateError> {
        Ok(self.client.batch_execute(sql).await?)
    }

    pub(super) async fn exists(&self, table: &str) -> Result<bool, MigrateError> {
        self.value("select to_regclass($1) is not null", &[&table]).await
    }

    pub(super) async fn has_pgmq_extension(&self) -> Result<bool, MigrateError> {
        self.value("select exists (select from pg_extension where extname = 'pgmq')", &[])
            .await
    }

    async fn value<T: for<'a> FromSql<'a>>(
        &self,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<T, MigrateError> {
        Ok(self.client.query_one(sql, parameters).await?.get(0))
    }

    /// Whether the files below `sql/` differ from those applied last.
    pub(super) async fn needs_sql(&self) -> Result<bool, MigrateError> {
        if !self.exists("tidegate.schema_state").await? {
            return Ok(true);
        }
        let applied = self
            .client
            .query_opt("select fingerprint from tidegate.schema_state", &[])
            .await?;
        Ok(applied.is_none_or(|row| row.get::<_, String>(0) != fingerprint()))
    }

    /// Applies every file below `sql/` in one transaction, with the fingerprint.
    pub(super) async fn apply_sql(&mut self) -> Result<(), MigrateError> {
        let transaction = self.client.transaction().await?;
        let settings = format!(
            "set local client_min_messages = warning; set local check_function_bodies = off;
             set local lock_timeout = '5s'; {KEEP_VACUUM_AWAY}; set local lock_timeout = '{LOCK_TIMEOUT}'"
        );
        transaction.batch_execute(&settings).await?;
        for (file, sql) in sql_files() {
            let statements = [sql, &comments::statements(sql)].join("\n");
            let applied = transaction.batch_execute(&statements).await;
            applied.map_err(|source| MigrateError::Sql { file, source })?;
        }
        transaction.batch_execute("select tidegate.make_partitions()").await?;
        transaction
            .execute(
                "insert into tidegate.schema_state as s (fingerprint, version) values ($1, $2)
                 on conflict (only_row) do update
                 set fingerprint = excluded.fingerprint, version = excluded.version, applied_at = clock_timestamp()",
                &[&fingerprint(), &env!("CARGO_PKG_VERSION")],
            )
            .await?;
        Ok(transaction.commit().await?)
    }
}

/// The server's message with its hint, or else the driver's with its source: the driver's own text of a server's error
/// is only "db error".
fn reason(error: &tokio_postgres::Error) -> String {
    let source = std::error::Error::source(error).map(ToString::to_string);
    let (message, more) = match error.as_db_error() {
        Some(server) => (
            server.message().to_owned(),
            server.hint().map(|hint| format!("; {hint}")),
        ),
        None => (error.to_string(), source.map(|source| format!(": {source}"))),
    };
    message + &more.unwrap_or_default()
}
