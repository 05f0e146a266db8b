//! `tidegate config`

use std::{collections::BTreeMap, process::ExitCode};

use anyhow::{Context, bail};
use clap::Subcommand;
use serde_json::{json, value::to_raw_value};

use super::{
    DatabaseArgs, print_json,
    table::{or_dash, table, time},
};
use crate::store::Store;

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
    /// Show the changes of settings with their authors, the latest first
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
        let connected = database.connect(1).await?;
        let store = &connected.store;
        match self {
            Self::Get { name, json } => get(store, name.as_deref(), json).await,
            Self::Set { changes, json } => set(store, &changes, json).await,
            Self::History { name, limit, json } => history(store, name.as_deref(), limit, json).await,
        }
    }
}

async fn get(store: &Store, name: Option<&str>, json: bool) -> anyhow::Result<ExitCode> {
    let settings = store.config_get(name).await?;
    if json {
        return print_json(&settings);
    }
    let comment = match settings.as_slice() {
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
    if let Some(comment) = comment {
        outln!("\n{comment}");
    }
    Ok(ExitCode::SUCCESS)
}

async fn set(store: &Store, words: &[String], json: bool) -> anyhow::Result<ExitCode> {
    let mut changes = BTreeMap::new();
    for pair in words.chunks(2) {
        let [name, value] = pair else {
            bail!("{} has no value: give names and values in turn", pair[0]);
        };
        let value = to_raw_value(&json!(value)).context("the value is not text")?;
        if changes.insert(name.clone(), value).is_some() {
            bail!("{name} is given twice");
        }
    }
    let changed = store.config_set_many(&changes).await?;
    if json {
        print_json(&changed)?;
    } else if changed.is_empty() {
        outln!("nothing changed: the settings had these values before");
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
                "{name}: this needs workers whose stage commits its effect with the receipt (Stages::transact_with_effect); \
                 other workers do not start for this kind, so stop those that run now"
            );
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn history(store: &Store, name: Option<&str>, limit: i32, json: bool) -> anyhow::Result<ExitCode> {
    let changes = store.config_history(name, limit, None).await?;
    if json {
        return print_json(&changes);
    } else if changes.is_empty() {
        outln!("nothing was changed");
    } else {
        let rows = changes.into_iter().map(|change| {
            [
                time(change.at),
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
    Ok(ExitCode::SUCCESS)
}
