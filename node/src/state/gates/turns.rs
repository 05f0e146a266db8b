//! The delays of the submissions that a closed gate has refused.
//!
//! An opened gate has room for some requests, and then for one more whenever one is served. If every Retry-After were
//! the opening, the first submissions would close the gate again. So the submissions beyond the room get later times,
//! one after the other, at the pace at which the queue drains.

use std::time::Duration;

use tokio::time::Instant;

/// The room of a gate for the submissions that one node has refused.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Room {
    /// How many requests it admits as soon as it opens, at least 1.
    pub(super) at_once: f64,
    /// The time between two requests after these; zero: no limit.
    pub(super) pace: Duration,
    /// The longest delay after the opening.
    pub(super) most: Duration,
}

/// The turns at a gate that one node has given out.
///
/// A turn is a time, the opening or later. It still counts after the gate has opened and closed again: its caller will
/// come. A turn that has passed, because the gate opens later than expected, does not count: its caller has come back
/// and has a new one.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Turns {
    /// The end of all turns, one after the other from the opening on.
    through: Option<Instant>,
}

impl Turns {
    /// Takes the next turn, of a submission of `count` requests; returns its delay after the opening.
    pub(super) fn take(&mut self, opens_at: Instant, count: usize, room: &Room) -> Duration {
        // Turns beyond the longest delay all have that delay, so they are not counted.
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

    const ROOM: Room = Room { at_once: 3.0, pace: Duration::from_millis(100), most: Duration::from_secs(1) };

    fn millis(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    /// The turns of so many callers, in milliseconds after the opening.
    fn take(turns: &mut Turns, opens_at: Instant, callers: usize) -> Vec<u128> {
        (0..callers).map(|_| turns.take(opens_at, 1, &ROOM).as_millis()).collect()
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
    async fn no_delay_is_longer_than_the_longest_however_many_come() {
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
    async fn turns_count_after_the_gate_has_opened_and_closed_again() {
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
    async fn without_a_pace_there_is_no_delay() {
        let room = Room { pace: Duration::ZERO, ..ROOM };
        let mut turns = Turns::default();
        for _ in 0..100 {
            assert_eq!(turns.take(Instant::now(), 7, &room), Duration::ZERO);
        }
    }
}
