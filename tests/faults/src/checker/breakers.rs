//! A breaker follows its rules, and while it is open nothing is sent but its probes.

use super::{Check, limits::stalled_us};
use crate::evidence::{BreakerRule, Evidence, Flip};

/// A claim may have read the breaker so long before it left, and a change may be committed so long after its time, in
/// microseconds, besides what the machine's stalls explain.
const COMMIT_US: i64 = 1_000_000;

/// The fault during which a claim, or the change of a breaker, waits for a lock.
const DELAYS_COMMITS: &str = "table_locked";

/// A claim of a request: when it was made, and when it was given up without a call, if it was.
struct Claim {
    at_us: i64,
    released_us: Option<i64>,
}

pub(super) fn check(evidence: &Evidence) -> Vec<Check> {
    let mut changes = Check::of("a breaker goes from closed to open, to half open after its time, and back");
    let mut sends = Check::of("while a breaker is not closed nothing is sent but its probes");
    for (kind, rule) in &evidence.breakers {
        let flips: Vec<_> = evidence.flips.iter().filter(|flip| &*flip.kind == kind).collect();
        let claims = claims(evidence, kind);
        let mut before: Option<&Flip> = None;
        for flip in &flips {
            changes.examine();
            if let Some(what) = illegal(rule, before, flip) {
                changes.violated(None, format!("{kind}: change {}: {what}", flip.epoch));
            }
            before = Some(flip);
        }
        for (place, flip) in flips.iter().enumerate() {
            let to_us = flips.get(place + 1).map_or(i64::MAX, |next| next.at_us);
            let found = match &*flip.state {
                "open" => while_open(evidence, &claims, flip.at_us, to_us),
                "half_open" => while_half_open(rule, &claims, flip.at_us, to_us),
                _ => continue,
            };
            sends.examine();
            if let Some(what) = found {
                sends.violated(None, format!("{kind}: from change {} on: {what}", flip.epoch));
            }
        }
    }
    vec![changes, sends]
}

/// The claims of a kind's requests, in order.
fn claims(evidence: &Evidence, kind: &str) -> Vec<Claim> {
    let mut claims = Vec::new();
    for life in evidence.lives.values().filter(|life| &*life.kind == kind) {
        for (place, event) in life.events.iter().enumerate() {
            if &*event.cause == "claimed" {
                let next = life.events.get(place + 1).filter(|next| &*next.cause == "released");
                claims.push(Claim { at_us: event.at_us, released_us: next.map(|next| next.at_us) });
            }
        }
    }
    claims.sort_by_key(|claim| claim.at_us);
    claims
}

fn illegal(rule: &BreakerRule, before: Option<&Flip>, flip: &Flip) -> Option<String> {
    let from = before.map_or("closed", |before| &before.state);
    let is_listed = matches!(
        (from, &*flip.state),
        ("closed" | "half_open", "open") | ("open", "half_open") | ("half_open", "closed")
    );
    if !is_listed {
        return Some(format!("from {from} to {}", flip.state));
    }
    if flip.epoch != before.map_or(0, |before| before.epoch) + 1 {
        return Some(format!("it follows {:?}", before.map(|before| before.epoch)));
    }
    let open_us = before.map_or(0, |before| flip.at_us - before.at_us);
    (from == "open" && open_us < rule.open_us).then(|| format!("it was open for {open_us} us"))
}

/// Nothing is claimed while a breaker is open, from the commit of that on.
fn while_open(evidence: &Evidence, claims: &[Claim], from_us: i64, to_us: i64) -> Option<String> {
    let is_late = |claim: &&Claim| {
        let since_us = claim.at_us - from_us;
        let is_delayed = evidence.disturbances.iter().any(|disturbance| {
            disturbance.sort == DELAYS_COMMITS
                && disturbance.from_us <= claim.at_us
                && from_us - COMMIT_US <= disturbance.to_us
        });
        since_us > COMMIT_US + stalled_us(evidence, from_us, claim.at_us) && !is_delayed
    };
    let mut claims = claims.iter().filter(|claim| (from_us..to_us).contains(&claim.at_us));
    let found = claims.find(is_late)?;
    Some(format!("a claim {} us after it opened", found.at_us - from_us))
}

/// No more probes are under way, or have succeeded, than are allowed; one that was released or lost leaves its place.
fn while_half_open(rule: &BreakerRule, claims: &[Claim], from_us: i64, to_us: i64) -> Option<String> {
    let probes: Vec<_> = claims.iter().filter(|claim| (from_us..to_us).contains(&claim.at_us)).collect();
    probes.iter().enumerate().find_map(|(place, probe)| {
        let counts = |earlier: &&&Claim| {
            earlier.at_us + rule.lost_us > probe.at_us && earlier.released_us.is_none_or(|at| at > probe.at_us)
        };
        let under_way = 1 + probes[..place].iter().filter(counts).count();
        (under_way > rule.probes).then(|| format!("{under_way} probes at once, {} are allowed", rule.probes))
    })
}
