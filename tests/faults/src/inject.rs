//! The faults: how each is injected and ended.

mod cluster;
mod database;
mod fault;
mod network;
mod processes;

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt, stream::FuturesUnordered};
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::{
    sync::Mutex,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use self::fault::{Fault, ROUND, ROUND_OF_CLUSTER, is_alone, is_of_cluster, shuffled_round};
use crate::{
    fleet::Fleet,
    journal::Journal,
    load::{self, Load},
    options::Options,
    proxy::Flow,
    scene::PATIENT_DEADLINE,
    server::Server,
};

pub use self::fault::is_sort_of_cluster;

/// How long faults may take to end when no more are injected.
const ENDING: Duration = Duration::from_secs(180);

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

/// One of several.
fn any<'a, T>(all: &'a [T], random: &mut StdRng) -> &'a T {
    &all[random.random_range(0..all.len())]
}

/// A time between two, in seconds.
fn seconds(random: &mut StdRng, range: std::ops::Range<f64>) -> Duration {
    Duration::from_secs_f64(random.random_range(range))
}
