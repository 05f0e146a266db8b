//! One moment: the sequence, the offset, the messages, and the open transactions.

/// A set of message numbers, a bit each; the first number is 1.
pub(super) type Numbers = u16;

pub(super) fn bit(number: u8) -> Numbers {
    1 << number
}

/// The numbers from 1 to this one.
pub(super) fn up_to(number: u8) -> Numbers {
    bit(number + 1) - bit(1)
}

pub(super) fn each(numbers: Numbers) -> impl Iterator<Item = u8> {
    (1..16).filter(move |&number| numbers & bit(number) != 0)
}

pub(super) fn count(numbers: Numbers) -> i8 {
    i8::try_from(numbers.count_ones()).unwrap()
}

/// What a submission asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Want {
    /// Whether the gate limits it; with admission `accepted` it draws without a limit.
    pub(super) enforce: bool,
    pub(super) count: i8,
}

/// How far an open transaction is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Phase {
    /// There is no transaction.
    #[default]
    Idle,
    /// The transaction is between two operations.
    Between,
    /// It has found the offset above the last number, and sets it to 0.
    Above,
    /// It has read the offset and the last number, and was not refused.
    Looked { want: Want, offset: i8, seen: u8 },
    /// It has registered, and draws.
    Draws { want: Want, offset: i8, seen: u8, drawn: Numbers },
    /// It has registered that it puts back a message.
    Registered(u8),
    /// It has lowered the offset for that message.
    Lowered(u8),
    /// It has inserted that message, and the offset is still to be lowered.
    Inserted(u8),
    /// It has ended and its locks are still held; the offset may still have to be lowered.
    Ended { lower: bool },
}

/// A refresh under the lock R: what it has read up to now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Refresh {
    /// How many of its readings are complete.
    pub(super) readings: u8,
    /// How many sessions the reading of `pg_locks` has passed.
    pub(super) scanned: u8,
    pub(super) last: u8,
    pub(super) open: i8,
    pub(super) live: Numbers,
}

/// An advisory lock: how many numbers it registers, and the last number at that time. A transaction that takes one key
/// twice holds it once.
pub(super) type Key = (i8, u8);

/// One session, and its transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Session {
    pub(super) phase: Phase,
    pub(super) refresh: Option<Refresh>,
    /// How many operations the transaction has begun.
    pub(super) operations: u8,
    /// Whether it has written, so that it has a transaction id.
    pub(super) written: bool,
    /// Whether it holds the lock of `nextval`.
    pub(super) lock: bool,
    /// Its advisory locks, sorted.
    pub(super) keys: [Option<Key>; 4],
    /// What it remembers: how many numbers it has registered, and how many of them it has used.
    pub(super) remembered: (i8, i8),
    pub(super) inserted: Numbers,
    pub(super) deleted: Numbers,
    /// The messages for which the offset was lowered after this session read it.
    pub(super) unknown: Numbers,
}

impl Session {
    /// How many numbers others count for it.
    pub(super) fn registered(&self) -> i8 {
        let registered: i8 = self.keys.iter().flatten().map(|(count, _)| count).sum();
        registered + i8::from(self.lock)
    }

    pub(super) fn lock_key(&mut self, key: Key) {
        if !self.keys.contains(&Some(key)) {
            let free = self.keys.iter().position(Option::is_none);
            self.keys[free.unwrap()] = Some(key);
            self.keys.sort_unstable_by(|a, b| b.cmp(a));
        }
    }

    /// The numbers that may still become live through this transaction.
    pub(super) fn pending(&self) -> Numbers {
        self.inserted
            | match self.phase {
                Phase::Draws { drawn, .. } => drawn,
                Phase::Registered(number) | Phase::Lowered(number) | Phase::Inserted(number) => bit(number),
                _ => 0,
            }
    }

    /// The transaction ends: new snapshots show what it did. Its locks are released later.
    pub(super) fn end(&mut self, lower: bool) {
        *self = Self { phase: Phase::Ended { lower }, lock: self.lock, keys: self.keys, ..Self::default() };
        self.rest();
    }

    /// A transaction that holds nothing is as good as none.
    pub(super) fn rest(&mut self) {
        let over = matches!(self.phase, Phase::Between | Phase::Ended { lower: false });
        if over && !self.written && self.registered() == 0 && self.refresh.is_none() {
            *self = Self::default();
        }
    }
}

/// What may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Left {
    /// Submissions that the gate limits, and that draw.
    pub(super) submissions: u8,
    /// Promised submissions.
    pub(super) promises: u8,
    pub(super) deletions: u8,
    /// Messages that `recover` puts back.
    pub(super) revivals: u8,
    /// A transaction fails, or its session is killed.
    pub(super) aborts: u8,
    /// The queue is dropped and made again; the offset stays.
    pub(super) set_backs: u8,
}

/// One moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) last: u8,
    pub(super) offset: i8,
    /// The messages that a new snapshot shows.
    pub(super) live: Numbers,
    pub(super) sessions: [Session; 3],
    /// The greatest number that the gate let in.
    pub(super) greatest: u8,
    /// The messages that `recover` put back and that come on top of the promise for that number: the offset was lowered for
    /// them after it was read for that number.
    pub(super) on_top: Numbers,
    pub(super) left: Left,
}

impl State {
    /// The live messages that the promise is about.
    pub(super) fn limited(&self) -> i8 {
        count(self.live & up_to(self.greatest) & !self.on_top)
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.sessions == [Session::default(); 3]
    }

    /// Whether a session holds the lock R.
    pub(super) fn is_refreshing(&self) -> bool {
        self.sessions.iter().any(|session| session.refresh.is_some())
    }
}
