//! The configuration of an estimator: its bounds, its target, and the constants of its rules.

use std::{str::FromStr, time::Duration};

use serde::{Deserialize, Serialize};

/// Longest time that an estimator handles: no call waits longer for an answer.
const MONTH: Duration = Duration::from_secs(30 * 86_400);

/// The timeout before any sample where there is no `max`.
const INITIAL: Duration = Duration::from_secs(1);

/// The longest timeout where there is no `max`.
const CEILING: Duration = Duration::from_secs(60);

/// The mean of an interval counts as the usual time of a call when at least this part of its calls was answered. With
/// fewer it would be a mean of timeouts.
const MOSTLY_ANSWERED: f64 = 0.75;

/// The bounds and the target of one estimator.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The dependency whose answers are awaited; for messages.
    pub id: String,
    /// Longest timeout, which is the longest latency that the SLO allows. `None`: a minute, and no high load is
    /// detected.
    pub max: Option<Duration>,
    /// Shortest timeout.
    pub min: Duration,
    /// Target failure rate, above 0 and at most 0.5. `None`: a timeout is doubled whenever it was too short, `k_margin`
    /// stays as it is, and no high load is detected.
    pub slo: Option<f64>,
    /// How often the failure rate is judged; longer than `max`.
    pub interval: Duration,
    /// The margin to begin with, at least 1: how many times the deviation is added.
    pub k_margin: u32,
    /// High load begins when so many computed timeouts in a row have reached `max`, and calls of an eighth of those
    /// samples timed out. The source has 1, and doubts it: one slow answer among thousands would do then. And where
    /// `max` is hardly more than answers that vary much need, computed timeouts reach it without any overload and
    /// without a failure.
    pub alarm_samples: u32,
    /// The timeout of high load.
    pub best_case: BestCase,
    /// An interval ends, and is judged, when so many calls have ended, but no earlier than `max` after its beginning.
    /// `None`: when more of them would change nothing (`early_close`).
    pub interval_calls: Option<u32>,
    /// The constants of the rules.
    pub constants: Constants,
}

impl Default for Config {
    /// No `max`; `min` 1 ms; SLO 1 %; intervals of 5 s; `k_margin` 1; high load after 32 samples.
    fn default() -> Self {
        Self {
            id: "dependency".to_owned(),
            max: None,
            min: Duration::from_millis(1),
            slo: Some(0.01),
            interval: Duration::from_secs(5),
            k_margin: 1,
            alarm_samples: 32,
            best_case: BestCase::Usual,
            interval_calls: None,
            constants: Constants::default(),
        }
    }
}

/// The time that the timeout of high load is computed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BestCase {
    /// The mean of the best of the last intervals whose calls were mostly answered; without one the minimum.
    Usual,
    /// The shortest answer, as the source has it: an outlier, where there are many.
    Minimum,
}

impl FromStr for BestCase {
    type Err = UnknownBestCase;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word {
            "usual" => Ok(Self::Usual),
            "minimum" => Ok(Self::Minimum),
            _ => Err(UnknownBestCase(word.to_owned())),
        }
    }
}

/// A word that is no [`BestCase`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no best case: usual or minimum")]
pub struct UnknownBestCase(String);

/// The constants of RFC 6298 (2.2, 2.3) and of the seed's overload control.
#[derive(Debug, Clone, PartialEq)]
pub struct Constants {
    /// G: the margin is never less, 1 ms.
    pub granularity: Duration,
    /// K: a margin is so many deviations, 4.
    pub k: u32,
    /// 1/α: a sample moves srtt by this part of its distance, 8.
    pub srtt_divisor: u32,
    /// 1/β: a sample moves rttvar by this part of its distance, 4.
    pub rttvar_divisor: u32,
    /// An rto moves srto by this part of its distance, 8.
    pub srto_divisor: u32,
    /// An interval is judged from ⌈`enough` / slo⌉ samples on, 2.
    pub enough: u32,
    /// An interval ends early after so many times enough samples, 10, but no earlier than `max` after its beginning.
    pub early_close: u32,
    /// Load has subsided at this part of the load that high load began with, 3/4.
    pub subsided: f64,
    /// High load ends after so many intervals, to find out with the longest timeout whether it continues, 12.
    pub high_load_intervals: u32,
    /// The minimum is that of the last one to two windows of so many intervals, 6.
    pub min_window: u32,
}

impl Default for Constants {
    fn default() -> Self {
        Self {
            granularity: Duration::from_millis(1),
            k: 4,
            srtt_divisor: 8,
            rttvar_divisor: 4,
            srto_divisor: 8,
            enough: 2,
            early_close: 10,
            subsided: 0.75,
            high_load_intervals: 12,
            min_window: 6,
        }
    }
}

/// Why an estimator cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the adaptive timeout of {id}: {problem}")]
pub struct ConfigError {
    /// The dependency.
    pub id: String,
    /// The invalid value, with its bounds.
    pub problem: String,
}

impl Config {
    /// Checks the configuration.
    ///
    /// # Errors
    ///
    /// The first invalid value: an order of the bounds, the interval or one of the shares.
    pub fn check(&self) -> Result<(), ConfigError> {
        let constants = &self.constants;
        let divisors = [constants.srtt_divisor, constants.rttvar_divisor, constants.srto_divisor];
        let counts = [
            constants.k,
            constants.enough,
            constants.early_close,
            self.alarm_samples,
            self.interval_calls.unwrap_or(1),
            constants.high_load_intervals,
            constants.min_window,
        ];
        let longest = self.longest();
        let problem = if longest.is_zero() || longest > MONTH {
            format!("max is above zero and at most 30 days, not {longest:?}")
        } else if self.min > longest {
            format!("min {:?} is above max {longest:?}", self.min)
        } else if self.slo.is_some_and(|slo| !(slo > 0.0 && slo <= 0.5)) {
            format!("slo is above 0 and at most 0.5, not {}", self.slo.unwrap_or_default())
        } else if self.interval.is_zero() || self.max.is_some_and(|max| self.interval <= max) {
            format!("interval {:?} is not longer than max", self.interval)
        } else if self.k_margin == 0 {
            "k_margin is at least 1".to_owned()
        } else if divisors.contains(&0) || counts.contains(&0) {
            "divisors and counts are at least 1".to_owned()
        } else if divisors.iter().any(|&divisor| divisor > 1024) || constants.k > 1024 {
            "k and divisors are at most 1024".to_owned()
        } else if !(constants.subsided > 0.0 && constants.subsided < 1.0) {
            format!("subsided is between 0 and 1, not {}", constants.subsided)
        } else if constants.granularity > MONTH {
            "granularity is at most 30 days".to_owned()
        } else {
            return Ok(());
        };
        Err(ConfigError { id: self.id.clone(), problem })
    }

    /// How many samples an interval needs to be judged: ⌈`enough` / slo⌉, or `interval_calls` if that is less; without
    /// an SLO any.
    #[must_use]
    pub fn enough_samples(&self) -> u64 {
        let interval_calls = self.interval_calls.map_or(u64::MAX, u64::from);
        self.samples_for_slo().map_or(1, |enough| enough.min(interval_calls))
    }

    /// After how many samples an interval ends early; never without an SLO.
    pub(super) fn early_samples(&self) -> u64 {
        let early_close = self.constants.early_close.into();
        self.samples_for_slo().map_or(u64::MAX, |enough| {
            self.interval_calls.map_or_else(|| enough.saturating_mul(early_close), u64::from)
        })
    }

    /// ⌈`enough` / slo⌉.
    fn samples_for_slo(&self) -> Option<u64> {
        // Checked to be a share: at most u32::MAX / f64::MIN_POSITIVE, which saturates.
        let slo = self.slo?;
        Some((f64::from(self.constants.enough) / slo).ceil() as u64)
    }

    /// How many of the samples that begin high load are at least of calls that timed out.
    pub(super) fn alarm_failures(&self) -> u32 {
        self.alarm_samples / 8
    }

    fn longest(&self) -> Duration {
        self.max.unwrap_or(CEILING)
    }

    pub(super) fn max_ns(&self) -> u64 {
        nanoseconds(self.longest())
    }

    /// The timeout before any sample.
    pub(super) fn initial_ns(&self) -> u64 {
        self.clamp(nanoseconds(self.max.unwrap_or(INITIAL)))
    }

    pub(super) fn clamp(&self, timeout_ns: u64) -> u64 {
        timeout_ns.clamp(nanoseconds(self.min), self.max_ns())
    }

    /// Whether high load is detected at all.
    pub(super) fn detects_high_load(&self) -> bool {
        self.slo.is_some() && self.max.is_some()
    }

    /// Whether a failure rate needs a longer timeout, or the best case: at half of the target.
    pub(super) fn is_high(&self, failure_rate: f64) -> bool {
        self.slo.is_some_and(|slo| failure_rate >= slo / 2.0)
    }

    /// Whether the mean of an interval with this failure rate is one of answers more than of timeouts.
    pub(super) fn says_what_is_usual(failure_rate: f64) -> bool {
        1.0 - failure_rate >= MOSTLY_ANSWERED
    }
}

/// Whole nanoseconds, 30 days at most.
pub(super) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.min(MONTH).as_nanos()).unwrap_or(u64::MAX)
}
