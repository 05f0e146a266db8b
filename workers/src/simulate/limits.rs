//! The limits that a downstream enforces, and its counts of violations.

use std::{collections::VecDeque, time::Duration};

use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::Instant,
};

const SECOND: Duration = Duration::from_secs(1);

/// A send may start this late, so that this many more can fall into one second.
const LATENESS_SECONDS: f64 = 0.05;

/// How many sends may fall into any sliding second: D + burst + the sends of 50 ms, rounded up.
fn allowed_in_a_second(per_second: f64, burst: u32) -> usize {
    let late = (per_second * LATENESS_SECONDS).ceil();
    (per_second + f64::from(burst) + late).floor() as usize
}

/// Removes moments that are a second old or older; two moments a whole second apart share no window.
fn forget_before_window(moments: &mut VecDeque<Instant>, now: Instant) {
    while moments.front().is_some_and(|first| *first + SECOND <= now) {
        moments.pop_front();
    }
}

/// Compares arrivals with a rate limit. Time is a parameter and must not run backwards.
#[derive(Debug, Default)]
pub(super) struct RateLimit {
    allowed: Option<usize>,
    /// The sends of the last second, and those of them that were accepted.
    arrived: VecDeque<Instant>,
    accepted: VecDeque<Instant>,
    /// The most sends, refused ones included, in any sliding second so far.
    pub(super) most_in_a_second: usize,
}

impl RateLimit {
    pub(super) fn new(per_second: Option<f64>, burst: u32) -> Self {
        Self {
            allowed: per_second.map(|per_second| allowed_in_a_second(per_second, burst)),
            ..Self::default()
        }
    }

    /// Records a send. A send beyond the limit does not count against later ones.
    ///
    /// # Errors
    ///
    /// A violation: after this time the next send is within the limit.
    pub(super) fn arrive(&mut self, now: Instant) -> Result<(), Duration> {
        forget_before_window(&mut self.arrived, now);
        self.arrived.push_back(now);
        self.most_in_a_second = self.most_in_a_second.max(self.arrived.len());
        let Some(allowed) = self.allowed else {
            return Ok(());
        };
        forget_before_window(&mut self.accepted, now);
        if self.accepted.len() < allowed {
            self.accepted.push_back(now);
            return Ok(());
        }
        let free_at = self.accepted.front().map_or(now, |first| *first + SECOND);
        Err(free_at - now)
    }
}

/// How many checks run at once, and whether another may.
#[derive(Debug)]
pub(super) struct ConcurrencyLimit {
    allowed: usize,
    free: Semaphore,
}

impl ConcurrencyLimit {
    pub(super) fn new(allowed: Option<usize>) -> Self {
        let allowed = allowed.unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS);
        Self {
            allowed,
            free: Semaphore::new(allowed),
        }
    }

    /// Begins a check, unless that violates the limit; and how many checks there are with this one.
    pub(super) fn begin(&self) -> (Option<SemaphorePermit<'_>>, usize) {
        let permit = self.free.try_acquire().ok();
        let at_once = self.allowed - self.free.available_permits() + usize::from(permit.is_none());
        (permit, at_once)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_allowance_is_rate_plus_burst_plus_fifty_milliseconds_rounded_up() {
        for (per_second, burst, allowed) in [
            (1.0, 1, 3),
            (10.0, 1, 12),
            (20.0, 1, 22),
            (21.0, 5, 28),
            (1000.0, 1, 1051),
            (0.5, 1, 2),
        ] {
            assert_eq!(allowed_in_a_second(per_second, burst), allowed, "{per_second} {burst}");
        }
    }

    #[test]
    fn a_refusal_has_the_time_until_the_next_send_is_allowed() {
        let (start, mut limit) = (Instant::now(), RateLimit::new(Some(10.0), 1));
        let at = |ms| start + Duration::from_millis(ms);
        for n in 0..12 {
            assert_eq!(limit.arrive(at(n * 10)), Ok(()), "send {n}");
        }
        let beyond = |ms| Err(Duration::from_millis(ms));
        assert_eq!(limit.arrive(at(400)), beyond(600));
        assert_eq!(limit.arrive(at(999)), beyond(1));
        assert_eq!(limit.most_in_a_second, 14);
        assert_eq!(limit.arrive(at(1000)), Ok(()), "the first send is a second old");
        assert_eq!(limit.arrive(at(1001)), beyond(9), "the refused ones do not count");
    }

    #[test]
    fn a_steady_sender_at_the_limit_never_violates_it() {
        let (start, mut limit) = (Instant::now(), RateLimit::new(Some(100.0), 1));
        for n in 0..1000 {
            assert_eq!(limit.arrive(start + Duration::from_millis(n * 10)), Ok(()));
        }
        assert_eq!(limit.most_in_a_second, 100);
    }

    #[test]
    fn without_a_rate_arrivals_are_only_counted() {
        let (start, mut limit) = (Instant::now(), RateLimit::new(None, 1));
        assert!((0..5000).all(|_| limit.arrive(start) == Ok(())));
        assert_eq!(limit.most_in_a_second, 5000);
    }
}
