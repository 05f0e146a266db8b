//! `tidegate explain`

use std::process::ExitCode;

use anyhow::Context;
use serde_json::json;
use tidegate::request::RequestId;

use super::{GlobalArgs, table::plain};

pub(super) async fn run(global: GlobalArgs, id: RequestId) -> anyhow::Result<ExitCode> {
    let connected = global.connect(1).await?;
    let reasons = connected.store.explain(id).await?;
    let outlook = connected.store.outlook(id).await?;
    let outlook = outlook.with_context(|| format!("there is no request {id}"))?;
    let seconds = outlook.eta.map_or(0, |eta| eta.retry_after.as_secs());
    let figures = json!({
        "job_id": id,
        "kind": outlook.kind,
        "state": outlook.status,
        "retry_after_seconds": seconds,
        "reasons": reasons,
    });
    connected.print(&figures, |_| {
        outln!("{} {id} is {}", outlook.kind, outlook.status);
        for reason in &reasons {
            outln!("  {}", plain(&reason.sentence));
        }
        if !outlook.status.is_terminal() {
            outln!("ask again in {seconds} s");
        }
    })
}
