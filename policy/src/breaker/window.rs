//! The calls of a sliding window, counted by slices.

use std::{collections::VecDeque, time::Duration};

use tokio::time::Instant;

/// The number of slices of the window: more of them take more memory and let calls leave more exactly.
const SLICES: u32 = 20;

/// Counts of calls that ended within a sliding window.
#[derive(Debug)]
pub(super) struct Window {
    length: Duration,
    /// When each slice began, and its counts, oldest first; two beyond [`SLICES`] at most.
    slices: VecDeque<(Instant, Counts)>,
}

/// The counts of calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) calls: u64,
    pub(super) failed: u64,
    pub(super) slow: u64,
}

impl Window {
    pub(super) fn new(length: Duration) -> Self {
        Self { length, slices: VecDeque::new() }
    }

    /// Counts a call that ended at `now`. Times that come out of order, as those of threads do, count for the last
    /// slice.
    pub(super) fn count(&mut self, now: Instant, failed: bool, slow: bool) {
        let slice = self.length / SLICES;
        let age = |(began, _): &(Instant, Counts)| now.saturating_duration_since(*began);
        let longest = self.length.saturating_add(slice);
        while self.slices.front().is_some_and(|oldest| age(oldest) >= longest) {
            self.slices.pop_front();
        }
        let is_over = |last: &(Instant, Counts)| age(last) >= slice && now > last.0;
        if self.slices.back().is_none_or(is_over) {
            self.slices.push_back((now, Counts::default()));
        }
        if let Some((_, counts)) = self.slices.back_mut() {
            counts.calls += 1;
            counts.failed += u64::from(failed);
            counts.slow += u64::from(slow);
        }
    }

    /// The counts as of the last call counted.
    pub(super) fn seen(&self) -> Counts {
        self.slices.iter().fold(Counts::default(), |sum, (_, counts)| Counts {
            calls: sum.calls + counts.calls,
            failed: sum.failed + counts.failed,
            slow: sum.slow + counts.slow,
        })
    }

    pub(super) fn clear(&mut self) {
        self.slices.clear();
    }
}
