//! All gates, as a node knows them: what it reads, and what it hears between two readings.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use tokio::time::Instant;

use super::known::{Gate, Known, Terms};
use crate::store::GateRow;

/// From this age on a copy refuses nobody: the database, which decides, has been away for a while, or this node has.
pub(super) const USABLE: Duration = Duration::from_secs(6);

/// That a gate is closed, and when to come back.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    /// The gate that refuses; of several the one that opens last.
    pub gate: Gate,
    /// In how many whole seconds to submit again.
    pub seconds: u64,
}

/// What a notification says.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Flip {
    pub(super) gate: String,
    pub(super) accepting: bool,
    pub(super) depth: u64,
    pub(super) epoch: i64,
}

/// The copy.
#[derive(Debug, Default)]
pub(super) struct GateCopy {
    /// When the last reading began.
    read: Option<Instant>,
    terms: Terms,
    gates: Vec<Known>,
    places: Places,
}

/// Which gates a submission comes to, by their place.
#[derive(Debug, Default)]
struct Places {
    by_name: HashMap<String, usize>,
    /// First that of the queue that it enters.
    by_kind: HashMap<String, Vec<usize>>,
    by_submitter: HashMap<String, usize>,
    /// Kinds of which every submission has a key.
    keyed: HashSet<String>,
}

impl Places {
    fn of(rows: &[GateRow]) -> Self {
        let mut places = Self::default();
        places
            .keyed
            .extend(rows.iter().flat_map(|row| row.keyed.iter().cloned()));
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

    /// The gates that a submission comes to; none for an unknown kind.
    fn of_submission(&self, kind: &str, submitter: Option<&str>) -> impl Iterator<Item = usize> {
        let of_kind = self.by_kind.get(kind);
        let of_submitter = submitter
            .filter(|_| of_kind.is_some())
            .and_then(|submitter| self.by_submitter.get(submitter));
        of_kind.into_iter().flatten().chain(of_submitter).copied()
    }
}

impl GateCopy {
    /// Takes over what a reading found that began at this time.
    pub(super) fn read(&mut self, rows: &[GateRow], began: Instant) {
        let mut before: HashMap<_, _> = std::mem::take(&mut self.gates)
            .into_iter()
            .map(|known| (known.gate.name.clone(), known))
            .collect();
        self.places = Places::of(rows);
        self.gates = rows
            .iter()
            .map(|row| {
                let read = Known::read(row, began);
                match before.remove(&row.name) {
                    Some(before) => read.after(before),
                    None => read,
                }
            })
            .collect();
        self.terms = rows.first().map_or(self.terms, Terms::from);
        self.read = Some(began);
    }

    /// Takes note of a flip; returns whether there is such a gate.
    pub(super) fn heard(&mut self, flip: &Flip, now: Instant) -> bool {
        let place = self.places.by_name.get(&flip.gate);
        let known = place.and_then(|place| self.gates.get_mut(*place));
        if let Some(known) = known {
            known.heard(flip.accepting, flip.depth, flip.epoch, now);
            return true;
        }
        false
    }

    /// How old it is; `None` before the first reading.
    pub(super) fn age(&self, now: Instant) -> Option<Duration> {
        self.read.map(|read| now.saturating_duration_since(read))
    }

    fn is_usable(&self, now: Instant) -> bool {
        self.age(now).is_some_and(|age| age < USABLE)
    }

    /// Whether a gate is in the way of a submission without a key, as far as this node knows, and when its caller is to
    /// come back: that takes a turn at every closed gate.
    pub(super) fn refuse(
        &mut self,
        kind: &str,
        submitter: Option<&str>,
        now: Instant,
        random: impl Fn() -> f64,
    ) -> Option<Refusal> {
        // Only the database knows whether a key was used before.
        if !self.is_usable(now) || self.places.keyed.contains(kind) {
            return None;
        }
        let mut latest: Option<(f64, usize)> = None;
        for place in self.places.of_submission(kind, submitter) {
            let known = &mut self.gates[place];
            if !known.gate.accepting {
                let seconds = known.refuse(&self.terms, now);
                if latest.is_none_or(|(later, _)| seconds > later) {
                    latest = Some((seconds, place));
                }
            }
        }
        let (seconds, place) = latest?;
        Some(Refusal {
            gate: self.gates[place].gate.clone(),
            seconds: self.terms.spread(seconds, random),
        })
    }

    /// How much later than the database has said a caller is to come back who wants so many places and was refused
    /// there: they take turns with those refused here.
    pub(super) fn turn(
        &mut self,
        kind: &str,
        submitter: Option<&str>,
        opens_in: Duration,
        count: usize,
        now: Instant,
    ) -> Duration {
        let opens_in = opens_in.as_secs_f64();
        let closed = |known: &Known| !known.gate.accepting;
        let mut later: f64 = 0.0;
        let on_the_way = || self.places.of_submission(kind, submitter);
        // A single one may be refused by a gate of which the news is still under way: the first, if there is no cap. A batch
        // may be refused by one that is open, and has just no room for all of it.
        let unheard = count == 1 && !on_the_way().any(|place| closed(&self.gates[place]) || self.gates[place].is_cap);
        for (nth, place) in on_the_way().enumerate() {
            let known = &mut self.gates[place];
            if closed(known) || (unheard && nth == 0) {
                later = later.max(known.turn(&self.terms, now, opens_in, count));
            }
        }
        let most = (self.terms.most() - opens_in).max(0.0);
        Duration::try_from_secs_f64(later.min(most)).unwrap_or(Duration::ZERO)
    }

    /// The gate to tell a submission's caller about: the first, or, if it was refused, the first that is closed.
    pub(super) fn gate_of(&self, kind: &str, submitter: Option<&str>, refused: bool, now: Instant) -> Option<Gate> {
        if !self.is_usable(now) {
            return None;
        }
        let mut gates = self
            .places
            .of_submission(kind, submitter)
            .map(|place| &self.gates[place].gate);
        let first = gates.next()?;
        let gate = if refused && first.accepting {
            gates.find(|gate| !gate.accepting).unwrap_or(first)
        } else {
            first
        };
        Some(gate.clone())
    }

    /// Whether a submitter has a cap of its own.
    pub(super) fn is_capped(&self, submitter: &str) -> bool {
        self.places.by_submitter.contains_key(submitter)
    }

    /// Every gate.
    pub(super) fn gates(&self) -> impl Iterator<Item = &Gate> {
        self.gates.iter().map(|known| &known.gate)
    }
}
