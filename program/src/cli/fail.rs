//! `tidegate fail`

use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use serde_json::json;
use tidegate::{
    internals::store::Failed,
    request::{RequestId, Status},
};

use super::{GlobalArgs, table::plain};

#[derive(Debug, Args)]
pub(super) struct Fail {
    /// The job id
    id: RequestId,
    /// Why: the message of the request's error, which its caller receives
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

impl Fail {
    pub(super) async fn run(self, global: GlobalArgs) -> anyhow::Result<ExitCode> {
        let connected = global.connect(1).await?;
        match connected.store.fail_request(self.id, &self.reason).await? {
            Failed::Failed => {
                let failed = json!({ "outcome": "failed", "job_id": self.id, "state": Status::Failure });
                connected.print(&failed, |_| outln!("{} has failed: {}", self.id, plain(&self.reason)))
            }
            Failed::Ended(status) => bail!("request {} is {status}; only a live request can be failed", self.id),
            Failed::Unknown => bail!("there is no request {}", self.id),
        }
    }
}
