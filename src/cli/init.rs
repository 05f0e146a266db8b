//! `tidegate init`

use std::process::ExitCode;

use clap::Args;

use super::{DatabaseArgs, print_json, table::table};

#[derive(Debug, Args)]
pub(super) struct Init {
    /// First make the queues and kinds of an example, where they are missing: relayer
    #[arg(long, value_name = "NAME")]
    example: Option<String>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Init {
    pub(super) async fn run(self, database: DatabaseArgs) -> anyhow::Result<ExitCode> {
        let connected = database.connect(1).await?;
        let settings = connected.store.initialise(self.example.as_deref()).await?;
        if self.json {
            return print_json(&settings);
        } else if settings.is_empty() {
            outln!("nothing changed: everything was set before");
        } else {
            let rows = settings
                .into_iter()
                .map(|setting| [setting.subject, setting.name, setting.value]);
            outln!("{}", table(["set for", "name", "value"], rows));
        }
        Ok(ExitCode::SUCCESS)
    }
}
