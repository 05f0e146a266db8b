//! `tidegate config`

use std::{collections::BTreeMap, process::ExitCode};

use anyhow::bail;
use clap::Subcommand;
use tidegate::request::JsonText;

use super::{
    Connected, GlobalArgs,
    table::{or_dash, time},
};
use crate::logs::print_err;

#[derive(Debug, Subcommand)]
pub(super) enum Config {
    /// Show settings: one, all of a queue or kind, or all there are
    Get {
        /// Its name, such as `tx.per_seconds`; or a queue, a kind, a `KIND.STAGE`
        name: Option<String>,
        /// Those of policies, too, that are seldom set and have their defaults
        #[arg(long)]
        all: bool,
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
        #[arg(required = true, num_args = 2.., value_names = ["NAME", "VALUE"], allow_negative_numbers = true)]
        changes: Vec<String>,
    },
    /// Show the changes of settings with their authors, the latest first
    History {
        /// A setting, queue or kind; all unless given
        name: Option<String>,
        /// How many changes to show at most
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(i32).range(1..=10_000))]
        limit: i32,
    },
}

impl Config {
    pub(super) async fn run(self, global: GlobalArgs) -> anyhow::Result<ExitCode> {
        let connected = global.connect(1).await?;
        match self {
            Self::Get { name, all } => get(&connected, name.as_deref(), all).await,
            Self::Set { changes } => set(&connected, &changes).await,
            Self::History { name, limit } => history(&connected, name.as_deref(), limit).await,
        }
    }
}

/// The columns of policies that are often set.
const OFTEN_SET: [&str; 10] = [
    "attempts",
    "timeout_ms",
    "base_ms",
    "cap_ms",
    "deadline_ms",
    "retry_on",
    "semantics",
    "dedup_window",
    "breaker_error_rate",
    "hedge_max",
];

async fn get(connected: &Connected, name: Option<&str>, all: bool) -> anyhow::Result<ExitCode> {
    let mut settings = connected.store.config_get(name).await?;
    let known = settings.len();
    if !all && !connected.json && known > 1 {
        settings.retain(|setting| {
            !setting.subject.starts_with("policy ") || !setting.is_default || OFTEN_SET.contains(&column(&setting.name))
        });
    }
    let hidden = known - settings.len();
    let comment = match settings.as_slice() {
        [only] if !connected.json => only.comment.clone(),
        _ => None,
    };
    connected.print_rows(settings, "there is no setting", "name  value  unit  default", |setting| {
        let default = if setting.is_default { "default".to_owned() } else { or_dash(setting.default_value.text) };
        [setting.name, or_dash(setting.value.text), setting.unit.unwrap_or_default(), default]
    })?;
    if let Some(comment) = comment {
        outln!("\n{comment}");
    }
    if hidden > 0 {
        outln!("\n{hidden} more settings of policies have their defaults: `--all` shows them");
    }
    Ok(ExitCode::SUCCESS)
}

async fn set(connected: &Connected, words: &[String]) -> anyhow::Result<ExitCode> {
    let mut changes = BTreeMap::new();
    for pair in words.chunks(2) {
        let [name, value] = pair else {
            bail!("{} has no value: give names and values in turn", pair[0]);
        };
        if changes.insert(name.clone(), JsonText::of(value)?).is_some() {
            bail!("{name} is given twice");
        }
    }
    let changed = connected.store.config_set_many(&changes).await?;
    let moved = changed.iter().filter(|change| ["tx_queue", "readiness_queue"].contains(&column(&change.name)));
    let moved: Vec<_> = moved.filter_map(|change| change.new_value.text.clone()).collect();
    let none = "nothing changed: the settings had these values before";
    connected.print_rows(changed, none, "set for  name  was  is", |change| {
        [change.subject, change.name, or_dash(change.old_value.text), or_dash(change.new_value.text)]
    })?;
    for (name, value) in changes {
        if name.ends_with(".tx.semantics") && value.get() == "\"exactly_once\"" {
            print_err(format_args!(
                "{name}: this needs workers whose stage commits its effect with the receipt (Stages::transact_with_effect); \
                 other workers do not start for this kind, so stop those that run now"
            ));
        }
    }
    if !moved.is_empty() {
        let workers = connected.store.worker_overview().await?;
        let is_drained = |queue| workers.iter().any(|worker| worker.alive && worker.queues.contains(queue));
        for queue in moved.iter().filter(|queue| !is_drained(queue)) {
            print_err(format_args!("no live worker drains {queue}: restart the workers, or start one for it"));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The last part of a setting's name: that of its column.
fn column(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

async fn history(connected: &Connected, name: Option<&str>, limit: i32) -> anyhow::Result<ExitCode> {
    let changes = connected.store.config_history(name, limit, None).await?;
    connected.print_rows(changes, "nothing was changed", "when  who  did  to  name  was  became", |change| {
        let user = change.on_behalf_of.map_or_else(String::new, |name| format!(" ({name})"));
        [
            time(change.at),
            change.actor + &user,
            change.operation,
            change.subject,
            change.name,
            or_dash(change.old_value.text),
            or_dash(change.new_value.text),
        ]
    })
}
