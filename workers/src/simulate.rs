//! A downstream in memory, with latencies, failures and limits; it counts the calls that exceed a limit.
//!
//! It keeps requests by their idempotency key, the request id, until it ends: a request sent again gets the receipt it
//! got before and has no further effect. A simulated downstream inside a worker ends with that worker; where workers
//! are killed and effects are counted, run it as a server ([`downstream_server`](crate::downstream_server)).

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
    options::{RespondBy, SimulateError, SimulateOptions},
    responder::{CallbackResponder, Delivered, Delivery, NotDelivered, Responder, StoreResponder},
    stage::{SimulatedStage, stages},
    stats::Stats,
};
use self::{
    chance::Dice,
    deliveries::Deliveries,
    kinds::Shape,
    limits::{ConcurrencyLimit, RateLimit},
    log::EventLog,
    memory::{Fate, Memory},
    stats::Counters,
};

/// A simulated fault of one send.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    BrokenBefore,
    BrokenAfter,
    Silence,
}

/// When a check that broke the concurrency limit may be repeated.
const CHECK_AGAIN: Duration = Duration::from_secs(1);

/// A simulated downstream, shared by all its callers.
pub struct Downstream {
    options: SimulateOptions,
    /// Answer at once and keep no memory: for benchmarks, which would measure the bookkeeping too.
    bare: bool,
    kinds: BTreeMap<String, Shape>,
    dice: Dice,
    memory: Memory,
    rate: Mutex<RateLimit>,
    checks: ConcurrencyLimit,
    counters: Arc<Counters>,
    log: Arc<EventLog>,
    deliveries: Option<Deliveries>,
}

impl Downstream {
    /// A downstream that delivers responses through `responder`; without one, the only responses are those in receipts.
    ///
    /// # Errors
    ///
    /// When chances add up to more than one, or the log cannot be written.
    pub fn new(options: SimulateOptions, responder: Option<Arc<dyn Responder>>) -> Result<Self, SimulateError> {
        options.validate()?;
        let log = Arc::new(EventLog::open(options.log.as_deref())?);
        let counters = Arc::new(Counters::default());
        Ok(Self {
            bare: options.is_bare(),
            kinds: kinds::shapes(options.shares, &options.kinds),
            dice: Dice::new(options.seed.unwrap_or_else(rand::random)),
            memory: Memory::default(),
            rate: Mutex::new(RateLimit::new(options.rate, options.burst)),
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
        let drawn: f64 = dice.random();
        pass(self.options.readiness_latency.draw(&mut dice)).await;
        let never = self.options.check_failure_rate.get();
        if drawn < never {
            self.counters.checks_failed.add();
            self.note(id, kind, "check_failed");
            return Checked::Never;
        }
        if drawn < never + self.options.not_yet_rate.get() {
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

    /// Takes request `id`, unless an option makes this send fail.
    ///
    /// The effect comes first and the answer after the latency, so that the effect stays when the caller gives up
    /// before the answer, as with a real downstream.
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
        if let Err(after) = arrival {
            self.counters.rate_violations.add();
            self.note(id, kind, "send_beyond_limit");
            return SendAnswer::TooMany { after };
        }
        let mut dice = self.dice.roll();
        let fault = self.fault(&mut dice);
        let fate = match fault {
            Fault::BrokenBefore => None,
            _ => Some(self.take(id, kind, shape, &mut dice)),
        };
        pass(self.options.send_latency.draw(&mut dice)).await;

        match (fault, fate) {
            (Fault::Silence, _) => {
                self.counters.dropped.add();
                self.note(id, kind, "no_answer");
                SendAnswer::Silence
            }
            (Fault::None, Some(Fate::Rejected)) => {
                self.counters.rejected.add();
                self.note(id, kind, "rejected");
                SendAnswer::Rejected
            }
            (Fault::None, Some(Fate::Taken { answered })) => SendAnswer::Taken(self.receipt(id, shape, answered)),
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
        let Some(answered) = answered else {
            self.note(id, kind, "receipt_unknown");
            return None;
        };
        self.counters.receipts_found.add();
        self.note(id, kind, "receipt_found");
        Some(self.receipt(id, shape, answered))
    }

    /// The counts so far.
    pub fn stats(&self) -> Stats {
        let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        Stats {
            max_sends_in_a_second: count(self.rate_limit().most_in_a_second()),
            max_checks_at_once: count(self.checks.most_at_once()),
            ..self.counters.read()
        }
    }

    /// Waits for pending responses, for `grace` at most; the others are lost, as in a crash.
    pub async fn drain(&self, grace: Duration) {
        if let Some(deliveries) = &self.deliveries {
            deliveries.drain(grace).await;
        }
    }

    fn fault(&self, dice: &mut SmallRng) -> Fault {
        let (error, drop) = (self.options.send_error_rate.get(), self.options.drop_rate.get());
        match dice.random::<f64>() {
            drawn if drawn < error / 2.0 => Fault::BrokenBefore,
            drawn if drawn < error => Fault::BrokenAfter,
            drawn if drawn < error + drop => Fault::Silence,
            _ => Fault::None,
        }
    }

    /// Decides a request's fate at its first send; later sends find it decided.
    fn take(&self, id: RequestId, kind: &str, shape: Shape, dice: &mut SmallRng) -> Fate {
        let rejected = self.options.reject_rate.happens(dice);
        let answered = !self.options.silent_rate.happens(dice);
        let first = if rejected {
            Fate::Rejected
        } else {
            Fate::Taken { answered }
        };
        let (fate, known) = self.memory.decide(id, first);
        if fate == Fate::Rejected {
            return fate;
        }
        if known {
            self.counters.duplicates.add();
            self.note(id, kind, "duplicate");
            return fate;
        }
        self.counters.taken.add();
        self.note(id, kind, "taken");
        if answered {
            self.answer(id, kind, shape, dice);
        } else {
            self.counters.silent.add();
        }
        fate
    }

    fn rate_limit(&self) -> MutexGuard<'_, RateLimit> {
        self.rate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, id: impl Into<Option<RequestId>>, kind: &str, event: &str) {
        self.log.write(id.into(), kind, event);
    }
}

/// Waits for `latency`; zero does not use the timer.
async fn pass(latency: Duration) {
    if !latency.is_zero() {
        sleep(latency).await;
    }
}

#[cfg(test)]
mod tests;
