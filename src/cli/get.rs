//! `tidegate get`

use std::process::ExitCode;

use anyhow::Context;
use serde_json::json;

use super::{GlobalArgs, print_json, table::plain};
use crate::request::{RequestId, Status};

pub(super) async fn run(global: GlobalArgs, id: RequestId) -> anyhow::Result<ExitCode> {
    let connected = global.connect(1).await?;
    let outlook = connected.store.outlook(id).await?;
    let outlook = outlook.with_context(|| format!("there is no request {id}"))?;
    let seconds = outlook.eta.map_or(0, |eta| eta.retry_after.as_secs());
    if connected.json {
        return print_json(&json!({
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
        }));
    }

    let mut line = format!("{} is {}", outlook.kind, outlook.status);
    if !outlook.status.is_terminal() {
        line += &format!(" ({})", outlook.place);
        if let (Some(position), Some(queue)) = (outlook.position, &outlook.queue) {
            line += &format!(": position {position} in {queue}");
        }
        line += &format!("; ask again in {seconds} s");
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
