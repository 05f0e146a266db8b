//! A worker process: claim → run → settle, for one or more queues, until its shutdown.
//!
//! Stateless: everything that a crash could lose is in the database, and other workers claim the requests of this
//! process when its leases run out.

mod batch;
mod calls;
mod database_clock;
mod effects;
mod leases;
mod meter;
mod outcome;
mod queue;
mod searches;
mod settler;
mod shared;
mod spans;
mod timeouts;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub(crate) use self::shared::own_name;
pub use self::shared::{WorkerError, WorkerOptions};
use self::{database_clock::DatabaseClock, queue::QueueWorker, shared::Shared, timeouts::LearnedTimeouts};
use crate::{
    listener::{self, Wakeups},
    maintenance,
    news::Announcer,
    request::Stage,
    stage::Stages,
    store::Store,
};

/// The time limit of a statement, if half of the lease is not shorter.
const STATEMENT_LIMIT: Duration = Duration::from_secs(20);

/// How often a worker reports that it is alive.
const ALIVE_PERIOD: Duration = Duration::from_secs(10);

/// The time limit of such a report: it must not delay a stop.
const ALIVE_LIMIT: Duration = Duration::from_secs(2);

/// Drains the queues until `shutdown`, then awaits its calls, within the grace period, and releases the other claims.
///
/// An unavailable database is waited for. Beyond the store's pool, one connection listens, and at most one for each queue
/// and one more claim.
/// Of the pool, each queue uses one or two.
///
/// # Errors
///
/// At the start: an unknown queue, one that needs a stage that this worker does not have, a kind with `exactly_once`
/// semantics whose stage has no effect, invalid options, no database.
pub async fn run(
    store: Store,
    stages: Stages,
    options: WorkerOptions,
    shutdown: CancellationToken,
) -> Result<(), WorkerError> {
    prepare(store, stages, options, shutdown).await?.await
}

/// Makes the checks of [`run`]; the future that it returns does the rest.
pub(crate) async fn prepare(
    store: Store,
    stages: Stages,
    options: WorkerOptions,
    shutdown: CancellationToken,
) -> Result<impl Future<Output = Result<(), WorkerError>> + Send, WorkerError> {
    check_options(&options)?;
    // An answer that takes half a lease is too late for its claim or its settle.
    let store = store.with_time_limit(STATEMENT_LIMIT.min(options.lease / 2));
    store.check_ready().await?;
    store.notice_copy().await?;
    let mut served = Vec::new();
    for queue in &options.queues {
        served.push((queue.clone(), stage_of(&store, &stages, queue).await?));
    }
    // The last call that needs the database: from here on the worker waits for one that is away.
    let clock = DatabaseClock::new();
    clock.read(&store).await?;
    Ok(work(store, stages, options, served, clock, shutdown))
}

async fn work(
    store: Store,
    stages: Stages,
    options: WorkerOptions,
    served: Vec<(String, Stage)>,
    clock: DatabaseClock,
    shutdown: CancellationToken,
) -> Result<(), WorkerError> {
    tracing::info!(
        worker.name = options.name,
        worker.queues = options.queues.join(" "),
        worker.batch = options.batch,
        worker.concurrency = options.concurrency,
        lease.length_ms = options.lease.as_millis(),
        "working"
    );

    // Ends the helper tasks when the queues have ended, with or without an error.
    let helpers_end = CancellationToken::new();
    let wakeups = Wakeups::default();
    let mut helpers = JoinSet::new();
    let announcer = Announcer::new(store.clone());
    helpers.spawn(listener::listen(
        options.listen.clone().unwrap_or_else(|| store.pool().clone()),
        store.clone(),
        vec![Box::new(wakeups.clone()), Box::new(announcer.clone())],
        helpers_end.clone(),
    ));
    helpers.spawn(maintenance::run(store.clone(), helpers_end.clone()));
    let timeouts = Arc::new(LearnedTimeouts::new(store.clone(), options.name.clone()));
    helpers.spawn(Arc::clone(&timeouts).run(helpers_end.clone()));
    // One for each queue, and room for one more: without it each would go back to its pool after each claim, which costs a
    // round trip.
    let sessions = u32::try_from(served.len() + 1).unwrap_or(u32::MAX);
    let shared = Arc::new(Shared {
        claims: store.with_own_pool(sessions),
        store,
        stages,
        options,
        wakeups,
        announcer,
        timeouts,
        clock,
    });
    helpers.spawn(searches::run(Arc::clone(&shared), helpers_end.clone()));
    helpers.spawn(report_alive(Arc::clone(&shared), served.clone(), helpers_end.clone()));

    let stop = shutdown.child_token();
    let mut queues = JoinSet::new();
    for (queue, stage) in served {
        queues.spawn(QueueWorker::new(&shared, queue, stage).run(stop.clone()));
    }
    let outcome = until_all_end(queues, &stop).await;

    // Callers that wait for the last announcements poll the database instead.
    let _ = tokio::time::timeout(ALIVE_LIMIT, shared.announcer.finish()).await;
    helpers_end.cancel();
    while helpers.join_next().await.is_some() {}
    tracing::info!(worker.name = shared.options.name, "stopped");
    outcome
}

/// Waits for every queue's worker. The first error stops the others too: a process that serves only some of its queues
/// hides its error.
async fn until_all_end(
    mut queues: JoinSet<Result<(), WorkerError>>,
    stop: &CancellationToken,
) -> Result<(), WorkerError> {
    let mut outcome = Ok(());
    while let Some(ended) = queues.join_next().await {
        let ended =
            ended.unwrap_or_else(|error| Err(WorkerError::Options(format!("a queue's worker stopped: {error}"))));
        outcome = outcome.and(ended.inspect_err(|_| stop.cancel()));
    }
    outcome
}

/// The queues that the stages get their requests from, and the stages whose kind is missing or has no queue for them.
///
/// # Errors
///
/// A database error.
pub async fn queues(store: &Store, stages: &Stages) -> Result<(Vec<String>, Vec<(String, Stage)>), WorkerError> {
    let known = store.kinds(None).await?;
    let (mut queues, mut without) = (BTreeSet::new(), Vec::new());
    for &stage in Stage::ALL {
        for kind in stages.kinds(stage) {
            let found = known.iter().find(|known| known.name == kind);
            let queue = found.and_then(|known| match stage {
                Stage::Readiness => known.readiness_queue.as_ref(),
                Stage::Tx => Some(&known.tx_queue),
            });
            match queue {
                Some(queue) => drop(queues.insert(queue.clone())),
                None => without.push((kind, stage)),
            }
        }
    }
    Ok((queues.into_iter().collect(), without))
}

fn check_options(options: &WorkerOptions) -> Result<(), WorkerError> {
    let problem = if options.queues.is_empty() {
        "a worker needs a queue to drain"
    } else if options.queues.iter().collect::<BTreeSet<_>>().len() < options.queues.len() {
        "each queue is named once"
    } else if !(1..=10_000).contains(&options.batch) || !(1..=100_000).contains(&options.concurrency) {
        "batch is between 1 and 10000, concurrency between 1 and 100000"
    } else if options.lease < Duration::from_millis(500) || options.lease > Duration::from_secs(86_400) {
        "a worker's lease is between half a second and one day"
    } else if options.poll.is_zero() {
        "the poll interval is above zero"
    } else {
        return Ok(());
    };
    Err(WorkerError::Options(problem.to_owned()))
}

/// The stage a queue serves, when this worker can claim requests there and keep the semantics of their kinds.
async fn stage_of(store: &Store, stages: &Stages, queue: &str) -> Result<Stage, WorkerError> {
    let Some((stage, kinds)) = store.queue_kinds(queue).await? else {
        return Err(WorkerError::UnknownQueue(queue.to_owned()));
    };
    let ours = stages.kinds(stage);
    if ours.is_empty() {
        return Err(WorkerError::NoStage { queue: queue.to_owned(), stage });
    }
    let (taken, left): (Vec<_>, Vec<_>) = kinds.into_iter().partition(|kind| ours.contains(&kind.name));
    if let Some(kind) =
        taken.iter().find(|kind| stage == Stage::Tx && kind.exactly_once && !stages.has_effect(&kind.name))
    {
        return Err(WorkerError::NoEffect(kind.name.clone()));
    }
    if !left.is_empty() {
        let left: Vec<_> = left.into_iter().map(|kind| kind.name).collect();
        tracing::warn!(
            queue.name = queue,
            kinds = left.join(" "),
            "this worker has no {stage} stage for some kinds of the queue, and leaves them to other workers"
        );
    }
    Ok(stage)
}

/// Keeps this worker's row in `tidegate.worker` fresh, and marks it stopped at the end.
async fn report_alive(shared: Arc<Shared>, served: Vec<(String, Stage)>, end: CancellationToken) {
    let Shared { store, stages, options, .. } = &*shared;
    let served_stages: BTreeSet<_> = served.iter().map(|(_, stage)| *stage).collect();
    let kinds: BTreeSet<_> = served_stages.iter().flat_map(|stage| stages.kinds(*stage)).collect();
    let kinds: Vec<_> = kinds.into_iter().collect();
    let stages: Vec<_> = served_stages.iter().map(|stage| stage.as_str()).collect();
    let queues: Vec<_> = served.iter().map(|(queue, _)| queue.as_str()).collect();
    loop {
        let stopping = end.is_cancelled();
        let reported = async {
            store.worker_seen(&options.name, &stages, &queues, &kinds, stopping).await?;
            shared.clock.read(store).await
        };
        match tokio::time::timeout(ALIVE_LIMIT, reported).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "failed to report that this worker is alive"),
            Err(_) => tracing::debug!("failed in time to report that this worker is alive"),
        }
        if stopping {
            return;
        }
        end.run_until_cancelled(tokio::time::sleep(ALIVE_PERIOD)).await;
    }
}
