//! `tidegate pause` and `tidegate resume`

use std::process::ExitCode;

use clap::Args;

use super::GlobalArgs;

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(super) struct Queues {
    /// The queue
    queue: Option<String>,
    /// A kind, whose requests claims then pass over: they keep their places in its queues
    #[arg(long)]
    kind: Option<String>,
    /// Every queue
    #[arg(long)]
    all: bool,
}

impl Queues {
    pub(super) async fn set_paused(self, global: GlobalArgs, paused: bool) -> anyhow::Result<ExitCode> {
        let connected = global.connect(1).await?;
        let changed = match self.kind {
            Some(kind) => {
                // The HTTP spelling is accepted too.
                let kind = kind.replace('-', "_");
                let changed = connected.store.pause_kind(&kind, paused).await?;
                changed.then_some(kind).into_iter().collect()
            }
            None => connected.store.pause(self.queue.as_deref(), paused).await?,
        };
        connected.print(&changed, |changed| {
            let state = if paused { "paused" } else { "resumed" };
            if changed.is_empty() {
                outln!("nothing changed: already {state}");
            }
            for name in changed {
                outln!("{state} {name}");
            }
        })
    }
}
