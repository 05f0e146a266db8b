//! A downstream in memory, with latencies, failures and limits; it counts the calls that exceed a limit.
//!
//! It keeps requests by their idempotency key, the request id, until it ends: a request sent again gets the receipt it
//! got before and has no further effect. A simulated downstream inside a worker ends with that worker; where workers
//! are killed and effects are counted, run it as a server ([`downstream_server`](crate::downstream_server)).

mod chance;
mod deliveries;
mod kinds;
mod latency;
mod limits;
mod options;
mod record;
mod refusal;
mod responder;
mod responses;
mod stage;

use std::{
    collections::{BTreeMap, HashMap, hash_map::Entry},
    sync::{Arc, Mutex},
    time::Duration,
};

use rand::{Rng, rngs::SmallRng};
use tidegate::{
    internals::lock::lock,
    request::{JsonText, RequestId},
    stage::Receipt,
};
use tokio::time::Instant;

use self::{
    chance::Dice,
    deliveries::Deliveries,
    latency::pass,
    limits::{ConcurrencyLimit, RateLimit},
    record::Record,
};
pub use self::{
    chance::{Chance, Lossy},
    kinds::SimulatedKind,
    latency::Latency,
    options::{RespondBy, SimulateError, SimulateOptions},
    record::Stats,
    refusal::Refusal,
    responder::{CallbackResponder, Delivery, NotDelivered, Responder, StoreResponder},
    stage::{SimulatedStage, stages},
};

/// The result of a request's sends, decided at its first send.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Rejected,
    Taken {
        /// Whether a response follows.
        answered: bool,
    },
}

/// When a check that broke the concurrency limit may be repeated.
const CHECK_AGAIN: Duration = Duration::from_secs(1);

/// A simulated downstream, shared by all its callers.
pub struct Downstream {
    options: SimulateOptions,
    /// Answer at once and keep no memory: for benchmarks, which would measure the bookkeeping too.
    bare: bool,
    kinds: BTreeMap<String, SimulatedKind>,
    dice: Dice,
    /// By idempotency key. It grows by some fifty bytes a request.
    fates: Mutex<HashMap<RequestId, Fate>>,
    rate: Mutex<RateLimit>,
    checks: ConcurrencyLimit,
    record: Arc<Record>,
    deliveries: Option<Arc<Deliveries>>,
}

impl Downstream {
    /// A downstream that delivers responses through `responder`; without one, the only responses are those in receipts.
    ///
    /// # Errors
    ///
    /// When chances add up to more than one, or the log cannot be written.
    pub fn new(options: SimulateOptions, responder: Option<Arc<dyn Responder>>) -> Result<Self, SimulateError> {
        options.validate()?;
        let record = Arc::new(Record::open(options.event_log.as_deref())?);
        Ok(Self {
            bare: options.is_bare(),
            kinds: kinds::served(options.shares, &options.kinds),
            dice: Dice::new(options.seed.unwrap_or_else(rand::random)),
            fates: Mutex::default(),
            rate: Mutex::new(RateLimit::new(options.rate, options.burst)),
            checks: ConcurrencyLimit::new(options.check_concurrency),
            deliveries: responder.map(|responder| Arc::new(Deliveries::new(responder, record.clone()))),
            record,
            options,
        })
    }

    /// Whether request `id` can run now.
    ///
    /// # Errors
    ///
    /// Why it cannot, or why the check was refused.
    pub async fn check(&self, id: Option<RequestId>, kind: &str) -> Result<(), Refusal> {
        if !self.kinds.contains_key(kind) {
            return Err(Refusal::UnknownKind);
        }
        let note = |event, count: fn(&mut Stats)| self.record.note(id, kind, event, count);
        note("check", |stats| stats.checks += 1);
        if self.bare {
            return Ok(());
        }

        let (running, at_once) = self.checks.begin();
        {
            let most = &mut self.record.stats().max_checks_at_once;
            *most = (*most).max(at_once as u64);
        }
        if running.is_none() {
            note("check_beyond_limit", |stats| stats.concurrency_violations += 1);
            return Err(Refusal::TooMany { after: CHECK_AGAIN });
        }
        let mut dice = self.dice.roll();
        let drawn: f64 = dice.random();
        pass(self.options.readiness_latency.draw(&mut dice)).await;
        let never = self.options.check_failure_rate.get();
        if drawn < never {
            note("check_failed", |stats| stats.checks_failed += 1);
            return Err(Refusal::NotPossible);
        }
        if drawn < never + self.options.not_yet_rate.get() {
            note("snooze", |stats| stats.checks_not_yet += 1);
            let after = self.options.not_yet_after;
            return Err(Refusal::NotYet { after: (!after.is_zero()).then_some(after) });
        }
        note("ready", |_| ());
        Ok(())
    }

    /// Takes request `id`, unless an option makes this send fail.
    ///
    /// The effect comes first and the answer after the latency, so that the effect stays when the caller gives up
    /// before the answer, as with a real downstream.
    ///
    /// # Errors
    ///
    /// Why there is no receipt; the request may have been taken all the same.
    pub async fn send(&self, id: RequestId, kind: &str) -> Result<Receipt, Refusal> {
        self.send_that_began(id, kind, Instant::now()).await
    }

    /// As [`Downstream::send`], by a call that began earlier: the rate is that of the beginnings.
    ///
    /// # Errors
    ///
    /// As [`Downstream::send`].
    pub async fn send_that_began(&self, id: RequestId, kind: &str, began: Instant) -> Result<Receipt, Refusal> {
        self.send_under(id, kind, None, began).await
    }

    /// As [`Downstream::send_that_began`], with the key that the log names when the request is taken.
    ///
    /// # Errors
    ///
    /// As [`Downstream::send`].
    pub async fn send_under(
        &self,
        id: RequestId,
        kind: &str,
        key: Option<&str>,
        began: Instant,
    ) -> Result<Receipt, Refusal> {
        let kind = self.kinds.get(kind).ok_or(Refusal::UnknownKind)?;
        let note = |event, count: fn(&mut Stats)| self.record.note(id, &kind.name, event, count);
        note("send", |stats| stats.sends += 1);
        if self.bare {
            self.record.stats().taken += 1;
            self.answer(id, kind, &mut self.dice.roll());
            return Ok(self.receipt(id, kind, true));
        }

        let counted = lock(&self.rate).count(began, Instant::now());
        if let Err(after) = counted {
            note("send_beyond_limit", |stats| stats.rate_violations += 1);
            return Err(Refusal::TooMany { after });
        }
        let mut dice = self.dice.roll();
        let drawn: f64 = dice.random();
        let broken = self.options.send_error_rate.get();
        let is_lost = self.loses(kind, &mut dice);
        // Half of the server errors, and half of the losses, come before the effect.
        let takes = drawn >= broken / 2.0 && !(is_lost && dice.random());
        let taken = takes.then(|| self.take(id, kind, key, &mut dice));
        pass(self.options.send_latency.draw(&mut dice)).await;

        if drawn < broken {
            note("send_error", |stats| stats.send_errors += 1);
            return Err(Refusal::Broken);
        }
        if is_lost || drawn < broken + self.options.drop_rate.get() {
            note("no_answer", |stats| stats.dropped += 1);
            return Err(Refusal::Silence);
        }
        match taken {
            Some((Fate::Taken { .. }, true)) if self.options.repeat_reject_rate.happens(&mut dice) => {
                note("repeat_rejected", |stats| stats.rejected += 1);
                Err(Refusal::Rejected)
            }
            Some((Fate::Taken { answered }, _)) => Ok(self.receipt(id, kind, answered)),
            _ => {
                note("rejected", |stats| stats.rejected += 1);
                Err(Refusal::Rejected)
            }
        }
    }

    /// The receipt of request `id`, if it was taken.
    pub fn find_receipt(&self, id: RequestId, kind: &str) -> Option<Receipt> {
        let kind = self.kinds.get(kind)?;
        self.record.stats().receipts_asked += 1;
        let fate = lock(&self.fates).get(&id).copied();
        let fate = fate.filter(|_| !self.loses(kind, &mut self.dice.roll()));
        let Some(Fate::Taken { answered }) = fate else {
            self.record.note(id, &kind.name, "receipt_unknown", |_| ());
            return None;
        };
        self.record.note(id, &kind.name, "receipt_found", |stats| stats.receipts_found += 1);
        Some(self.receipt(id, kind, answered))
    }

    /// The key that the log is to have of a payload.
    pub fn key_in(&self, payload: &[u8]) -> Option<String> {
        let field = self.options.event_log_key.as_ref()?;
        let payload: BTreeMap<String, JsonText> = serde_json::from_slice(payload).ok()?;
        serde_json::from_str(payload.get(field)?.get()).ok()
    }

    /// The counts so far.
    pub fn stats(&self) -> Stats {
        Stats { max_sends_in_a_second: lock(&self.rate).most_in_a_second as u64, ..self.record.stats().clone() }
    }

    /// Waits for pending responses, for `grace` at most; the others are lost, as in a crash.
    pub async fn drain(&self, grace: Duration) {
        if let Some(deliveries) = &self.deliveries {
            deliveries.drain(grace).await;
        }
    }

    /// The senseless Retry-After with which this send of a kind is refused; mostly none.
    pub fn absurd_retry_after(&self, kind: &str) -> Option<&'static str> {
        const ABSURD: [&str; 6] = ["0", "-1", "1.5", "soon", "99999999999999999999", "Wed, 21 Oct 2099 07:28:00 GMT"];
        let mut dice = self.dice.roll();
        happens(&self.options.absurd, kind, &mut dice).then(|| ABSURD[dice.random_range(0..ABSURD.len())])
    }

    /// Whether this answer of a kind is lost.
    fn loses(&self, kind: &SimulatedKind, dice: &mut SmallRng) -> bool {
        happens(&self.options.lossy, &kind.name, dice)
    }

    /// Decides a request's fate at its first send; later sends find it decided. Returns it, and whether it was.
    fn take(&self, id: RequestId, kind: &SimulatedKind, key: Option<&str>, dice: &mut SmallRng) -> (Fate, bool) {
        let rejected = self.options.reject_rate.happens(dice);
        let answered = !self.options.silent_rate.happens(dice);
        let first = if rejected { Fate::Rejected } else { Fate::Taken { answered } };
        let (fate, known) = match lock(&self.fates).entry(id) {
            Entry::Occupied(known) => (*known.get(), true),
            Entry::Vacant(unknown) => (*unknown.insert(first), false),
        };
        if fate == Fate::Rejected {
            return (fate, known);
        }
        if known {
            self.record.note(id, &kind.name, "duplicate", |stats| stats.duplicates += 1);
            return (fate, true);
        }
        self.record.note_under(id, &kind.name, "taken", key, |stats| stats.taken += 1);
        if answered {
            self.answer(id, kind, dice);
        } else {
            self.record.stats().silent += 1;
        }
        (fate, false)
    }
}

/// Whether what has this chance for the kind happens now.
fn happens(chances: &[Lossy], kind: &str, dice: &mut SmallRng) -> bool {
    let of_kind = chances.iter().find(|of| of.kind == kind);
    of_kind.is_some_and(|of| of.chance.happens(dice))
}

#[cfg(test)]
mod tests;
