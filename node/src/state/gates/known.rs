//! One gate in a node's copy.

use std::time::Duration;

use tidegate::internals::store::GateRow;
use tokio::time::Instant;

use super::{
    notification::{Notification, Signal},
    turns::{Room, Turns},
};

/// The largest integer of a structured field (RFC 9651), in seconds.
const SECONDS_MAX: f64 = 999_999_999_999_999.0;

/// The largest error of floating point in a time, in seconds.
const ROUNDING_ERROR: f64 = 1e-6;

/// The longest delay after the opening of a gate, in times that a queue at the high mark takes to drain. With a shorter
/// one, the submissions beyond it would all get the same time, and come back too early. With a longer one, callers that
/// retry too early, and take a turn each time, would delay the others for too long.
const DRAINS_MAX: f64 = 10.0;

/// What follows from a row of the copy, without a statement.
pub(crate) trait Figures {
    /// How many submissions there is room for; none behind a closed gate.
    fn room(&self) -> i64;

    /// In how many seconds so many messages are served, rounded up, at least 1; `None` without a drain rate.
    fn seconds_to_drain(&self, messages: i64) -> Option<u64>;

    /// The drain rate; none means no limit.
    fn rate(&self) -> Option<f64>;

    /// In how many seconds it opens, not rounded, when its depth was counted so long ago:
    /// `tidegate_internal.gate_wait`, from memory.
    fn opens_in(&self, counted: Duration) -> f64;

    /// The room for the submissions of one node of several, once it opens.
    fn room_of_a_node(&self) -> Room;

    /// A Retry-After: not before `seconds`, and later by up to the jitter, so that callers with the same time do not
    /// come back in the same second; `tidegate_internal.spread_seconds`, from memory.
    fn spread(&self, seconds: f64, random: impl Fn() -> f64) -> u64;
}

impl Figures for GateRow {
    fn room(&self) -> i64 {
        if self.accepting { (self.high_water - self.depth).max(0) } else { 0 }
    }

    fn seconds_to_drain(&self, messages: i64) -> Option<u64> {
        Some(whole(messages as f64 / self.rate().filter(|rate| *rate > 0.0)?))
    }

    fn rate(&self) -> Option<f64> {
        self.drain_rate.filter(|rate| rate.is_finite())
    }

    fn opens_in(&self, counted: Duration) -> f64 {
        let above = (self.depth - self.low_water) as f64;
        let mut seconds = self.forced_wait.unwrap_or_default();
        if above > 0.0 {
            let drained = match self.rate() {
                None => 0.0,
                Some(rate) if rate > 0.0 => {
                    let served = rate * counted.as_secs_f64();
                    (above - served).max(0.0) / rate * (1.0 + self.safety_margin)
                }
                Some(_) => self.max_seconds,
            };
            seconds = seconds.max(drained).max(self.still_wait.unwrap_or_default());
        }
        seconds.max(self.min_seconds).min(self.max_seconds.max(self.min_seconds))
    }

    fn room_of_a_node(&self) -> Room {
        let (high, low, nodes) = (self.high_water as f64, self.low_water as f64, self.nodes.max(1.0));
        let served_in = |messages: f64| match self.rate() {
            Some(rate) if rate > 0.0 => duration(messages / rate),
            _ => Duration::ZERO,
        };
        Room {
            at_once: ((high - low) / nodes).max(1.0),
            pace: served_in(nodes * (1.0 + self.safety_margin)),
            most: served_in(high * DRAINS_MAX),
        }
    }

    fn spread(&self, seconds: f64, random: impl Fn() -> f64) -> u64 {
        let most = self.max_seconds.max(seconds);
        let from = whole(seconds) as f64;
        let to = (from * (1.0 + self.jitter)).min(most.max(from));
        whole(from + (random() * (to - from + 1.0)).floor())
    }
}

/// A time of a finite or infinite number of seconds.
fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.min(SECONDS_MAX)).unwrap_or(Duration::ZERO)
}

/// Rounds up, but for an error of floating point.
fn whole(seconds: f64) -> u64 {
    (seconds - ROUNDING_ERROR).ceil().clamp(1.0, SECONDS_MAX) as u64
}

/// A gate, with the times of its last changes in the copy.
#[derive(Debug, Clone)]
pub(super) struct KnownGate {
    pub(super) gate: GateRow,
    /// When its notification came, or the reading of its state began.
    learned: Instant,
    /// When its depth was counted, or a little earlier.
    counted: Instant,
    turns: Turns,
}

impl KnownGate {
    /// A gate of a reading that began at this time.
    pub(super) fn read(gate: GateRow, began: Instant) -> Self {
        Self { gate, learned: began, counted: began, turns: Turns::default() }
    }

    /// Completes a reading with the gate before: its turns, and its state, if a newer notification came while the
    /// reading was under way.
    ///
    /// A reading that began after the last change counts whatever its epoch: a restored database has gone back, and any
    /// session may notify.
    pub(super) fn after(mut self, before: Self) -> Self {
        if before.learned >= self.learned {
            if before.gate.epoch > self.gate.epoch {
                self.gate.accepting = before.gate.accepting;
                self.gate.epoch = before.gate.epoch;
                self.gate.depth = before.gate.depth;
                self.gate.forced_wait = before.gate.forced_wait;
                self.counted = before.counted;
            }
            self.learned = before.learned;
        }
        self.turns = before.turns;
        self
    }

    /// Takes over a notification of a flip, unless a newer one came before.
    pub(super) fn on_notification(&mut self, notification: &Notification, now: Instant) {
        if notification.epoch > self.gate.epoch {
            self.gate.accepting = notification.signal == Signal::AcceptingRequests;
            self.gate.depth = notification.depth.into();
            self.gate.epoch = notification.epoch;
            // The next reading finds the hold of an operator.
            self.gate.forced_wait = None;
            self.learned = now;
            self.counted = now;
        }
    }

    /// The Retry-After of a refused submission, in turn, in seconds, not rounded.
    pub(super) fn refuse(&mut self, now: Instant) -> f64 {
        let opens_in = self.gate.opens_in(now.saturating_duration_since(self.counted));
        opens_in + self.turn(now, opens_in, 1).as_secs_f64()
    }

    /// Takes a turn for a submission of `count` requests: its delay after the opening, within the longest Retry-After.
    pub(super) fn turn(&mut self, now: Instant, opens_in: f64, count: usize) -> Duration {
        let opens_at = now.checked_add(duration(opens_in)).unwrap_or(now);
        let delay = self.turns.take(opens_at, count, &self.gate.room_of_a_node());
        delay.min(duration((self.gate.max_seconds - opens_in).max(0.0)))
    }
}
