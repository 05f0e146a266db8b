//! `tidegate contract`

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Context, anyhow};
use clap::Subcommand;

use super::{GlobalArgs, exit_code, table::or_dash};
use crate::request::JsonText;

/// The contract of the example's kinds in their first configuration.
const EXAMPLE: &str = include_str!("contract/example.json");

#[derive(Debug, Subcommand)]
pub(super) enum Contract {
    /// Compare a contract with the database, and show each observed value and its bound
    #[command(after_help = "Exit status: 0 everything holds, 3 something does not, 1 error.")]
    Check {
        /// A JSON array of assertions [default: the contract of the example's kinds]
        file: Option<PathBuf>,
        /// Also store the observed values as the baseline of later checks, which shows them, and which bounds may be
        /// relative to
        #[arg(long)]
        record: bool,
    },
    /// Print the contract of the example's kinds, as a template
    Show,
}

impl Contract {
    pub(super) async fn run(self, global: GlobalArgs) -> anyhow::Result<ExitCode> {
        let Self::Check { file, record } = self else {
            outln!("{}", EXAMPLE.trim_end());
            return Ok(ExitCode::SUCCESS);
        };
        let assertions = read(file)?;
        let connected = global.connect(1).await?;
        let rows = if record {
            connected.store.contract_record(&assertions).await?
        } else {
            connected.store.contract_check(&assertions).await?
        };
        let (all, violated) = (rows.len(), rows.iter().filter(|row| !row.holds).count());
        let recorded = rows.iter().filter(|row| record && row.value.is_some()).count();
        let header = "holds  assertion  kind  stage  type  observed  bound  baseline  detail";
        connected.print_rows(rows, "there is no assertion", header, |row| {
            [
                if row.holds { "yes" } else { "NO" }.to_owned(),
                row.place.to_string(),
                row.kind,
                row.stage,
                row.r#type,
                row.observed,
                row.bound,
                or_dash(row.baseline),
                or_dash(row.detail),
            ]
        })?;
        if !connected.json {
            if record {
                outln!("\nobserved values in the baseline: {recorded}");
            }
            match violated {
                0 => outln!("\nall {all} hold"),
                violated => outln!("\n{violated} of {all} do not hold"),
            }
        }
        Ok(exit_code(violated == 0))
    }
}

fn read(file: Option<PathBuf>) -> anyhow::Result<JsonText> {
    let Some(file) = file else {
        return Ok(serde_json::from_str(EXAMPLE)?);
    };
    let name = file.display();
    let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read the contract {name}"))?;
    serde_json::from_str(&text).map_err(|error| anyhow!("{name} is not JSON: {error}"))
}
