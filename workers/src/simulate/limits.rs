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

/// A send that began longer ago counts as one that began then.
const LONGEST_AGO: Duration = Duration::from_secs(10);

/// The moments of sends, in order. A send may be added after ones that began later.
#[derive(Debug, Default)]
struct Moments(VecDeque<Instant>);

impl Moments {
    /// Adds a moment, and returns its place. Forgets those that share no window with later ones.
    fn add(&mut self, moment: Instant, now: Instant) -> usize {
        while self.0.front().is_some_and(|first| *first + SECOND + LONGEST_AGO <= now) {
            self.0.pop_front();
        }
        let place = self.0.partition_point(|other| *other <= moment);
        self.0.insert(place, moment);
        place
    }

    /// The most moments in any sliding second that the moment at `place` is in; two moments a whole second apart share
    /// no window.
    fn most_around(&self, place: usize) -> usize {
        let Self(moments) = self;
        let first = moments.partition_point(|other| *other + SECOND <= moments[place]);
        let mut most = 0;
        for from in first..=place {
            let end = moments.partition_point(|other| *other < moments[from] + SECOND);
            most = most.max(end - from);
            if end == moments.len() {
                break;
            }
        }
        most
    }
}

/// Compares the beginnings of sends with a rate limit. Time is a parameter, and `now` must not run backwards.
#[derive(Debug, Default)]
pub(super) struct RateLimit {
    allowed: Option<usize>,
    /// The latest sends, and those of them that were accepted.
    all: Moments,
    accepted: Moments,
    /// The most sends, refused ones included, in any sliding second so far.
    pub(super) most_in_a_second: usize,
}

impl RateLimit {
    pub(super) fn new(per_second: Option<f64>, burst: u32) -> Self {
        Self { allowed: per_second.map(|per_second| allowed_in_a_second(per_second, burst)), ..Self::default() }
    }

    /// Records a send that began at this time. A send beyond the limit does not count against later ones.
    ///
    /// # Errors
    ///
    /// A violation: after this time the next send is within the limit.
    pub(super) fn count(&mut self, began: Instant, now: Instant) -> Result<(), Duration> {
        let began = now - now.duration_since(began).min(LONGEST_AGO);
        let place = self.all.add(began, now);
        self.most_in_a_second = self.most_in_a_second.max(self.all.most_around(place));
        let Some(allowed) = self.allowed else {
            return Ok(());
        };
        let place = self.accepted.add(began, now);
        if self.accepted.most_around(place) <= allowed {
            return Ok(());
        }
        self.accepted.0.remove(place);
        let latest = self.accepted.0.len().checked_sub(allowed);
        let free_at = latest.map_or(now, |latest| self.accepted.0[latest] + SECOND);
        Err(free_at.saturating_duration_since(now))
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
        Self { allowed, free: Semaphore::new(allowed) }
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
        for (per_second, burst, allowed) in
            [(1.0, 1, 3), (10.0, 1, 12), (20.0, 1, 22), (21.0, 5, 28), (1000.0, 1, 1051), (0.5, 1, 2)]
        {
            assert_eq!(allowed_in_a_second(per_second, burst), allowed, "{per_second} {burst}");
        }
    }

    #[test]
    fn a_refusal_has_the_time_until_the_next_send_is_allowed() {
        let (start, mut limit) = (Instant::now(), RateLimit::new(Some(10.0), 1));
        let at = |ms| start + Duration::from_millis(ms);
        for n in 0..12 {
            assert_eq!(limit.count(at(n * 10), at(n * 10)), Ok(()), "send {n}");
        }
        let beyond = |ms| Err(Duration::from_millis(ms));
        assert_eq!(limit.count(at(400), at(400)), beyond(600));
        assert_eq!(limit.count(at(999), at(999)), beyond(1));
        assert_eq!(limit.most_in_a_second, 14);
        assert_eq!(limit.count(at(1000), at(1000)), Ok(()), "the first send is a second old");
        assert_eq!(limit.count(at(1001), at(1001)), beyond(9), "the refused ones do not count");
    }

    #[test]
    fn a_steady_sender_at_the_limit_never_violates_it() {
        let (start, mut limit) = (Instant::now(), RateLimit::new(Some(100.0), 1));
        for n in 0..1000 {
            let at = start + Duration::from_millis(n * 10);
            assert_eq!(limit.count(at, at), Ok(()));
        }
        assert_eq!(limit.most_in_a_second, 100);
    }

    #[test]
    fn without_a_rate_arrivals_are_only_counted() {
        let (start, mut limit) = (Instant::now(), RateLimit::new(None, 1));
        assert!((0..5000).all(|_| limit.count(start, start) == Ok(())));
        assert_eq!(limit.most_in_a_second, 5000);
    }

    #[test]
    fn sends_count_when_they_began_in_whatever_order_they_come() {
        let (start, mut limit) = (Instant::now(), RateLimit::new(Some(10.0), 1));
        let at = |ms| start + Duration::from_millis(ms);
        // Evenly paced for two seconds, and all of them served at the end, the latest first.
        for n in (0..20).rev() {
            assert_eq!(limit.count(at(n * 100), at(2000)), Ok(()), "send {n}");
        }
        assert_eq!(limit.most_in_a_second, 10);
        // Two more of the first second are within the limit; a third is not, also for the seconds around it.
        assert_eq!(limit.count(at(500), at(2000)), Ok(()));
        assert_eq!(limit.count(at(500), at(2000)), Ok(()));
        assert_eq!(limit.count(at(1400), at(2000)), Err(Duration::ZERO));
        assert_eq!(limit.most_in_a_second, 13);
        assert_eq!(limit.count(at(2050), at(2050)), Ok(()));
    }

    #[test]
    fn sends_that_began_together_exceed_the_limit_however_late_they_come() {
        let (start, mut limit) = (Instant::now(), RateLimit::new(Some(10.0), 1));
        let came = |n: u64| start + Duration::from_millis(n * 100);
        let violations = (0..30).filter(|n| limit.count(start, came(*n)).is_err());
        assert_eq!(violations.count(), 18);
        assert_eq!(limit.most_in_a_second, 30);
        // Nothing is remembered for longer than ten seconds.
        assert_eq!(limit.count(start, start + Duration::from_secs(60)), Ok(()));
        assert!(limit.all.0.len() < 3);
    }
}
