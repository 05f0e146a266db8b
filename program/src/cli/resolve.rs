//! `tidegate unresolved` and `tidegate resolve`

use std::process::ExitCode;

use anyhow::bail;
use clap::{ArgGroup, Args};
use serde_json::json;
use tidegate::{
    internals::store::Resolved,
    request::{Executed, RequestId},
};

use super::{
    GlobalArgs,
    table::{or_dash, time},
};

#[derive(Debug, Args)]
pub(super) struct Unresolved {
    /// Only this kind
    #[arg(long)]
    kind: Option<String>,
    /// The oldest, this many at most
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(i64).range(1..=10_000))]
    limit: i64,
}

impl Unresolved {
    pub(super) async fn run(self, global: GlobalArgs) -> anyhow::Result<ExitCode> {
        let connected = global.connect(1).await?;
        // The HTTP spelling is accepted too.
        let kind = self.kind.map(|kind| kind.replace('-', "_"));
        let found = connected.store.unresolved(kind.as_deref(), self.limit).await?;
        connected.print_rows(
            found,
            "there is none: what came of every send is known",
            "job_id  kind  ended  cause  sends  reference  submitter",
            |request| {
                [
                    request.id.to_string(),
                    request.kind,
                    time(request.finished_at),
                    request.cause,
                    request.sends.to_string(),
                    or_dash(request.reference),
                    or_dash(request.submitter),
                ]
            },
        )
    }
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("fact").required(true))]
pub(super) struct Resolve {
    /// The job id
    id: RequestId,
    /// The downstream has executed it
    #[arg(long, group = "fact")]
    executed: bool,
    /// The downstream has not executed it: its key is free
    #[arg(long, group = "fact")]
    not_executed: bool,
    /// How you know
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
}

impl Resolve {
    pub(super) async fn run(self, global: GlobalArgs) -> anyhow::Result<ExitCode> {
        let connected = global.connect(1).await?;
        let executed = if self.executed { Executed::Yes } else { Executed::No };
        let resolved = connected.store.resolve(self.id, executed, self.note.as_deref(), false).await?;
        let (id, word) = (self.id, if self.executed { "was executed" } else { "was not executed" });
        match resolved {
            Resolved::Resolved | Resolved::Known => {
                let said = json!({ "job_id": id, "executed": executed });
                connected.print(&said, |_| outln!("{id} {word}"))
            }
            Resolved::Kept { executed, source } => bail!(
                "the {source} says of request {id} that executed is {executed}, and is believed; what you say is on record"
            ),
            Resolved::NotUnresolved(status) => {
                bail!("request {id} is {status}, and nothing about its sends is unknown")
            }
        }
    }
}
