//! One moment: what is committed, and the open transactions.

/// A set of requests, a bit each; a message has the number of its request.
pub(super) type Ids = u8;

pub(super) const REQUESTS: usize = 2;

pub(super) fn each(ids: Ids) -> impl Iterator<Item = usize> {
    (0..REQUESTS).filter(move |&id| ids & (1 << id) != 0)
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Status {
    #[default]
    Queued,
    Held,
    Done,
}

/// A request: its status, and the token of the lease that it names, or 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Row {
    pub(super) status: Status,
    pub(super) lease: u8,
}

/// A lease, or one part of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Lease {
    pub(super) token: u8,
    pub(super) ids: Ids,
    pub(super) expired: bool,
}

/// What a transaction does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Work {
    #[default]
    Nothing,
    Claim {
        token: u8,
    },
    /// A settle, or what puts the message back: a retry, a snooze, a release.
    Settle {
        token: u8,
        back: bool,
    },
    Extend {
        token: u8,
        keep: Ids,
    },
    Reap {
        token: u8,
        /// Whether it is a claim that has found nothing, and looks again afterwards.
        claims: bool,
    },
    Recover,
}

/// How far it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Phase {
    /// It locks rows, one after the other.
    #[default]
    Rows,
    /// It has its rows, and looks at lease rows, or, in `recover`, at everything.
    Leases,
    Commits,
}

/// A session and its transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Session {
    pub(super) work: Work,
    pub(super) phase: Phase,
    /// Rows that the statement has found and not locked yet.
    pub(super) wanted: Ids,
    pub(super) locked: Ids,
    /// Rows that matched when they were locked.
    pub(super) matched: Ids,
    /// What a claim that looks again has reaped before.
    pub(super) reaped: Ids,
    /// Messages that it has deleted.
    pub(super) taken: Ids,
    /// Lease rows that it has locked, a bit each.
    pub(super) leases: u8,
}

/// What may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Left {
    pub(super) claims: u8,
    pub(super) expiries: u8,
    pub(super) extensions: u8,
    pub(super) aborts: u8,
    /// A message or a lease row is deleted by hand.
    pub(super) purges: u8,
    /// `recover` runs, for no reason.
    pub(super) recoveries: u8,
}

/// Lease rows that there may be at once, and claims.
pub(super) const LEASES: usize = 5;

/// One moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) rows: [Row; REQUESTS],
    pub(super) messages: Ids,
    pub(super) leases: [Option<Lease>; LEASES],
    /// What each claim has returned, by its token; the first token is 1.
    pub(super) claims: [Ids; LEASES],
    pub(super) tokens: u8,
    pub(super) sessions: [Session; 3],
    pub(super) left: Left,
    /// A claim was settled by another, or once more.
    pub(super) sin: bool,
}

impl State {
    /// The other session that has locked a row.
    pub(super) fn row_holder(&self, place: usize, id: usize) -> Option<usize> {
        (0..self.sessions.len()).find(|&other| other != place && self.sessions[other].locked & (1 << id) != 0)
    }

    /// The other session that has locked one of these lease rows.
    pub(super) fn lease_holder(&self, place: usize, leases: u8) -> Option<usize> {
        (0..self.sessions.len()).find(|&other| other != place && self.sessions[other].leases & leases != 0)
    }

    pub(super) fn leases(&self) -> impl Iterator<Item = (usize, Lease)> {
        self.leases.iter().enumerate().filter_map(|(at, lease)| lease.map(|lease| (at, lease)))
    }

    /// The rows among these that name a lease.
    pub(super) fn naming(&self, token: u8, ids: Ids) -> Ids {
        each(ids)
            .filter(|&id| self.rows[id].lease == token && self.rows[id].status == Status::Held)
            .fold(0, |all, id| all | 1 << id)
    }

    /// How many lease rows name a request that names them.
    pub(super) fn holds(&self, id: usize) -> usize {
        self.leases().filter(|(_, lease)| self.naming(lease.token, lease.ids) & (1 << id) != 0).count()
    }

    /// Whether every request is in exactly one place.
    pub(super) fn is_whole(&self) -> bool {
        (0..REQUESTS).all(|id| {
            let row = self.rows[id];
            let waits = self.messages & (1 << id) != 0;
            match row.status {
                Status::Queued => waits && row.lease == 0,
                Status::Held => !waits && self.holds(id) == 1,
                Status::Done => !waits && row.lease == 0,
            }
        })
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.sessions == [Session::default(); 3]
    }

    pub(super) fn insert_lease(&mut self, lease: Lease) {
        let free = self.leases.iter().position(Option::is_none).unwrap();
        self.leases[free] = Some(lease);
    }
}
