//! `tidegate cancel`

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use tidegate::{
    internals::{
        recovery::next_batch,
        store::{Cancelled, PageQuery, Store},
    },
    request::{RequestId, Status},
};
use uuid::Uuid;

use super::{GlobalArgs, exit_code, list::Filter, table::print_first};

#[derive(Debug, Args)]
#[command(
    after_help = "A request that is being sent is cancelled unless that succeeds. Each batch is a transaction of its own; what \
                  is submitted meanwhile stays.\n\
                  Examples: `tidegate cancel --submitter shop --dry-run`, `tidegate cancel --kind payout --older-than 2h`.\n\
                  Exit status: 0 all were cancelled, 3 some of those named cannot be, 1 error."
)]
pub(super) struct Cancel {
    /// The job ids
    #[arg(required_unless_present = "Filter", conflicts_with_all = ["Filter", "limit", "dry_run"])]
    ids: Vec<RequestId>,
    #[command(flatten)]
    filter: Filter,
    /// Cancel this many at most
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Requests per transaction
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(i32).range(1..=1000))]
    batch: i32,
    /// Only count and list the requests that would be cancelled
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Default, Serialize)]
struct Summary {
    dry_run: bool,
    /// How many have ended.
    cancelled: i64,
    /// How many are being sent, and end as cancelled unless that succeeds.
    cancelling: i64,
    requests: Vec<Uuid>,
    not_cancellable: Vec<NotCancellable>,
}

/// A named request that cannot be cancelled: its state, null: there is none.
#[derive(Debug, Serialize)]
struct NotCancellable {
    job_id: RequestId,
    state: Option<Status>,
}

impl Cancel {
    pub(super) async fn run(self, global: GlobalArgs) -> anyhow::Result<ExitCode> {
        let connected = global.connect(1).await?;
        let store = &connected.store;
        let mut summary = Summary { dry_run: self.dry_run, ..Summary::default() };
        let result = if self.ids.is_empty() {
            let query = self.filter.page(store).await?;
            batches(store, query, self.batch, self.limit, &mut summary).await
        } else {
            named(store, &self.ids, &mut summary).await
        };
        // Also after an error: requests that were cancelled before it stay cancelled.
        if result.is_ok() || !summary.requests.is_empty() {
            connected.print(&summary, print)?;
        }
        result?;
        Ok(exit_code(summary.not_cancellable.is_empty()))
    }
}

/// One bounded batch a transaction.
async fn batches(
    store: &Store,
    mut query: PageQuery,
    batch: i32,
    limit: Option<u32>,
    summary: &mut Summary,
) -> anyhow::Result<()> {
    while let Some(size) = next_batch(batch, limit, summary.requests.len()) {
        query.limit = size;
        let done = store.cancel_requests(&query, None, summary.dry_run).await?;
        summary.cancelled += done.cancelled;
        summary.cancelling += done.cancelling;
        summary.requests.extend(done.ids);
        query.before = done.next;
        if done.next.is_none() {
            break;
        }
    }
    Ok(())
}

async fn named(store: &Store, ids: &[RequestId], summary: &mut Summary) -> anyhow::Result<()> {
    for &job_id in ids {
        let state = match store.cancel(job_id).await? {
            Cancelled::Cancelled => {
                summary.cancelled += 1;
                summary.requests.push(job_id.0);
                continue;
            }
            Cancelled::Cancelling => {
                summary.cancelling += 1;
                summary.requests.push(job_id.0);
                continue;
            }
            Cancelled::NotCancellable(status) => Some(status),
            Cancelled::Unknown => None,
        };
        summary.not_cancellable.push(NotCancellable { job_id, state });
    }
    Ok(())
}

fn print(summary: &Summary) {
    let would = if summary.dry_run { "would be " } else { "" };
    outln!("{} {would}cancelled", summary.cancelled);
    if summary.cancelling > 0 {
        outln!("{} {would}cancelled unless the send that is under way succeeds", summary.cancelling);
    }
    print_first(summary.requests.iter().map(Uuid::to_string));
    for NotCancellable { job_id, state } in &summary.not_cancellable {
        match state {
            Some(state) => outln!("{job_id} is {state}, and is not cancelled"),
            None => outln!("there is no request {job_id}"),
        }
    }
}
