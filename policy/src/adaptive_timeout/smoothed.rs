//! RFC 6298's smoothed round-trip time, its deviation and its timeout, in whole nanoseconds.

use super::config::{Config, nanoseconds};

/// A process trusts its own samples from so many on: by then the guess that the deviation is half of the first sample
/// weighs a tenth.
const SETTLED: u32 = 8;

/// A mean, moved by each sample by a part of its distance; kept times the divisor of that part, so that no part of a
/// nanosecond is lost from sample to sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mean {
    scaled: u64,
    divisor: u64,
}

impl Mean {
    fn of(value_ns: u64, divisor: u32) -> Self {
        let divisor = divisor.into();
        let scaled = value_ns.saturating_mul(divisor);
        Self { scaled, divisor }
    }

    fn add(&mut self, sample_ns: u64) {
        self.scaled = (self.scaled - self.scaled / self.divisor).saturating_add(sample_ns);
    }

    fn ns(self) -> u64 {
        self.scaled / self.divisor
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Smoothed {
    srtt: Mean,
    rttvar: Mean,
    srto: Mean,
    /// How many samples it has seen, as far as that matters.
    samples: u32,
}

impl Smoothed {
    fn of(config: &Config, [srtt_ns, rttvar_ns, srto_ns]: [u64; 3], samples: u32) -> Self {
        let constants = &config.constants;
        Self {
            srtt: Mean::of(srtt_ns, constants.srtt_divisor),
            rttvar: Mean::of(rttvar_ns, constants.rttvar_divisor),
            srto: Mean::of(srto_ns, constants.srto_divisor),
            samples,
        }
    }

    /// RFC 6298 (2.2): the deviation is taken to be half of the first sample. The margin counts once.
    pub(super) fn first(config: &Config, sample_ns: u64) -> Self {
        let mut smoothed = Self::of(config, [sample_ns, sample_ns, 0], 1);
        smoothed.rttvar.scaled /= 2;
        smoothed.srto = Mean::of(smoothed.rto_ns(config, 1), config.constants.srto_divisor);
        smoothed
    }

    /// From the values of a row.
    pub(super) fn restored(config: &Config, srtt_ns: u64, rttvar_ns: u64, srto_ns: u64) -> Self {
        let longest = config.max_ns();
        Self::of(config, [srtt_ns.min(longest), rttvar_ns.min(longest), srto_ns], SETTLED)
    }

    /// RFC 6298 (2.3): the deviation from the old srtt first, then srtt.
    pub(super) fn sample(&mut self, config: &Config, k_margin: u32, sample_ns: u64) {
        self.rttvar.add(self.srtt_ns().abs_diff(sample_ns));
        self.srtt.add(sample_ns);
        self.srto.add(self.rto_ns(config, k_margin));
        self.samples = self.samples.saturating_add(1);
    }

    pub(super) fn srtt_ns(&self) -> u64 {
        self.srtt.ns()
    }

    /// srtt, rttvar and srto.
    pub(super) fn times_ns(&self) -> [u64; 3] {
        [self.srtt, self.rttvar, self.srto].map(Mean::ns)
    }

    /// srtt + `k_margin` · max(G, K · rttvar), whatever the bounds.
    pub(super) fn rto_ns(&self, config: &Config, k_margin: u32) -> u64 {
        self.srtt_ns().saturating_add(self.margin_ns(config).saturating_mul(k_margin.into()))
    }

    /// max(G, K · rttvar).
    pub(super) fn margin_ns(&self, config: &Config) -> u64 {
        let constants = &config.constants;
        let deviations_ns = self.rttvar.scaled.saturating_mul(constants.k.into()) / self.rttvar.divisor;
        deviations_ns.max(nanoseconds(constants.granularity))
    }

    /// Whether it has seen enough for its rto to mean something.
    pub(super) fn is_settled(&self) -> bool {
        self.samples >= SETTLED
    }

    /// The largest margin that takes no more than a quarter of the room between srtt and `max`, so that deviations may
    /// grow; 1 at least.
    pub(super) fn fitting_margin(&self, config: &Config) -> u32 {
        let room_ns = config.max_ns().saturating_sub(self.srtt_ns()) / 4;
        u32::try_from(room_ns / self.margin_ns(config).max(1)).unwrap_or(u32::MAX).max(1)
    }
}
