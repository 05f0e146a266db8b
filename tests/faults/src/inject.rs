//! The faults: which there are, and how each is injected and ended.

mod cluster;
mod database;
mod network;
mod processes;

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt, stream::FuturesUnordered};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::SliceRandom};
use tokio::{
    sync::Mutex,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use crate::{
    fleet::Fleet,
    journal::Journal,
    load::{self, Load},
    options::Options,
    proxy::Flow,
    scene::PATIENT_DEADLINE,
    server::Server,
};

/// A sort of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    WorkerKilled,
    WorkerStopped,
    WorkerFrozen,
    BookerKilled,
    NodeKilled,
    NodeStopped,
    NodeFrozen,
    LogClosed,
    DownstreamFrozen,
    PostgresKilled,
    PostgresStopped,
    BackendKilled,
    BackendsTerminated,
    ListenersTerminated,
    DatabaseReadOnly,
    LongTransaction,
    TableLocked,
    QueuePurged,
    QueuePaused,
    KindPassing,
    RequestKept,
    Redrive,
    ReceiverKilled,
    ReceiverFrozen,
    SecretRotated,
    NetworkStalled,
    NetworkMute,
    NetworkCut,
    NetworkHalfOpen,
    DownstreamStalled,
    DownstreamCut,
    DownstreamAway,
    DuplicateStorm,
    Nonsense,
    /// Once in a run, and only in one with a standby.
    Failover,
    LeaderKilled,
    LeaderKilledAhead,
    LeaderFrozen,
    LeaderCutFromEtcd,
    LeaderCutFromStandbys,
    StandbysKilled,
    Switchover,
}

/// How long faults may take to end when no more are injected.
const ENDING: Duration = Duration::from_secs(180);

/// The downstream is away as one of so many first faults of a round.
const SOON: usize = 8;

/// How often each comes in one round; a round is shuffled.
const ROUND: [(Fault, usize); 34] = [
    (Fault::WorkerKilled, 4),
    (Fault::WorkerStopped, 1),
    (Fault::WorkerFrozen, 2),
    (Fault::BookerKilled, 3),
    (Fault::NodeKilled, 3),
    (Fault::NodeStopped, 1),
    (Fault::NodeFrozen, 1),
    (Fault::LogClosed, 1),
    (Fault::DownstreamFrozen, 1),
    (Fault::PostgresKilled, 2),
    (Fault::PostgresStopped, 1),
    (Fault::BackendKilled, 1),
    (Fault::BackendsTerminated, 3),
    (Fault::ListenersTerminated, 1),
    (Fault::DatabaseReadOnly, 1),
    (Fault::LongTransaction, 1),
    (Fault::TableLocked, 1),
    (Fault::QueuePurged, 2),
    (Fault::QueuePaused, 1),
    (Fault::KindPassing, 2),
    (Fault::RequestKept, 2),
    (Fault::Redrive, 3),
    (Fault::ReceiverKilled, 2),
    (Fault::ReceiverFrozen, 1),
    (Fault::SecretRotated, 1),
    (Fault::NetworkStalled, 3),
    (Fault::NetworkMute, 2),
    (Fault::NetworkCut, 2),
    (Fault::NetworkHalfOpen, 2),
    (Fault::DownstreamStalled, 1),
    (Fault::DownstreamCut, 1),
    (Fault::DownstreamAway, 1),
    (Fault::DuplicateStorm, 2),
    (Fault::Nonsense, 1),
];

/// The same for a cluster. No fault changes a setting of one server, which would stay behind with an earlier leader.
const ROUND_OF_CLUSTER: [(Fault, usize); 15] = [
    (Fault::LeaderKilled, 2),
    (Fault::LeaderKilledAhead, 2),
    (Fault::LeaderFrozen, 1),
    (Fault::LeaderCutFromEtcd, 1),
    (Fault::LeaderCutFromStandbys, 2),
    (Fault::StandbysKilled, 1),
    (Fault::Switchover, 3),
    (Fault::WorkerKilled, 2),
    (Fault::BookerKilled, 1),
    (Fault::NodeKilled, 2),
    (Fault::BackendsTerminated, 1),
    (Fault::NetworkStalled, 1),
    (Fault::NetworkCut, 1),
    (Fault::NetworkHalfOpen, 1),
    (Fault::DuplicateStorm, 1),
];

impl Fault {
    /// Its name in the journal and on the command line.
    const fn sort(self) -> &'static str {
        match self {
            Self::WorkerKilled => "worker_killed",
            Self::WorkerStopped => "worker_stopped",
            Self::WorkerFrozen => "worker_frozen",
            Self::BookerKilled => "booker_killed",
            Self::NodeKilled => "node_killed",
            Self::NodeStopped => "node_stopped",
            Self::NodeFrozen => "node_frozen",
            Self::LogClosed => "log_closed",
            Self::DownstreamFrozen => "downstream_frozen",
            Self::PostgresKilled => "postgres_killed",
            Self::PostgresStopped => "postgres_stopped",
            Self::BackendKilled => "backend_killed",
            Self::BackendsTerminated => "backends_terminated",
            Self::ListenersTerminated => "listeners_terminated",
            Self::DatabaseReadOnly => "database_read_only",
            Self::LongTransaction => "long_transaction",
            Self::TableLocked => "table_locked",
            Self::QueuePurged => "queue_purged",
            Self::QueuePaused => "queue_paused",
            Self::KindPassing => "kind_passing",
            Self::RequestKept => "request_kept",
            Self::Redrive => "redrive",
            Self::ReceiverKilled => "receiver_killed",
            Self::ReceiverFrozen => "receiver_frozen",
            Self::SecretRotated => "secret_rotated",
            Self::NetworkStalled => "network_stalled",
            Self::NetworkMute => "network_mute",
            Self::NetworkCut => "network_cut",
            Self::NetworkHalfOpen => "network_half_open",
            Self::DownstreamStalled => "downstream_stalled",
            Self::DownstreamCut => "downstream_cut",
            Self::DownstreamAway => "downstream_away",
            Self::DuplicateStorm => "duplicate_storm",
            Self::Nonsense => "nonsense",
            Self::Failover => "failover",
            Self::LeaderKilled => "leader_killed",
            Self::LeaderKilledAhead => "leader_killed_ahead",
            Self::LeaderFrozen => "leader_frozen",
            Self::LeaderCutFromEtcd => "leader_cut_from_etcd",
            Self::LeaderCutFromStandbys => "leader_cut_from_standbys",
            Self::StandbysKilled => "standbys_killed",
            Self::Switchover => "switchover",
        }
    }
}

/// The faults of a cluster.
const fn is_of_cluster(fault: Fault) -> bool {
    matches!(
        fault,
        Fault::LeaderKilled
            | Fault::LeaderKilledAhead
            | Fault::LeaderFrozen
            | Fault::LeaderCutFromEtcd
            | Fault::LeaderCutFromStandbys
            | Fault::StandbysKilled
            | Fault::Switchover
    )
}

/// Whether a sort of fault is one of a cluster.
#[must_use]
pub fn is_sort_of_cluster(sort: &str) -> bool {
    ROUND_OF_CLUSTER.iter().any(|(fault, _)| is_of_cluster(*fault) && fault.sort() == sort)
}

/// The faults during which other injections into the database would fail; they exclude each other.
const fn is_alone(fault: Fault) -> bool {
    is_of_cluster(fault)
        || matches!(
            fault,
            Fault::PostgresKilled
                | Fault::PostgresStopped
                | Fault::BackendKilled
                | Fault::DatabaseReadOnly
                | Fault::QueuePurged
                | Fault::QueuePaused
                | Fault::KindPassing
                | Fault::TableLocked
                | Fault::Failover
        )
}

/// Injects faults into a fleet.
pub struct Injector {
    fleet: Arc<Fleet>,
    load: Arc<Load>,
    journal: Arc<Journal>,
    /// Held by an injection that affects the whole database.
    database: Mutex<()>,
    /// The standby that takes over in the middle of the run.
    standby: Option<Server>,
}

impl Injector {
    /// An injector for this fleet.
    #[must_use]
    pub fn new(fleet: Arc<Fleet>, load: Arc<Load>, journal: Arc<Journal>, standby: Option<Server>) -> Self {
        Self { fleet, load, journal, database: Mutex::default(), standby }
    }

    /// Injects faults for as long and as often as the options say, until `stop`; returns when all are over.
    pub async fn run(&self, options: &Options, seed: u64, stop: CancellationToken) {
        let (time, pause) = (options.time, options.pause);
        let mut random = StdRng::seed_from_u64(seed);
        let mut running = FuturesUnordered::new();
        let mut round = Vec::new();
        let began = Instant::now();
        let mut fails_over = self.standby.is_some();
        loop {
            let next = sleep(pause.mul_f64(random.random_range(0.3..1.7)));
            tokio::pin!(next);
            loop {
                tokio::select! {
                    () = &mut next => break,
                    Some(()) = running.next() => {}
                }
            }
            // First: a long pause may reach beyond the end, and what was asked for is done all the same.
            if fails_over && began.elapsed() >= time / 2 && !stop.is_cancelled() {
                fails_over = false;
                running.push(self.inject(Fault::Failover, random.random()));
                continue;
            }
            if began.elapsed() >= time || stop.is_cancelled() {
                break;
            }
            if round.is_empty() {
                let all: &[_] = if options.cluster.is_some() { &ROUND_OF_CLUSTER } else { &ROUND };
                round = shuffled_round(all, &options.only, &mut random);
            }
            // These take as long as many pauses, and wait for each other.
            if round.last().is_some_and(|fault| is_of_cluster(*fault)) && self.database.try_lock().is_err() {
                continue;
            }
            if let Some(fault) = round.pop() {
                running.push(self.inject(fault, random.random()));
            }
        }
        let all_over = async { while running.next().await.is_some() {} };
        if tokio::time::timeout(ENDING, all_over).await.is_err() {
            self.journal.wrong("a fault does not end".to_owned());
        }
    }

    async fn inject(&self, fault: Fault, seed: u64) {
        let _alone = if is_alone(fault) { Some(self.database.lock().await) } else { None };
        let mut random = StdRng::seed_from_u64(seed);
        let random = &mut random;
        let sort = fault.sort();
        let done = match fault {
            Fault::WorkerKilled => self.kill(sort, &self.fleet.workers, random).await,
            Fault::BookerKilled => self.kill(sort, &self.fleet.bookers, random).await,
            Fault::NodeKilled => self.kill(sort, &self.fleet.nodes, random).await,
            Fault::WorkerStopped => self.stop(sort, &self.fleet.workers, random).await,
            Fault::NodeStopped => self.stop(sort, &self.fleet.nodes, random).await,
            Fault::WorkerFrozen => self.freeze(sort, &self.fleet.workers, random).await,
            Fault::NodeFrozen => self.freeze(sort, &self.fleet.nodes, random).await,
            Fault::LogClosed => {
                let units = [&self.fleet.workers[..1], &self.fleet.nodes].concat();
                self.close_the_log(sort, &units, random).await
            }
            Fault::ReceiverKilled => {
                let receiver = std::slice::from_ref(&self.fleet.receiver);
                self.kill(sort, receiver, random).await
            }
            Fault::ReceiverFrozen => {
                let receiver = std::slice::from_ref(&self.fleet.receiver);
                self.freeze(sort, receiver, random).await
            }
            Fault::SecretRotated => self.rotate_the_secret().await,
            Fault::DownstreamFrozen => {
                let downstream = std::slice::from_ref(&self.fleet.downstream);
                self.freeze(sort, downstream, random).await
            }
            Fault::PostgresKilled => self.kill_postgres(random).await,
            Fault::PostgresStopped => self.stop_postgres().await,
            Fault::BackendKilled => self.kill_backend(random).await,
            Fault::BackendsTerminated => self.terminate_backends(random).await,
            Fault::ListenersTerminated => self.terminate_listeners(random).await,
            Fault::DatabaseReadOnly => self.make_read_only(random).await,
            Fault::LongTransaction => self.hold_a_transaction(random).await,
            Fault::TableLocked => self.lock_a_table(random).await,
            Fault::QueuePurged => self.purge_a_queue(random).await,
            Fault::QueuePaused => self.pause_a_queue(random).await,
            Fault::KindPassing => self.pass_a_kind(random).await,
            Fault::RequestKept => self.keep_requests(random).await,
            Fault::Redrive => self.redrive(random).await,
            Fault::NetworkStalled => self.stall(random, false).await,
            Fault::NetworkMute => self.stall(random, true).await,
            Fault::NetworkCut => self.cut(random, false).await,
            Fault::NetworkHalfOpen => self.cut(random, true).await,
            Fault::DownstreamStalled => {
                let time = seconds(random, 0.5..5.0);
                self.lose_the_downstream(sort, time, Flow::Stalled).await
            }
            Fault::DownstreamCut => {
                let time = seconds(random, 0.5..5.0);
                self.lose_the_downstream(sort, time, Flow::Refused).await
            }
            Fault::DownstreamAway => self.lose_the_downstream(sort, PATIENT_DEADLINE / 2, Flow::Refused).await,
            Fault::Failover => self.fail_over(random).await,
            Fault::LeaderKilled => self.kill_the_leader(sort, false, random).await,
            Fault::LeaderKilledAhead => self.kill_the_leader(sort, true, random).await,
            Fault::LeaderFrozen => self.freeze_the_leader(sort, random).await,
            Fault::LeaderCutFromEtcd => {
                let time = seconds(random, cluster::LONGER_THAN_A_LEASE);
                self.cut_off_the_leader(sort, |member| &member.to_etcd, time).await
            }
            Fault::LeaderCutFromStandbys => {
                let time = seconds(random, 2.0..12.0);
                self.cut_off_the_leader(sort, |member| &member.to_standbys, time).await
            }
            Fault::StandbysKilled => self.lose_the_standbys(sort, random).await,
            Fault::Switchover => self.switch_over(sort, random).await,
            Fault::DuplicateStorm => {
                let count = random.random_range(100..600);
                let running = self.journal.inject("duplicate_storm", &format!("{count} submissions of one key"));
                load::storm(&self.load, count, random.random()).await;
                self.journal.over(&running);
                Ok(())
            }
            Fault::Nonsense => {
                let running = self.journal.inject("nonsense", "30 calls that make no sense");
                load::nonsense(&self.load, 30, random.random()).await;
                self.journal.over(&running);
                Ok(())
            }
        };
        if let Err(error) = done {
            // Another fault may have been in the way of this one.
            self.journal.say(&format!("{fault:?} was not injected as it was meant: {error:#}"));
        }
    }
}

fn shuffled_round(all: &[(Fault, usize)], only: &[String], random: &mut StdRng) -> Vec<Fault> {
    let mut round: Vec<_> = all
        .iter()
        .filter(|(fault, _)| only.is_empty() || only.iter().any(|sort| *sort == fault.sort()))
        .flat_map(|(fault, times)| std::iter::repeat_n(*fault, *times))
        .collect();
    round.shuffle(random);
    // Soon, so that a breaker opens in a short run, too; the last is the first to be injected.
    if let Some(place) = round.iter().position(|fault| *fault == Fault::DownstreamAway) {
        let soon = round.len().saturating_sub(random.random_range(1..=SOON));
        round.swap(place, soon);
    }
    round
}

/// One of several.
fn any<'a, T>(all: &'a [T], random: &mut StdRng) -> &'a T {
    &all[random.random_range(0..all.len())]
}

/// A time between two, in seconds.
fn seconds(random: &mut StdRng, range: std::ops::Range<f64>) -> Duration {
    Duration::from_secs_f64(random.random_range(range))
}
