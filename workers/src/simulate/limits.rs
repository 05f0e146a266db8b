//! The limits that a downstream enforces, and its counts of violations.

use std::{
    collections::VecDeque,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);

/// A send may start this late, so that this many more can fall into one second.
const LATENESS_SECONDS: f64 = 0.05;

/// How many sends may fall into any sliding second: D + burst + the sends of 50 ms, rounded up.
fn allowed_in_a_second(per_second: f64, burst: u32) -> usize {
    let late = (per_second * LATENESS_SECONDS).ceil();
    (per_second + f64::from(burst) + late).floor() as usize
}

/// Moments of the last second.
#[derive(Debug, Default)]
struct Window(VecDeque<Instant>);

impl Window {
    /// Removes moments that are a second old or older; two moments a whole second apart share no window.
    fn move_to(&mut self, now: Instant) {
        while self.0.front().is_some_and(|first| *first + SECOND <= now) {
            self.0.pop_front();
        }
    }
}

/// Compares arrivals with a rate limit. Time is a parameter and must not run backwards.
#[derive(Debug, Default)]
pub(super) struct RateLimit {
    allowed: Option<usize>,
    arrived: Window,
    accepted: Window,
    most_in_a_second: usize,
}

impl RateLimit {
    pub(super) fn new(per_second: Option<f64>, burst: u32) -> Self {
        Self {
            allowed: per_second.map(|per_second| allowed_in_a_second(per_second, burst)),
            ..Self::default()
        }
    }

    /// Records a send. A send beyond the limit takes no room from later ones.
    ///
    /// # Errors
    ///
    /// A violation: after this time the next send is within the limit.
    pub(super) fn arrive(&mut self, now: Instant) -> Result<(), Duration> {
        self.arrived.move_to(now);
        self.arrived.0.push_back(now);
        self.most_in_a_second = self.most_in_a_second.max(self.arrived.0.len());
        let Some(allowed) = self.allowed else {
            return Ok(());
        };
        self.accepted.move_to(now);
        if self.accepted.0.len() < allowed {
            self.accepted.0.push_back(now);
            return Ok(());
        }
        let free_at = self.accepted.0.front().map_or(now, |first| *first + SECOND);
        Err(free_at - now)
    }

    /// The most sends, refused ones included, in any sliding second so far.
    pub(super) const fn most_in_a_second(&self) -> usize {
        self.most_in_a_second
    }
}

/// How many checks run at once, and whether another may.
#[derive(Debug, Default)]
pub(super) struct ConcurrencyLimit {
    allowed: Option<usize>,
    running: AtomicUsize,
    most_at_once: AtomicUsize,
}

/// A running check; dropping it ends it, also when its caller gives up.
#[derive(Debug)]
pub(super) struct Running<'a>(&'a ConcurrencyLimit);

impl ConcurrencyLimit {
    pub(super) fn new(allowed: Option<usize>) -> Self {
        Self {
            allowed,
            ..Self::default()
        }
    }

    /// Begins a check; `None` is a violation.
    pub(super) fn begin(&self) -> Option<Running<'_>> {
        let allowed = self.allowed.unwrap_or(usize::MAX);
        let begun = self
            .running
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |running| {
                (running < allowed).then_some(running + 1)
            });
        let (Ok(before) | Err(before)) = begun;
        self.most_at_once.fetch_max(before + 1, Ordering::Relaxed);
        // Lazily: the drop of a value would end a check that never began.
        begun.is_ok().then(|| Running(self))
    }

    /// The most checks, refused ones included, at any one time so far.
    pub(super) fn most_at_once(&self) -> usize {
        self.most_at_once.load(Ordering::Relaxed)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(per_second: f64, burst: u32) -> RateLimit {
        RateLimit::new(Some(per_second), burst)
    }

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
    fn a_send_beyond_the_limit_is_told_when_the_window_frees() {
        let (start, mut limit) = (Instant::now(), limit(10.0, 1));
        let at = |ms| start + Duration::from_millis(ms);
        for n in 0..12 {
            assert_eq!(limit.arrive(at(n * 10)), Ok(()), "send {n}");
        }
        let beyond = |ms| Err(Duration::from_millis(ms));
        assert_eq!(limit.arrive(at(400)), beyond(600));
        assert_eq!(limit.arrive(at(999)), beyond(1));
        assert_eq!(limit.most_in_a_second(), 14);
        assert_eq!(limit.arrive(at(1000)), Ok(()), "the first send is a second old");
        assert_eq!(limit.arrive(at(1001)), beyond(9), "the refused ones took no room");
    }

    #[test]
    fn a_steady_sender_at_the_limit_never_violates_it() {
        let (start, mut limit) = (Instant::now(), limit(100.0, 1));
        for n in 0..1000 {
            assert_eq!(limit.arrive(start + Duration::from_millis(n * 10)), Ok(()));
        }
        assert_eq!(limit.most_in_a_second(), 100);
    }

    #[test]
    fn without_a_rate_arrivals_are_only_counted() {
        let (start, mut limit) = (Instant::now(), RateLimit::new(None, 1));
        assert!((0..5000).all(|_| limit.arrive(start) == Ok(())));
        assert_eq!(limit.most_in_a_second(), 5000);
    }

    #[test]
    fn checks_at_once_are_bounded_and_end_when_dropped() {
        let limit = ConcurrencyLimit::new(Some(2));
        let first = limit.begin();
        let second = limit.begin();
        assert!(first.is_some() && second.is_some() && limit.begin().is_none());
        drop(first);
        assert!(limit.begin().is_some());
        assert_eq!(limit.most_at_once(), 3);
    }
}
