//! refinery over sqlx's connection: which migrations a schema has, which it lacks, and their application.
//!
//! Each schema has a table `refinery_schema_history` of its own, as refinery makes it.

use std::error::Error;

use refinery_core::{
    AsyncMigrate, Migration, Report, Runner,
    error::Kind,
    traits::r#async::{AsyncQuery, AsyncTransaction},
};
use sha2::{Digest, Sha256};
use sqlx::{Connection, Executor, PgConnection};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use super::{MigrateError, Migrations, StatementError, comments};

/// A schema's history, and the connection that it is read and written over.
pub(super) struct History<'a> {
    connection: &'a mut PgConnection,
    schema: &'static str,
    /// What the program has.
    migrations: Vec<Migration>,
    table: String,
    /// Whether statements are run. Without them refinery finds out what it would apply.
    applies: bool,
}

impl<'a> History<'a> {
    pub(super) fn new(connection: &'a mut PgConnection, set: &Migrations) -> Result<Self, MigrateError> {
        let (schema, migrations) = (set.schema, set.migrations()?);
        let table = format!("{schema}.refinery_schema_history");
        Ok(Self { connection, schema, migrations, table, applies: false })
    }

    /// The migrations that the schema lacks, in order. Those that it has must be those of this program.
    pub(super) async fn pending(&mut self) -> Result<Vec<Migration>, MigrateError> {
        let report = self.run().await.map_err(|error| self.refusal(error))?;
        Ok(report.applied_migrations().clone())
    }

    /// Applies `pending`, each in a transaction of its own with its row of the history. What was applied before an error
    /// stays, and the next call goes on behind it.
    pub(super) async fn apply(&mut self) -> Result<(), MigrateError> {
        let pending = self.pending().await?;
        self.take_over().await?;
        self.applies = true;
        let applied = self.run().await;
        self.applies = false;
        applied.map(drop).map_err(|error| {
            let done = error.report().map_or(0, |report| report.applied_migrations().len());
            match (pending.get(done), statement_error(&error)) {
                (Some(failed), Some(source)) => {
                    MigrateError::Migration { schema: self.schema, name: failed.to_string(), source }
                }
                _ => self.refusal(error),
            }
        })
    }

    async fn run(&mut self) -> Result<Report, refinery_core::Error> {
        let mut runner = Runner::new(&self.migrations);
        runner.set_migration_table_name(&self.table);
        runner.run_async(self).await
    }

    /// Makes the schema, and takes over the history that it has from before refinery.
    async fn take_over(&mut self) -> sqlx::Result<()> {
        let schema = self.schema;
        self.connection.execute(format!("create schema if not exists {schema}").as_str()).await?;
        // With a history of refinery's, a table of that name is the program's own.
        if self.exists("refinery_schema_history").await? || !self.exists("schema_history").await? {
            return Ok(());
        }
        let applied = self.earlier().await?;
        let mut transaction = self.connection.begin().await?;
        transaction.execute(Self::assert_migrations_table_query(&self.table).as_str()).await?;
        for (migration, applied_on) in applied {
            let row =
                format!("insert into {} (version, name, applied_on, checksum) values ($1, $2, $3, $4)", self.table);
            let row = sqlx::query(&row).bind(migration.version()).bind(migration.name().to_owned()).bind(applied_on);
            row.bind(migration.checksum().to_string()).execute(&mut *transaction).await?;
        }
        transaction.execute(format!("drop table {schema}.schema_history").as_str()).await?;
        transaction.commit().await
    }

    /// What the table before refinery's says is applied, and when: a migration of this program where its text is the
    /// same.
    async fn earlier(&mut self) -> sqlx::Result<Vec<(Migration, String)>> {
        let rows: Vec<(i32, String, String, String)> = sqlx::query_as(&format!(
            "select version, name, to_char(applied_on at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"'), checksum
             from {}.schema_history order by version",
            self.schema
        ))
        .fetch_all(&mut *self.connection)
        .await?;
        let taken_over = |(version, name, applied_on, checksum): (i32, String, String, String)| {
            let same = self.migrations.iter().find(|known| {
                known.version() == version
                    && known.sql().is_some_and(|sql| format!("{:x}", Sha256::digest(sql)) == checksum)
            });
            let other = || Migration::applied(version, name, OffsetDateTime::UNIX_EPOCH, 0);
            (same.cloned().unwrap_or_else(other), applied_on)
        };
        Ok(rows.into_iter().map(taken_over).collect())
    }

    async fn exists(&mut self, table: &str) -> sqlx::Result<bool> {
        let found = sqlx::query_scalar("select to_regclass($1) is not null").bind(format!("{}.{table}", self.schema));
        found.fetch_one(&mut *self.connection).await
    }

    /// Why refinery stopped.
    fn refusal(&self, error: refinery_core::Error) -> MigrateError {
        let schema = self.schema;
        if let Some(error) = statement_error(&error) {
            return MigrateError::Database(error);
        }
        match error.kind() {
            Kind::DivergentVersion(applied, _) => {
                MigrateError::History { schema, version: applied.version(), source: error.into() }
            }
            Kind::MissingVersion(migration) if migration.applied_on().is_some() => {
                MigrateError::History { schema, version: migration.version(), source: error.into() }
            }
            Kind::MissingVersion(migration) => MigrateError::Unfit(format!(
                "migration {migration} of schema {schema} is new, and the database has later ones: give it a higher number"
            )),
            _ => MigrateError::Unfit(format!("{error} (schema {schema})")),
        }
    }
}

/// The error of the statement that stopped refinery.
fn statement_error(error: &refinery_core::Error) -> Option<StatementError> {
    error.source()?.downcast_ref().cloned()
}

impl AsyncTransaction for History<'_> {
    type Error = StatementError;

    /// Runs them in one transaction, with the comments that they describe objects with.
    async fn execute<'a, T: Iterator<Item = &'a str> + Send + 'a>(
        &'a mut self,
        queries: T,
    ) -> Result<usize, StatementError> {
        if !self.applies {
            return Ok(0);
        }
        let mut transaction = self.connection.begin().await?;
        let mut count = 0;
        for query in queries {
            transaction.execute(comments::added_to(query, self.schema).as_str()).await?;
            count += 1;
        }
        transaction.commit().await?;
        Ok(count)
    }
}

impl AsyncQuery<Vec<Migration>> for History<'_> {
    /// The migrations that the schema has; none without a history.
    async fn query(&mut self, query: &str) -> Result<Vec<Migration>, StatementError> {
        if !self.exists("refinery_schema_history").await? {
            return match self.exists("schema_history").await? {
                true => Ok(self.earlier().await?.into_iter().map(|(migration, _)| migration).collect()),
                false => Ok(Vec::new()),
            };
        }
        let rows: Vec<(i32, String, String, String)> = sqlx::query_as(query).fetch_all(&mut *self.connection).await?;
        rows.into_iter()
            .map(|(version, name, applied_on, checksum)| {
                let applied_on = OffsetDateTime::parse(&applied_on, &Rfc3339);
                let applied_on = applied_on.map_err(|error| sqlx::Error::Decode(error.into()))?;
                // What is no number is no checksum of a migration, either.
                Ok(Migration::applied(version, name, applied_on, checksum.parse().unwrap_or_default()))
            })
            .collect()
    }
}

impl AsyncMigrate for History<'_> {}
