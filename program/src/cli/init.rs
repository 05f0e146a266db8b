//! `tidegate init`

use std::process::ExitCode;

use clap::Args;

use super::GlobalArgs;

#[derive(Debug, Args)]
pub(super) struct Init {
    /// First make the queues and kinds of an example, where they are missing: relayer
    #[arg(long, value_name = "NAME")]
    example: Option<String>,
    /// The marks at which gates close and open again: seed has 30/15, those of the document that gates come from
    /// [default: 2000/1000]
    #[arg(long, value_name = "NAME")]
    gates: Option<String>,
}

impl Init {
    pub(super) async fn run(self, global: GlobalArgs) -> anyhow::Result<ExitCode> {
        let connected = global.connect(1).await?;
        let (example, gates) = (self.example.as_deref(), self.gates.as_deref());
        let settings = connected.store.initialise(example, gates).await?;
        let none = "nothing changed: everything was set before";
        connected.print_rows(settings, none, "set for  name  value", |setting| {
            [setting.subject, setting.name, setting.value]
        })
    }
}
