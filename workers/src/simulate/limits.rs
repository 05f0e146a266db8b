//! The limits a downstream enforces, and what it counts to tell whether a fleet keeps them.

use std::{
    collections::VecDeque,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);

/// Sends per second, with what the relay's promise allows on top.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// D, sends per second.
    pub per_second: f64,
    /// How many may come at once.
    pub burst: u32,
}

impl Rate {
    /// A send may start this late, so that many more can meet within one second.
    const LATENESS_SECONDS: f64 = 0.05;

    /// How many sends may fall into any sliding second: D + burst + what 50 ms of lateness allow, rounded up.
    #[must_use]
    pub fn allowed_in_a_second(&self) -> usize {
        let late = (self.per_second * Self::LATENESS_SECONDS).ceil();
        (self.per_second + f64::from(self.burst) + late).floor() as usize
    }
}

/// Moments of the last second.
#[derive(Debug, Default)]
struct Window(VecDeque<Instant>);

impl Window {
    /// Forgets what is a second old or older; two moments a whole second apart share no window.
    fn move_to(&mut self, now: Instant) {
        while self.0.front().is_some_and(|first| *first + SECOND <= now) {
            self.0.pop_front();
        }
    }
}

/// Judges arrivals against a [`Rate`]. Time is a parameter and must not run backwards.
#[derive(Debug, Default)]
pub(super) struct RateLimit {
    allowed: Option<usize>,
    arrived: Window,
    accepted: Window,
    most_in_a_second: usize,
}

/// Whether a send came within the rate limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrival {
    Within,
    /// A violation; the next send is within the limit after this long.
    Beyond {
        after: Duration,
    },
}

impl RateLimit {
    pub(super) fn new(rate: Option<Rate>) -> Self {
        Self {
            allowed: rate.map(|rate| rate.allowed_in_a_second()),
            ..Self::default()
        }
    }

    /// Records a send. One beyond the limit takes no room from those that follow it.
    pub(super) fn arrive(&mut self, now: Instant) -> Arrival {
        self.arrived.move_to(now);
        self.arrived.0.push_back(now);
        self.most_in_a_second = self.most_in_a_second.max(self.arrived.0.len());
        let Some(allowed) = self.allowed else {
            return Arrival::Within;
        };
        self.accepted.move_to(now);
        if self.accepted.0.len() < allowed {
            self.accepted.0.push_back(now);
            return Arrival::Within;
        }
        let free_at = self.accepted.0.front().map_or(now, |first| *first + SECOND);
        Arrival::Beyond { after: free_at - now }
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

/// A running check; dropping it ends it, also when its caller went away.
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
        // Lazily: a value made and dropped would end a check that never began.
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
        RateLimit::new(Some(Rate { per_second, burst }))
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
            let rate = Rate { per_second, burst };
            assert_eq!(rate.allowed_in_a_second(), allowed, "{rate:?}");
        }
    }

    #[test]
    fn a_send_beyond_the_limit_is_told_when_the_window_frees() {
        let (start, mut limit) = (Instant::now(), limit(10.0, 1));
        let at = |ms| start + Duration::from_millis(ms);
        for n in 0..12 {
            assert_eq!(limit.arrive(at(n * 10)), Arrival::Within, "send {n}");
        }
        let beyond = |ms| Arrival::Beyond {
            after: Duration::from_millis(ms),
        };
        assert_eq!(limit.arrive(at(400)), beyond(600));
        assert_eq!(limit.arrive(at(999)), beyond(1));
        assert_eq!(limit.most_in_a_second(), 14);
        assert_eq!(
            limit.arrive(at(1000)),
            Arrival::Within,
            "the first send is a second old"
        );
        assert_eq!(limit.arrive(at(1001)), beyond(9), "the refused ones took no room");
    }

    #[test]
    fn a_steady_sender_at_the_limit_never_violates_it() {
        let (start, mut limit) = (Instant::now(), limit(100.0, 1));
        for n in 0..1000 {
            assert_eq!(limit.arrive(start + Duration::from_millis(n * 10)), Arrival::Within);
        }
        assert_eq!(limit.most_in_a_second(), 100);
    }

    #[test]
    fn without_a_rate_arrivals_are_only_counted() {
        let (start, mut limit) = (Instant::now(), RateLimit::new(None));
        assert!((0..5000).all(|_| limit.arrive(start) == Arrival::Within));
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
