//! `tidegate keys`

use std::process::ExitCode;

use clap::Args;
use tidegate::internals::store::{FairKey, Store};

use super::{GlobalArgs, table::or_dash};

#[derive(Debug, Args)]
pub(super) struct Keys {
    /// The fair queue
    queue: String,
    /// The submitter or kind to change; '' for requests without a submitter
    #[arg(requires = "change")]
    name: Option<String>,
    #[command(flatten)]
    change: Option<Change>,
    /// How many keys to show at most
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(i32).range(1..=10_000))]
    limit: i32,
}

/// What changes of a key.
#[derive(Debug, Args)]
#[group(id = "change", multiple = true, requires = "name")]
struct Change {
    /// How many of its requests are served for one of a key of weight 1
    #[arg(long, value_name = "N")]
    weight: Option<i32>,
    /// Leave its requests out until it is resumed
    #[arg(long)]
    pause: bool,
    /// Serve its requests again
    #[arg(long, conflicts_with = "pause")]
    resume: bool,
    /// Remove its settings: it has weight 1 and is not paused
    #[arg(long, conflicts_with_all = ["weight", "pause", "resume"])]
    reset: bool,
}

impl Change {
    async fn apply(&self, store: &Store, queue: &str, name: &str) -> anyhow::Result<bool> {
        if self.reset {
            return Ok(store.fair_key_remove(queue, name).await?);
        }
        let paused = (self.pause || self.resume).then_some(self.pause);
        Ok(store.fair_key_set(queue, name, self.weight, paused).await?)
    }
}

impl Keys {
    pub(super) async fn run(self, global: GlobalArgs) -> anyhow::Result<ExitCode> {
        let connected = global.connect(1).await?;
        if let (Some(name), Some(change)) = (&self.name, &self.change) {
            let changed = change.apply(&connected.store, &self.queue, name).await?;
            if !changed && !connected.json {
                outln!("nothing changed: the key had this setting before");
            }
        }
        let mut keys = connected.store.fair_keys(&self.queue, self.limit).await?;
        keys.retain(|key| self.name.as_ref().is_none_or(|name| *name == key.name));
        let header = "key  weight  waiting  held  share  oldest  paused";
        connected.print_rows(keys, "no key has requests here, or settings", header, row)
    }
}

fn row(key: FairKey) -> [String; 7] {
    [
        if key.name.is_empty() { "(none)".to_owned() } else { key.name },
        key.weight.to_string(),
        key.waiting.to_string(),
        key.held.to_string(),
        format!("{:.1} %", key.share * 100.0),
        or_dash(key.oldest_seconds.map(|seconds| format!("{seconds:.0} s"))),
        if key.paused { "yes" } else { "no" }.to_owned(),
    ]
}
