//! The evidence of a run: the tables, the downstream's log, the callers' ledger, and the times of disturbances.
//!
//! Read with plain queries and nothing of the engine's functions or views.

mod reading;
mod records;

use std::collections::{BTreeMap, HashMap, HashSet};

use uuid::Uuid;

use crate::{
    journal::Disturbance,
    ledger::{Cancel, Promise, Resolution, Told},
    receiver::Arrival,
    scene::Limited,
};

pub use self::records::{
    BreakerRule, Delivery, Event, Flip, Life, Measured, PolicyFigures, QuotaAtRest, QuotaCount, Secret, Seen, Stall,
    Word, day_of,
};

/// Everything the checker looks at.
#[derive(Debug, Default)]
pub struct Evidence {
    /// All requests.
    pub lives: HashMap<Uuid, Life>,
    /// Events of requests that do not exist.
    pub orphans: Vec<Uuid>,
    /// Requests that were deleted and have left some of their history.
    pub histories_left: Vec<Uuid>,
    /// Messages that are left, by queue.
    pub messages: BTreeMap<String, i64>,
    /// Requests that an idempotency key stands for.
    pub keyed: HashSet<Uuid>,
    /// The deliveries of webhooks, by the request whose end they tell.
    pub deliveries: HashMap<Uuid, Delivery>,
    /// The secrets that have signed webhooks.
    pub secrets: Vec<Secret>,
    /// The receiver's log.
    pub arrivals: Vec<Arrival>,
    /// Redriven requests, each with its copy.
    pub redriven: HashMap<Uuid, Uuid>,
    /// Those of them that no operator has redriven: their callers have submitted them again.
    pub resubmitted: HashSet<Uuid>,
    /// Those of them that were redriven although they were, or may have been, executed.
    pub may_repeat: HashSet<Uuid>,
    /// Kinds whose keys are free after what may have been executed: their sends may be repeated.
    pub repeatable: HashSet<String>,
    /// When the tables were read, in microseconds of Unix time.
    pub read_us: i64,
    /// The days whose history has a partition.
    pub days: HashSet<String>,
    /// Days from before the run that had one at its beginning.
    pub old_days: Vec<String>,
    /// How long a request of a kind is kept after its end, in microseconds, where that is shorter than a run.
    pub retentions_us: HashMap<String, i64>,
    /// How long a key of a kind stands for its request, where that is shorter than a run.
    pub windows_us: HashMap<String, i64>,
    /// How many effects each request had.
    pub effects: HashMap<Uuid, u32>,
    /// Kinds whose effects happen exactly once.
    pub exactly_once: HashSet<String>,
    /// Kinds whose sends leave once or not at all.
    pub at_most_once: HashSet<String>,
    /// Kinds whose slow sends are made again: how many more calls one may have, and how many there may be for each call.
    pub hedging: HashMap<String, (usize, f64)>,
    /// Kinds whose sends have a breaker.
    pub breakers: HashMap<String, BreakerRule>,
    /// The changes of breakers of sends, in the order in which they were stored.
    pub flips: Vec<Flip>,
    /// What the retries of the kind that is measured are compared with.
    pub measured: Option<Measured>,
    /// Kinds that carry an outage of half their deadline, and that half, in microseconds.
    pub carried_us: HashMap<String, i64>,
    /// How many shares complete a request, by kind, where that is more than one.
    pub thresholds: HashMap<String, usize>,
    /// The downstream's log.
    pub downstream: Vec<Seen>,
    /// The promises to callers.
    pub promises: Vec<Promise>,
    /// Later answers to callers.
    pub told: Vec<Told>,
    /// Cancels that were answered.
    pub cancels: Vec<Cancel>,
    /// What operators said of unresolved requests.
    pub resolutions: Vec<Resolution>,
    /// The rate limits.
    pub limits: Vec<Limited>,
    /// C.
    pub checks_at_once: usize,
    /// Counts of the requests of quotas.
    pub quota_counts: Vec<QuotaCount>,
    /// The quotas at the end, by the names of their gates.
    pub quotas: BTreeMap<String, QuotaAtRest>,
    /// The injected faults.
    pub disturbances: Vec<Disturbance>,
    /// When the machine stood still.
    pub stalls: Vec<Stall>,
    /// Other errors.
    pub wrong: Vec<String>,
}

impl Evidence {
    /// The id under which the downstream knows a request: its own, or that of the request that it repeats.
    #[must_use]
    pub fn send_id(&self, id: Uuid) -> Uuid {
        self.lives.get(&id).and_then(|life| life.send_id).unwrap_or(id)
    }

    /// The requests that repeat others, by the id that they are sent under.
    #[must_use]
    pub fn repeats(&self) -> HashMap<Uuid, Vec<&Life>> {
        let mut repeats = HashMap::<_, Vec<_>>::new();
        for life in self.lives.values() {
            if let Some(id) = life.send_id {
                repeats.entry(id).or_default().push(life);
            }
        }
        repeats
    }
}
