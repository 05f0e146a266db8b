//! Which faults there are, and how often each comes.

use rand::{Rng, rngs::StdRng, seq::SliceRandom};

/// A sort of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
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

/// The downstream is away as one of so many first faults of a round.
const SOON: usize = 8;

/// How often each comes in one round; a round is shuffled.
pub(super) const ROUND: [(Fault, usize); 34] = [
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
pub(super) const ROUND_OF_CLUSTER: [(Fault, usize); 15] = [
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
    pub(super) const fn sort(self) -> &'static str {
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
pub(super) const fn is_of_cluster(fault: Fault) -> bool {
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
pub(super) const fn is_alone(fault: Fault) -> bool {
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

pub(super) fn shuffled_round(all: &[(Fault, usize)], only: &[String], random: &mut StdRng) -> Vec<Fault> {
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
