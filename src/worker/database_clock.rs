//! The time of the database's answers by this process's clock: an answer may be delayed.

use std::{sync::Mutex, time::Duration};

use tokio::time::Instant;

use crate::{
    error::Result,
    lock::lock,
    store::{Slot, Store},
};

/// The clocks drift apart by less than one part in this many.
const DRIFT: i64 = 1000;

/// The offset of the database's clock.
///
/// The fastest recent answer counts as immediate; another one was delayed by the difference. So the clocks only have to
/// run at nearly the same pace, and one that steps is followed at once.
#[derive(Debug)]
pub(super) struct DatabaseClock {
    began: Instant,
    /// By how many microseconds the clock of this process is ahead of the database's, by the fastest answer, and when
    /// that was, in microseconds since `began`.
    fastest: Mutex<Option<(i64, i64)>>,
}

impl DatabaseClock {
    pub(super) fn new() -> Self {
        Self { began: Instant::now(), fastest: Mutex::default() }
    }

    /// Reads the database's clock, so that the answer of a claim is not the first one, nor the first after a long time.
    pub(super) async fn read(&self, store: &Store) -> Result<()> {
        let asked_at = Instant::now();
        let reserved_at_us = store.time_ago(Duration::ZERO).await?.timestamp_micros();
        let send_in = Duration::ZERO;
        let slot = Slot { reserved_at_us, send_in };
        self.start(slot, asked_at, Instant::now());
        Ok(())
    }

    /// The start of a slot's send, by the clock of this process: the slot was requested at `asked_at`, and known at
    /// `known_at`.
    ///
    /// Never before the slot's true time as long as the clocks go on at nearly the same pace.
    pub(super) fn start(&self, slot: Slot, asked_at: Instant, known_at: Instant) -> Instant {
        let now_us = microseconds(known_at.duration_since(self.began));
        let ahead_us = now_us.saturating_sub(slot.reserved_at_us);

        let mut fastest = lock(&self.fastest);
        let mut least_us =
            fastest.map_or(ahead_us, |(least_us, at_us)| ahead_us.min(least_us + (now_us - at_us).max(0) / DRIFT + 1));
        let mut delay = Duration::from_micros(ahead_us.abs_diff(least_us));
        if delay > known_at.duration_since(asked_at) {
            // No answer is delayed for longer than its round trip: the database's clock has stepped back.
            (least_us, delay) = (ahead_us, Duration::ZERO);
        }
        *fastest = Some((least_us, now_us));
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
    const US: Duration = Duration::from_micros(1);

    /// A database whose clock is `shift_us` ahead.
    struct Scene {
        clock: DatabaseClock,
        shift_us: i64,
    }

    impl Scene {
        fn new() -> Self {
            Self { clock: DatabaseClock::new(), shift_us: 1_790_000_000_000_000 }
        }

        /// By how much a send starts after its slot's true time: it was requested at `at`, reserved `there` later and
        /// known `back` after that.
        fn late(&self, at: Duration, there: Duration, back: Duration) -> Duration {
            let asked_at = self.clock.began + at;
            let reserved_at = asked_at + there;
            let slot = Slot { reserved_at_us: self.shift_us + microseconds(at + there), send_in: 30 * MS };
            let start = self.clock.start(slot, asked_at, reserved_at + back);
            start.checked_duration_since(reserved_at + 30 * MS).expect("too early")
        }
    }

    #[test]
    fn a_delayed_answer_moves_no_send() {
        let scene = Scene::new();
        assert_eq!(scene.late(Duration::ZERO, MS, 2 * MS), 2 * MS);
        assert_eq!(scene.late(100 * MS, MS, 900 * MS), 2 * MS + 999 * US);
        assert_eq!(scene.late(1100 * MS, MS, MS), MS);
        assert_eq!(scene.late(1200 * MS, MS, 5 * MS), MS + 105 * US);
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
    fn the_fastest_answer_counts_for_a_long_time_less_the_drift_of_the_clocks() {
        let scene = Scene::new();
        assert_eq!(scene.late(Duration::ZERO, MS, MS), MS);
        assert_eq!(scene.late(998 * MS, MS, 900 * MS), MS + 1898 * US);
        assert_eq!(scene.late(30_999 * MS, MS, 900 * MS), MS + 31_900 * US);
    }

    #[test]
    fn a_clock_that_steps_is_followed_at_once() {
        let mut scene = Scene::new();
        let hour_us = 3_600_000_000;
        assert_eq!(scene.late(Duration::ZERO, MS, 2 * MS), 2 * MS);
        scene.shift_us -= hour_us;
        assert_eq!(scene.late(100 * MS, MS, 3 * MS), 3 * MS);
        assert_eq!(scene.late(200 * MS, MS, 800 * MS), 3 * MS + 898 * US);
        scene.shift_us += 2 * hour_us;
        assert_eq!(scene.late(1100 * MS, MS, 3 * MS), 3 * MS);
        assert_eq!(scene.late(1200 * MS, MS, 800 * MS), 3 * MS + 898 * US);
    }
}
