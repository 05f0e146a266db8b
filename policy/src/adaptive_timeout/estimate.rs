//! The estimate that a fleet shares, the reports that change it, and the rules at the end of an interval.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{
    config::{BestCase, Config},
    smoothed::Smoothed,
};

/// Whether the dependency keeps up with its load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The timeout follows the samples, the margin follows the failure rate.
    #[default]
    Normal,
    /// The timeout would have reached `max`: it is that of the best case, and the margin is locked.
    HighLoad,
}

/// The estimate of a dependency: the row `tidegate.timeout_estimator`, times in nanoseconds.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Estimate {
    /// Normal, or high load.
    pub state: State,
    /// Smoothed round-trip time; none before any sample.
    pub srtt_ns: Option<u64>,
    /// Smoothed deviation of the round-trip time.
    pub rttvar_ns: Option<u64>,
    /// Smoothed timeout, as computed, whatever the bounds.
    pub srto_ns: Option<u64>,
    /// How many times K deviations are added to srtt.
    pub k_margin: u32,
    /// The timeout that a process begins with.
    pub timeout_ns: u64,
    /// Share of the calls that timed out, in the last interval if that had enough samples.
    pub failure_rate: Option<f64>,
    /// Calls begun per second in the last interval.
    pub load_rps: Option<f64>,
    /// The shortest answer of this window.
    pub min_ns: Option<u64>,
    /// The shortest answer of the window before.
    pub min_before_ns: Option<u64>,
    /// The shortest mean of an interval of this window whose calls were mostly answered.
    pub usual_ns: Option<u64>,
    /// The shortest mean of an interval of the window before whose calls were mostly answered.
    pub usual_before_ns: Option<u64>,
    /// How many intervals this window has had.
    pub min_age: u32,
    /// How many intervals high load has lasted.
    pub high_load_intervals: u32,
    /// The greatest load of an interval since high load began.
    pub high_load_rps: Option<f64>,
    /// How many intervals were closed.
    pub interval_no: u64,
    /// When the open interval began, in microseconds of the clock that gives `now_us`.
    pub began_us: u64,
    /// Calls begun in the open interval.
    pub requests: u64,
    /// Calls that were answered or timed out since the failure rate was last judged, whenever they began.
    pub responses: u64,
    /// Those of them that timed out.
    pub failures: u64,
    /// Those of them that were answered, and that the next narrower margin would have cut off.
    pub late: u64,
    /// Sum of how long they took.
    pub sum_ns: u64,
}

/// The samples of one process since its last report.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Report {
    /// Numbers the reports of a process, so that none counts twice.
    pub sequence: u64,
    /// Calls begun.
    pub requests: u64,
    /// Calls that were answered or timed out.
    pub responses: u64,
    /// Calls that timed out.
    pub failures: u64,
    /// The shortest answer.
    pub min_ns: Option<u64>,
    /// How long they took on average.
    pub mean_ns: Option<u64>,
    /// How far they were from the smoothed round-trip time on average.
    pub deviation_ns: Option<u64>,
    /// Answers that the next narrower margin would have cut off.
    #[serde(skip)]
    pub late: u64,
    /// Its smoothed round-trip time, deviation and timeout.
    #[serde(skip)]
    pub smoothed_ns: Option<[u64; 3]>,
    /// Calls begun per second.
    pub load_rps: f64,
    /// Calls under way: they count when they end.
    pub in_flight: u64,
    /// Under which state the samples were taken.
    #[serde(skip)]
    pub state: State,
    /// Whether computed timeouts have reached `max`.
    #[serde(skip)]
    pub reached_max: bool,
}

impl Estimate {
    /// The estimate before any sample.
    #[must_use]
    pub fn unknown(config: &Config, now_us: u64) -> Self {
        Self { k_margin: config.k_margin, timeout_ns: config.initial_ns(), began_us: now_us, ..Self::default() }
    }

    /// Adds a report, and closes the interval if it is over: by time, or by so many samples that more would change
    /// nothing.
    ///
    /// `others_rps` is the load of the other processes; the load of the fleet is the sum of the latest reports.
    pub fn fold(&mut self, config: &Config, report: &Report, others_rps: f64, now_us: u64) {
        self.k_margin = self.k_margin.max(1);
        // A clock that was set back begins the interval anew.
        self.began_us = self.began_us.min(now_us);
        let interval_us = u64::try_from(config.interval.as_micros()).unwrap_or(u64::MAX);
        let open_us = now_us - self.began_us;
        let passed = open_us / interval_us.max(1);
        // No earlier than the longest call takes: the decision of the last interval must take effect first.
        let is_early = self.responses.saturating_add(report.responses) >= config.early_samples()
            && config.max.is_none_or(|max| u128::from(open_us) >= max.as_micros());
        let is_over = passed > 0 || is_early;
        let passed = u32::try_from(passed).unwrap_or(u32::MAX).max(1);

        if is_over {
            self.rotate_windows(config, passed);
        }
        self.min_ns = least(self.min_ns, report.min_ns);
        if report.reached_max && self.state == State::Normal && config.detects_high_load() {
            // The load that it began with is known at the end of its first interval. Samples of the overload are
            // forgotten: high load ends with the samples taken while it lasted.
            self.change_state(State::HighLoad);
            self.forget_times();
        }
        self.merge(report);
        if is_over {
            self.close(config, others_rps + report.load_rps, passed);
            self.began_us = now_us;
        }
        self.timeout_ns = match (self.state, self.smoothed(config)) {
            (State::HighLoad, _) => self.best_case_ns(config, None, self.smoothed(config)),
            (State::Normal, Some(smoothed)) => config.clamp(smoothed.rto_ns(config, self.k_margin)),
            (State::Normal, None) => config.initial_ns(),
        };
    }

    fn change_state(&mut self, state: State) {
        self.state = state;
        self.forget_counts();
        (self.high_load_intervals, self.high_load_rps) = (0, None);
    }

    /// The counts were judged, or are of another state.
    fn forget_counts(&mut self) {
        (self.responses, self.failures) = (0, 0);
        (self.late, self.sum_ns) = (0, 0);
    }

    fn forget_times(&mut self) {
        (self.srtt_ns, self.rttvar_ns, self.srto_ns) = (None, None, None);
    }

    /// Counts add up; smoothed times are weighed by the calls of the open interval.
    fn merge(&mut self, report: &Report) {
        if report.state == self.state
            && report.responses > 0
            && let Some(theirs) = report.smoothed_ns
        {
            let calls = (self.requests, report.requests.max(1));
            let ours = [&mut self.srtt_ns, &mut self.rttvar_ns, &mut self.srto_ns];
            for (ours, theirs) in ours.into_iter().zip(theirs) {
                *ours = Some(ours.map_or(theirs, |ours| weighted((ours, theirs), calls)));
            }
        }
        self.requests = self.requests.saturating_add(report.requests);
        self.responses = self.responses.saturating_add(report.responses);
        self.failures = self.failures.saturating_add(report.failures);
        self.late = self.late.saturating_add(report.late);
        let mean_ns = report.mean_ns.unwrap_or_default();
        self.sum_ns = self.sum_ns.saturating_add(mean_ns.saturating_mul(report.responses));
    }

    /// The rules of an interval's end, which has lasted `passed` times as long as it should. One with too few samples
    /// judges nothing, and leaves them to the next: where calls are rare the target would never be judged otherwise.
    fn close(&mut self, config: &Config, load_rps: f64, passed: u32) {
        let is_judged = self.responses >= config.enough_samples();
        self.failure_rate = is_judged.then(|| self.failures as f64 / self.responses as f64);
        if is_judged && self.failures == self.responses {
            // The old minimum would cut off answers that are slower now.
            (self.min_ns, self.min_before_ns) = (None, None);
            (self.usual_ns, self.usual_before_ns) = (None, None);
        }
        let was_calm = self.state == State::Normal || self.high_load_rps.is_some();
        if was_calm && self.failure_rate.is_some_and(Config::says_what_is_usual) {
            self.usual_ns = least(self.usual_ns, Some(self.sum_ns / self.responses.max(1)));
        }
        match self.state {
            State::Normal => self.adjust_margin(config),
            State::HighLoad => match self.high_load_rps {
                None => self.high_load_rps = Some(load_rps),
                Some(remembered) => {
                    self.high_load_rps = Some(remembered.max(load_rps));
                    self.high_load_intervals = self.high_load_intervals.saturating_add(passed);
                    if self.high_load_intervals >= config.constants.high_load_intervals {
                        // Its calls had no more time than the best case. Whether more would do is seen with the longest
                        // timeout, and no call that times out brings the best case back before that is judged.
                        self.forget_times();
                        self.failure_rate = None;
                        self.leave_high_load(config);
                    } else if load_rps <= remembered * config.constants.subsided {
                        self.leave_high_load(config);
                    }
                }
            },
        }
        self.load_rps = Some(load_rps);
        self.interval_no = self.interval_no.saturating_add(1);
        self.requests = 0;
        if is_judged {
            self.forget_counts();
        }
    }

    /// One more while too many calls time out; else towards the margin at which the timeout is halfway to srtt, unless
    /// that would have cut off too many.
    fn adjust_margin(&mut self, config: &Config) {
        let (Some(failure_rate), Some(_)) = (self.failure_rate, config.slo) else {
            return;
        };
        let would_fail = self.failures.saturating_add(self.late) as f64 / self.responses as f64;
        if config.is_high(failure_rate) {
            self.k_margin = self.k_margin.saturating_add(1);
        } else if let (Some(srtt_ns), Some(srto_ns)) = (self.srtt_ns, self.srto_ns)
            && !config.is_high(would_fail)
        {
            self.k_margin = narrower(self.k_margin, srtt_ns, srto_ns);
        }
    }

    /// Back to normal, with as much of the margin as leaves room below `max`: it would be high load again at once.
    fn leave_high_load(&mut self, config: &Config) {
        self.change_state(State::Normal);
        self.k_margin = match self.smoothed(config) {
            Some(smoothed) => self.k_margin.min(smoothed.fitting_margin(config)),
            None => self.k_margin.min(config.k_margin),
        };
    }

    fn rotate_windows(&mut self, config: &Config, passed: u32) {
        let window = config.constants.min_window;
        self.min_age = self.min_age.saturating_add(passed);
        if self.min_age >= window {
            let is_last = self.min_age < window.saturating_mul(2);
            self.min_before_ns = self.min_ns.take().filter(|_| is_last);
            self.usual_before_ns = self.usual_ns.take().filter(|_| is_last);
            self.min_age = 0;
        }
    }

    pub(super) fn smoothed(&self, config: &Config) -> Option<Smoothed> {
        let (srtt_ns, rttvar_ns) = (self.srtt_ns?, self.rttvar_ns?);
        let srto_ns = self.srto_ns.unwrap_or(srtt_ns);
        Some(Smoothed::restored(config, srtt_ns, rttvar_ns, srto_ns))
    }

    /// The shortest answer of both windows, or `seen_ns` if that is shorter; none without an answer.
    pub(super) fn min_rtt_ns(&self, seen_ns: Option<u64>) -> Option<u64> {
        least(least(self.min_ns, self.min_before_ns), seen_ns)
    }

    /// The timeout of a first sample that is as short as calls were on average in the best of the last intervals whose
    /// calls were mostly answered; where there is none, as short as the shortest answer, with a margin for how much
    /// samples differ of late: the shortest of many answers may be too short for most calls. `max` without an answer.
    /// With [`BestCase::Minimum`] as short as the shortest answer.
    pub(super) fn best_case_ns(&self, config: &Config, seen_ns: Option<u64>, recent: Option<Smoothed>) -> u64 {
        let first = |sample_ns: u64| Smoothed::first(config, sample_ns.min(config.max_ns())).rto_ns(config, 1);
        let min_ns = self.min_rtt_ns(seen_ns);
        let best_ns = match (config.best_case, least(self.usual_ns, self.usual_before_ns), min_ns) {
            (BestCase::Usual, Some(usual_ns), _) => first(usual_ns),
            (BestCase::Usual, None, Some(min_ns)) => {
                let margin_ns = recent.map_or(0, |recent| recent.margin_ns(config));
                first(min_ns).max(min_ns.saturating_add(margin_ns))
            }
            (BestCase::Minimum, _, Some(min_ns)) => first(min_ns),
            (_, _, None) => config.max_ns(),
        };
        config.clamp(best_ns)
    }

    /// In how long the open interval is over, by the clock that `now_us` comes from.
    #[must_use]
    pub fn closes_in(&self, config: &Config, now_us: u64) -> Duration {
        let open = Duration::from_micros(now_us.saturating_sub(self.began_us));
        config.interval.saturating_sub(open)
    }
}

pub(super) fn least(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    [one, other].into_iter().flatten().min()
}

/// The mean of two values, each as often as it counts.
fn weighted((one, other): (u64, u64), (ones, others): (u64, u64)) -> u64 {
    let (ones, others) = (u128::from(ones), u128::from(others));
    let sum = u128::from(one) * ones + u128::from(other) * others;
    u64::try_from(sum / (ones + others).max(1)).unwrap_or(u64::MAX)
}

/// ⌊k · (srto + srtt) / (2 · srto)⌋, 1 at least.
pub(super) fn narrower(k_margin: u32, srtt_ns: u64, srto_ns: u64) -> u32 {
    let (srtt, srto) = (u128::from(srtt_ns), u128::from(srto_ns.max(1)));
    let narrower = u128::from(k_margin) * (srto + srtt) / (2 * srto);
    u32::try_from(narrower).unwrap_or(u32::MAX).max(1)
}
