//! Retries keep within `W_retry`, and succeed as often as their policy computes.

use std::fmt;

use super::{Check, limits::stalled_us};
use crate::{
    evidence::{Evidence, Life, PolicyFigures},
    measure::{CALM, JITTER_MS, KIND},
};

/// How long an attempt may take besides its call and its backoff: its claim, its settle and the machine, in
/// microseconds.
const SLACK_US: i64 = 200_000;

/// How long a call takes that its downstream answers, in microseconds, on a machine that has time for it.
const ANSWER_US: i64 = *JITTER_MS.end() as i64 * 1000;

/// Of a request that the machine has delayed by more than this, in microseconds, the time is the machine's.
const BUSY_US: i64 = 500_000;

/// A correct engine breaks a bound on its shares with less than this probability, at either end.
const RARE: f64 = 1e-6;

/// The same, in standard deviations of a mean.
const DEVIATIONS: f64 = 5.0;

/// How far the engine's measure of lost calls may be from the history's.
const P_DROP_ERROR: f64 = 0.002;

/// The attempts of one request that were made: when each was claimed, and when the last ended, in microseconds.
struct Attempts {
    claims_us: Vec<i64>,
    to_us: i64,
}

impl Attempts {
    fn count(&self) -> i64 {
        self.claims_us.len() as i64
    }

    fn took_us(&self) -> i64 {
        self.to_us - self.claims_us[0]
    }
}

/// A request whose first call was answered: when, and how much later than its downstream answers, in microseconds.
struct Answered {
    from_us: i64,
    to_us: i64,
    late_us: i64,
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
            retries.attempts += attempts.count() as u64;
            retries.longest_us = retries.longest_us.max(attempts.took_us());
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
    let answered: Vec<_> = evidence.lives.values().filter_map(|life| answered(policy, life)).collect();
    for (id, life) in evidence.lives.iter().filter(|(_, life)| &*life.kind == KIND) {
        let Some(attempts) = attempts(life) else {
            longest.violated(*id, "it has no attempt");
            continue;
        };
        let delayed_us = delayed_us(evidence, &answered, &attempts);
        if delayed_us > BUSY_US {
            continue;
        }
        longest.examine();
        let allowed_us = allowed_us(policy, life, &attempts) + delayed_us;
        let took_us = attempts.took_us();
        if took_us > allowed_us {
            longest.violated(*id, format!("{} attempts took {took_us} us, {allowed_us} are allowed", attempts.count()));
        }
    }

    let retries = Retries::of(evidence);
    shares.examined = retries.requests;
    let failing = 1.0 - policy.p_ok;
    let (at_most, at_least) = tails(retries.requests, failing, retries.failures);
    if at_most < RARE || at_least < RARE {
        shares.violated(None, format!("{} failures, p_ok is {:.4}", retries.failures, policy.p_ok));
    }
    let error = DEVIATIONS * deviation(policy.attempts, policy.p_drop) / (retries.requests as f64).sqrt();
    if (retries.mean_attempts() - policy.expected_attempts).abs() > error {
        shares.violated(
            None,
            format!("{:.3} attempts on average, {:.3} are expected", retries.mean_attempts(), policy.expected_attempts),
        );
    }
    if (retries.p_drop() - policy.p_drop).abs() > P_DROP_ERROR {
        shares
            .violated(None, format!("{:.4} of the calls were lost, p_drop is {:.4}", retries.p_drop(), policy.p_drop));
    }
    vec![longest, shares]
}

/// The measured requests that were sent while no partition lost calls together.
fn calm(evidence: &Evidence) -> impl Iterator<Item = &Life> {
    evidence.lives.values().filter(|life| &*life.kind == KIND && is_calm(life))
}

fn is_calm(life: &Life) -> bool {
    life.mark.as_deref().is_some_and(|mark| mark.starts_with(CALM))
}

fn answered(policy: &PolicyFigures, life: &Life) -> Option<Answered> {
    match &life.events[..] {
        [_, claim, receipt] if &*life.kind == KIND && &*receipt.cause == "receipt" => {
            // In a partition an answer comes as late as the timeout allows.
            let due_us = if is_calm(life) { ANSWER_US } else { policy.timeout_us };
            Some(Answered {
                from_us: claim.at_us,
                to_us: receipt.at_us,
                late_us: (receipt.at_us - claim.at_us - due_us).max(0),
            })
        }
        _ => None,
    }
}

/// How much the machine has delayed these attempts, by its stalls, or by what calls that were answered took meanwhile.
fn delayed_us(evidence: &Evidence, answered: &[Answered], attempts: &Attempts) -> i64 {
    let latest_us = |from_us: i64, to_us: i64| {
        let meanwhile = answered.iter().filter(|call| call.from_us <= to_us && from_us <= call.to_us);
        meanwhile.map(|call| call.late_us).max().unwrap_or(0)
    };
    let ends = attempts.claims_us.iter().skip(1).chain([&attempts.to_us]);
    let late_us: i64 = attempts.claims_us.iter().zip(ends).map(|(from, to)| latest_us(*from, *to)).sum();
    late_us.max(stalled_us(evidence, attempts.claims_us[0], attempts.to_us))
}

fn attempts(life: &Life) -> Option<Attempts> {
    let is_made = |place: usize| {
        let next = life.events.get(place + 1);
        &*life.events[place].cause == "claimed" && next.is_none_or(|next| &*next.cause != "released")
    };
    let made = (0..life.events.len()).filter(|place| is_made(*place));
    let claims_us: Vec<_> = made.map(|place| life.events[place].at_us).collect();
    Some(Attempts { to_us: life.events.last().filter(|_| !claims_us.is_empty())?.at_us, claims_us })
}

/// `W_retry`, if the searches for receipts were answered at once. In a partition each repeated send waits for its
/// search, too; and one whose search fails has not been made, uses no attempt, and is bounded by the deadline of the
/// stage.
fn allowed_us(policy: &PolicyFigures, life: &Life, attempts: &Attempts) -> i64 {
    let slack_us = SLACK_US * attempts.count();
    let searches_us = policy.timeout_us * (attempts.count() - 1);
    match (life.unsent, is_calm(life)) {
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
        if k == attempts { reached } else { reached * (1.0 - p_drop) }
    };
    let moment = |power: i32| (1..=attempts).map(|k| f64::from(k).powi(power) * share(k)).sum::<f64>();
    (moment(2) - moment(1).powi(2)).max(0.0).sqrt()
}
