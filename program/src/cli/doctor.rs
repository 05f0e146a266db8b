//! `tidegate doctor`

mod textfile;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use anyhow::Context;
use clap::Args;
use humantime::parse_duration;

use tidegate::internals::doctor::{CONNECTIONS, Findings};

use super::{GlobalArgs, exit_code, table::time};
use crate::logs::print_err;

#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 no violation was found, 3 there are violations, 1 error, or an invariant was not examined at all."
)]
pub(super) struct Doctor {
    /// After this time the remaining requests, the oldest, are left out; 0s: never
    #[arg(long, value_name = "DURATION", default_value = "50s", value_parser = parse_duration)]
    time_limit: Duration,
    /// Write the violations as metrics to this file, for Prometheus' textfile collector; it stays as it is after exit status 1
    #[arg(long, value_name = "FILE")]
    textfile: Option<PathBuf>,
}

impl Doctor {
    pub(super) async fn run(self, global: GlobalArgs) -> anyhow::Result<ExitCode> {
        let connected = global.connect(CONNECTIONS).await?;
        let store = &connected.store;
        let counts = store.request_overview().await?;
        let requests = counts.iter().map(|count| count.requests).sum();
        let limit = (!self.time_limit.is_zero()).then_some(self.time_limit);
        let warnings = store.configuration_warnings().await?;
        let report = |took: Duration, examined: &str| {
            print_err(format_args!("{:>3.0} s: {examined}", took.as_secs_f64()));
        };
        let mut findings = Findings::new(store.invariants().await?, warnings, requests, limit, Box::new(report));

        // The findings so far are printed in any case, also after an error and after Ctrl-C.
        let examined = tokio::select! {
            examined = findings.examine(store) => examined,
            _ = tokio::signal::ctrl_c() => Ok(()),
        };
        connected.print(&findings.json(), |_| print(&findings))?;
        examined?;
        if findings.is_sound() && !findings.has_examined() {
            return Ok(ExitCode::FAILURE);
        }
        if let Some(path) = &self.textfile {
            textfile::write(path, &findings)
                .with_context(|| format!("cannot write the metrics to {}", path.display()))?;
        }
        Ok(exit_code(findings.is_sound()))
    }
}

/// Prints each violation with its query and each warning, then how much was read.
fn print(findings: &Findings) {
    for (invariant, found) in findings.broken() {
        outln!("{}: {}", invariant.name, found.violations);
        outln!("  rule: {}", invariant.rule);
        outln!("  violated by: {}", found.samples.join(", "));
        outln!("  query of all violations:");
        for line in invariant.query.lines() {
            outln!("    {line}");
        }
        outln!();
    }
    for warning in &findings.warnings {
        outln!("warning: {}: {}", warning.name, warning.subject);
        outln!("  {}\n", warning.message);
    }
    let (checked, seconds) = (findings.checked(), findings.took().as_secs_f64());
    match findings.broken().count() {
        0 if findings.is_complete() => outln!("all {checked} invariants hold ({seconds:.1} s)"),
        0 => outln!("no violation of {checked} invariants was found ({seconds:.1} s)"),
        broken => {
            outln!("{broken} of {checked} invariants do not hold ({seconds:.1} s)");
            outln!("`tidegate recover` repairs part of this; docs/maintenance.md lists every invariant");
        }
    }
    if findings.is_complete() {
        return;
    }
    if !findings.all_read {
        let back_to = findings.read_back_to().map_or_else(String::new, |at| format!(", back to {}", time(at)));
        outln!("read: the newest {} of about {} requests{back_to}", findings.read, findings.requests);
    }
    if !findings.unfinished.is_empty() {
        outln!("not examined, or not to the end: {}", findings.unfinished.join(", "));
    }
    outln!("`tidegate doctor --time-limit 0s` reads everything");
}
