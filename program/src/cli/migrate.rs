//! `tidegate migrate`

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use tidegate::internals::schema::{self, MigrateOptions};

use super::{GlobalArgs, print_json};

#[derive(Debug, Args)]
pub(super) struct Migrate {
    /// Only list what would be done
    #[arg(long)]
    dry_run: bool,
    /// Replace the functions of a later build of the program by this program's
    #[arg(long)]
    downgrade: bool,
    /// Which of the five group roles to have: make those that are missing, or take only those that exist
    #[arg(long, value_enum, default_value_t = Roles::Make)]
    roles: Roles,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Roles {
    Make,
    Existing,
}

impl Migrate {
    pub(super) async fn run(self, global: GlobalArgs) -> anyhow::Result<ExitCode> {
        let json = global.json;
        let location = global.database.locate().await?;
        let options = MigrateOptions { downgrade: self.downgrade, existing_roles: self.roles == Roles::Existing };
        let (done, applied) = if self.dry_run {
            (schema::plan(&location.url, options).await?, "would apply")
        } else {
            (schema::migrate_as(&location.url, &[], options).await?, "applied")
        };
        if json {
            return print_json(&done);
        }
        for migration in &done.migrations {
            outln!("{applied} {migration}");
        }
        if done.sql_applied {
            outln!("{applied} functions, triggers, views and roles");
        }
        if done == schema::Migrated::default() {
            outln!("the database is up to date");
        }
        if location.is_embedded() {
            outln!("database: {}", location.url);
        }
        Ok(ExitCode::SUCCESS)
    }
}
