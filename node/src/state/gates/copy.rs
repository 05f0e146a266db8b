//! All gates of a node: their readings, and the notifications between them.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use tidegate::internals::store::GateRow;
use tokio::time::Instant;

use super::{
    known::{Figures, KnownGate},
    notification::Notification,
};

/// From this age on a copy refuses no submission: the database decides, and was unavailable to this node for a while.
pub(super) const USABLE: Duration = Duration::from_secs(6);

/// A closed gate, and its Retry-After.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    /// The gate that refuses; of several the one that opens last.
    pub gate: GateRow,
    /// In how many whole seconds to submit again.
    pub seconds: u64,
}

/// The copy.
#[derive(Debug, Default)]
pub(super) struct GateCopy {
    /// When the last reading began.
    read: Option<Instant>,
    gates: Vec<KnownGate>,
    places: Places,
}

/// The places of the gates that a submission passes.
#[derive(Debug, Default)]
struct Places {
    by_name: HashMap<String, usize>,
    /// First that of the queue that it enters.
    by_kind: HashMap<String, Vec<usize>>,
    by_submitter: HashMap<String, usize>,
    /// Kinds that make idempotency keys of their payloads.
    keyed: HashSet<String>,
}

impl Places {
    fn of(rows: &[GateRow]) -> Self {
        let mut places = Self::default();
        places.keyed.extend(rows.iter().flat_map(|row| row.keyed.iter().cloned()));
        for (place, row) in rows.iter().enumerate() {
            places.by_name.insert(row.name.clone(), place);
            if let Some(submitter) = &row.submitter {
                places.by_submitter.insert(submitter.clone(), place);
                continue;
            }
            for kind in &row.kinds {
                let of_kind = places.by_kind.entry(kind.clone()).or_default();
                let first = if row.queue.is_some() { 0 } else { of_kind.len() };
                of_kind.insert(first, place);
            }
            for kind in &row.passed_by {
                places.by_kind.entry(kind.clone()).or_default().push(place);
            }
        }
        places
    }

    /// The gates that a submission passes; none for an unknown kind.
    fn of_submission(&self, kind: &str, submitter: Option<&str>) -> impl Iterator<Item = usize> {
        let of_kind = self.by_kind.get(kind);
        let of_submitter =
            submitter.filter(|_| of_kind.is_some()).and_then(|submitter| self.by_submitter.get(submitter));
        of_kind.into_iter().flatten().chain(of_submitter).copied()
    }
}

impl GateCopy {
    /// Takes over the rows of a reading that began at this time.
    pub(super) fn read(&mut self, rows: Vec<GateRow>, began: Instant) {
        let mut before: HashMap<_, _> =
            std::mem::take(&mut self.gates).into_iter().map(|known| (known.gate.name.clone(), known)).collect();
        self.places = Places::of(&rows);
        let known = |row: GateRow| {
            let read = KnownGate::read(row, began);
            match before.remove(&read.gate.name) {
                Some(before) => read.after(before),
                None => read,
            }
        };
        self.gates = rows.into_iter().map(known).collect();
        self.read = Some(began);
    }

    /// Takes over a notification; returns whether there is such a gate.
    pub(super) fn on_notification(&mut self, gate: &str, notification: &Notification, now: Instant) -> bool {
        let place = self.places.by_name.get(gate);
        let known = place.and_then(|place| self.gates.get_mut(*place));
        known.map(|known| known.on_notification(notification, now)).is_some()
    }

    /// How old it is; `None` before the first reading.
    pub(super) fn age(&self, now: Instant) -> Option<Duration> {
        self.read.map(|read| now.saturating_duration_since(read))
    }

    fn is_usable(&self, now: Instant) -> bool {
        self.age(now).is_some_and(|age| age < USABLE)
    }

    /// The refusal of a submission without a key by a closed gate, by the copy. It takes a turn at every closed gate.
    pub(super) fn refuse(
        &mut self,
        kind: &str,
        submitter: Option<&str>,
        now: Instant,
        random: impl Fn() -> f64,
    ) -> Option<Refusal> {
        // Only the database can recognise a replay.
        if !self.is_usable(now) || self.places.keyed.contains(kind) {
            return None;
        }
        let mut latest: Option<(f64, usize)> = None;
        for place in self.places.of_submission(kind, submitter) {
            let known = &mut self.gates[place];
            if !known.gate.accepting {
                let seconds = known.refuse(now);
                if latest.is_none_or(|(later, _)| seconds > later) {
                    latest = Some((seconds, place));
                }
            }
        }
        let (seconds, place) = latest?;
        let gate = self.gates[place].gate.clone();
        let seconds = gate.spread(seconds, random);
        Some(Refusal { gate, seconds })
    }

    /// How much later than the database's Retry-After a submission of `count` requests comes back: submissions that the
    /// database refuses take turns with those refused here.
    pub(super) fn turn(
        &mut self,
        kind: &str,
        submitter: Option<&str>,
        opens_in: Duration,
        count: usize,
        now: Instant,
    ) -> Duration {
        let closed = |known: &KnownGate| !known.gate.accepting;
        let mut later = Duration::ZERO;
        let on_the_way = || self.places.of_submission(kind, submitter);
        // A single request may be refused by a gate whose notification is still under way: the first, if there is no
        // quota. A batch may be refused by an open gate that has no room for all of it.
        let not_yet_notified = count == 1
            && !on_the_way().any(|place| closed(&self.gates[place]) || self.gates[place].gate.queue.is_none());
        for (nth, place) in on_the_way().enumerate() {
            let known = &mut self.gates[place];
            if closed(known) || (not_yet_notified && nth == 0) {
                later = later.max(known.turn(now, opens_in.as_secs_f64(), count));
            }
        }
        later
    }

    /// The gate that the answer to a submission describes: the first, or, if it was refused, the first that is closed.
    pub(super) fn gate_of(&self, kind: &str, submitter: Option<&str>, refused: bool, now: Instant) -> Option<GateRow> {
        if !self.is_usable(now) {
            return None;
        }
        let places = self.places.of_submission(kind, submitter);
        let gates: Vec<_> = places.map(|place| &self.gates[place].gate).collect();
        let closed = gates.iter().find(|gate| refused && !gate.accepting);
        closed.or(gates.first()).map(|gate| GateRow::clone(gate))
    }

    /// Whether a submitter has a quota of its own.
    pub(super) fn has_quota(&self, submitter: &str) -> bool {
        self.places.by_submitter.contains_key(submitter)
    }

    /// Every gate.
    pub(super) fn gates(&self) -> impl Iterator<Item = &GateRow> {
        self.gates.iter().map(|known| &known.gate)
    }
}
