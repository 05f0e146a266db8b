//! The time of the database's answers by this process's clock: an answer may be delayed.

use std::{sync::Mutex, time::Duration};

use tokio::time::Instant;

use crate::{lock::lock, store::Slot};

/// The fastest answer is that of this window and of the one before.
const WINDOW: Duration = Duration::from_secs(10);

/// The offset of the database's clock.
///
/// The fastest recent answer counts as immediate; another one was delayed by the difference. So the clocks only have to
/// run at the same pace, and one that steps is followed at once.
#[derive(Debug)]
pub(super) struct DatabaseClock {
    began: Instant,
    fastest: Mutex<Fastest>,
}

/// By how many microseconds the clock of this process is ahead of the database's, by the fastest answers.
#[derive(Debug, Clone, Copy)]
struct Fastest {
    ahead_us: i64,
    ahead_before_us: i64,
    since: Instant,
}

impl DatabaseClock {
    pub(super) fn new() -> Self {
        let began = Instant::now();
        Self {
            began,
            fastest: Mutex::new(Fastest {
                ahead_us: i64::MAX,
                ahead_before_us: i64::MAX,
                since: began,
            }),
        }
    }

    /// The start of a slot's send, by the clock of this process: the slot was requested at `asked_at`, and known at
    /// `known_at`.
    ///
    /// Never before the slot's true time as long as the clocks go on at the same pace.
    pub(super) fn start(&self, slot: Slot, asked_at: Instant, known_at: Instant) -> Instant {
        let since_began = known_at.duration_since(self.began);
        let ahead_us = microseconds(since_began).saturating_sub(slot.reserved_at_us);
        let round_trip = known_at.duration_since(asked_at);

        let mut fastest = lock(&self.fastest);
        if known_at.duration_since(fastest.since) >= WINDOW {
            let is_recent = known_at.duration_since(fastest.since) < 2 * WINDOW;
            fastest.ahead_before_us = if is_recent { fastest.ahead_us } else { i64::MAX };
            fastest.ahead_us = i64::MAX;
            fastest.since = known_at;
        }
        let least_us = fastest.ahead_us.min(fastest.ahead_before_us).min(ahead_us);
        let delay = Duration::from_micros(ahead_us.abs_diff(least_us));
        if delay > round_trip {
            // No answer is delayed for longer than its round trip: the database's clock has stepped back.
            fastest.ahead_before_us = ahead_us;
            fastest.ahead_us = ahead_us;
            return known_at + slot.send_in;
        }
        fastest.ahead_us = fastest.ahead_us.min(ahead_us);
        known_at - delay + slot.send_in
    }
}

fn microseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A database whose clock is `shift_us` ahead.
    struct Scene {
        clock: DatabaseClock,
        shift_us: i64,
    }

    impl Scene {
        fn new() -> Self {
            Self {
                clock: DatabaseClock::new(),
                shift_us: 1_790_000_000_000_000,
            }
        }

        /// By how much a send starts after its slot's true time: it was requested at `at`, reserved `there` later and
        /// known `back` after that.
        fn late(&self, at: Duration, there: Duration, back: Duration) -> Duration {
            let asked_at = self.clock.began + at;
            let reserved_at = asked_at + there;
            let slot = Slot {
                reserved_at_us: self.shift_us + microseconds(at + there),
                send_in: 30 * MS,
            };
            let start = self.clock.start(slot, asked_at, reserved_at + back);
            start.checked_duration_since(reserved_at + 30 * MS).expect("too early")
        }
    }

    #[test]
    fn a_delayed_answer_moves_no_send() {
        let scene = Scene::new();
        assert_eq!(scene.late(Duration::ZERO, MS, 2 * MS), 2 * MS);
        assert_eq!(scene.late(100 * MS, MS, 900 * MS), 2 * MS);
        assert_eq!(scene.late(1100 * MS, MS, MS), MS);
        assert_eq!(scene.late(1200 * MS, MS, 5 * MS), MS);
    }

    #[test]
    fn waiting_for_the_reservation_itself_is_no_delay_of_the_answer() {
        let scene = Scene::new();
        assert_eq!(scene.late(Duration::ZERO, MS, 2 * MS), 2 * MS);
        assert_eq!(scene.late(100 * MS, 900 * MS, 2 * MS), 2 * MS);
    }

    #[test]
    fn a_first_answer_counts_as_fast() {
        assert_eq!(Scene::new().late(Duration::ZERO, MS, 900 * MS), 900 * MS);
    }

    #[test]
    fn the_fastest_answer_is_forgotten_after_two_windows() {
        let scene = Scene::new();
        assert_eq!(scene.late(Duration::ZERO, MS, MS), MS);
        assert_eq!(scene.late(WINDOW, MS, 20 * MS), MS);
        assert_eq!(scene.late(2 * WINDOW + 50 * MS, MS, 20 * MS), 20 * MS);
        assert_eq!(scene.late(9 * WINDOW, MS, 40 * MS), 40 * MS);
    }

    #[test]
    fn a_clock_that_steps_is_followed_at_once() {
        let mut scene = Scene::new();
        let hour_us = 3_600_000_000;
        assert_eq!(scene.late(Duration::ZERO, MS, 2 * MS), 2 * MS);
        scene.shift_us -= hour_us;
        assert_eq!(scene.late(100 * MS, MS, 3 * MS), 3 * MS);
        assert_eq!(scene.late(200 * MS, MS, 800 * MS), 3 * MS);
        scene.shift_us += 2 * hour_us;
        assert_eq!(scene.late(1100 * MS, MS, 3 * MS), 3 * MS);
        assert_eq!(scene.late(1200 * MS, MS, 800 * MS), 3 * MS);
    }
}
