//! Retries keep within W_retry, and succeed as often as their policy computes.

use std::fmt;

use super::{Check, limits::stalled_us};
use crate::{
    evidence::{Evidence, Life, PolicyFigures},
    measure::{CALM, KIND},
};

/// How long an attempt may take besides its call and its backoff: its claim, its settle and the machine, in
/// microseconds.
const SLACK_US: i64 = 200_000;

/// A correct engine breaks a bound on its shares with less than this probability, at either end.
const RARE: f64 = 1e-6;

/// The same, in standard deviations of a mean.
const DEVIATIONS: f64 = 5.0;

/// How far the engine's measure of lost calls may be from the history's.
const P_DROP_ERROR: f64 = 0.002;

/// The attempts of one request that were made.
struct Attempts {
    count: u32,
    /// From the first to the end of the last, in microseconds.
    from_us: i64,
    to_us: i64,
}

/// The retries that were measured while each call was lost by itself.
#[derive(Debug, Default)]
pub struct Retries {
    /// How many requests.
    pub requests: u64,
    /// How many did not succeed.
    pub failures: u64,
    /// How many attempts they had.
    pub attempts: u64,
    /// The longest time from the first attempt to the end of the last, in microseconds.
    pub longest_us: i64,
}

impl Retries {
    /// What was measured.
    #[must_use]
    pub fn of(evidence: &Evidence) -> Self {
        let mut retries = Self::default();
        for life in calm(evidence) {
            let Some(attempts) = attempts(life) else {
                continue;
            };
            retries.requests += 1;
            retries.failures += u64::from(&*life.status != "completed");
            retries.attempts += u64::from(attempts.count);
            retries.longest_us = retries.longest_us.max(attempts.to_us - attempts.from_us);
        }
        retries
    }

    fn p_drop(&self) -> f64 {
        let answered = self.requests - self.failures;
        (self.attempts - answered) as f64 / self.attempts as f64
    }

    fn mean_attempts(&self) -> f64 {
        self.attempts as f64 / self.requests as f64
    }
}

impl fmt::Display for Retries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} requests: {:.4} of the calls were lost, {:.4} of the requests succeeded, in {:.3} attempts on average and \
             {:.2} s at most",
            self.requests,
            self.p_drop(),
            1.0 - self.failures as f64 / self.requests as f64,
            self.mean_attempts(),
            self.longest_us as f64 / 1e6,
        )
    }
}

impl fmt::Display for PolicyFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "p_drop {:.4}, p_ok {:.4}, {:.3} attempts, W_retry {:.2} s",
            self.p_drop,
            self.p_ok,
            self.expected_attempts,
            self.w_retry_us as f64 / 1e6,
        )
    }
}

pub(super) fn check(evidence: &Evidence) -> Vec<Check> {
    let mut longest = Check::of("retries take no longer than W_retry");
    let mut shares = Check::of("retries succeed as often as p_ok says, in as many attempts as expected");
    let Some(measured) = &evidence.measured else {
        return vec![longest, shares];
    };
    let policy = &measured.policy;
    for (id, life) in evidence.lives.iter().filter(|(_, life)| &*life.kind == KIND) {
        longest.examine();
        let Some(attempts) = attempts(life) else {
            longest.violated(*id, "it has no attempt");
            continue;
        };
        let allowed_us = allowed_us(policy, life, &attempts) + stalled_us(evidence, attempts.from_us, attempts.to_us);
        let took_us = attempts.to_us - attempts.from_us;
        if took_us > allowed_us {
            longest.violated(
                *id,
                format!(
                    "{} attempts took {took_us} us, {allowed_us} are allowed",
                    attempts.count
                ),
            );
        }
    }

    let retries = Retries::of(evidence);
    shares.examined = retries.requests;
    let failing = 1.0 - policy.p_ok;
    let (at_most, at_least) = tails(retries.requests, failing, retries.failures);
    if at_most < RARE || at_least < RARE {
        shares.violated(
            None,
            format!("{} failures, p_ok is {:.4}", retries.failures, policy.p_ok),
        );
    }
    let error = DEVIATIONS * deviation(policy.attempts, policy.p_drop) / (retries.requests as f64).sqrt();
    if (retries.mean_attempts() - policy.expected_attempts).abs() > error {
        shares.violated(
            None,
            format!(
                "{:.3} attempts on average, {:.3} are expected",
                retries.mean_attempts(),
                policy.expected_attempts
            ),
        );
    }
    if (retries.p_drop() - policy.p_drop).abs() > P_DROP_ERROR {
        shares.violated(
            None,
            format!(
                "{:.4} of the calls were lost, p_drop is {:.4}",
                retries.p_drop(),
                policy.p_drop
            ),
        );
    }
    vec![longest, shares]
}

/// The measured requests that were sent while no partition lost calls together.
fn calm(evidence: &Evidence) -> impl Iterator<Item = &Life> {
    evidence.lives.values().filter(|life| {
        let mark = life.mark.as_deref().unwrap_or_default();
        &*life.kind == KIND && mark.starts_with(CALM)
    })
}

fn attempts(life: &Life) -> Option<Attempts> {
    let is_made = |place: usize| {
        let next = life.events.get(place + 1);
        &*life.events[place].cause == "claimed" && next.is_none_or(|next| &*next.cause != "released")
    };
    let made: Vec<_> = (0..life.events.len()).filter(|place| is_made(*place)).collect();
    Some(Attempts {
        count: u32::try_from(made.len()).unwrap_or(u32::MAX),
        from_us: life.events[*made.first()?].at_us,
        to_us: life.events.last()?.at_us,
    })
}

/// W_retry, if the searches for receipts were answered at once. In a partition each repeated send waits for its search,
/// too; and one whose search fails has not been made, uses no attempt, and is bounded by the deadline of the stage.
fn allowed_us(policy: &PolicyFigures, life: &Life, attempts: &Attempts) -> i64 {
    let slack_us = SLACK_US * i64::from(attempts.count);
    let is_calm = life.mark.as_deref().is_some_and(|mark| mark.starts_with(CALM));
    let searches_us = policy.timeout_us * (i64::from(attempts.count) - 1);
    match (life.unsent, is_calm) {
        (0, true) => policy.w_retry_us + slack_us,
        (0, false) => policy.w_retry_us + searches_us + slack_us,
        _ => policy.budget_us + 2 * policy.timeout_us + slack_us,
    }
}

/// The probability of at most so many failures among requests that each fail with `p`, and of at least so many.
fn tails(requests: u64, p: f64, failures: u64) -> (f64, f64) {
    let mut logarithm = requests as f64 * (1.0 - p).ln();
    let (mut at_most, mut exactly) = (0.0, 0.0);
    for k in 0..=failures {
        exactly = logarithm.exp();
        at_most += exactly;
        logarithm += ((requests as f64 - k as f64) / (k + 1) as f64).ln() + (p / (1.0 - p)).ln();
    }
    (at_most, 1.0 - at_most + exactly)
}

/// The standard deviation of how many attempts a request has.
fn deviation(attempts: u32, p_drop: f64) -> f64 {
    let share = |k: u32| {
        let reached = p_drop.powf(f64::from(k - 1));
        if k == attempts {
            reached
        } else {
            reached * (1.0 - p_drop)
        }
    };
    let moment = |power: i32| (1..=attempts).map(|k| f64::from(k).powi(power) * share(k)).sum::<f64>();
    (moment(2) - moment(1).powi(2)).max(0.0).sqrt()
}
