//! One gate in a node's copy.

use std::time::Duration;

use tokio::time::Instant;

use super::{
    Notification, Signal,
    turns::{Room, Turns},
};
use crate::store::GateRow;

/// The largest integer of a structured field (RFC 9651), in seconds.
const SECONDS_MAX: f64 = 999_999_999_999_999.0;

/// The largest error of floating point in a time, in seconds.
const ROUNDING_ERROR: f64 = 1e-6;

/// The longest delay after the opening of a gate, in times that a queue at the high mark takes to drain. With a shorter
/// one, the submissions beyond it would all get the same time, and come back too early. With a longer one, callers that
/// retry too early, and take a turn each time, would delay the others for too long.
const DRAINS_MAX: f64 = 10.0;

/// A gate.
#[derive(Debug, Clone, PartialEq)]
pub struct Gate {
    /// Its name: its queue's, `kind direct`, or `submitter ann`.
    pub name: String,
    /// Whether it admits submissions.
    pub accepting: bool,
    /// Whether it is the quota of a submitter: its name is shown to that submitter only.
    pub of_submitter: bool,
    /// The depth at which it closes, in messages.
    pub high_water: u64,
    /// The depth at which it opens.
    pub low_water: u64,
    /// The depth, a moment ago.
    pub depth: u64,
    /// Counts its changes.
    pub epoch: i64,
    /// Messages served per second; none means no limit, 0 stopped.
    pub drain_rate: Option<f64>,
    /// The least Retry-After while an operator holds it, in seconds.
    forced_wait: Option<f64>,
    /// The least Retry-After while its queue does not drain, in seconds.
    still_wait: Option<f64>,
}

impl Gate {
    /// How many submissions there is room for; none behind a closed gate.
    #[must_use]
    pub fn room(&self) -> u64 {
        if self.accepting {
            self.high_water.saturating_sub(self.depth)
        } else {
            0
        }
    }

    /// In how many seconds so many messages are served, rounded up, at least 1; `None` without a drain rate.
    #[must_use]
    pub fn seconds_to_drain(&self, messages: u64) -> Option<u64> {
        let rate = self.drain_rate.filter(|rate| *rate > 0.0)?;
        Some(whole((messages as f64 / rate).clamp(1.0, SECONDS_MAX)))
    }

    /// In how many seconds it opens, not rounded, when its depth was counted so long ago:
    /// `tidegate_internal.gate_wait`, from memory.
    fn opens_in(&self, terms: &Terms, counted: Duration) -> f64 {
        let above = self.depth as f64 - self.low_water as f64;
        let mut seconds = match self.drain_rate {
            _ if above <= 0.0 => 0.0,
            None => 0.0,
            Some(rate) if rate > 0.0 => {
                let served = rate * counted.as_secs_f64();
                (above - served).max(0.0) / rate * (1.0 + terms.safety_margin)
            }
            Some(_) => terms.most,
        };
        if above > 0.0 {
            seconds = seconds.max(self.still_wait.unwrap_or_default());
        }
        seconds = seconds.max(self.forced_wait.unwrap_or_default());
        seconds.max(terms.least).min(terms.most.max(terms.least))
    }

    /// The room for the submissions of one node of several, once it opens.
    fn room_of_a_node(&self, terms: &Terms) -> Room {
        let (high, low) = (self.high_water as f64, self.low_water as f64);
        let rate = self.drain_rate.filter(|rate| *rate > 0.0);
        let seconds = |seconds: f64| Duration::try_from_secs_f64(seconds.min(SECONDS_MAX)).unwrap_or(Duration::ZERO);
        Room {
            at_once: ((high - low) / terms.nodes).max(1.0),
            pace: rate.map_or(Duration::ZERO, |rate| {
                seconds(terms.nodes / rate * (1.0 + terms.safety_margin))
            }),
            most: rate.map_or(Duration::ZERO, |rate| seconds(high / rate * DRAINS_MAX)),
        }
    }
}

/// Rounds up, but for an error of floating point.
fn whole(seconds: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is between these bounds"
    )]
    let seconds = (seconds - ROUNDING_ERROR).ceil().clamp(1.0, SECONDS_MAX) as u64;
    seconds
}

/// The settings that all gates share. Times are in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Terms {
    safety_margin: f64,
    least: f64,
    pub(super) most: f64,
    jitter: f64,
    /// Among how many nodes the room is shared.
    nodes: f64,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            safety_margin: 0.2,
            least: 1.0,
            most: 300.0,
            jitter: 0.1,
            nodes: 1.0,
        }
    }
}

impl From<&GateRow> for Terms {
    fn from(row: &GateRow) -> Self {
        Self {
            safety_margin: row.safety_margin.max(0.0),
            least: f64::from(row.min_seconds.max(1)),
            most: f64::from(row.max_seconds.max(1)),
            jitter: row.jitter.max(0.0),
            nodes: (row.nodes as f64).max(1.0),
        }
    }
}

impl Terms {
    /// A Retry-After: not before `seconds`, and later by up to the jitter, so that callers with the same time do not
    /// come back in the same second; `tidegate_internal.spread_seconds`, from memory.
    pub(super) fn spread(&self, seconds: f64, random: impl Fn() -> f64) -> u64 {
        let most = self.most.max(seconds);
        let from = whole(seconds) as f64;
        let to = (from * (1.0 + self.jitter)).min(most.max(from));
        whole(from + (random() * (to - from + 1.0)).floor())
    }
}

/// A gate, with the times of its last changes in the copy.
#[derive(Debug, Clone)]
pub(super) struct KnownGate {
    pub(super) gate: Gate,
    /// When its notification came, or the reading of its state began.
    learned: Instant,
    /// When its depth was counted, or a little earlier.
    counted: Instant,
    /// Whether it is a quota of a kind or a submitter.
    pub(super) is_quota: bool,
    pub(super) turns: Turns,
}

impl KnownGate {
    /// The gate of a row in a reading that began at this time.
    pub(super) fn read(row: &GateRow, began: Instant) -> Self {
        let count = |messages: i64| u64::try_from(messages).unwrap_or_default();
        Self {
            gate: Gate {
                name: row.name.clone(),
                accepting: row.state == "accepting",
                of_submitter: row.submitter.is_some(),
                high_water: count(row.high_water.into()),
                low_water: count(row.low_water.into()),
                depth: count(row.depth),
                epoch: row.epoch,
                drain_rate: row.drain_rate.filter(|rate| rate.is_finite()),
                forced_wait: row.forced_wait.map(f64::from),
                still_wait: row.still_wait.map(f64::from),
            },
            learned: began,
            counted: began,
            is_quota: row.queue.is_none(),
            turns: Turns::default(),
        }
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
    pub(super) fn heard(&mut self, notification: &Notification, now: Instant) {
        if notification.epoch > self.gate.epoch {
            self.gate.accepting = notification.signal == Signal::AcceptingRequests;
            self.gate.depth = notification.depth;
            self.gate.epoch = notification.epoch;
            // The next reading finds the hold of an operator.
            self.gate.forced_wait = None;
            self.learned = now;
            self.counted = now;
        }
    }

    /// The Retry-After of a refused submission, in turn, in seconds, not rounded.
    pub(super) fn refuse(&mut self, terms: &Terms, now: Instant) -> f64 {
        let counted = now.saturating_duration_since(self.counted);
        let opens_in = self.gate.opens_in(terms, counted);
        let turn = self.turn(terms, now, opens_in, 1);
        // Never longer than the longest Retry-After.
        (opens_in + turn).min(terms.most.max(opens_in))
    }

    /// Takes a turn for a submission of `count` requests: its delay after the opening, in seconds.
    pub(super) fn turn(&mut self, terms: &Terms, now: Instant, opens_in: f64, count: usize) -> f64 {
        let room = self.gate.room_of_a_node(terms);
        let opens_at = Duration::try_from_secs_f64(opens_in)
            .ok()
            .and_then(|opens_in| now.checked_add(opens_in))
            .unwrap_or(now);
        self.turns.take(opens_at, count, &room).as_secs_f64()
    }
}
