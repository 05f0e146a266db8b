//! The estimators of timeouts: Tidegate's, and those that it is compared with.

use std::{collections::VecDeque, time::Duration};

use tidegate_policy::adaptive_timeout::{AdaptiveTimeout, BestCase, Config, State};

use super::{INTERVAL, MIN, SLO};

/// Says how long a call may take, from how long the ones before it took.
pub trait Estimator {
    /// The timeout of a call that begins now.
    fn begin(&mut self, now: Duration) -> Duration;
    fn answered(&mut self, took: Duration, now: Duration);
    fn timed_out(&mut self, timeout: Duration, now: Duration);

    /// Whether it takes the load for more than the server can bear.
    fn sees_high_load(&self) -> bool {
        false
    }

    /// Intervals that are over.
    fn intervals(&self) -> u64 {
        0
    }
}

/// What the minimum of A and B suggests: three times 5 ms.
const SHORT: Duration = Duration::from_millis(15);

/// The fixed timeouts that ours is measured against.
pub fn fixed(max: Duration) -> [Duration; 3] {
    [SHORT, max / 2, max]
}

/// All that take part, ours first.
pub fn contestants(max: Duration) -> Vec<(String, Box<dyn Estimator>)> {
    let mut all: Vec<(String, Box<dyn Estimator>)> = vec![("ours".to_owned(), Box::new(Ours::new(max)))];
    all.push(("as the source".to_owned(), Box::new(Ours::as_the_source(max))));
    for timeout in fixed(max) {
        let name = format!("fixed {} ms", timeout.as_millis());
        all.push((name, Box::new(Fixed(timeout))));
    }
    all.push(("RFC 6298".to_owned(), Box::new(Rfc6298::new(MIN, max))));
    all.push(("p99 × 1.5".to_owned(), Box::new(DynamicP99::new(max))));
    all
}

/// Tidegate's.
pub struct Ours {
    timeout: AdaptiveTimeout,
}

impl Ours {
    pub fn new(max: Duration) -> Self {
        Self::with(Config { max: Some(max), min: MIN, slo: Some(SLO), interval: INTERVAL, ..Config::default() })
    }

    /// With what the source has where ours differs, as far as a policy can set it.
    pub fn as_the_source(max: Duration) -> Self {
        Self::with(Config {
            alarm_samples: 1,
            best_case: BestCase::Minimum,
            interval_calls: Some(50),
            ..Self::new(max).timeout.config().clone()
        })
    }

    fn with(config: Config) -> Self {
        Self { timeout: AdaptiveTimeout::new(config, Duration::ZERO).unwrap() }
    }
}

impl Estimator for Ours {
    fn begin(&mut self, now: Duration) -> Duration {
        self.timeout.begin(now)
    }

    fn answered(&mut self, took: Duration, now: Duration) {
        self.timeout.answered(took, now);
    }

    fn timed_out(&mut self, given: Duration, now: Duration) {
        self.timeout.timed_out(given, now);
    }

    fn sees_high_load(&self) -> bool {
        self.timeout.state() == State::HighLoad
    }

    fn intervals(&self) -> u64 {
        self.timeout.estimate().interval_no
    }
}

/// The same timeout for ever.
pub struct Fixed(pub Duration);

impl Estimator for Fixed {
    fn begin(&mut self, _: Duration) -> Duration {
        self.0
    }

    fn answered(&mut self, _: Duration, _: Duration) {}

    fn timed_out(&mut self, _: Duration, _: Duration) {}
}

/// RFC 6298 as it is, but for its floor of a second: a sample with every answer, twice the time after a timeout.
pub struct Rfc6298 {
    min: Duration,
    max: Duration,
    /// The smoothed time of an answer and its variation, in seconds.
    smoothed: Option<(f64, f64)>,
    timeout: Duration,
}

impl Rfc6298 {
    pub fn new(min: Duration, max: Duration) -> Self {
        Self { min, max, smoothed: None, timeout: max }
    }
}

impl Estimator for Rfc6298 {
    fn begin(&mut self, _: Duration) -> Duration {
        self.timeout
    }

    fn answered(&mut self, took: Duration, _: Duration) {
        let took = took.as_secs_f64();
        let (srtt, rttvar) = match self.smoothed {
            None => (took, took / 2.0),
            Some((srtt, rttvar)) => (0.875 * srtt + 0.125 * took, 0.75 * rttvar + 0.25 * (srtt - took).abs()),
        };
        self.smoothed = Some((srtt, rttvar));
        self.timeout = Duration::from_secs_f64(srtt + (4.0 * rttvar).max(0.001)).clamp(self.min, self.max);
    }

    fn timed_out(&mut self, _: Duration, _: Duration) {
        self.timeout = (self.timeout * 2).min(self.max);
    }
}

/// The 99th percentile of the latest latencies times a factor, as a policy's `percentile` mode has it: a call that was
/// cut off counts with the time it had.
pub struct DynamicP99 {
    max: Duration,
    latest: VecDeque<Duration>,
    since: usize,
    timeout: Duration,
}

impl DynamicP99 {
    const WINDOW: usize = 1000;
    const ENOUGH: usize = 100;
    const FACTOR: f64 = 1.5;

    pub fn new(max: Duration) -> Self {
        Self { max, latest: VecDeque::new(), since: 0, timeout: max }
    }

    fn sample(&mut self, took: Duration) {
        if self.latest.len() == Self::WINDOW {
            self.latest.pop_front();
        }
        self.latest.push_back(took);
        self.since += 1;
        if self.since == Self::ENOUGH {
            self.since = 0;
            let mut sorted: Vec<_> = self.latest.iter().copied().collect();
            sorted.sort_unstable();
            let p99 = sorted[(sorted.len() - 1) * 99 / 100];
            self.timeout = p99.mul_f64(Self::FACTOR).min(self.max);
        }
    }
}

impl Estimator for DynamicP99 {
    fn begin(&mut self, _: Duration) -> Duration {
        self.timeout
    }

    fn answered(&mut self, took: Duration, _: Duration) {
        self.sample(took);
    }

    fn timed_out(&mut self, timeout: Duration, _: Duration) {
        self.sample(timeout);
    }
}
