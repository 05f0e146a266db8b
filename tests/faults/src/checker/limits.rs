//! The downstream's limits held, in the database's claims and in the downstream's log.

use std::collections::{HashMap, VecDeque};

use super::Check;
use crate::evidence::{Evidence, Seen};

const SECOND_US: i64 = 1_000_000;

/// Claims are counted over this long: a pause of the database in the midst of one shifts few of them across its edges.
const LONG_US: i64 = 10 * SECOND_US;

/// A send may start this late, in microseconds.
const LATENESS_US: i64 = 50_000;

/// How much a send may be delayed on its way from its start to the downstream, besides what the machine's stalls
/// explain.
const WAY_US: i64 = 100_000;

/// For how long after its end a disturbance explains late sends.
const AFTERMATH_US: i64 = 2 * SECOND_US;

/// The causes that delay calls between their start and the downstream.
const HOLDS_CALLS_BACK: [&str; 4] = ["downstream_frozen", "downstream_stalled", "downstream_cut", "worker_frozen"];

pub(super) fn check(evidence: &Evidence) -> Vec<Check> {
    vec![claims(evidence), sends(evidence), checks_at_once(evidence)]
}

/// No ten seconds hold more claims than the rate allows, with what one claim may reserve ahead.
fn claims(evidence: &Evidence) -> Check {
    let mut check = Check::of("claims keep the rate D, also after kills");
    for limit in &evidence.limits {
        let mut claims: Vec<_> = evidence
            .lives
            .values()
            .filter(|life| limit.kinds.iter().any(|kind| **kind == *life.kind))
            .flat_map(|life| &life.events)
            .filter(|event| &*event.cause == "claimed")
            .map(|event| event.at_us)
            .collect();
        claims.sort_unstable();
        // A claim reserves up to 100 ms ahead, and may have begun up to as long before.
        let allowed = f64::from(limit.per_second) * 10.3 + f64::from(limit.burst);
        let mut window = VecDeque::new();
        let mut reported = i64::MIN;
        for at in claims {
            check.examine();
            window.push_back(at);
            while window.front().is_some_and(|first| *first + LONG_US <= at) {
                window.pop_front();
            }
            if window.len() as f64 > allowed && at > reported + LONG_US {
                reported = at;
                check.violated(
                    None,
                    format!("{}: {} claims in ten seconds, {allowed:.0} are allowed", limit.queue, window.len()),
                );
            }
        }
    }
    check
}

/// No sliding second of the downstream holds more sends than the rate, its lateness and the machine's explain.
fn sends(evidence: &Evidence) -> Check {
    let mut check = Check::of("the downstream sees no more than its rate in any second");
    for limit in &evidence.limits {
        let mut window = VecDeque::<&Seen>::new();
        let mut reported = i64::MIN;
        let sends = evidence
            .downstream
            .iter()
            .filter(|seen| &*seen.event == "send" && limit.kinds.iter().any(|kind| **kind == *seen.kind));
        for send in sends {
            check.examine();
            window.push_back(send);
            while window.front().is_some_and(|first| first.us + SECOND_US as u64 <= send.us) {
                window.pop_front();
            }
            let from = send.at_us - SECOND_US;
            let allowed = |late_us: i64| {
                f64::from(limit.per_second) * (SECOND_US + late_us) as f64 / SECOND_US as f64 + f64::from(limit.burst)
            };
            let counted = window.len() as f64;
            if counted <= allowed(LATENESS_US + WAY_US) || send.at_us < reported + SECOND_US {
                continue;
            }
            if counted > allowed(LATENESS_US + WAY_US + stalled_us(evidence, from, send.at_us))
                && !is_held_back(evidence, from, send.at_us)
            {
                reported = send.at_us;
                check.violated(
                    send.id,
                    format!(
                        "{}: {} sends in a second, {:.0} are allowed",
                        limit.queue,
                        window.len(),
                        allowed(LATENESS_US + WAY_US)
                    ),
                );
            }
        }
    }
    check
}

/// How long the machine stalled around this time: delayed sends arrive together.
pub(super) fn stalled_us(evidence: &Evidence, from_us: i64, to_us: i64) -> i64 {
    let after = evidence.stalls.partition_point(|stall| stall.at_us < from_us - SECOND_US);
    evidence.stalls[after..]
        .iter()
        .take_while(|stall| stall.at_us <= to_us + SECOND_US)
        .map(|stall| stall.length_us)
        .sum()
}

/// Whether something done to the fleet explains that a call arrives late.
pub(super) fn is_held_back(evidence: &Evidence, from_us: i64, to_us: i64) -> bool {
    evidence.disturbances.iter().any(|disturbance| {
        HOLDS_CALLS_BACK.contains(&disturbance.sort)
            && disturbance.from_us <= to_us
            && from_us <= disturbance.to_us.saturating_add(AFTERMATH_US)
    })
}

/// Checks that began and ended: never more than C at once, by the downstream's own count and by ours.
fn checks_at_once(evidence: &Evidence) -> Check {
    let mut check = Check::of("no more readiness checks run at once than allowed");
    let mut begun = HashMap::new();
    let mut edges = Vec::new();
    for seen in &evidence.downstream {
        let Some(id) = seen.id else {
            continue;
        };
        match &*seen.event {
            "check" => {
                check.examine();
                begun.insert(id, seen);
            }
            "check_beyond_limit" => {
                begun.remove(&id);
                if !is_held_back(evidence, seen.at_us - SECOND_US, seen.at_us) {
                    check.violated(id, "the downstream refused it as one too many");
                }
            }
            "ready" | "snooze" | "check_failed" => {
                if let Some(began) = begun.remove(&id) {
                    edges.push((began.us, 1, began));
                    edges.push((seen.us, -1, seen));
                }
            }
            _ => {}
        }
    }
    edges.sort_by_key(|(us, step, _)| (*us, *step));
    let (mut running, mut reported) = (0i64, false);
    for (_, step, seen) in edges {
        running += step;
        let too_many = running > evidence.checks_at_once as i64;
        if too_many && !reported && !is_held_back(evidence, seen.at_us - SECOND_US, seen.at_us) {
            check.violated(seen.id, format!("{running} checks ran at once"));
        }
        reported = too_many;
    }
    check
}
