//! Everything that may happen next.

use stateright::{Model, Property};

use super::{
    scene::{Bug, Scene},
    state::{Ids, Phase, REQUESTS, State, Status, Work, each},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A session takes so many messages of the smallest numbers.
    Claim(usize, u32),
    /// It settles these requests by a token, or puts them back.
    Settle(usize, u8, Ids, bool),
    /// It extends the lease for these requests.
    Extend(usize, u8, Ids),
    /// It takes an expired lease row; perhaps because a claim has found nothing.
    Reap(usize, usize, bool),
    Recover(usize),
    /// It locks the next row.
    Lock(usize),
    /// It looks at lease rows.
    Look(usize),
    Commit(usize),
    Abort(usize),
    Expire(usize),
    PurgeMessage(usize),
    PurgeLease(usize),
}

pub(super) const WHOLE: &str = "what is queued has its message, and what is held its lease";
pub(super) const SETTLED_ONCE: &str = "a claim is settled once, and by its holder";
pub(super) const NO_DEADLOCK: &str = "no transactions wait for each other";
pub(super) const RECOVERED: &str = "recover brings back what was purged";
pub(super) const NOT_LOST: &str = "every request can be completed";

pub(super) const NAMED_ONCE: &str = "no two lease rows name a request";

impl Scene {
    fn begin_steps(&self, state: &State, place: usize, steps: &mut Vec<Step>) {
        let free = self.free(state, place);
        let has_room = state.leases.iter().filter(|lease| lease.is_none()).count() > 1;
        let may_claim = state.left.claims > 0 && has_room;
        if may_claim {
            let most = self.batch.min(free.count_ones());
            steps.extend((1..=most).map(|count| Step::Claim(place, count)));
        }
        for token in 1..=state.tokens {
            for ids in 1..1 << REQUESTS {
                if ids & !state.claims[usize::from(token - 1)] != 0 {
                    continue;
                }
                if self.matching(state, Work::Settle { token, back: false }, ids) == ids {
                    steps.push(Step::Settle(place, token, ids, false));
                    steps.push(Step::Settle(place, token, ids, true));
                }
                if state.left.extensions > 0 && has_room {
                    steps.push(Step::Extend(place, token, ids));
                }
            }
        }
        for (at, lease) in state.leases() {
            if lease.expired && state.lease_holder(place, 1 << at).is_none() {
                steps.push(Step::Reap(place, at, false));
                if self.claims_reap && may_claim && free == 0 {
                    steps.push(Step::Reap(place, at, true));
                }
            }
        }
        if state.left.recoveries > 0 || self.was_purged(state) {
            steps.push(Step::Recover(place));
        }
    }

    fn session_steps(&self, state: &State, place: usize, steps: &mut Vec<Step>) {
        let session = &state.sessions[place];
        if session.work == Work::Nothing {
            self.begin_steps(state, place, steps);
            return;
        }
        if state.left.aborts > 0 {
            steps.push(Step::Abort(place));
        }
        if self.waits_for(state, place).is_some() {
            return;
        }
        steps.push(match session.phase {
            Phase::Rows => Step::Lock(place),
            Phase::Leases => Step::Look(place),
            Phase::Commits => Step::Commit(place),
        });
    }

    /// The session whose lock this one waits for.
    pub(super) fn waits_for(&self, state: &State, place: usize) -> Option<usize> {
        let session = &state.sessions[place];
        match (session.phase, session.work) {
            (Phase::Rows, _) => {
                let id = self.next_row(session)?;
                state.row_holder(place, id)
            }
            (Phase::Leases, Work::Extend { token, keep }) => {
                let rest = state.parts(token, keep) & !session.leases;
                state.lease_holder(place, rest & rest.wrapping_neg())
            }
            (Phase::Leases, Work::Settle { token, .. }) if self.has(Bug::SettleWaits) => {
                state.lease_holder(place, self.done_leases(state, session, token))
            }
            _ => None,
        }
    }

    fn is_deadlocked(&self, state: &State) -> bool {
        (0..state.sessions.len()).any(|first| {
            let waiting = |place: &usize| self.waits_for(state, *place);
            let chain = std::iter::successors(Some(first), waiting);
            chain.skip(1).take(state.sessions.len()).any(|place| place == first)
        })
    }

    /// Makes a session's transaction, with nothing beside it.
    fn run(&self, state: &mut State, first: Step) {
        self.perform(state, first);
        while state.sessions[0].work != Work::Nothing {
            self.perform(
                state,
                match state.sessions[0].phase {
                    Phase::Rows => Step::Lock(0),
                    Phase::Leases => Step::Look(0),
                    Phase::Commits => Step::Commit(0),
                },
            );
        }
    }

    fn recovers(&self, state: &State) -> bool {
        let mut state = *state;
        self.run(&mut state, Step::Recover(0));
        state.is_whole()
    }

    /// Whether leases that run out, one claim more and its settle bring every request to its end.
    fn completes(&self, state: &State) -> bool {
        let mut state = *state;
        for at in 0..state.leases.len() {
            if let Some(lease) = &mut state.leases[at] {
                lease.expired = true;
                self.run(&mut state, Step::Reap(0, at, false));
            }
        }
        let waiting = self.free(&state, 0);
        if waiting != 0 {
            state.left.claims += 1;
            self.run(&mut state, Step::Claim(0, waiting.count_ones()));
            let token = state.tokens;
            self.run(&mut state, Step::Settle(0, token, waiting, false));
        }
        state.rows.iter().all(|row| row.status == Status::Done)
    }
}

impl Model for Scene {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![self.start()]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        for place in 0..state.sessions.len() {
            self.session_steps(state, place, steps);
        }
        for (at, lease) in state.leases() {
            let is_locked = state.sessions.iter().any(|session| session.leases & (1 << at) != 0);
            if state.left.expiries > 0 && !lease.expired {
                steps.push(Step::Expire(at));
            }
            if state.left.purges > 0 && !is_locked {
                steps.push(Step::PurgeLease(at));
            }
        }
        if state.left.purges > 0 {
            let taken = state.sessions.iter().fold(0, |all, session| all | session.taken);
            steps.extend(each(state.messages & !taken).map(Step::PurgeMessage));
        }
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut next = *last;
        self.perform(&mut next, step);
        // Which session is which makes no difference.
        next.sessions.sort_unstable_by(|a, b| b.cmp(a));
        (next != *last).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always(WHOLE, |scene: &Self, state: &State| scene.was_purged(state) || state.is_whole()),
            Property::always(SETTLED_ONCE, |_, state: &State| !state.sin),
            Property::always(NO_DEADLOCK, |scene: &Self, state: &State| !scene.is_deadlocked(state)),
            Property::always(RECOVERED, |scene: &Self, state: &State| {
                !state.is_quiet() || !scene.was_purged(state) || scene.recovers(state)
            }),
            Property::always(NOT_LOST, |scene: &Self, state: &State| {
                !state.is_quiet() || scene.was_purged(state) || scene.completes(state)
            }),
            Property::sometimes("sometimes all is done, and no lease is left", |_, state: &State| {
                state.rows.iter().all(|row| row.status == Status::Done) && state.leases().count() == 0
            }),
            Property::sometimes("sometimes a settle comes too late", |_, state: &State| {
                state.sessions.iter().any(|session| {
                    matches!(session.work, Work::Settle { .. })
                        && session.phase == Phase::Commits
                        && session.matched == 0
                })
            }),
        ];
        if self.left.extensions > 0 {
            properties.push(Property::sometimes("sometimes a lease has parts", |_, state: &State| {
                let tokens = || state.leases().map(|(_, lease)| lease.token);
                tokens().any(|token| tokens().filter(|&other| other == token).count() > 1)
            }));
        }
        if self.literal {
            properties.push(Property::always(NAMED_ONCE, |_, state: &State| {
                let naming = |id: usize| state.leases().filter(move |(_, lease)| lease.ids & (1 << id) != 0);
                (0..REQUESTS).all(|id| naming(id).count() <= 1)
            }));
        }
        properties
    }
}
