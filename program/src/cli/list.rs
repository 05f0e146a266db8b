//! `tidegate list`

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use tidegate::{
    internals::store::{ListedRequest, PageQuery, Store},
    request::{Executed, Status},
};
use uuid::Uuid;

use super::{
    Connected, GlobalArgs,
    since::Since,
    table::{or_dash, table, time},
};

#[derive(Debug, Args)]
#[command(after_help = "Examples: `tidegate list --kind payout --state failure --since 2h`,\n\
                  `tidegate list --state processing --older-than 10min`, `tidegate list --waiting --limit 10`.")]
pub(super) struct List {
    #[command(flatten)]
    filter: Filter,
    /// Only those whose last transition has this cause, or whose error this code
    #[arg(long)]
    cause: Option<String>,
    /// Only those of which this is known: yes, no or unknown
    #[arg(long, value_name = "KNOWN")]
    executed: Option<Executed>,
    /// Only those with at least as many sends
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    attempts: Option<i32>,
    /// The requests that a worker could take now, those that have waited longest first
    #[arg(long, conflicts_with_all = [
        "kind", "statuses", "submitter", "since", "older_than", "cause", "executed", "attempts", "cursor",
    ])]
    waiting: bool,
    /// This many at most
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(i32).range(1..=100_000))]
    limit: i32,
    /// Where to go on: the cursor that the command before has printed
    #[arg(long)]
    cursor: Option<Uuid>,
}

/// Which requests a command is about.
#[derive(Debug, Default, Args)]
pub(super) struct Filter {
    /// Only this kind
    #[arg(long)]
    pub(super) kind: Option<String>,
    /// Only requests in this state; repeat it for several
    #[arg(long = "state", value_name = "STATE")]
    pub(super) statuses: Vec<Status>,
    /// Only those of this submitter
    #[arg(long)]
    pub(super) submitter: Option<String>,
    /// Only those in this queue, waiting or held by a worker
    #[arg(long)]
    pub(super) queue: Option<String>,
    /// Only those submitted since this time, such as 2026-11-20T08:00:00Z, or this long ago, such as 2h
    #[arg(long, value_name = "TIME", value_parser = Since::parse)]
    pub(super) since: Option<Since>,
    /// Only those submitted before this time, or longer ago than this
    #[arg(long, value_name = "TIME", value_parser = Since::parse)]
    pub(super) older_than: Option<Since>,
}

impl Filter {
    /// The first page of what it lets through.
    pub(super) async fn page(self, store: &Store) -> anyhow::Result<PageQuery> {
        Ok(PageQuery {
            // The HTTP spelling is accepted too.
            kind: self.kind.map(|kind| kind.replace('-', "_")),
            statuses: self.statuses,
            since: Since::resolve(self.since, store).await?,
            until: Since::resolve(self.older_than, store).await?,
            submitter: self.submitter,
            queue: self.queue,
            ..PageQuery::default()
        })
    }
}

/// Requests, and where the next ones begin.
#[derive(Serialize)]
struct Listed<T> {
    requests: Vec<T>,
    next: Option<String>,
}

impl List {
    pub(super) async fn run(self, global: GlobalArgs) -> anyhow::Result<ExitCode> {
        let connected = global.connect(1).await?;
        if self.waiting {
            return waiting(&connected, self.filter.queue.as_deref(), self.limit).await;
        }
        let mut query = self.filter.page(&connected.store).await?;
        query = PageQuery {
            cause: self.cause,
            executed: self.executed,
            attempts: self.attempts,
            before: self.cursor,
            ..query
        };
        let mut requests = Vec::new();
        let wanted = usize::try_from(self.limit)?;
        // A page reads a limited number of requests, so it may be short and not be the last.
        let next = loop {
            query.limit = i32::try_from(wanted - requests.len())?.min(1000);
            let page = connected.store.list_requests(&query).await?;
            requests.extend(page.requests);
            query.before = page.next;
            if page.next.is_none() || requests.len() >= wanted {
                break page.next;
            }
        };
        let next = next.map(|next| next.simple().to_string());
        connected.print(&Listed { requests, next }, |listed| {
            if listed.requests.is_empty() {
                outln!("there is no such request");
                return;
            }
            let header = "job_id  kind  state  queue  submitter  submitted  ended  error";
            let rows = listed.requests.iter().map(|request| {
                let [id, kind, status, queue, submitter, submitted] = cells(request);
                let (ended, code) = (or_dash(request.finished_at.map(time)), or_dash(request.code.clone()));
                [id, kind, status, queue, submitter, submitted, ended, code]
            });
            outln!("{}", table(header, rows));
            if let Some(next) = &listed.next {
                outln!("older ones: the same command with --cursor {next}");
            }
        })
    }
}

async fn waiting(connected: &Connected, queue: Option<&str>, limit: i32) -> anyhow::Result<ExitCode> {
    let requests = connected.store.first_waiting(queue, limit).await?;
    connected.print(&Listed { requests, next: None }, |listed| {
        if listed.requests.is_empty() {
            outln!("no request waits that a worker could take now");
            return;
        }
        let header = "job_id  kind  state  queue  submitter  submitted  waits since";
        let rows = listed.requests.iter().map(|waiting| {
            let [id, kind, status, queue, submitter, submitted] = cells(&waiting.request);
            [id, kind, status, queue, submitter, submitted, time(waiting.waiting_since)]
        });
        outln!("{}", table(header, rows));
    })
}

fn cells(request: &ListedRequest) -> [String; 6] {
    [
        request.id.to_string(),
        request.kind.clone(),
        request.status.to_string(),
        or_dash(request.queue.clone()),
        or_dash(request.submitter.clone()),
        time(request.submitted_at),
    ]
}
