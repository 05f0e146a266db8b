//! Everything that may happen next.

use stateright::{Model, Property};

use super::{
    scene::{Bug, Scene, Variant},
    state::{Numbers, Phase, Session, State, Want, bit, count, each, up_to},
};

/// One statement of a session, by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A submission reads the offset and the last number, and is not refused. One that is refused changes nothing.
    Look(usize, Want),
    /// A submission finds the offset above the last number.
    LookAbove(usize),
    Zero(usize),
    Register(usize),
    Draw(usize),
    /// A submission compares what it has drawn with the offset that it has read, and inserts.
    Insert(usize),
    Delete(usize, u8),
    /// `recover` registers that it puts back a message.
    RegisterRevival(usize, u8),
    /// It lowers the offset, or inserts the message.
    Revive(usize),
    Refresh(usize),
    Commit(usize),
    Abort(usize),
    Release(usize),
    SetBack,
}

pub(super) const PROMISE: &str = "up to the greatest number let in, no more than the high mark are live";
pub(super) const OFFSET: &str = "the offset counts dead numbers only";
pub(super) const NOT_STUCK: &str = "a gate lets in what it has room for";
pub(super) const FILLED: &str = "sometimes the gate is filled exactly";

impl Scene {
    fn session_steps(&self, state: &State, place: usize, steps: &mut Vec<Step>) {
        let session = &state.sessions[place];
        if state.left.aborts > 0 && (session.refresh.is_some() || is_open(session)) {
            steps.push(Step::Abort(place));
        }
        if session.refresh.is_some() {
            steps.push(Step::Refresh(place));
            return;
        }
        let is_busy = state.is_refreshing() && !self.has(Bug::Unlocked);
        let may_refresh = !is_busy && (session.deleted == 0 || self.has(Bug::RefreshAfterDelete));
        match session.phase {
            Phase::Idle | Phase::Between => {
                if may_refresh {
                    steps.push(Step::Refresh(place));
                }
                if session.phase == Phase::Between {
                    steps.push(Step::Commit(place));
                }
                if session.operations < self.operations {
                    self.operations(state, place, steps);
                }
            }
            Phase::Above => steps.push(Step::Zero(place)),
            Phase::Looked { .. } => steps.push(Step::Register(place)),
            Phase::Draws { want, drawn, .. } => {
                if count(drawn) < want.count {
                    steps.push(Step::Draw(place));
                } else {
                    steps.push(Step::Insert(place));
                    if may_refresh && self.has(Bug::RefreshAfterDraw) {
                        steps.push(Step::Refresh(place));
                    }
                }
            }
            Phase::Inserted(_) if self.has(Bug::LoweredAfterCommit) => {
                steps.push(Step::Commit(place));
            }
            phase if self.lowers_next(phase) && is_busy => {}
            Phase::Registered(_) | Phase::Lowered(_) | Phase::Inserted(_) => {
                steps.push(Step::Revive(place));
            }
            Phase::Ended { .. } => steps.push(Step::Release(place)),
        }
    }

    /// The operations that a transaction may begin.
    fn operations(&self, state: &State, place: usize, steps: &mut Vec<Step>) {
        for enforce in [true, false] {
            let left = if enforce { state.left.submissions } else { state.left.promises };
            for &count in self.counts {
                let want = Want { enforce, count };
                if left > 0 && self.may_draw(state, want) {
                    steps.push(Step::Look(place, want));
                }
            }
        }
        if self.is(Variant::Zeroed) && state.offset > i8::try_from(state.last).unwrap() {
            steps.push(Step::LookAbove(place));
        }
        let taken = |pending: fn(&Session) -> Numbers| -> Numbers {
            state.sessions.iter().fold(0, |all, session| all | pending(session))
        };
        if state.left.deletions > 0 {
            let locked = taken(|session| session.deleted);
            steps.extend(each(state.live & !locked).map(|number| Step::Delete(place, number)));
        }
        if state.left.revivals > 0 {
            let purged = up_to(state.last) & !state.live & !taken(Session::pending);
            steps.extend(each(purged).map(|number| Step::RegisterRevival(place, number)));
        }
    }

    /// Whether this session is let in after a refresh, when nothing else happens.
    fn lets_in(&self, state: &State, place: usize) -> bool {
        let mut state = *state;
        state.left.submissions = 1;
        if self.is(Variant::Zeroed) && state.offset > i8::try_from(state.last).unwrap() {
            self.perform(&mut state, Step::Zero(place));
        }
        self.perform(&mut state, Step::Refresh(place));
        while state.is_refreshing() {
            self.perform(&mut state, Step::Refresh(place));
        }
        let want = Want { enforce: true, count: 1 };
        if !self.may_draw(&state, want) {
            return false;
        }
        for step in [Step::Look(place, want), Step::Register(place), Step::Draw(place), Step::Insert(place)] {
            self.perform(&mut state, step);
        }
        state.sessions[place].inserted != 0
    }

    /// Whether a session without a transaction is let in where there is room beside what is live and what is registered.
    fn uses_its_room(&self, state: &State) -> bool {
        let idle = |session: &Session| *session == Session::default();
        let Some(place) = state.sessions.iter().position(idle) else {
            return true;
        };
        let open: i8 = state.sessions.iter().map(Session::registered).sum();
        let is_full = count(state.live) + open >= self.high_water;
        state.is_refreshing() || is_full || self.lets_in(state, place)
    }
}

fn is_open(session: &Session) -> bool {
    !matches!(session.phase, Phase::Idle | Phase::Ended { .. })
}

/// The numbers that are dead and stay so, unless `recover` puts their messages back.
fn dead(state: &State) -> Numbers {
    let may_live = state.sessions.iter().map(|session| match session.phase {
        // The offset still counts it, until it is lowered.
        Phase::Registered(number) | Phase::Inserted(number) => session.pending() & !bit(number),
        _ => session.pending(),
    });
    up_to(state.last) & !may_live.fold(state.live, |all, pending| all | pending)
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
        if state.left.set_backs > 0 && state.is_quiet() {
            steps.push(Step::SetBack);
        }
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut next = *last;
        self.perform(&mut next, step);
        if !self.scans {
            // Which session is which makes no difference.
            next.sessions.sort_unstable_by(|a, b| b.cmp(a));
        }
        (next != *last).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(PROMISE, |scene: &Self, state: &State| state.limited() <= scene.high_water),
            Property::always(OFFSET, |_, state: &State| {
                let last = i8::try_from(state.last).unwrap();
                state.offset > last || state.offset <= count(dead(state))
            }),
            Property::always(NOT_STUCK, Self::uses_its_room),
            Property::sometimes(FILLED, |scene: &Self, state: &State| {
                state.is_quiet() && state.limited() == scene.high_water
            }),
        ]
    }
}
