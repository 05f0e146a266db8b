//! `tidegate quarantine` and `tidegate adopt`

use std::process::ExitCode;

use clap::Args;

use super::GlobalArgs;

#[derive(Debug, Args)]
pub(super) struct Quarantine {
    /// Why; told by `status`, `explain` and the logs
    #[arg(long)]
    reason: Option<String>,
}

impl Quarantine {
    pub(super) async fn run(self, global: GlobalArgs) -> anyhow::Result<ExitCode> {
        let connected = global.connect(1).await?;
        let changed = connected.store.quarantine(self.reason.as_deref()).await?;
        connected.print(&changed, |changed| {
            outln!(
                "{}",
                if *changed {
                    "quarantined: nothing is sent or delivered from this database until `tidegate adopt`"
                } else {
                    "nothing changed: it is quarantined already"
                }
            );
        })
    }
}

pub(super) async fn adopt(global: GlobalArgs) -> anyhow::Result<ExitCode> {
    let connected = global.connect(1).await?;
    let reason = connected.store.adopt().await?;
    connected.print(&reason, |reason| match reason {
        Some(reason) => outln!("this database sends and delivers from now on; it was quarantined: {reason}"),
        None => outln!("this database was not quarantined; it is recorded as the one that sends"),
    })
}
