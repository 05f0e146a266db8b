//! The calls of a sliding window, counted by slices.

use std::{collections::VecDeque, time::Duration};

use tokio::time::Instant;

/// The number of slices of the window: more of them take more memory and let calls leave more exactly.
const SLICES: u32 = 20;

/// Counts of calls that ended within a sliding window.
pub(super) struct Window {
    length: Duration,
    /// Oldest first; two beyond [`SLICES`] at most.
    slices: VecDeque<Slice>,
}

struct Slice {
    began: Instant,
    seen: Counts,
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
        Self {
            length,
            slices: VecDeque::new(),
        }
    }

    /// Counts a call that ended at `now`. Times that come out of order, as those of threads do, count for the last
    /// slice.
    pub(super) fn count(&mut self, now: Instant, failed: bool, slow: bool) {
        let slice = self.length / SLICES;
        while self
            .slices
            .front()
            .is_some_and(|oldest| now.saturating_duration_since(oldest.began) >= self.length.saturating_add(slice))
        {
            self.slices.pop_front();
        }
        if self
            .slices
            .back()
            .is_none_or(|last| now.saturating_duration_since(last.began) >= slice && now > last.began)
        {
            self.slices.push_back(Slice {
                began: now,
                seen: Counts::default(),
            });
        }
        if let Some(last) = self.slices.back_mut() {
            last.seen.calls += 1;
            last.seen.failed += u64::from(failed);
            last.seen.slow += u64::from(slow);
        }
    }

    /// The counts as of the last call counted.
    pub(super) fn seen(&self) -> Counts {
        self.slices.iter().fold(Counts::default(), |sum, slice| Counts {
            calls: sum.calls + slice.seen.calls,
            failed: sum.failed + slice.seen.failed,
            slow: sum.slow + slice.seen.slow,
        })
    }

    pub(super) fn clear(&mut self) {
        self.slices.clear();
    }
}
