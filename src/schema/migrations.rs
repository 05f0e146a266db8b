//! What `migrate` applies to a schema: that of Tidegate, or one of a program that embeds it.

use refinery_core::Migration;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::MigrateError;

/// The tables, functions and checks of a program's own schema, which
/// [`Tidegate::migrate_with`](crate::Tidegate::migrate_with) applies beside Tidegate's.
///
/// SQL names everything with its schema: the session's search path is `pg_catalog`. Comments of the form
/// `-- table NAME: TEXT` become those of the database's objects, in migrations too.
#[derive(Debug, Clone)]
pub struct Migrations {
    pub(super) schema: &'static str,
    files: Vec<(&'static str, &'static str)>,
    pub(super) functions: Vec<(&'static str, &'static str)>,
    checks: Vec<(&'static str, &'static str)>,
    pub(super) build: i32,
}

impl Migrations {
    /// No tables yet, in a schema that is made if it is missing. Its name is lower case and not one of Tidegate's.
    #[must_use]
    pub fn new(schema: &'static str) -> Self {
        let (files, functions, checks) = Default::default();
        Self { schema, files, functions, checks, build: 0 }
    }

    /// The number of this build of the SQL: higher than that of any earlier build. A program does not replace the functions
    /// of a later build, unless it is told to.
    #[must_use]
    pub fn build(mut self, number: i32) -> Self {
        self.build = number;
        self
    }

    /// A migration: SQL that is applied once, in a transaction of its own, in the order of the versions. Its name has its
    /// version: `V1__wallets`. A database that has it with another text is refused.
    #[must_use]
    pub fn file(mut self, name: &'static str, sql: &'static str) -> Self {
        self.files.push((name, sql));
        self
    }

    /// SQL for objects without data: functions, views, triggers, grants. All of it is applied again, in this order and in
    /// one transaction, when anything in this value has changed, so it says `create or replace`.
    #[must_use]
    pub fn function(mut self, name: &'static str, sql: &'static str) -> Self {
        self.functions.push((name, sql));
        self
    }

    /// A query for `tidegate doctor` whose rows are violations, each with a column `id`. Doctor shows it as `SCHEMA.NAME`,
    /// with the comment lines that the query begins with as the rule. With `{of r.request_id}` as a condition it examines
    /// a range of requests at a time.
    #[must_use]
    pub fn check(mut self, name: &'static str, sql: &'static str) -> Self {
        self.checks.push((name, sql));
        self
    }

    /// The migrations in the order of their numbers.
    pub(super) fn migrations(&self) -> Result<Vec<Migration>, MigrateError> {
        let migration = |&(name, sql): &(&str, &str)| {
            let refused = |error| MigrateError::Unfit(format!("{error}, not {name} (schema {})", self.schema));
            Migration::unapplied(name, sql).map_err(refused)
        };
        let mut migrations = self.files.iter().map(migration).collect::<Result<Vec<_>, _>>()?;
        migrations.sort();
        // refinery leaves out the second of two with a number that was applied.
        match migrations.windows(2).find(|pair| pair[0].version() == pair[1].version()) {
            Some([one, other]) => {
                let schema = self.schema;
                Err(MigrateError::Unfit(format!("the migrations {one} and {other} of schema {schema} have one number")))
            }
            _ => Ok(migrations),
        }
    }

    /// Refuses a program's schema that SQL cannot name as it stands, or that is Tidegate's.
    pub(super) fn check_name(&self) -> Result<(), MigrateError> {
        let name = self.schema;
        let is_plain = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        let is_taken = ["tidegate", "pgmq", "pg_"].iter().any(|taken| name.starts_with(taken));
        if is_plain && !is_taken && name.starts_with(|c: char| !c.is_ascii_digit()) {
            return Ok(());
        }
        Err(MigrateError::Unfit(format!(
            "{name:?} cannot be a program's schema: name it in lower case, and not like those of Tidegate or PostgreSQL"
        )))
    }

    /// Databases with the same one have the same objects.
    pub(super) fn fingerprint(&self) -> String {
        let mut hash = Sha256::new();
        for (name, sql) in [&self.files, &self.functions, &self.checks].into_iter().flatten() {
            hash.update(name);
            hash.update(Sha256::digest(sql));
        }
        hash.finalize()[..16].iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The checks for `tidegate.schema_state`.
    pub(super) fn checks(&self) -> Value {
        let check = |(name, sql): &(&str, &str)| {
            let rule: Vec<_> = sql.lines().map_while(|line| line.strip_prefix("-- ")).collect();
            json!({"name": format!("{}.{name}", self.schema), "rule": rule.join(" "), "query": sql})
        };
        self.checks.iter().map(check).collect()
    }
}
