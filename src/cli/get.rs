//! `tidegate get`

use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use serde_json::json;

use super::{DatabaseArgs, table::plain};
use crate::request::{RequestId, Status};

#[derive(Debug, Args)]
pub(super) struct Get {
    /// The job id
    id: RequestId,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Get {
    pub(super) async fn run(self, database: DatabaseArgs) -> anyhow::Result<ExitCode> {
        let connected = database.connect(1).await?;
        let Some(outlook) = connected.store.outlook(self.id).await? else {
            bail!("there is no request {}", self.id);
        };
        let seconds = outlook.eta.map_or(0, |eta| eta.retry_after.as_secs());
        if self.json {
            outln!(
                "{}",
                json!({
                    "job_id": outlook.id,
                    "kind": outlook.kind,
                    "state": outlook.status,
                    "place": outlook.place,
                    "queue": outlook.queue,
                    "position": outlook.position,
                    "elapsed_seconds": outlook.elapsed.as_secs(),
                    "retry_after_seconds": seconds,
                    "submitted_at": outlook.submitted_at,
                    "result": outlook.response,
                    "error": outlook.error,
                    "redriven_as": outlook.redriven_as,
                })
            );
            return Ok(ExitCode::SUCCESS);
        }

        let mut line = format!("{} is {}", outlook.kind, outlook.status);
        if !outlook.status.is_terminal() {
            line.push_str(&format!(" ({})", outlook.place));
            if let (Some(position), Some(queue)) = (outlook.position, &outlook.queue) {
                line.push_str(&format!(": position {position} in {queue}"));
            }
            line.push_str(&format!("; ask again in {seconds} s"));
        }
        outln!("{line}");
        if let Some(error) = outlook.error
            && outlook.status != Status::Completed
        {
            outln!("{}: {}", plain(&error.code), plain(&error.message));
        }
        if let Some(redriven_as) = outlook.redriven_as {
            outln!("submitted again as {redriven_as}");
        }
        if let Some(response) = outlook.response {
            outln!("{response}");
        }
        Ok(ExitCode::SUCCESS)
    }
}
