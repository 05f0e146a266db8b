//! `tidegate contract`

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Context, anyhow};
use clap::Subcommand;
use serde_json::value::RawValue;

use super::{
    DatabaseArgs,
    table::{or_dash, table},
};
use crate::store::ContractRow;

/// What holds of the built-in kinds as they come.
const BUILT_IN: &str = include_str!("contract/built_in.json");

/// What `check` answers when something does not hold, besides 0 for a kept contract and 1 for an error of its own.
const VIOLATED: u8 = 3;

#[derive(Debug, Subcommand)]
pub(super) enum Contract {
    /// Hold a contract against the database, and show what was observed and what the bound is
    #[command(after_help = "Exit status: 0 everything holds, 3 something does not, 1 error.")]
    Check {
        /// A JSON array of assertions [default: the contract of the built-in kinds]
        file: Option<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the contract of the built-in kinds, to begin one's own with
    Show,
}

impl Contract {
    pub(super) async fn run(self, database: DatabaseArgs) -> anyhow::Result<ExitCode> {
        let Self::Check { file, json } = self else {
            outln!("{}", BUILT_IN.trim_end());
            return Ok(ExitCode::SUCCESS);
        };
        let assertions = read(file)?;
        let connected = database.connect(1).await?;
        let rows = connected.store.contract_check(&assertions).await?;
        if json {
            outln!("{}", serde_json::to_string_pretty(&rows)?);
        } else {
            print(&rows);
        }
        Ok(if rows.iter().all(|row| row.holds) {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(VIOLATED)
        })
    }
}

fn read(file: Option<PathBuf>) -> anyhow::Result<Box<RawValue>> {
    let (text, name) = match file {
        None => (BUILT_IN.to_owned(), "the built-in contract".to_owned()),
        Some(file) => {
            let name = file.display().to_string();
            let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read the contract {name}"))?;
            (text, name)
        }
    };
    serde_json::from_str(&text).map_err(|error| anyhow!("{name} is not JSON: {error}"))
}

fn print(rows: &[ContractRow]) {
    let shown = rows.iter().map(|row| {
        [
            if row.holds { "yes" } else { "NO" }.to_owned(),
            row.place.to_string(),
            row.kind.clone(),
            row.stage.clone(),
            row.r#type.clone(),
            row.observed.clone(),
            row.bound.clone(),
            or_dash(row.detail.as_ref()),
        ]
    });
    let header = [
        "holds",
        "assertion",
        "kind",
        "stage",
        "type",
        "observed",
        "bound",
        "detail",
    ];
    outln!("{}", table(header, shown));
    match rows.iter().filter(|row| !row.holds).count() {
        0 => outln!("\nall {} hold", rows.len()),
        violated => outln!("\n{violated} of {} do not hold", rows.len()),
    }
}
