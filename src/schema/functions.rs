//! Applies the objects without data, and finds out whether that is needed.

use std::time::{Duration, Instant};

use sqlx::{Connection, Executor, PgConnection};

use super::{
    MigrateError, Migrations, StatementError, comments, order,
    session::{LOCK_TIMEOUT, RETRY_LIMIT, Session},
};

/// Locks on the tables of a schema that do not block writers, so they may wait: an automatic vacuum yields only to a
/// session that waits for a second.
fn keep_vacuum_away(schema: &str) -> String {
    format!(
        "do $$
         declare
           v_table regclass;
         begin
           for v_table in
             select c.oid
             from pg_class as c
             where c.relnamespace = '{schema}'::regnamespace and c.relkind in ('r', 'p')
             order by c.oid
           loop
             execute format('lock table only %s in share update exclusive mode', v_table);
           end loop;
         end $$"
    )
}

/// Drops functions and views by their names, and before them those of their schemas that need them.
const DROP_FOR_REPLACEMENT: &str = include_str!("drop_for_replacement.sql");

impl Session {
    /// Whether the functions are those of another version, or are not there as they were applied last.
    pub(super) async fn needs_sql(&mut self, set: &Migrations) -> Result<bool, MigrateError> {
        if !self.has_objects().await? {
            return Ok(true);
        }
        let applied: Option<String> =
            sqlx::query_scalar("select fingerprint from tidegate.schema_state where schema = $1")
                .bind(set.schema)
                .fetch_optional(&mut self.connection)
                .await?;
        if applied != Some(set.fingerprint()) || !self.can_compare().await? {
            return Ok(true);
        }
        let changed =
            sqlx::query_scalar("select exists (select from tidegate.schema_changes() as c where c.schema = $1)");
        Ok(changed.bind(set.schema).fetch_one(&mut self.connection).await?)
    }

    /// Whether the functions that compare are there: a restore may have left out any.
    async fn can_compare(&mut self) -> Result<bool, MigrateError> {
        self.value(
            "select num_nulls(
               to_regprocedure('tidegate.schema_changes()'), to_regprocedure('tidegate_internal.schema_objects(text)'),
               to_regprocedure('tidegate_internal.each_queue(text,text[])')
             ) = 0",
        )
        .await
    }

    /// Corrects the counts of requests. A call that was under way ended in a function of the earlier version with the
    /// triggers of this one, and either may have counted, or both.
    pub(super) async fn correct_counts(&mut self) -> Result<(), MigrateError> {
        let under_way = "select coalesce(array_agg(distinct l.virtualtransaction), '{}')
                         from pg_locks as l
                         join pg_class as c on c.oid = l.relation
                         where l.pid <> pg_backend_pid() and c.relnamespace::regnamespace::text = 'tidegate'
                           and l.database = (select oid from pg_database where datname = current_database())";
        let before: Vec<String> = self.value(under_way).await?;
        let began = Instant::now();
        while began.elapsed() < RETRY_LIMIT {
            let now: Vec<String> = self.value(under_way).await?;
            if !now.iter().any(|transaction| before.contains(transaction)) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.batch("select tidegate.recover_counts()").await
    }

    /// Applies every function in one transaction, with the fingerprint and the checks. If the database has some of them
    /// with another signature, these are dropped first.
    pub(super) async fn apply_sql(&mut self, set: &Migrations) -> Result<(), MigrateError> {
        match self.apply_functions(set, false).await {
            Err(MigrateError::Sql { source, .. }) if source.is_for_a_signature() => {
                self.apply_functions(set, true).await
            }
            applied => applied,
        }
    }

    async fn apply_functions(&mut self, set: &Migrations, drops: bool) -> Result<(), MigrateError> {
        let schema = set.schema;
        let mut transaction = self.connection.begin().await?;
        let settings = format!(
            "set local client_min_messages = warning; set local check_function_bodies = off;
             set local lock_timeout = '5s'; {}; set local lock_timeout = '{LOCK_TIMEOUT}'",
            keep_vacuum_away(schema)
        );
        transaction.execute(settings.as_str()).await?;
        let mut leftovers = schema == "tidegate";
        for &(file, sql) in &set.functions {
            // Files of no folder come last, and change objects of any version.
            if leftovers && !file.contains('/') {
                drop_leftovers(&mut transaction).await?;
                leftovers = false;
            }
            let statements = comments::added_to(sql, schema);
            let applied = if drops {
                apply_or_replace(&mut transaction, &statements, &order::made_by(sql, schema)).await
            } else {
                transaction.execute(statements.as_str()).await.map(drop).map_err(Into::into)
            };
            applied.map_err(|source| MigrateError::Sql { schema, file, source })?;
        }
        transaction.execute("select tidegate.make_partitions()").await?;
        let state = "insert into tidegate.schema_state as s (schema, fingerprint, version, checks, build, objects)
             select $1, $2, $3, $4, $5, coalesce(jsonb_object_agg(o.object, o.digest), '{}')
             from tidegate_internal.schema_objects($1) as o
             on conflict (schema) do update
             set fingerprint = excluded.fingerprint, version = excluded.version, checks = excluded.checks,
               build = excluded.build, objects = excluded.objects, applied_at = clock_timestamp()";
        let stored = sqlx::query(state).bind(schema).bind(set.fingerprint());
        let stored = stored.bind(env!("CARGO_PKG_VERSION")).bind(set.checks()).bind(set.build);
        stored.execute(&mut *transaction).await?;
        Ok(transaction.commit().await?)
    }
}

/// Drops what another version has made, and names what stays.
async fn drop_leftovers(session: &mut PgConnection) -> Result<(), MigrateError> {
    let left: Vec<String> = sqlx::query_scalar("select tidegate_internal.drop_leftovers()").fetch_all(session).await?;
    for object in left {
        tracing::warn!(object, "not of this version, and stays: it has another owner, or other objects need it");
    }
    Ok(())
}

/// Applies a file; if the database has its objects with other signatures, drops these and applies it again.
async fn apply_or_replace(session: &mut PgConnection, statements: &str, made: &[String]) -> Result<(), StatementError> {
    session.execute("savepoint file").await?;
    if let Err(error) = session.execute(statements).await {
        let error = StatementError::from(error);
        if !error.is_for_a_signature() {
            return Err(error);
        }
        let drop = DROP_FOR_REPLACEMENT.replace("{names}", &made.join(","));
        session.execute("rollback to savepoint file").await?;
        session.execute(drop.as_str()).await?;
        session.execute(statements).await?;
    }
    session.execute("release savepoint file").await?;
    Ok(())
}
