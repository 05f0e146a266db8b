//! `tidegate redrive`

use std::{process::ExitCode, str::FromStr, time::Duration};

use chrono::{DateTime, Utc};
use clap::Args;
use serde::Serialize;
use uuid::Uuid;

use super::{DatabaseArgs, table::plain};
use crate::store::{Redrive as Step, Store};

/// What `redrive` answers when some could not be submitted, besides 0 for done and 1 for an error of its own.
const SOME_ARE_LEFT: u8 = 3;

/// How many ids are shown to a person.
const IDS_SHOWN: usize = 20;

#[derive(Debug, Args)]
#[command(
    after_help = "Each request is submitted again once at most. Towards the downstream the new one is another request: what the \
                  old one has done there may be done again.\n\
                  Exit status: 0 all that there was, 3 some are left (the gates had no room, or they cannot be submitted any \
                  more), 1 error."
)]
pub(super) struct Redrive {
    /// Only this kind
    #[arg(long)]
    kind: Option<String>,
    /// Only what ended since then: a time such as 2026-11-20T08:00:00Z, or so long ago, such as 2h
    #[arg(long)]
    since: Option<Since>,
    /// Only errors of this code; without, all but `cancelled`, `outcome_unknown`, and what was begun to be sent at most once
    #[arg(long)]
    code: Option<String>,
    /// Submit this many at most
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Requests per transaction
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(i32).range(1..=10_000))]
    batch: i32,
    /// Only say what would be submitted again
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A point in time, or so long ago.
#[derive(Debug, Clone, Copy)]
enum Since {
    At(DateTime<Utc>),
    Ago(Duration),
}

impl FromStr for Since {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(at) = DateTime::parse_from_rfc3339(text) {
            return Ok(Self::At(at.into()));
        }
        humantime::parse_duration(text)
            .map(Self::Ago)
            .map_err(|_| "neither a time such as 2026-11-20T08:00:00Z nor a length such as 2h".into())
    }
}

impl Since {
    async fn at(self, store: &Store) -> anyhow::Result<DateTime<Utc>> {
        Ok(match self {
            Self::At(at) => at,
            Self::Ago(ago) => store.time_ago(ago).await?,
        })
    }
}

#[derive(Debug, Default, Serialize)]
struct Summary {
    dry_run: bool,
    redriven: i64,
    refused: i64,
    retry_after_seconds: Option<i32>,
    requests: Vec<Redriven>,
    unfit: Vec<Unfit>,
}

/// An old request, and the new one; none of a dry run.
#[derive(Debug, Serialize)]
struct Redriven {
    job_id: Uuid,
    redriven_as: Option<Uuid>,
}

/// An old request that nobody could submit now, and why.
#[derive(Debug, Serialize)]
struct Unfit {
    job_id: Uuid,
    reason: String,
}

impl Redrive {
    pub(super) async fn run(mut self, database: DatabaseArgs) -> anyhow::Result<ExitCode> {
        // The HTTP spelling is welcome here too.
        self.kind = self.kind.map(|kind| kind.replace('-', "_"));
        let connected = database.connect(1).await?;
        let store = &connected.store;
        let mut summary = Summary {
            dry_run: self.dry_run,
            ..Summary::default()
        };
        let step = Step {
            batch: self.batch,
            dry_run: self.dry_run,
            kind: self.kind.as_deref(),
            since: match self.since {
                Some(since) => Some(since.at(store).await?),
                None => None,
            },
            code: self.code.as_deref(),
        };

        let result = self.batches(store, step, &mut summary).await;
        // Also when it broke off: what was submitted by then stays submitted.
        if result.is_ok() || summary.redriven > 0 {
            if self.json {
                outln!("{}", serde_json::to_string_pretty(&summary)?);
            } else {
                print(&summary);
            }
        }
        result?;
        Ok(if summary.refused == 0 && summary.unfit.is_empty() {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(SOME_ARE_LEFT)
        })
    }

    /// One bounded batch a transaction.
    async fn batches(&self, store: &Store, mut step: Step<'_>, summary: &mut Summary) -> anyhow::Result<()> {
        let mut after = None;
        while let Some(batch) = self.next_batch(summary.redriven) {
            step.batch = batch;
            let done = store.redrive(&step, after).await?;
            summary.redriven += done.redriven;
            summary.refused += done.refused;
            summary.retry_after_seconds = summary.retry_after_seconds.max(done.retry_after_seconds);
            let mut new_ids = done.new_ids.into_iter();
            summary.requests.extend(done.ids.into_iter().map(|job_id| Redriven {
                job_id,
                redriven_as: new_ids.next(),
            }));
            summary.unfit.extend(
                done.unfit_ids
                    .into_iter()
                    .zip(done.unfit_reasons)
                    .map(|(job_id, reason)| Unfit { job_id, reason }),
            );
            after = done.next_after;
            if after.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// How many requests the next batch may submit; none when the limit is reached.
    fn next_batch(&self, redriven: i64) -> Option<i32> {
        let left = self.limit.map_or(i64::MAX, |limit| i64::from(limit) - redriven);
        let batch = self.batch.min(i32::try_from(left).unwrap_or(i32::MAX));
        (batch > 0).then_some(batch)
    }
}

fn print(summary: &Summary) {
    let would = if summary.dry_run { "would be " } else { "" };
    outln!("{} {would}submitted again", summary.redriven);
    for request in summary.requests.iter().take(IDS_SHOWN) {
        match request.redriven_as {
            Some(redriven_as) => outln!("  {} as {redriven_as}", request.job_id),
            None => outln!("  {}", request.job_id),
        }
    }
    if summary.requests.len() > IDS_SHOWN {
        outln!(
            "  … and {} more (--json lists them all)",
            summary.requests.len() - IDS_SHOWN
        );
    }
    if !summary.unfit.is_empty() {
        outln!("{} cannot be submitted again:", summary.unfit.len());
    }
    for request in summary.unfit.iter().take(IDS_SHOWN) {
        outln!("  {}: {}", request.job_id, plain(&request.reason));
    }
    if summary.unfit.len() > IDS_SHOWN {
        outln!(
            "  … and {} more (--json lists them all)",
            summary.unfit.len() - IDS_SHOWN
        );
    }
    if summary.refused > 0 {
        outln!(
            "the gates have no room for {}; come back in {} s for these and the rest",
            summary.refused,
            summary.retry_after_seconds.unwrap_or_default()
        );
    }
}
