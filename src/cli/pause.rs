//! `tidegate pause` and `tidegate resume`

use std::process::ExitCode;

use clap::Args;

use super::GlobalArgs;

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(super) struct Queues {
    /// The queue
    queue: Option<String>,
    /// Every queue
    #[arg(long)]
    all: bool,
}

impl Queues {
    pub(super) async fn set_paused(self, global: GlobalArgs, paused: bool) -> anyhow::Result<ExitCode> {
        let connected = global.connect(1).await?;
        let changed = connected.store.pause(self.queue.as_deref(), paused).await?;
        connected.print(&changed, |changed| {
            let state = if paused { "paused" } else { "resumed" };
            if changed.is_empty() {
                outln!("nothing changed: already {state}");
            }
            for queue in changed {
                outln!("{state} {queue}");
            }
        })
    }
}
