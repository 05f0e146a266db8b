//! `tidegate audit`

use std::process::ExitCode;

use chrono::SecondsFormat;
use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tidegate::{internals::store::AuditStep, request::RequestId};

use super::{
    Connected, GlobalArgs, exit_code,
    since::Since,
    table::{or_dash, plain, table},
};

#[derive(Debug, Subcommand)]
pub(super) enum Audit {
    /// Show a request's history step by step, each compared with the rules and the bounds; or compare those of many, and
    /// show what is wrong
    #[command(
        after_help = "With --kind or --since, --json prints an object a line: each life with findings, and last \
                            the figures of all.\n\
                            Exit status: 0 nothing is wrong, 3 something is, 1 error."
    )]
    Replay(Replay),
}

/// What a step's detail may have.
#[derive(Deserialize)]
struct Coded {
    code: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct Replay {
    /// The job id
    #[arg(required_unless_present_any = ["kind", "since"], conflicts_with_all = ["kind", "since"])]
    id: Option<RequestId>,
    /// All requests of this kind
    #[arg(long)]
    kind: Option<String>,
    /// All requests that were submitted since this time, such as 2026-11-20T08:00:00Z, or this long ago, such as 2h
    #[arg(long, value_parser = Since::parse)]
    since: Option<Since>,
    /// Requests per statement
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(i32).range(1..=10_000))]
    batch: i32,
}

/// The figures of many lives.
#[derive(Debug, Default, Serialize)]
struct Figures {
    /// How many lives were audited.
    lives: i64,
    /// How many of these have ended.
    ended: i64,
    /// How many have findings.
    wrong: usize,
    findings: usize,
}

impl Audit {
    pub(super) async fn run(self, global: GlobalArgs) -> anyhow::Result<ExitCode> {
        let Self::Replay(replay) = self;
        let connected = global.connect(1).await?;
        match replay.id {
            Some(id) => one(&connected, id).await,
            None => replay.many(&connected).await,
        }
    }
}

async fn one(connected: &Connected, id: RequestId) -> anyhow::Result<ExitCode> {
    let steps = connected.store.audit_replay(id).await?;
    let findings = steps.iter().filter(|step| step.finding.is_some()).count();
    let audited = json!({ "job_id": id, "sound": findings == 0, "steps": steps });
    connected.print(&audited, |_| print(id, &steps, findings))?;
    Ok(exit_code(findings == 0))
}

impl Replay {
    /// Page by page, each life with findings as it is found, so that the memory is that of a page however many they are.
    async fn many(self, connected: &Connected) -> anyhow::Result<ExitCode> {
        let store = &connected.store;
        // The HTTP spelling is accepted too.
        let kind = self.kind.map(|kind| kind.replace('-', "_"));
        let since = Since::resolve(self.since, store).await?;
        let mut figures = Figures::default();
        let mut next = Some(None);
        while let Some(after) = next {
            let page = store.audit_lives(kind.as_deref(), since, after, self.batch).await?;
            figures.lives += page.examined;
            figures.ended += page.ended;
            figures.wrong += page.wrong.len();
            for life in page.wrong {
                figures.findings += life.findings.len();
                if connected.json {
                    outln!("{}", serde_json::to_string(&life)?);
                    continue;
                }
                outln!("{} {} {}", life.job_id, plain(&life.kind), life.state);
                for finding in life.findings {
                    outln!("  WRONG: {}", plain(&finding));
                }
            }
            next = page.next_after.map(Some);
        }
        if connected.json {
            outln!("{}", serde_json::to_string(&figures)?);
        } else {
            let (lives, ended) = (figures.lives, figures.ended);
            let (wrong, findings) = (figures.wrong, figures.findings);
            outln!("{lives} lives, {ended} of them ended: {wrong} with {findings} findings");
        }
        Ok(exit_code(figures.wrong == 0))
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
            cause(step),
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

/// The cause, with the code of the error if there is one.
fn cause(step: &AuditStep) -> String {
    let detail = step.detail.as_ref();
    let code = detail.and_then(|detail| serde_json::from_str::<Coded>(detail.get()).ok()?.code);
    match (&step.cause, code) {
        (Some(cause), Some(code)) if *cause != code => format!("{cause}: {code}"),
        (cause, _) => or_dash(cause.as_ref()),
    }
}

/// The finding, in capitals that are easy to search for, then the remark.
fn notes(step: &AuditStep) -> String {
    let wrong = step.finding.as_ref().map(|finding| format!("WRONG: {finding}"));
    let parts = [wrong, step.remark.clone()];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}
