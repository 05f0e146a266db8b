//! `tidegate migrate`

use std::process::ExitCode;

use clap::Args;

use super::{GlobalArgs, print_json};
use crate::schema;

#[derive(Debug, Args)]
pub(super) struct Migrate {
    /// Only list what would be done
    #[arg(long)]
    dry_run: bool,
}

impl Migrate {
    pub(super) async fn run(self, global: GlobalArgs) -> anyhow::Result<ExitCode> {
        let json = global.json;
        let location = global.database.locate().await?;
        let (done, applied) = if self.dry_run {
            (schema::plan(&location.url).await?, "would apply")
        } else {
            (schema::migrate(&location.url).await?, "applied")
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
