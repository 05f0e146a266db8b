//! What each step does.

use super::{
    scene::{Bug, Scene},
    state::{Ids, Lease, Phase, REQUESTS, Row, Session, State, Status, Work, each},
    steps::Step,
};

/// The smallest numbers of a set, so many of them.
fn smallest(ids: Ids, count: u32) -> Ids {
    each(ids).take(count as usize).fold(0, |all, id| all | 1 << id)
}

impl State {
    /// The parts of a lease that name one of these requests.
    pub(super) fn parts(&self, token: u8, ids: Ids) -> u8 {
        self.leases()
            .filter(|(_, lease)| lease.token == token && lease.ids & ids != 0)
            .fold(0, |all, (at, _)| all | 1 << at)
    }

    fn delete_leases(&mut self, leases: u8) {
        for at in (0..self.leases.len()).filter(|at| leases & (1 << at) != 0) {
            self.leases[at] = None;
        }
    }

    /// Puts back the messages of these requests; those of them that are live wait again.
    fn put_back(&mut self, ids: Ids) {
        self.messages |= ids;
        for id in each(ids) {
            if self.rows[id].status != Status::Done {
                self.rows[id] = Row::default();
            }
        }
    }
}

impl Scene {
    /// The messages that a claim finds, which no other transaction has taken.
    pub(super) fn free(&self, state: &State, place: usize) -> Ids {
        let others = state.sessions.iter().enumerate();
        let taken = others.filter(|(other, _)| *other != place).fold(0, |all, (_, session)| all | session.taken);
        state.messages & !taken
    }

    /// The rows among these that a transaction looks for.
    pub(super) fn matching(&self, state: &State, work: Work, ids: Ids) -> Ids {
        let with = |matches: &dyn Fn(Row) -> bool| {
            each(ids).filter(|&id| matches(state.rows[id])).fold(0, |all, id| all | 1 << id)
        };
        match work {
            Work::Claim { .. } => with(&|row| row.status == Status::Queued),
            Work::Settle { .. } if self.has(Bug::UnfencedSettle) => with(&|row| row.status == Status::Held),
            Work::Settle { token, .. } | Work::Reap { token, .. } => state.naming(token, ids),
            Work::Recover => with(&|row| row.status != Status::Done),
            Work::Nothing | Work::Extend { .. } => 0,
        }
    }

    /// The row that a transaction locks next.
    pub(super) fn next_row(&self, session: &Session) -> Option<usize> {
        let backwards = match session.work {
            Work::Claim { .. } => self.has(Bug::ClaimOutOfOrder),
            Work::Reap { .. } => self.has(Bug::ReapOutOfOrder),
            _ => false,
        };
        let mut wanted = each(session.wanted);
        if backwards { wanted.last() } else { wanted.next() }
    }

    /// The lease rows of a token that no row will name any more.
    pub(super) fn done_leases(&self, state: &State, session: &Session, token: u8) -> u8 {
        let early = self.has(Bug::LeaseDeletedEarly);
        let is_done = |lease: Lease| {
            let settled = lease.ids & session.matched != 0;
            let left = state.naming(token, lease.ids) & !session.matched;
            settled && (early || left == 0)
        };
        state
            .leases()
            .filter(|(_, lease)| lease.token == token && is_done(*lease))
            .fold(0, |all, (at, _)| all | 1 << at)
    }

    fn lock(&self, state: &mut State, place: usize) {
        let mut session = state.sessions[place];
        if let Some(id) = self.next_row(&session) {
            session.wanted &= !(1 << id);
            session.locked |= 1 << id;
            // It sees the newest version; what it has put back itself waits, too.
            let own = session.reaped & (1 << id);
            session.matched |= own | self.matching(state, session.work, 1 << id);
        }
        if session.wanted == 0 {
            session.phase = match session.work {
                Work::Settle { .. } if session.matched != 0 => Phase::Leases,
                Work::Recover | Work::Extend { .. } => Phase::Leases,
                _ => Phase::Commits,
            };
            if let Work::Reap { claims: true, .. } = session.work {
                self.claim_after_reap(state, place, &mut session);
            }
        }
        state.sessions[place] = session;
    }

    /// A claim that has reaped takes what it has put back.
    fn claim_after_reap(&self, state: &mut State, place: usize, session: &mut Session) {
        let mut found = session.matched;
        if self.has(Bug::LooksEverywhere) {
            found |= self.free(state, place);
        }
        if found == 0 {
            return;
        }
        state.tokens += 1;
        session.work = Work::Claim { token: state.tokens };
        session.reaped = session.matched;
        session.matched = 0;
        session.taken = smallest(found, self.batch);
        session.wanted = session.taken;
        session.phase = Phase::Rows;
    }

    fn look(&self, state: &mut State, place: usize) {
        let mut session = state.sessions[place];
        session.phase = Phase::Commits;
        match session.work {
            Work::Settle { token, .. } => {
                for at in 0..state.leases.len() {
                    let lease = self.done_leases(state, &session, token) & (1 << at);
                    // One that is locked is skipped.
                    if lease != 0 && state.lease_holder(place, lease).is_none() {
                        session.leases |= lease;
                    }
                }
            }
            Work::Extend { token, keep } => {
                let rest = state.parts(token, keep) & !session.leases;
                let next = rest & rest.wrapping_neg();
                session.leases |= next;
                if rest != next {
                    session.phase = Phase::Leases;
                }
            }
            Work::Recover => {
                let all = (1 << REQUESTS) - 1;
                let live = self.matching(state, Work::Recover, all);
                let seen = if self.has(Bug::UnlockedRecover) { all } else { session.locked };
                session.reaped = each(live & seen)
                    .filter(|&id| match state.rows[id].status {
                        Status::Queued => state.messages & (1 << id) == 0,
                        _ => state.holds(id) == 0,
                    })
                    .fold(0, |found, id| found | 1 << id);
            }
            _ => {}
        }
        state.sessions[place] = session;
    }

    fn commit(&self, state: &mut State, place: usize) {
        let session = state.sessions[place];
        state.sessions[place] = Session::default();
        let Session { matched, reaped, .. } = session;
        match session.work {
            Work::Claim { token } => {
                state.put_back(reaped);
                state.delete_leases(session.leases);
                state.messages &= !session.taken;
                for id in each(matched) {
                    state.rows[id] = Row { status: Status::Held, lease: token };
                }
                state.claims[usize::from(token - 1)] = matched;
                state.insert_lease(Lease { token, ids: session.taken, expired: false });
            }
            Work::Settle { token, back } => {
                state.sin |= state.naming(token, matched) != matched;
                state.delete_leases(session.leases);
                if back {
                    state.put_back(matched);
                    if self.has(Bug::PutBackLater) {
                        state.messages &= !matched;
                    }
                } else {
                    for id in each(matched) {
                        state.rows[id] = Row { status: Status::Done, lease: 0 };
                    }
                }
            }
            Work::Extend { keep, .. } => self.split(state, session.leases, keep),
            Work::Reap { token, .. } => {
                state.delete_leases(session.leases);
                state.put_back(matched);
                if self.has(Bug::LeaseNotCleared) {
                    for id in each(matched) {
                        state.rows[id].lease = token;
                    }
                }
            }
            Work::Recover => state.put_back(reaped),
            Work::Nothing => {}
        }
    }

    /// Extends what is named; the rest becomes a part with the old end.
    fn split(&self, state: &mut State, leases: u8, keep: Ids) {
        for at in 0..state.leases.len() {
            let Some(lease) = state.leases[at].filter(|_| leases & (1 << at) != 0) else {
                continue;
            };
            state.leases[at] = Some(Lease { ids: lease.ids & keep, expired: false, ..lease });
            let rest = lease.ids & !keep;
            if rest != 0 && !self.has(Bug::ExtensionForgets) {
                state.insert_lease(Lease { ids: rest, ..lease });
            }
        }
    }

    fn begin(&self, state: &mut State, place: usize, work: Work, ids: Ids) {
        let session = Session { work, wanted: self.matching(state, work, ids), ..Session::default() };
        state.sessions[place] = session;
        // Without rows to lock, the next statement follows.
        if session.wanted == 0 {
            self.lock(state, place);
        }
    }

    fn reap(&self, state: &mut State, place: usize, at: usize, claims: bool) {
        let Some(lease) = state.leases[at] else {
            return;
        };
        state.left.claims -= u8::from(claims);
        let work = Work::Reap { token: lease.token, claims };
        state.sessions[place].leases = 0;
        if self.has(Bug::UnlockedReap) {
            state.sessions[place] = Session {
                work,
                phase: Phase::Commits,
                matched: self.matching(state, work, lease.ids),
                ..Session::default()
            };
        } else {
            self.begin(state, place, work, lease.ids);
        }
        state.sessions[place].leases = 1 << at;
    }

    pub(super) fn perform(&self, state: &mut State, step: Step) {
        match step {
            Step::Claim(place, count) => {
                state.left.claims -= 1;
                state.tokens += 1;
                let taken = smallest(self.free(state, place), count);
                state.sessions[place] =
                    Session { work: Work::Claim { token: state.tokens }, wanted: taken, taken, ..Session::default() };
            }
            Step::Settle(place, token, ids, back) => {
                self.begin(state, place, Work::Settle { token, back }, ids);
            }
            Step::Extend(place, token, keep) => {
                state.left.extensions -= 1;
                self.begin(state, place, Work::Extend { token, keep }, 0);
            }
            Step::Reap(place, at, claims) => self.reap(state, place, at, claims),
            Step::Recover(place) => {
                state.left.recoveries = state.left.recoveries.saturating_sub(1);
                let ids = if self.has(Bug::UnlockedRecover) { 0 } else { (1 << REQUESTS) - 1 };
                self.begin(state, place, Work::Recover, ids);
            }
            Step::Lock(place) => self.lock(state, place),
            Step::Look(place) => self.look(state, place),
            Step::Commit(place) => self.commit(state, place),
            Step::Abort(place) => {
                state.left.aborts -= 1;
                state.sessions[place] = Session::default();
            }
            Step::Expire(at) => {
                state.left.expiries -= 1;
                if let Some(lease) = &mut state.leases[at] {
                    lease.expired = true;
                }
            }
            Step::PurgeMessage(id) => {
                state.left.purges -= 1;
                state.messages &= !(1 << id);
            }
            Step::PurgeLease(at) => {
                state.left.purges -= 1;
                state.leases[at] = None;
            }
        }
    }
}
