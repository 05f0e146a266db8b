//! `tidegate doctor`

mod findings;

use std::{process::ExitCode, time::Duration};

use clap::Args;
use humantime::parse_duration;

use self::findings::{CONNECTIONS, Findings};
use super::DatabaseArgs;

/// What `doctor` answers when something is wrong, besides 0 for nothing and 1 for an error of its own.
const SOMETHING_IS_WRONG: u8 = 3;

#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 nothing wrong was found, 3 something was, 1 error, or something was not looked at at all."
)]
pub(super) struct Doctor {
    /// After this time, requests not read yet are left out, the oldest; 0s: never
    #[arg(long, value_name = "DURATION", default_value = "50s", value_parser = parse_duration)]
    time_limit: Duration,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Doctor {
    pub(super) async fn run(self, database: DatabaseArgs) -> anyhow::Result<ExitCode> {
        let connected = database.connect(CONNECTIONS).await?;
        let store = &connected.store;
        let counts = store.request_overview().await?;
        let requests = counts.iter().map(|count| count.requests).sum();
        let limit = (!self.time_limit.is_zero()).then_some(self.time_limit);
        let mut findings = Findings::new(store.invariants().await?, requests, limit);

        // The findings so far are printed in any case: after an error and after Ctrl-C, too.
        let looked = tokio::select! {
            looked = findings.look(store) => looked,
            _ = tokio::signal::ctrl_c() => Ok(()),
        };
        let report = findings.report();
        if self.json {
            outln!("{}", serde_json::to_string_pretty(&report)?);
        } else {
            report.print();
        }
        looked?;
        Ok(if !findings.is_sound() {
            ExitCode::from(SOMETHING_IS_WRONG)
        } else if findings.has_looked() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}
