//! `tidegate get`

use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use serde_json::json;

use super::DatabaseArgs;
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
        if self.json {
            println!(
                "{}",
                json!({
                    "job_id": outlook.id,
                    "kind": outlook.kind,
                    "state": outlook.status,
                    "place": outlook.place,
                    "queue": outlook.queue,
                    "position": outlook.position,
                    "elapsed_seconds": outlook.elapsed.as_secs(),
                    "retry_after_seconds": outlook.retry_after.as_secs(),
                    "submitted_at": outlook.submitted_at,
                    "result": outlook.response,
                    "error": outlook.error,
                })
            );
            return Ok(ExitCode::SUCCESS);
        }

        print!("{} is {}", outlook.kind, outlook.status);
        match (outlook.status, outlook.position, &outlook.queue) {
            (status, _, _) if status.is_terminal() => {}
            (_, Some(position), Some(queue)) => print!(
                " ({}): position {position} in {queue}; ask again in {} s",
                outlook.place,
                outlook.retry_after.as_secs()
            ),
            _ => print!(
                " ({}); ask again in {} s",
                outlook.place,
                outlook.retry_after.as_secs()
            ),
        }
        println!();
        if let Some(error) = outlook.error
            && outlook.status != Status::Completed
        {
            println!("{}: {}", error.code, error.message);
        }
        if let Some(response) = outlook.response {
            println!("{response}");
        }
        Ok(ExitCode::SUCCESS)
    }
}
