//! `tidegate pause` and `tidegate resume`

use std::process::ExitCode;

use clap::Args;

use super::DatabaseArgs;

#[derive(Debug, Args)]
pub(super) struct Pause {
    #[command(flatten)]
    which: Which,
}

#[derive(Debug, Args)]
pub(super) struct Resume {
    #[command(flatten)]
    which: Which,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Which {
    /// The queue
    queue: Option<String>,
    /// Every queue
    #[arg(long)]
    all: bool,
}

impl Pause {
    pub(super) async fn run(self, database: DatabaseArgs) -> anyhow::Result<ExitCode> {
        self.which.set(database, true).await
    }
}

impl Resume {
    pub(super) async fn run(self, database: DatabaseArgs) -> anyhow::Result<ExitCode> {
        self.which.set(database, false).await
    }
}

impl Which {
    async fn set(self, database: DatabaseArgs, paused: bool) -> anyhow::Result<ExitCode> {
        let connected = database.connect(1).await?;
        let changed = connected.store.pause(self.queue.as_deref(), paused).await?;
        let state = if paused { "paused" } else { "resumed" };
        if changed.is_empty() {
            outln!("nothing changed: already {state}");
        }
        for queue in changed {
            outln!("{state} {queue}");
        }
        Ok(ExitCode::SUCCESS)
    }
}
