//! `tidegate config`

use std::{collections::BTreeMap, process::ExitCode};

use anyhow::{Context, bail};
use clap::Subcommand;
use serde_json::{json, value::to_raw_value};

use super::{
    DatabaseArgs,
    table::{or_dash, table},
};

#[derive(Debug, Subcommand)]
pub(super) enum Config {
    /// Show settings: one, all of a queue or kind, or all there are
    Get {
        /// Its name, such as `tx.per_seconds`; or a queue, a kind, a `KIND.STAGE`
        name: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Change settings, all or none; they hold everywhere at once
    ///
    /// Names: `min_seconds`, `max_seconds`, `safety_margin`, `response_backoff` (0s=4,60s=10,…),
    /// `readiness_check_seconds`, `tx_confirmation_ms`, KIND`_processing_seconds`, KIND`.deadline` and more,
    /// KIND.STAGE`.attempts` and more, QUEUE`.per_seconds`, QUEUE`.burst`, QUEUE`.max_concurrency`, QUEUE`.paused`,
    /// QUEUE`.high_water`, QUEUE`.low_water`, QUEUE`.mode`. `tidegate config get` shows them all.
    #[command(verbatim_doc_comment)]
    Set {
        /// Names, such as `tx.per_seconds`, each with its value; `none` for no limit
        #[arg(
            required = true,
            num_args = 2..,
            value_names = ["NAME", "VALUE"],
            allow_negative_numbers = true
        )]
        changes: Vec<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show who changed what, the latest change first
    History {
        /// A setting, queue or kind; all unless given
        name: Option<String>,
        /// How many changes to show at most
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(i32).range(1..=10_000))]
        limit: i32,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

impl Config {
    pub(super) async fn run(self, database: DatabaseArgs) -> anyhow::Result<ExitCode> {
        match self {
            Self::Get { name, json } => get(database, name.as_deref(), json).await?,
            Self::Set { changes, json } => set(database, &changes, json).await?,
            Self::History { name, limit, json } => {
                history(database, name.as_deref(), limit, json).await?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

async fn get(database: DatabaseArgs, name: Option<&str>, json: bool) -> anyhow::Result<()> {
    let connected = database.connect(1).await?;
    let settings = connected.store.config_get(name).await?;
    if json {
        outln!("{}", serde_json::to_string_pretty(&settings)?);
        return Ok(());
    }
    let what = match settings.as_slice() {
        [only] => only.comment.clone(),
        _ => None,
    };
    let rows = settings.into_iter().map(|setting| {
        let default = if setting.is_default {
            "default".to_owned()
        } else {
            or_dash(setting.default_value)
        };
        [
            setting.name,
            or_dash(setting.value),
            setting.unit.unwrap_or_default(),
            default,
        ]
    });
    outln!("{}", table(["name", "value", "unit", "default"], rows));
    if let Some(what) = what {
        outln!("\n{what}");
    }
    Ok(())
}

async fn set(database: DatabaseArgs, words: &[String], json: bool) -> anyhow::Result<()> {
    let mut changes = BTreeMap::new();
    for pair in words.chunks(2) {
        let [name, value] = pair else {
            bail!("{} has no value: give names and values in turn", pair[0]);
        };
        let value = to_raw_value(&json!(value)).context("the value is not text")?;
        if changes.insert(name.clone(), value).is_some() {
            bail!("{name} is there twice");
        }
    }
    let connected = database.connect(1).await?;
    let changed = connected.store.config_set_many(&changes).await?;
    if json {
        outln!("{}", serde_json::to_string_pretty(&changed)?);
    } else if changed.is_empty() {
        outln!("nothing changed: it was so before");
    } else {
        let rows = changed.into_iter().map(|change| {
            [
                change.subject,
                change.name,
                or_dash(change.old_value),
                or_dash(change.new_value),
            ]
        });
        outln!("{}", table(["set for", "name", "was", "is"], rows));
    }
    for (name, value) in changes {
        if name.ends_with(".tx.semantics") && value.get() == "\"exactly_once\"" {
            eprintln!(
                "{name}: only workers whose stage commits its effect with the receipt (Stages::transact_with_effect) can \
                 promise that; others do not start for this kind, and those that run now should be stopped"
            );
        }
    }
    Ok(())
}

async fn history(database: DatabaseArgs, name: Option<&str>, limit: i32, json: bool) -> anyhow::Result<()> {
    let connected = database.connect(1).await?;
    let changes = connected.store.config_history(name, limit, None).await?;
    if json {
        outln!("{}", serde_json::to_string_pretty(&changes)?);
    } else if changes.is_empty() {
        outln!("nothing was changed");
    } else {
        let rows = changes.into_iter().map(|change| {
            [
                change.at.format("%Y-%m-%d %H:%M:%SZ").to_string(),
                change
                    .on_behalf_of
                    .map_or_else(|| change.actor.clone(), |name| format!("{} ({name})", change.actor)),
                change.operation,
                change.subject,
                change.name,
                or_dash(change.old_value),
                or_dash(change.new_value),
            ]
        });
        let header = ["when", "who", "did", "to", "name", "was", "became"];
        outln!("{}", table(header, rows));
    }
    Ok(())
}
