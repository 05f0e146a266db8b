//! The estimator of one process: each sample changes its timeout, and its reports carry the samples to the fleet.

use std::{mem::take, time::Duration};

use super::{
    Report, State,
    config::{Config, ConfigError, nanoseconds},
    estimate::{Estimate, least, narrower},
    smoothed::Smoothed,
};

/// The timeout of the next call to a dependency, from those before.
///
/// One for each process: it begins with the [`Estimate`] that the fleet shares, and its samples go back there in
/// [`Report`]s, once an interval. It has no clock: `now` is the time since a moment of the caller's choice.
#[derive(Debug, Clone)]
pub struct Estimator {
    config: Config,
    shared: Estimate,
    state: State,
    smoothed: Option<Smoothed>,
    /// The timeout of a normal state.
    timeout_ns: u64,
    /// How many computed timeouts in a row have reached `max`.
    alarms: u32,
    /// How many of the samples that made them were of calls that timed out.
    alarm_failures: u32,
    in_flight: u64,
    sequence: u64,
    began: Duration,
    /// The samples since the last report.
    seen: Report,
    /// The sum of these samples.
    sum_ns: u64,
    /// The sum of their distances from the smoothed round-trip time.
    deviations_ns: u64,
    /// Reported, and not yet known to have been folded.
    reported: Option<Report>,
}

impl Estimator {
    /// Begins with the estimate of the fleet. `sequence` is that of the process's last report, 0 if there is none.
    ///
    /// # Errors
    ///
    /// An invalid configuration.
    pub fn new(config: Config, shared: Estimate, sequence: u64, now: Duration) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Self {
            state: shared.state,
            smoothed: shared.smoothed(&config),
            timeout_ns: config.clamp(shared.timeout_ns),
            config,
            shared,
            alarms: 0,
            alarm_failures: 0,
            in_flight: 0,
            sequence,
            began: now,
            seen: Report::default(),
            sum_ns: 0,
            deviations_ns: 0,
            reported: None,
        })
    }

    /// A call begins: its timeout.
    pub fn begin(&mut self) -> Duration {
        self.seen.requests += 1;
        self.in_flight += 1;
        self.timeout()
    }

    /// A call was answered, whatever the answer.
    pub fn answered(&mut self, took: Duration) {
        let took_ns = nanoseconds(took);
        self.dropped();
        self.seen.responses += 1;
        self.seen.min_ns = least(self.seen.min_ns, Some(took_ns));
        self.seen.late += u64::from(self.is_late(took_ns));
        self.timeout_ns = self.sample(took_ns, false);
    }

    /// A call was cut off after its timeout: a failure, and a sample equal to that.
    ///
    /// Without an SLO the timeout becomes twice that long (RFC 6298, 5.5), once for all calls that had it. With one, it
    /// becomes that of the best case while too many calls fail, never a longer one.
    pub fn timed_out(&mut self, timeout: Duration) {
        let was_ns = self.timeout_ns;
        let timeout_ns = nanoseconds(timeout);
        self.dropped();
        self.seen.responses += 1;
        self.seen.failures += 1;
        let computed_ns = self.sample(timeout_ns, true);
        let failure_rate = self.shared.failure_rate;
        self.timeout_ns = if self.config.slo.is_none() {
            self.config.clamp(was_ns.max(timeout_ns.saturating_mul(2)))
        } else if failure_rate.is_some_and(|rate| self.config.is_high(rate))
            && self.shared.min_rtt_ns(self.seen_min_ns()).is_some()
        {
            was_ns.min(self.best_case_ns())
        } else {
            computed_ns
        };
    }

    /// A call ended without a sample: refused, cancelled, cut off for another reason.
    pub fn dropped(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// Whether an answer would have been cut off, had the margin been narrowed already.
    fn is_late(&self, took_ns: u64) -> bool {
        self.smoothed.is_some_and(|smoothed| {
            let [srtt_ns, _, srto_ns] = smoothed.times_ns();
            let k_margin = narrower(self.k_margin(), srtt_ns, srto_ns);
            took_ns > self.config.clamp(smoothed.rto_ns(&self.config, k_margin))
        })
    }

    /// Takes a sample and returns the computed timeout; one of `max` may begin high load.
    fn sample(&mut self, sample_ns: u64, timed_out: bool) -> u64 {
        let k_margin = self.k_margin();
        let rto_ns = match &mut self.smoothed {
            Some(smoothed) => {
                let deviation_ns = smoothed.srtt_ns().abs_diff(sample_ns);
                self.deviations_ns = self.deviations_ns.saturating_add(deviation_ns);
                smoothed.sample(&self.config, k_margin, sample_ns);
                smoothed.rto_ns(&self.config, k_margin)
            }
            none => none.insert(Smoothed::first(&self.config, sample_ns)).rto_ns(&self.config, 1),
        };
        self.sum_ns = self.sum_ns.saturating_add(sample_ns);
        if rto_ns >= self.config.max_ns() {
            self.alarms = self.alarms.saturating_add(1);
            self.alarm_failures = self.alarm_failures.saturating_add(timed_out.into());
        } else {
            (self.alarms, self.alarm_failures) = (0, 0);
        }
        if self.state == State::Normal
            && self.config.detects_high_load()
            && self.alarms >= self.config.alarm_samples
            && self.alarm_failures >= self.config.alarm_failures()
        {
            self.state = State::HighLoad;
            (self.alarms, self.alarm_failures) = (0, 0);
            self.seen.reached_max = true;
            self.smoothed = None;
        }
        self.config.clamp(rto_ns)
    }

    /// The timeout of a call that would begin now; within `min` and `max`.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        Duration::from_nanos(match self.state {
            State::Normal => self.timeout_ns,
            State::HighLoad => self.best_case_ns(),
        })
    }

    fn best_case_ns(&self) -> u64 {
        let recent = self.smoothed.filter(Smoothed::is_settled);
        self.shared.best_case_ns(&self.config, self.seen_min_ns(), recent)
    }

    fn seen_min_ns(&self) -> Option<u64> {
        let reported = self.reported.as_ref().and_then(|report| report.min_ns);
        least(self.seen.min_ns, reported)
    }

    /// Whether it is time to report: an interval after the last time, or early.
    #[must_use]
    pub fn is_due(&self, now: Duration) -> bool {
        now.saturating_sub(self.began) >= self.config.interval || self.has_enough(now)
    }

    /// Whether to report before the end of the interval: it has enough samples to close it, or high load has begun.
    #[must_use]
    pub fn is_early(&self, now: Duration) -> bool {
        self.reported.is_none() && (self.seen.reached_max || self.has_enough(now))
    }

    fn has_enough(&self, now: Duration) -> bool {
        self.seen.responses >= self.config.early_samples()
            && now.saturating_sub(self.began) >= self.config.max.unwrap_or_default()
    }

    /// Whether there is nothing to report and no call under way.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.in_flight == 0 && self.reported.is_none() && self.seen.requests == 0 && self.seen.responses == 0
    }

    /// The samples since the last report. It stays the same until [`Self::folded`] confirms it, so that a report
    /// without an answer is repeated, and counts once.
    pub fn report(&mut self, now: Duration) -> Report {
        if let Some(report) = &self.reported {
            return report.clone();
        }
        let seconds = now.saturating_sub(self.began).as_secs_f64();
        let seen = take(&mut self.seen);
        self.began = now;
        self.sequence += 1;
        let report = Report {
            sequence: self.sequence,
            mean_ns: take(&mut self.sum_ns).checked_div(seen.responses),
            deviation_ns: take(&mut self.deviations_ns).checked_div(seen.responses),
            smoothed_ns: self.smoothed.map(|smoothed| smoothed.times_ns()),
            load_rps: seen.requests as f64 / seconds.max(0.001),
            in_flight: self.in_flight,
            state: self.state,
            ..seen
        };
        self.reported = Some(report.clone());
        report
    }

    /// Takes over the estimate of the fleet that its report was folded into.
    pub fn folded(&mut self, shared: Estimate) {
        self.reported = None;
        let was = self.state;
        self.shared = shared;
        // High load that has begun since its report stays until that has been reported.
        if !self.seen.reached_max {
            self.state = self.shared.state;
        }
        let has_changed = was != self.state;
        if has_changed {
            // Samples of one state do not count in the other: it begins with the estimate of the fleet.
            self.smoothed = None;
            (self.alarms, self.alarm_failures) = (0, 0);
        }
        if self.smoothed.is_none_or(|smoothed| !smoothed.is_settled())
            && let Some(known) = self.shared.smoothed(&self.config)
        {
            self.smoothed = Some(known);
            self.timeout_ns = self.config.clamp(self.shared.timeout_ns);
        } else if has_changed {
            self.timeout_ns = self.config.initial_ns();
        }
    }

    /// Changes the configuration.
    ///
    /// # Errors
    ///
    /// An invalid configuration; the one before stays.
    pub fn configure(&mut self, config: Config) -> Result<(), ConfigError> {
        config.check()?;
        self.timeout_ns = config.clamp(self.timeout_ns);
        self.config = config;
        Ok(())
    }

    /// Its configuration.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// The estimate of the fleet that it last adopted: margin, failure rate, load, minimum.
    #[must_use]
    pub const fn estimate(&self) -> &Estimate {
        &self.shared
    }

    /// Normal, or high load.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// Smoothed round-trip time of its own samples; none before any.
    #[must_use]
    pub fn srtt(&self) -> Option<Duration> {
        self.smoothed.map(|smoothed| Duration::from_nanos(smoothed.srtt_ns()))
    }

    /// Smoothed deviation of its own samples; none before any.
    #[must_use]
    pub fn rttvar(&self) -> Option<Duration> {
        self.smoothed.map(|smoothed| Duration::from_nanos(smoothed.times_ns()[1]))
    }

    /// How many times K deviations are added to srtt; at least 1.
    #[must_use]
    pub fn k_margin(&self) -> u32 {
        self.shared.k_margin.max(1)
    }

    /// Calls that have begun and not ended.
    #[must_use]
    pub const fn in_flight(&self) -> u64 {
        self.in_flight
    }
}
