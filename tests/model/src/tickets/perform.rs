//! What each step does.

use super::{
    scene::{Bug, Reading, Scene, Variant},
    state::{Numbers, Phase, Refresh, Session, State, Want, bit, count, up_to},
    steps::Step,
};

impl Scene {
    /// Whether a submission that reads the gate now may go on to draw.
    pub(super) fn may_draw(&self, state: &State, want: Want) -> bool {
        let last = i8::try_from(state.last).unwrap();
        let skips = self.has(Bug::OffsetAboveKept) || (self.has(Bug::PromisedAboveOffset) && !want.enforce);
        let is_known = last >= state.offset || skips;
        is_known && (!want.enforce || last + want.count <= state.offset + self.high_water)
    }

    fn look(state: &mut State, place: usize, want: Want) {
        if want.enforce {
            state.left.submissions -= 1;
        } else {
            state.left.promises -= 1;
        }
        let (offset, seen) = (state.offset, state.last);
        Self::begin(state, place).phase = Phase::Looked { want, offset, seen };
    }

    /// Registers a session for this many numbers, as far as its locks do not stand for them.
    fn register(&self, session: &mut Session, seen: u8, want: Want) {
        let silent = (self.has(Bug::PromisedUnregistered) && !want.enforce)
            || (self.has(Bug::SecondUnregistered) && session.written)
            || (self.has(Bug::SeveralUnregistered) && want.count > 1);
        if !silent && (session.written || want.count > 1) {
            let lock = i8::from(!session.written);
            self.register_more(session, seen, lock, want.count);
        }
        session.lock = true;
    }

    /// Registers what goes beyond what the transaction has registered and not used. Of a transaction that has not written,
    /// all earlier numbers are void.
    fn register_more(&self, session: &mut Session, seen: u8, lock: i8, count: i8) {
        let (registered, used) = if session.written { session.remembered } else { (lock, 0) };
        let need = used + count - registered;
        let more = if need <= 0 {
            0
        } else if self.has(Bug::SameKey) {
            need.max(registered)
        } else {
            let held: i8 = session.keys.iter().flatten().map(|(count, _)| count).sum();
            need + held
        };
        if more > 0 {
            session.lock_key((more, seen));
        }
        session.remembered = (registered + more, used + count);
    }

    fn insert(&self, state: &mut State, place: usize, want: Want, offset: i8, drawn: Numbers) {
        let offset = if self.has(Bug::OffsetAfterDraw) { state.offset } else { offset };
        let greatest = u8::try_from(drawn.ilog2()).unwrap();
        let is_in = !want.enforce || i8::try_from(greatest).unwrap() <= offset + self.high_water;
        if is_in && want.enforce && greatest > state.greatest {
            state.greatest = greatest;
            state.on_top = state.sessions[place].unknown;
        }
        let session = &mut state.sessions[place];
        session.phase = Phase::Between;
        session.unknown = 0;
        if is_in {
            session.inserted |= drawn;
            session.written = true;
        }
        session.rest();
    }

    fn begin(state: &mut State, place: usize) -> &mut Session {
        let session = &mut state.sessions[place];
        session.operations += 1;
        session
    }

    fn register_revival(&self, state: &mut State, place: usize, number: u8) {
        state.left.revivals -= 1;
        let last = state.last;
        let session = Self::begin(state, place);
        if !self.has(Bug::RevivedUnregistered) {
            self.register_more(session, last, 0, 1);
        }
        session.phase = Phase::Registered(number);
    }

    /// From now on a submission that reads the offset knows of this message.
    fn make_known(state: &mut State, numbers: Numbers) {
        state.on_top |= numbers;
        for session in &mut state.sessions {
            if matches!(session.phase, Phase::Looked { .. } | Phase::Draws { .. }) {
                session.unknown |= numbers;
            }
        }
    }

    /// Whether the next step towards a message put back lowers the offset, under R.
    pub(super) fn lowers_next(&self, phase: Phase) -> bool {
        match phase {
            Phase::Registered(_) => !self.is(Variant::InsertedThenLowered) && !self.has(Bug::LoweredAfterCommit),
            Phase::Inserted(_) => self.is(Variant::InsertedThenLowered),
            Phase::Ended { lower } => lower,
            _ => false,
        }
    }

    fn revive(&self, state: &mut State, place: usize) {
        let phase = state.sessions[place].phase;
        let lowers = self.lowers_next(phase);
        let (number, after) = match phase {
            Phase::Registered(number) if lowers => (number, Phase::Lowered(number)),
            Phase::Registered(number) => (number, Phase::Inserted(number)),
            Phase::Lowered(number) | Phase::Inserted(number) => (number, Phase::Between),
            _ => return,
        };
        if lowers {
            state.offset -= i8::from(!self.has(Bug::RevivedUnlowered));
            Self::make_known(state, bit(number));
        }
        let session = &mut state.sessions[place];
        if !lowers {
            session.inserted |= bit(number);
            session.written = true;
        }
        session.phase = after;
    }

    fn commit(&self, state: &mut State, place: usize) {
        let session = state.sessions[place];
        if self.has(Bug::ReleasedEarly) && session.registered() > 0 {
            // The changes follow, with the step that would release.
            state.sessions[place].lock = false;
            state.sessions[place].keys = [None; 4];
            state.sessions[place].operations = self.operations;
            return;
        }
        state.live = (state.live | session.inserted) & !session.deleted;
        let lower = self.has(Bug::LoweredAfterCommit) && matches!(session.phase, Phase::Inserted(_));
        if lower {
            Self::make_known(state, session.inserted);
        }
        state.sessions[place].end(lower);
    }

    fn release(state: &mut State, place: usize) {
        let session = &mut state.sessions[place];
        if session.phase == (Phase::Ended { lower: true }) {
            session.phase = Phase::Ended { lower: false };
            state.offset -= 1;
        } else {
            session.lock = false;
            session.keys = [None; 4];
        }
        state.sessions[place].rest();
    }

    /// Takes the lock R, and makes one reading after the other; at the end sets the offset.
    fn refresh(&self, state: &mut State, place: usize) {
        let own = state.sessions[place];
        let mut refresh = own.refresh.unwrap_or_default();
        let others = |at: usize| {
            if at == place { 0 } else { state.sessions[at].registered() }
        };
        match self.order.get(usize::from(refresh.readings)) {
            Some(Reading::Last) => refresh.last = state.last,
            Some(Reading::Live) => refresh.live = (state.live | own.inserted) & !own.deleted,
            Some(Reading::Open) if self.scans => {
                refresh.open += others(usize::from(refresh.scanned));
                refresh.scanned += 1;
            }
            Some(Reading::Open) => refresh.open = (0..state.sessions.len()).map(others).sum(),
            None => {
                self.set(state, refresh);
                state.sessions[place].refresh = None;
                state.sessions[place].rest();
                return;
            }
        }
        let scanning = (1..3).contains(&refresh.scanned);
        if !scanning {
            refresh.readings += 1;
            refresh.scanned = 0;
        }
        state.sessions[place].refresh = Some(refresh);
    }

    fn set(&self, state: &mut State, read: Refresh) {
        let last = i8::try_from(read.last).unwrap();
        let dead = last - count(read.live & up_to(read.last)) - read.open;
        let keeps = self.has(Bug::OffsetAboveKept) || self.has(Bug::ShutForever) || self.is(Variant::Zeroed);
        let is_above = state.offset > last && !keeps;
        if is_above || self.is(Variant::AlwaysReplaced) {
            state.offset = dead;
        } else {
            state.offset = state.offset.max(dead);
        }
    }

    pub(super) fn perform(&self, state: &mut State, step: Step) {
        match step {
            Step::Look(place, want) => Self::look(state, place, want),
            Step::LookAbove(place) => Self::begin(state, place).phase = Phase::Above,
            Step::Zero(place) => {
                state.offset = 0;
                state.sessions[place].phase = Phase::Between;
                state.sessions[place].rest();
            }
            Step::Register(place) => {
                let session = &mut state.sessions[place];
                if let Phase::Looked { want, offset, seen } = session.phase {
                    if !self.has(Bug::RegisteredLate) {
                        self.register(session, seen, want);
                    }
                    session.phase = Phase::Draws { want, offset, seen, drawn: 0 };
                }
            }
            Step::Draw(place) => {
                state.last += 1;
                if let Phase::Draws { drawn, .. } = &mut state.sessions[place].phase {
                    *drawn |= bit(state.last);
                }
            }
            Step::Insert(place) => {
                let session = &mut state.sessions[place];
                if let Phase::Draws { want, offset, seen, drawn } = session.phase {
                    if self.has(Bug::RegisteredLate) {
                        self.register(session, seen, want);
                    }
                    self.insert(state, place, want, offset, drawn);
                }
            }
            Step::Delete(place, number) => {
                state.left.deletions -= 1;
                let session = Self::begin(state, place);
                session.phase = Phase::Between;
                session.deleted |= bit(number);
                session.written = true;
            }
            Step::RegisterRevival(place, number) => self.register_revival(state, place, number),
            Step::Revive(place) => self.revive(state, place),
            Step::Refresh(place) => self.refresh(state, place),
            Step::Commit(place) => self.commit(state, place),
            Step::Abort(place) => {
                state.left.aborts -= 1;
                state.sessions[place].refresh = None;
                state.sessions[place].end(false);
            }
            Step::Release(place) => Self::release(state, place),
            Step::SetBack => {
                state.left.set_backs -= 1;
                state.last = 0;
                state.live = 0;
                state.greatest = 0;
                state.on_top = 0;
            }
        }
    }
}
