//! Start-time fair queueing in plain words: each key has a turn, and the message whose turn has the smallest tag is
//! next.
//!
//! It knows the rules of a fair queue, and none of the engine's marks, passes and counts. All keys have the same
//! weight.

use std::collections::{BTreeMap, BTreeSet};

/// By how much a service moves the tag of a turn.
const COST: i64 = 720_720;

pub type Key = usize;
/// The number of a message.
pub type Number = i64;
/// Microseconds, by a clock that the tests move.
pub type Instant = i64;

/// When a key is served next. It stays when the key has become idle, so the tag is remembered.
#[derive(Debug, Clone, Copy, Default)]
struct Turn {
    tag: i64,
    no: u64,
    is_active: bool,
}

/// A row of the journal by which a key without an active turn gets one: from `at` on, for messages from `first` on.
#[derive(Debug, Clone, Copy)]
struct Arrival {
    at: Instant,
    key: Key,
    first: Number,
}

#[derive(Debug, Clone, Default)]
pub struct Model {
    pub now: Instant,
    turns: BTreeMap<Key, Turn>,
    /// When each may be taken.
    messages: BTreeMap<(Key, Number), Instant>,
    journal: Vec<Arrival>,
    /// How often a key has become active.
    activations: u64,
}

impl Model {
    pub fn new(now: Instant) -> Self {
        Self { now, ..Self::default() }
    }

    /// Messages come into the queue, to be taken from `at` on: new ones, or those that were held.
    pub fn arrive(&mut self, messages: &[(Key, Number)], at: Instant, is_new: bool) {
        let keys: BTreeSet<Key> = messages.iter().map(|(key, _)| *key).collect();
        self.messages.extend(messages.iter().map(|message| (*message, at)));
        for key in keys {
            let first = messages.iter().filter(|message| message.0 == key).map(|message| message.1).min();
            // A key that waits anyway is found to have more.
            let is_quiet = is_new && at <= self.now && self.turns.get(&key).is_some_and(|turn| turn.is_active);
            if let (Some(first), false) = (first, is_quiet) {
                self.journal.push(Arrival { at: at.max(self.now), key, first });
            }
        }
    }

    /// A message is gone that no claim has taken. The turn of its key stays.
    pub fn remove(&mut self, message: (Key, Number)) {
        self.messages.remove(&message);
    }

    /// Keys that have got messages become active, in the order of these: at virtual time, or at their own tag if that
    /// is later.
    pub fn fold(&mut self) {
        let time = self.virtual_time();
        let now = self.now;
        let mut first: BTreeMap<Key, Number> = BTreeMap::new();
        for arrival in self.journal.extract_if(.., |arrival| arrival.at <= now) {
            let known = first.entry(arrival.key).or_insert(arrival.first);
            *known = arrival.first.min(*known);
        }
        let mut in_order: Vec<_> = first.into_iter().map(|(key, first)| (first, key)).collect();
        in_order.sort_unstable();
        for (first, key) in in_order {
            let waits = self.waiting(key).any(|number| number >= first);
            let turn = self.turns.entry(key).or_default();
            if waits && !turn.is_active {
                self.activations += 1;
                *turn = Turn { tag: turn.tag.max(time), no: self.activations, is_active: true };
            }
        }
    }

    /// The messages that a claim takes, in their order.
    pub fn claim(&mut self, limit: usize) -> Vec<(Key, Number)> {
        self.fold();
        let mut taken = Vec::new();
        while let Some(key) = self.next_key().filter(|_| taken.len() < limit) {
            let first = self.waiting(key).next();
            let mut turn = self.turns[&key];
            if let Some(number) = first {
                self.messages.remove(&(key, number));
                turn.tag += COST;
                taken.push((key, number));
            }
            turn.is_active = self.waiting(key).next().is_some();
            self.turns.insert(key, turn);
        }
        taken
    }

    /// The messages that may be taken and whose keys are active, in the order in which they are served if no other
    /// comes.
    pub fn line(&self) -> Vec<(Key, Number)> {
        let mut line = Vec::new();
        for (key, turn) in self.turns.iter().filter(|(_, turn)| turn.is_active) {
            let tags = (turn.tag..).step_by(COST.unsigned_abs().try_into().unwrap());
            line.extend(tags.zip(self.waiting(*key)).map(|(tag, number)| (tag, turn.no, *key, number)));
        }
        line.sort_unstable();
        line.into_iter().map(|(_, _, key, number)| (key, number)).collect()
    }

    /// All messages, of which some may be taken later only.
    pub fn messages(&self) -> Vec<(Key, Number)> {
        self.messages.keys().copied().collect()
    }

    /// The tag of the first turn; while no key is active, the largest that is remembered: the end of a busy period.
    fn virtual_time(&self) -> i64 {
        let first = self.next_key().map(|key| self.turns[&key].tag);
        first.or_else(|| self.turns.values().map(|turn| turn.tag).max()).unwrap_or_default()
    }

    fn next_key(&self) -> Option<Key> {
        let active = self.turns.iter().filter(|(_, turn)| turn.is_active);
        active.min_by_key(|(_, turn)| (turn.tag, turn.no)).map(|(key, _)| *key)
    }

    /// The messages of a key that may be taken.
    fn waiting(&self, key: Key) -> impl Iterator<Item = Number> {
        let messages = self.messages.range((key, Number::MIN)..=(key, Number::MAX));
        messages.filter(|(_, at)| **at <= self.now).map(|((_, number), _)| *number)
    }
}
