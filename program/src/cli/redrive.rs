//! `tidegate redrive`

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use tidegate::{
    internals::{
        recovery::next_batch,
        store::{Redrive as Step, Store},
    },
    request::{RequestId, Status},
};
use uuid::Uuid;

use super::{
    GlobalArgs, exit_code,
    since::Since,
    table::{plain, print_first},
};

#[derive(Debug, Args)]
#[command(
    after_help = "Each request is submitted again once at most. For the downstream the new one is another request.\n\
                  Exit status: 0 all were submitted, 3 some are left (the gates refused them, or they cannot be submitted any \
                  more), 1 error."
)]
pub(super) struct Redrive {
    /// Only these requests, those that were cancelled too
    #[arg(value_name = "JOB_ID", conflicts_with = "limit")]
    ids: Vec<RequestId>,
    /// Only this kind
    #[arg(long)]
    kind: Option<String>,
    /// Only requests in this state: `failure` or `timed_out`
    #[arg(long = "state", value_name = "STATE")]
    statuses: Vec<Status>,
    /// Only requests that ended since this time, such as 2026-11-20T08:00:00Z, or this long ago, such as 2h
    #[arg(long, value_parser = Since::parse)]
    since: Option<Since>,
    /// Only requests that ended before this time, or longer ago than this
    #[arg(long, value_name = "TIME", value_parser = Since::parse)]
    until: Option<Since>,
    /// Only those of this submitter
    #[arg(long)]
    submitter: Option<String>,
    /// Only errors of this code; without it, all but `cancelled`
    #[arg(long)]
    code: Option<String>,
    /// Also requests that were, or may have been, executed: their effects may be repeated
    #[arg(long)]
    may_repeat: bool,
    /// Submit this many at most
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Requests per transaction
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(i32).range(1..=10_000))]
    batch: i32,
    /// Only list the requests that would be submitted again
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Default, Serialize)]
struct Summary {
    dry_run: bool,
    redriven: i64,
    refused: i64,
    retry_after_seconds: Option<i32>,
    requests: Vec<Redriven>,
    unfit: Vec<Unfit>,
    /// Those that were named and are none of these.
    left: Vec<Uuid>,
}

/// An old request, and the new one; none of a dry run.
#[derive(Debug, Serialize)]
struct Redriven {
    job_id: Uuid,
    redriven_as: Option<Uuid>,
}

/// An old request that cannot be submitted now, and why.
#[derive(Debug, Serialize)]
struct Unfit {
    job_id: Uuid,
    reason: String,
}

impl Redrive {
    pub(super) async fn run(mut self, global: GlobalArgs) -> anyhow::Result<ExitCode> {
        // The HTTP spelling is accepted too.
        self.kind = self.kind.map(|kind| kind.replace('-', "_"));
        let connected = global.connect(1).await?;
        let store = &connected.store;
        let mut summary = Summary { dry_run: self.dry_run, ..Summary::default() };
        let ids: Vec<_> = self.ids.iter().map(|id| id.0).collect();
        let step = Step {
            batch: self.batch,
            dry_run: self.dry_run,
            kind: self.kind.as_deref(),
            since: Since::resolve(self.since, store).await?,
            code: self.code.as_deref(),
            may_repeat: self.may_repeat,
            submitter: self.submitter.as_deref(),
            until: Since::resolve(self.until, store).await?,
            requests: (!ids.is_empty()).then_some(&ids),
            statuses: &self.statuses,
        };

        let result = self.batches(store, step, &mut summary).await;
        let done = |id: &Uuid| summary.requests.iter().any(|request| request.job_id == *id);
        let unfit = |id: &Uuid| summary.unfit.iter().any(|request| request.job_id == *id);
        summary.left = ids.iter().copied().filter(|id| !done(id) && !unfit(id)).collect();
        // Also after an error: requests that were submitted before it stay submitted.
        if result.is_ok() || summary.redriven > 0 {
            connected.print(&summary, print)?;
        }
        result?;
        Ok(exit_code(summary.refused == 0 && summary.unfit.is_empty() && summary.left.is_empty()))
    }

    /// One bounded batch a transaction.
    async fn batches(&self, store: &Store, step: Step<'_>, summary: &mut Summary) -> anyhow::Result<()> {
        let mut next = Some(None);
        while let Some(after) = next
            && let Some(batch) = next_batch(self.batch, self.limit, summary.requests.len())
        {
            let done = store.redrive(&Step { batch, ..step }, after).await?;
            summary.redriven += done.redriven;
            summary.refused += done.refused;
            summary.retry_after_seconds = summary.retry_after_seconds.max(done.retry_after_seconds);
            let mut new_ids = done.new_ids.into_iter();
            summary
                .requests
                .extend(done.ids.into_iter().map(|job_id| Redriven { job_id, redriven_as: new_ids.next() }));
            let unfit = done.unfit_ids.into_iter().zip(done.unfit_reasons);
            summary.unfit.extend(unfit.map(|(job_id, reason)| Unfit { job_id, reason }));
            next = done.next_after.map(Some);
        }
        Ok(())
    }
}

fn print(summary: &Summary) {
    let would = if summary.dry_run { "would be " } else { "" };
    outln!("{} {would}submitted again", summary.redriven);
    print_first(summary.requests.iter().map(|request| match request.redriven_as {
        Some(redriven_as) => format!("{} as {redriven_as}", request.job_id),
        None => request.job_id.to_string(),
    }));
    if !summary.unfit.is_empty() {
        outln!("{} cannot be submitted again:", summary.unfit.len());
    }
    let unfit = summary.unfit.iter();
    print_first(unfit.map(|request| format!("{}: {}", request.job_id, plain(&request.reason))));
    if summary.refused > 0 {
        let (refused, seconds) = (summary.refused, summary.retry_after_seconds.unwrap_or_default());
        outln!("the gates refuse {refused}: run it again in {seconds} s for these and the rest");
    } else if !summary.left.is_empty() {
        outln!(
            "{} stay as they are: live, answered, redriven before, or perhaps executed (then --may-repeat)",
            summary.left.len()
        );
    }
}
