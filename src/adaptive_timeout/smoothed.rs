//! RFC 6298's smoothed round-trip time, its deviation and its timeout, in whole nanoseconds.

use super::config::{Config, nanoseconds};

/// Kept times their divisors, so that no part of a nanosecond is lost from sample to sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Smoothed {
    srtt_scaled: u64,
    rttvar_scaled: u64,
    srto_scaled: u64,
    /// How many samples it has seen, as far as that matters.
    samples: u32,
}

impl Smoothed {
    /// RFC 6298 (2.2): the deviation is taken to be half of the first sample. The margin counts once.
    pub(super) fn first(config: &Config, sample_ns: u64) -> Self {
        let constants = &config.constants;
        let mut smoothed = Self {
            srtt_scaled: sample_ns * u64::from(constants.srtt_divisor),
            rttvar_scaled: sample_ns * u64::from(constants.rttvar_divisor) / 2,
            srto_scaled: 0,
            samples: 1,
        };
        smoothed.srto_scaled = smoothed.rto_ns(config, 1).saturating_mul(constants.srto_divisor.into());
        smoothed
    }

    /// From the values of a row.
    pub(super) fn restored(config: &Config, srtt_ns: u64, rttvar_ns: u64, srto_ns: u64) -> Self {
        let constants = &config.constants;
        let longest = config.max_ns();
        Self {
            srtt_scaled: srtt_ns.min(longest) * u64::from(constants.srtt_divisor),
            rttvar_scaled: rttvar_ns.min(longest) * u64::from(constants.rttvar_divisor),
            srto_scaled: srto_ns.saturating_mul(constants.srto_divisor.into()),
            samples: constants.settled,
        }
    }

    /// RFC 6298 (2.3): the deviation from the old srtt first, then srtt.
    pub(super) fn sample(&mut self, config: &Config, k_margin: u32, sample_ns: u64) {
        let constants = &config.constants;
        let deviation_ns = self.srtt_ns(config).abs_diff(sample_ns);
        self.rttvar_scaled =
            self.rttvar_scaled - self.rttvar_scaled / u64::from(constants.rttvar_divisor) + deviation_ns;
        self.srtt_scaled = self.srtt_scaled - self.srtt_scaled / u64::from(constants.srtt_divisor) + sample_ns;
        self.srto_scaled = (self.srto_scaled - self.srto_scaled / u64::from(constants.srto_divisor))
            .saturating_add(self.rto_ns(config, k_margin));
        self.samples = self.samples.saturating_add(1);
    }

    pub(super) fn srtt_ns(&self, config: &Config) -> u64 {
        self.srtt_scaled / u64::from(config.constants.srtt_divisor)
    }

    pub(super) fn rttvar_ns(&self, config: &Config) -> u64 {
        self.rttvar_scaled / u64::from(config.constants.rttvar_divisor)
    }

    pub(super) fn srto_ns(&self, config: &Config) -> u64 {
        self.srto_scaled / u64::from(config.constants.srto_divisor)
    }

    /// srtt, rttvar and srto.
    pub(super) fn times_ns(&self, config: &Config) -> [u64; 3] {
        [self.srtt_ns(config), self.rttvar_ns(config), self.srto_ns(config)]
    }

    /// srtt + `k_margin` · max(G, K · rttvar), whatever the bounds.
    pub(super) fn rto_ns(&self, config: &Config, k_margin: u32) -> u64 {
        self.srtt_ns(config)
            .saturating_add(self.margin_ns(config).saturating_mul(k_margin.into()))
    }

    /// max(G, K · rttvar).
    pub(super) fn margin_ns(&self, config: &Config) -> u64 {
        let constants = &config.constants;
        let deviations_ns = self.rttvar_scaled.saturating_mul(constants.k.into()) / u64::from(constants.rttvar_divisor);
        deviations_ns.max(nanoseconds(constants.granularity))
    }

    /// Whether it has seen enough for its rto to mean something.
    pub(super) fn is_settled(&self, config: &Config) -> bool {
        self.samples >= config.constants.settled
    }

    /// The largest margin that takes no more than a quarter of the room between srtt and `max`, so that deviations may
    /// grow; 1 at least.
    pub(super) fn fitting_margin(&self, config: &Config) -> u32 {
        let room_ns = config.max_ns().saturating_sub(self.srtt_ns(config)) / 4;
        u32::try_from(room_ns / self.margin_ns(config).max(1))
            .unwrap_or(u32::MAX)
            .max(1)
    }
}
