//! Who comes back when, of those whom a closed gate has refused.
//!
//! An opened gate has room for so many and then for one whenever one is served. If all were told the time at which it
//! opens, the first of them would close it in the face of the rest. So those beyond the room are told a later time,
//! one after the other, at the pace at which room is made.

use std::time::Duration;

use tokio::time::Instant;

/// What a gate has to give to those whom one node has refused.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Room {
    /// How many may come as soon as it opens, at least 1.
    pub(super) at_once: f64,
    /// The time between two of those that come after them; zero: nobody has to wait for another.
    pub(super) pace: Duration,
    /// How much later than the opening anybody is told at most.
    pub(super) most: Duration,
}

/// The turns that one node has given out at a gate.
///
/// A turn is a point in time, the opening or later. Those given out before the gate opened and closed again still stand:
/// their callers are on their way. Turns that the gate has let pass, because it opens later than was expected, count no
/// more: their callers are back, and have new ones.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Turns {
    /// When all that have a turn would be through if they came one after the other, from the opening on.
    through: Option<Instant>,
}

impl Turns {
    /// The next turn, of a caller who wants `count` places: how long after the opening it is.
    pub(super) fn take(&mut self, opens_at: Instant, count: usize, room: &Room) -> Duration {
        // What is beyond the longest delay is told just that, so there is no use in counting it.
        let at_once = Duration::try_from_secs_f64(room.pace.as_secs_f64() * room.at_once).unwrap_or(Duration::ZERO);
        let ahead = self
            .through
            .map_or(Duration::ZERO, |through| through.saturating_duration_since(opens_at))
            .saturating_add(room.pace.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX)))
            .min(room.most.saturating_add(at_once));
        self.through = opens_at.checked_add(ahead);
        ahead.saturating_sub(at_once).min(room.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: Room = Room {
        at_once: 3.0,
        pace: Duration::from_millis(100),
        most: Duration::from_secs(1),
    };

    fn millis(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    /// The turns of so many callers, in milliseconds after the opening.
    fn take(turns: &mut Turns, opens_at: Instant, callers: usize) -> Vec<u128> {
        (0..callers)
            .map(|_| turns.take(opens_at, 1, &ROOM).as_millis())
            .collect()
    }

    #[tokio::test(start_paused = true)]
    async fn as_many_as_there_is_room_for_come_at_once_and_the_rest_one_by_one() {
        let opens_at = Instant::now() + millis(5000);
        let mut turns = Turns::default();
        assert_eq!(take(&mut turns, opens_at, 6), [0, 0, 0, 100, 200, 300]);
        // The prediction moves a little; the turns are where they were.
        let opens_at = opens_at - millis(50);
        assert_eq!(take(&mut turns, opens_at, 2), [450, 550]);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_is_told_more_than_the_longest_delay_however_many_ask() {
        let opens_at = Instant::now() + millis(5000);
        let mut turns = Turns::default();
        take(&mut turns, opens_at, 10_000);
        assert_eq!(take(&mut turns, opens_at, 1), [1000]);
        // And when time goes by, there is a place again.
        assert_eq!(take(&mut turns, opens_at + millis(300), 1), [800]);
    }

    #[tokio::test(start_paused = true)]
    async fn turns_that_the_gate_has_let_pass_count_no_more() {
        let opens_at = Instant::now() + millis(5000);
        let mut turns = Turns::default();
        take(&mut turns, opens_at, 8);
        assert_eq!(take(&mut turns, opens_at + millis(500), 4), [100, 200, 300, 400]);
        let mut turns = Turns::default();
        take(&mut turns, opens_at, 8);
        assert_eq!(take(&mut turns, opens_at + millis(5000), 4), [0, 0, 0, 100]);
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_are_on_their_way_when_the_gate_closes_again_keep_their_turns() {
        let opens_at = Instant::now() + millis(5000);
        let mut turns = Turns::default();
        // The last comes 500 ms after the first opening, 300 ms after the second.
        take(&mut turns, opens_at, 8);
        assert_eq!(take(&mut turns, opens_at + millis(200), 2), [400, 500]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_takes_as_many_places_as_it_has_requests() {
        let opens_at = Instant::now();
        let mut turns = Turns::default();
        assert_eq!(turns.take(opens_at, 5, &ROOM), millis(200));
        assert_eq!(turns.take(opens_at, 1, &ROOM), millis(300));
        assert_eq!(turns.take(opens_at, usize::MAX, &ROOM), millis(1000));
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_pace_nobody_waits_for_another() {
        let room = Room {
            pace: Duration::ZERO,
            ..ROOM
        };
        let mut turns = Turns::default();
        for _ in 0..100 {
            assert_eq!(turns.take(Instant::now(), 7, &room), Duration::ZERO);
        }
    }
}
