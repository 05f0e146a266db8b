//! `tidegate doctor`

mod findings;
mod textfile;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use anyhow::Context;
use clap::Args;
use humantime::parse_duration;

use self::findings::{CONNECTIONS, Findings};
use super::{GlobalArgs, exit_code};

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
        let mut findings = Findings::new(store.invariants().await?, warnings, requests, limit);

        // The findings so far are printed in any case, also after an error and after Ctrl-C.
        let examined = tokio::select! {
            examined = findings.examine(store) => examined,
            _ = tokio::signal::ctrl_c() => Ok(()),
        };
        connected.print(&findings.json(), |_| findings.print())?;
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
