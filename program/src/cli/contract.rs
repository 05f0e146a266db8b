//! `tidegate contract`

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, anyhow};
use clap::Subcommand;
use tidegate::{internals::store::Store, request::JsonText};

use super::{GlobalArgs, exit_code, table::or_dash};

#[derive(Debug, Subcommand)]
pub(super) enum Contract {
    /// Compare a contract with the database, and show each observed value and its bound
    #[command(after_help = "Exit status: 0 everything holds, 3 something does not, 1 error.")]
    Check {
        /// A JSON array of assertions [default: the contract that `show` prints]
        file: Option<PathBuf>,
        /// Also store the observed values as the baseline of later checks, which shows them, and which bounds may be
        /// relative to
        #[arg(long)]
        record: bool,
    },
    /// Print the contract that the policies of all kinds state now, to keep and to change
    Show,
}

impl Contract {
    pub(super) async fn run(self, global: GlobalArgs) -> anyhow::Result<ExitCode> {
        let connected = global.connect(1).await?;
        let (file, record) = match self {
            Self::Check { file, record } => (file, record),
            Self::Show => {
                outln!("{}", of_kinds(&connected.store).await?);
                return Ok(ExitCode::SUCCESS);
            }
        };
        let assertions = match file {
            Some(file) => read(&file)?,
            None => serde_json::from_str(&of_kinds(&connected.store).await?)?,
        };
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

async fn of_kinds(store: &Store) -> anyhow::Result<String> {
    let assertions = store.contract_of_kinds().await?;
    Ok(format!("[\n  {}\n]", assertions.join(",\n  ")))
}

fn read(file: &Path) -> anyhow::Result<JsonText> {
    let name = file.display();
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read the contract {name}"))?;
    serde_json::from_str(&text).map_err(|error| anyhow!("{name} is not JSON: {error}"))
}
