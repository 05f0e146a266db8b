//! `tidegate config`

use std::process::ExitCode;

use clap::Subcommand;

use super::{
    DatabaseArgs,
    table::{or_dash, table},
};

#[derive(Debug, Subcommand)]
pub(super) enum Config {
    /// Change one setting; it holds everywhere at once
    ///
    /// Names: `min_seconds`, `max_seconds`, `safety_margin`, `readiness_check_seconds`, `tx_confirmation_ms`,
    /// KIND`_processing_seconds`, QUEUE`.per_seconds`, QUEUE`.burst`, QUEUE`.max_concurrency`, QUEUE`.high_water`,
    /// QUEUE`.low_water`.
    #[command(verbatim_doc_comment)]
    Set {
        /// Its name, such as `tx.per_seconds`
        name: String,
        /// Its value; `none` for no limit
        #[arg(allow_negative_numbers = true)]
        value: String,
    },
}

impl Config {
    pub(super) async fn run(self, database: DatabaseArgs) -> anyhow::Result<ExitCode> {
        let Self::Set { name, value } = self;
        let connected = database.connect(1).await?;
        let rows = connected
            .store
            .config_set(&name, &value)
            .await?
            .into_iter()
            .map(|change| {
                [
                    change.subject,
                    change.name,
                    or_dash(change.old_value),
                    or_dash(change.new_value),
                ]
            });
        outln!("{}", table(["set for", "name", "was", "is"], rows));
        Ok(ExitCode::SUCCESS)
    }
}
