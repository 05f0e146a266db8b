//! A downstream that exists only in memory: it takes its time, fails as told, and catches whoever breaks its limits.
//!
//! It remembers requests by their idempotency key, the request id, for as long as it lives: a request sent again gets
//! the receipt it got before and has no further effect. A simulated downstream inside a worker forgets with that
//! worker; where workers are killed and effects are counted, run it as a server
//! ([`downstream_server`](crate::downstream_server)).

mod answers;
mod chance;
mod deliveries;
mod kinds;
mod latency;
mod limits;
mod log;
mod memory;
mod options;
mod responder;
mod responses;
mod stage;
mod stats;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rand::{Rng, rngs::SmallRng};
use tidegate::{
    request::{Flow, RequestId},
    stage::Receipt,
};
use tokio::time::{Instant, sleep};

pub use self::{
    answers::{Checked, SendAnswer},
    chance::{Chance, NotAChance},
    kinds::{KindError, SimulatedKind},
    latency::{Latency, LatencyError},
    limits::Rate,
    options::{RespondBy, SimulateError, SimulateOptions},
    responder::{CallbackResponder, Delivered, Delivery, NotDelivered, Responder, StoreResponder},
    stage::{SimulatedStage, stages},
    stats::Stats,
};
use self::{
    chance::Dice,
    deliveries::Deliveries,
    kinds::Shape,
    limits::{Arrival, ConcurrencyLimit, RateLimit},
    log::EventLog,
    memory::{Memory, Taking},
    stats::Counters,
};

/// What goes wrong between the downstream and whoever sends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trouble {
    None,
    BrokenBefore,
    BrokenAfter,
    Silence,
}

/// How soon a check that broke the concurrency limit may come again.
const CHECK_AGAIN: Duration = Duration::from_secs(1);

/// A simulated downstream; shared by all who call it.
pub struct Downstream {
    options: SimulateOptions,
    /// Answer at once and remember nothing: for benchmarks, where bookkeeping would be measured too.
    bare: bool,
    kinds: BTreeMap<String, Shape>,
    dice: Dice,
    memory: Memory,
    rate: Mutex<RateLimit>,
    checks: ConcurrencyLimit,
    counters: Arc<Counters>,
    log: Option<Arc<EventLog>>,
    deliveries: Option<Deliveries>,
}

impl Downstream {
    /// A downstream that answers through `responder`; without one, only what a receipt carries is ever answered.
    ///
    /// # Errors
    ///
    /// When chances add up to more than one, or the log cannot be written.
    pub fn new(options: SimulateOptions, responder: Option<Arc<dyn Responder>>) -> Result<Self, SimulateError> {
        options.validate()?;
        let log = options.log.as_deref().map(EventLog::open).transpose()?;
        let log = log.map(Arc::new);
        let counters = Arc::new(Counters::default());
        Ok(Self {
            bare: options.is_bare(),
            kinds: kinds::shapes(options.shares, &options.kinds),
            dice: Dice::new(options.seed.unwrap_or_else(rand::random)),
            memory: Memory::default(),
            rate: Mutex::new(RateLimit::new(options.rate_limit())),
            checks: ConcurrencyLimit::new(options.check_concurrency),
            deliveries: responder.map(|responder| Deliveries::new(responder, counters.clone(), log.clone())),
            counters,
            log,
            options,
        })
    }

    /// Whether request `id` can run now.
    pub async fn check(&self, id: Option<RequestId>, kind: &str) -> Checked {
        if !self.kinds.contains_key(kind) {
            return Checked::UnknownKind;
        }
        self.counters.checks.add();
        if self.bare {
            return Checked::Ready;
        }

        self.note(id, kind, "check");
        let Some(_running) = self.checks.begin() else {
            self.counters.concurrency_violations.add();
            self.note(id, kind, "check_beyond_limit");
            return Checked::TooMany { after: CHECK_AGAIN };
        };
        let mut dice = self.dice.roll();
        let fate: f64 = dice.random();
        pass(self.options.readiness_latency.draw(&mut dice)).await;
        let never = self.options.check_failure_rate.get();
        if fate < never {
            self.counters.checks_failed.add();
            self.note(id, kind, "check_failed");
            return Checked::Never;
        }
        if fate < never + self.options.not_yet_rate.get() {
            self.counters.checks_not_yet.add();
            self.note(id, kind, "snooze");
            let after = self.options.not_yet_after;
            return Checked::Snooze {
                after: (!after.is_zero()).then_some(after),
            };
        }
        self.note(id, kind, "ready");
        Checked::Ready
    }

    /// Takes request `id`, unless told to do otherwise.
    ///
    /// The effect comes first and the answer after the latency, so that a caller who gives up meanwhile leaves the
    /// effect behind, as with a real downstream.
    pub async fn send(&self, id: RequestId, kind: &str) -> SendAnswer {
        let Some(&shape) = self.kinds.get(kind) else {
            return SendAnswer::UnknownKind;
        };
        self.counters.sends.add();
        if self.bare {
            self.counters.taken.add();
            if shape.flow != Flow::Direct {
                self.answer(id, kind, shape, &mut self.dice.roll());
            }
            return SendAnswer::Taken(self.receipt(id, shape, true));
        }

        self.note(id, kind, "send");
        let arrival = self.rate_limit().arrive(Instant::now());
        if let Arrival::Beyond { after } = arrival {
            self.counters.rate_violations.add();
            self.note(id, kind, "send_beyond_limit");
            return SendAnswer::TooMany { after };
        }
        let mut dice = self.dice.roll();
        let trouble = self.trouble(&mut dice);
        let taking = match trouble {
            Trouble::BrokenBefore => None,
            _ => Some(self.take(id, kind, shape, &mut dice)),
        };
        pass(self.options.send_latency.draw(&mut dice)).await;

        match (trouble, taking) {
            (Trouble::Silence, _) => {
                self.counters.dropped.add();
                self.note(id, kind, "no_answer");
                SendAnswer::Silence
            }
            (Trouble::None, Some(Taking::Rejected)) => {
                self.counters.rejected.add();
                self.note(id, kind, "rejected");
                SendAnswer::Rejected
            }
            (Trouble::None, Some(Taking::Taken { answered, .. })) => {
                SendAnswer::Taken(self.receipt(id, shape, answered))
            }
            _ => {
                self.counters.send_errors.add();
                self.note(id, kind, "send_error");
                SendAnswer::Broken
            }
        }
    }

    /// The receipt of request `id`, if it was taken.
    pub fn find_receipt(&self, id: RequestId, kind: &str) -> Option<Receipt> {
        let shape = *self.kinds.get(kind)?;
        self.counters.receipts_asked.add();
        let answered = self.memory.taken(id);
        if answered.is_some() {
            self.counters.receipts_found.add();
        }
        let event = if answered.is_some() {
            "receipt_found"
        } else {
            "receipt_unknown"
        };
        self.note(id, kind, event);
        answered.map(|answered| self.receipt(id, shape, answered))
    }

    /// What has been seen so far.
    pub fn stats(&self) -> Stats {
        let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        Stats {
            max_sends_in_a_second: count(self.rate_limit().most_in_a_second()),
            max_checks_at_once: count(self.checks.most_at_once()),
            ..self.counters.read()
        }
    }

    /// Waits for responses on their way, for `grace` at most; those left are lost, as in a crash.
    pub async fn drain(&self, grace: Duration) {
        if let Some(deliveries) = &self.deliveries {
            deliveries.drain(grace).await;
        }
    }

    fn trouble(&self, dice: &mut SmallRng) -> Trouble {
        let (error, drop) = (self.options.send_error_rate.get(), self.options.drop_rate.get());
        let fate: f64 = dice.random();
        match fate {
            fate if fate < error / 2.0 => Trouble::BrokenBefore,
            fate if fate < error => Trouble::BrokenAfter,
            fate if fate < error + drop => Trouble::Silence,
            _ => Trouble::None,
        }
    }

    /// Decides a request's fate at its first send; later sends find it decided.
    fn take(&self, id: RequestId, kind: &str, shape: Shape, dice: &mut SmallRng) -> Taking {
        let rejected = self.options.reject_rate.happens(dice);
        let answered = !self.options.silent_rate.happens(dice);
        let taking = self.memory.take(id, rejected, answered);
        match taking {
            Taking::Rejected => {}
            Taking::Taken { again: true, .. } => {
                self.counters.duplicates.add();
                self.note(id, kind, "duplicate");
            }
            Taking::Taken { again: false, .. } => {
                self.counters.taken.add();
                self.note(id, kind, "taken");
                if answered {
                    self.answer(id, kind, shape, dice);
                } else {
                    self.counters.silent.add();
                }
            }
        }
        taking
    }

    fn rate_limit(&self) -> MutexGuard<'_, RateLimit> {
        self.rate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, id: impl Into<Option<RequestId>>, kind: &str, event: &str) {
        if let Some(log) = &self.log {
            log.write(id.into(), kind, event);
        }
    }
}

/// Lets `latency` pass; none passes without going through the timer.
async fn pass(latency: Duration) {
    if !latency.is_zero() {
        sleep(latency).await;
    }
}

#[cfg(test)]
mod tests;
