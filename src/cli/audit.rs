//! `tidegate audit`

use std::process::ExitCode;

use chrono::SecondsFormat;
use clap::Subcommand;
use serde_json::json;

use super::{
    GlobalArgs, exit_code, print_json,
    table::{or_dash, plain, table},
};
use crate::{request::RequestId, store::AuditStep};

#[derive(Debug, Subcommand)]
pub(super) enum Audit {
    /// Show a request's history step by step, each compared with the rules and the bounds
    #[command(after_help = "Exit status: 0 nothing is wrong, 3 something is, 1 error.")]
    Replay {
        /// The job id
        id: RequestId,
    },
}

impl Audit {
    pub(super) async fn run(self, global: GlobalArgs) -> anyhow::Result<ExitCode> {
        let Self::Replay { id } = self;
        let connected = global.connect(1).await?;
        let steps = connected.store.audit_replay(id).await?;
        let findings = steps.iter().filter(|step| step.finding.is_some()).count();
        if connected.json {
            print_json(&json!({ "job_id": id, "sound": findings == 0, "steps": steps }))?;
        } else {
            print(id, &steps, findings);
        }
        Ok(exit_code(findings == 0))
    }
}

/// The steps in order, then the findings and remarks on the whole history.
fn print(id: RequestId, steps: &[AuditStep], findings: usize) {
    let (life, whole): (Vec<_>, Vec<_>) = steps.iter().partition(|step| step.transition_no.is_some());
    let rows = life.iter().map(|step| {
        let from = step.from_status.as_deref().unwrap_or("(entry)");
        [
            or_dash(step.transition_no),
            or_dash(step.at.map(|at| at.to_rfc3339_opts(SecondsFormat::Millis, true))),
            or_dash(step.after_seconds.map(|after| format!("{after:+.3} s"))),
            format!("{from} → {}", or_dash(step.to_status.as_ref())),
            or_dash(step.cause.as_ref()),
            or_dash(step.attempt),
            or_dash(step.worker.as_ref()),
            notes(step),
        ]
    });
    let header = "no  at  after  step  cause  attempt  worker  ";
    outln!("{id}\n\n{}\n", table(header, rows));
    for step in &whole {
        outln!("{}", plain(&notes(step)));
    }
    match findings {
        0 => outln!("nothing is wrong"),
        1 => outln!("1 finding"),
        findings => outln!("{findings} findings"),
    }
}

/// The finding, in capitals that are easy to search for, then the remark.
fn notes(step: &AuditStep) -> String {
    let wrong = step.finding.as_ref().map(|finding| format!("WRONG: {finding}"));
    let parts = [wrong, step.remark.clone()];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}
