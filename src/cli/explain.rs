//! `tidegate explain`

use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use serde_json::json;

use super::{DatabaseArgs, print_json, table::plain};
use crate::request::RequestId;

#[derive(Debug, Args)]
pub(super) struct Explain {
    /// The job id
    id: RequestId,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Explain {
    pub(super) async fn run(self, database: DatabaseArgs) -> anyhow::Result<ExitCode> {
        let connected = database.connect(1).await?;
        let store = &connected.store;
        let reasons = store.explain(self.id).await?;
        let Some(outlook) = store.outlook(self.id).await? else {
            bail!("there is no request {}", self.id);
        };
        let seconds = outlook.eta.map_or(0, |eta| eta.retry_after.as_secs());
        if self.json {
            let explanation = json!({
                "job_id": self.id,
                "kind": outlook.kind,
                "state": outlook.status,
                "retry_after_seconds": seconds,
                "reasons": reasons,
            });
            return print_json(&explanation);
        }

        outln!("{} {} is {}", outlook.kind, self.id, outlook.status);
        for reason in &reasons {
            outln!("  {}", plain(&reason.sentence));
        }
        if !outlook.status.is_terminal() {
            outln!("ask again in {seconds} s");
        }
        Ok(ExitCode::SUCCESS)
    }
}
