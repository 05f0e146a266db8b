//! `tidegate doctor`

use std::{process::ExitCode, time::Instant};

use clap::Args;
use serde_json::json;

use super::DatabaseArgs;
use crate::store::Violation;

/// What `doctor` answers when something is wrong, besides 0 for nothing and 1 for an error of its own.
const SOMETHING_IS_WRONG: u8 = 3;

#[derive(Debug, Args)]
#[command(after_help = "Exit status: 0 nothing is wrong, 3 something is, 1 error.")]
pub(super) struct Doctor {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Doctor {
    pub(super) async fn run(self, database: DatabaseArgs) -> anyhow::Result<ExitCode> {
        let connected = database.connect(1).await?;
        let store = &connected.store;
        let checked = store.invariant_count().await?;
        let began = Instant::now();
        let violations = store.invariant_violations().await?;
        let seconds = began.elapsed().as_secs_f64();

        if self.json {
            let findings = json!({
                "sound": violations.is_empty(),
                "checked": checked,
                "seconds": seconds,
                "violations": violations,
            });
            outln!("{}", serde_json::to_string_pretty(&findings)?);
        } else {
            for violation in &violations {
                print(violation);
            }
            match violations.len() {
                0 => outln!("all {checked} invariants hold (looked for {seconds:.1} s)"),
                broken => {
                    outln!(
                        "{broken} of {checked} invariants do not hold (looked for {seconds:.1} s)"
                    );
                    outln!(
                        "`tidegate recover` puts right what it can; what else to do, docs/operations.md says by name"
                    );
                }
            }
        }
        Ok(if violations.is_empty() {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(SOMETHING_IS_WRONG)
        })
    }
}

/// What is wrong, where, and how to see all of it.
fn print(violation: &Violation) {
    outln!("{}: {}", violation.name, violation.violations);
    outln!("  it should be so: {}", violation.says);
    outln!("  it is not with: {}", violation.samples.join(", "));
    outln!("  all of them:");
    for line in violation.query.lines() {
        outln!("    {line}");
    }
    outln!();
}
