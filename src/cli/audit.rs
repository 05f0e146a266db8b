//! `tidegate audit`

use std::process::ExitCode;

use chrono::SecondsFormat;
use clap::Subcommand;
use serde_json::json;

use super::{
    DatabaseArgs,
    table::{or_dash, plain, table},
};
use crate::{request::RequestId, store::AuditStep};

/// What `replay` answers when something is wrong, besides 0 for a sound life and 1 for an error of its own.
const SOMETHING_IS_WRONG: u8 = 3;

#[derive(Debug, Subcommand)]
pub(super) enum Audit {
    /// Show a request's life step by step, each held against the rules and the bounds
    #[command(after_help = "Exit status: 0 nothing is wrong, 3 something is, 1 error.")]
    Replay {
        /// The job id
        id: RequestId,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

impl Audit {
    pub(super) async fn run(self, database: DatabaseArgs) -> anyhow::Result<ExitCode> {
        let Self::Replay { id, json } = self;
        let connected = database.connect(1).await?;
        let steps = connected.store.audit_replay(id).await?;
        let findings = steps.iter().filter(|step| step.finding.is_some()).count();
        if json {
            let audit = json!({ "job_id": id, "sound": findings == 0, "steps": steps });
            outln!("{}", serde_json::to_string_pretty(&audit)?);
        } else {
            print(id, &steps);
        }
        Ok(if findings == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(SOMETHING_IS_WRONG)
        })
    }
}

/// The steps in order, below each what there is to say about it, and at the end the whole.
fn print(id: RequestId, steps: &[AuditStep]) {
    let (life, whole): (Vec<_>, Vec<_>) = steps.iter().partition(|step| step.transition_no.is_some());
    let rows = life.iter().map(|step| {
        [
            or_dash(step.transition_no),
            or_dash(step.at.map(|at| at.to_rfc3339_opts(SecondsFormat::Millis, true))),
            step.after_seconds
                .map_or_else(|| "-".to_owned(), |after| format!("{after:+.3} s")),
            format!(
                "{} → {}",
                step.from_status.as_deref().unwrap_or("(entry)"),
                or_dash(step.to_status.as_ref())
            ),
            or_dash(step.cause.as_ref()),
            or_dash(step.attempt),
            or_dash(step.worker.as_ref()),
            said(step),
        ]
    });
    let header = ["no", "at", "after", "step", "cause", "attempt", "worker", ""];
    outln!("{id}\n\n{}\n", table(header, rows));
    for step in &whole {
        outln!("{}", plain(&said(step)));
    }
    match steps.iter().filter(|step| step.finding.is_some()).count() {
        0 => outln!("nothing is wrong"),
        1 => outln!("1 finding"),
        findings => outln!("{findings} findings"),
    }
}

/// What is wrong comes first, in capitals that are easy to look for.
fn said(step: &AuditStep) -> String {
    let wrong = step.finding.as_ref().map(|finding| format!("WRONG: {finding}"));
    let parts = [wrong, step.remark.clone()];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}
