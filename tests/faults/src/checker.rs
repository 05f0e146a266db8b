//! Judges a run by its evidence. The rules here are the specification's, written down once more: nothing is shared with
//! the engine, so that a mistake there is not made here too.

mod breakers;
mod effects;
mod executions;
mod hedges;
mod keys;
mod limits;
mod lives;
mod promises;
mod quotas;
mod redrive;
mod retention;
mod retries;
mod sends;
mod webhooks;

use std::fmt::{self, Write};

use uuid::Uuid;

pub use self::{hedges::hedges, retries::Retries};

use crate::evidence::Evidence;

/// Something that must not be.
#[derive(Debug, Clone)]
pub struct Violation {
    /// The request it concerns.
    pub id: Option<Uuid>,
    /// The violations.
    pub what: String,
}

/// One rule, and the result of its check.
#[derive(Debug, Clone)]
pub struct Check {
    /// The rule, as a sentence.
    pub rule: &'static str,
    /// How many things were looked at.
    pub examined: u64,
    /// Those that break it.
    pub violations: Vec<Violation>,
}

impl Check {
    fn of(rule: &'static str) -> Self {
        Self { rule, examined: 0, violations: Vec::new() }
    }

    fn examine(&mut self) {
        self.examined += 1;
    }

    fn violated(&mut self, id: impl Into<Option<Uuid>>, what: impl Into<String>) {
        self.violations.push(Violation { id: id.into(), what: what.into() });
    }
}

/// All rules, with their violations.
#[derive(Debug)]
pub struct Verdict(pub Vec<Check>);

impl Verdict {
    /// Whether nothing breaks any rule.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.violations() == 0
    }

    /// How many violations there are.
    #[must_use]
    pub fn violations(&self) -> usize {
        self.0.iter().map(|check| check.violations.len()).sum()
    }

    /// The violations of one rule.
    #[must_use]
    pub fn of(&self, rule: &str) -> &[Violation] {
        self.0.iter().find(|check| check.rule == rule).map_or(&[], |check| &check.violations)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for check in &self.0 {
            write!(f, "  {:<72} ", check.rule)?;
            match (check.examined, check.violations.len()) {
                (0, 0) => writeln!(f, "not exercised")?,
                (examined, violations) => writeln!(f, "{examined:>9} looked at, {violations} violations")?,
            }
        }
        Ok(())
    }
}

/// Judges.
#[must_use]
pub fn check(evidence: &Evidence) -> Verdict {
    let mut checks = lives::check(evidence);
    checks.extend(promises::check(evidence));
    checks.extend(keys::check(evidence));
    checks.extend(executions::check(evidence));
    checks.extend(sends::check(evidence));
    checks.extend(effects::check(evidence));
    checks.extend(limits::check(evidence));
    checks.extend(quotas::check(evidence));
    checks.extend(retention::check(evidence));
    checks.extend(redrive::check(evidence));
    checks.extend(webhooks::check(evidence));
    checks.extend(hedges::check(evidence));
    checks.extend(breakers::check(evidence));
    checks.extend(retries::check(evidence));
    let mut besides = Check::of("nothing unexpected was answered, and no process ended by itself");
    besides.examine();
    for what in &evidence.wrong {
        besides.violated(None, what);
    }
    checks.push(besides);
    Verdict(checks)
}

/// Everything that is known of one request, in words.
#[must_use]
pub fn whole_life(evidence: &Evidence, id: Uuid) -> String {
    let mut told = Vec::new();
    let mut head = format!("request {id}");
    if let Some(life) = evidence.lives.get(&id) {
        let _ = write!(
            head,
            " ({}, {}): {}, mark {:?}, error {:?}, executed {}",
            life.kind, life.flow, life.status, life.mark, life.error, life.executed
        );
        for (other, same) in &evidence.lives {
            if *other != id && same.mark.is_some() && (&same.kind, &same.mark) == (&life.kind, &life.mark) {
                let began = chrono::DateTime::from_timestamp_micros(same.began_us().unwrap_or_default());
                let _ = write!(
                    head,
                    "\n      of the same key: {other}, from {}: {}, error {:?}, executed {}",
                    began.unwrap_or_default().format("%H:%M:%S%.6f"),
                    same.status,
                    same.error,
                    same.executed
                );
            }
        }
        for event in &life.events {
            let from = event.from.as_deref().unwrap_or("(entry)");
            told.push((event.at_us, format!("{} {from} → {} ({})", event.number, event.to, event.cause)));
        }
    } else {
        head.push_str(": no such row");
    }
    for seen in evidence.downstream.iter().filter(|seen| seen.id == Some(id)) {
        told.push((seen.at_us, format!("downstream: {}", seen.event)));
    }
    for promise in evidence.promises.iter().filter(|promise| promise.id == id) {
        let _ = write!(head, "\n      promised by {} as {}", promise.way, promise.mark);
    }
    for entry in evidence.told.iter().filter(|told| told.id == id) {
        let _ = write!(head, "\n      told: {}, executed {:?}", entry.state, entry.executed);
    }
    for (old, copy) in evidence.redriven.iter().filter(|(old, copy)| [**old, **copy].contains(&id)) {
        let _ = write!(head, "\n      {old} was redriven as {copy}");
    }
    for cancel in evidence.cancels.iter().filter(|cancel| cancel.id == id) {
        told.push((cancel.at_us, format!("a cancel was answered with {}", cancel.status)));
    }
    for word in evidence.resolutions.iter().filter(|word| word.id == id) {
        told.push((word.at_us, format!("operator: executed is {}", word.executed)));
    }
    told.sort();
    for (at_us, what) in told {
        let at = chrono::DateTime::from_timestamp_micros(at_us).unwrap_or_default();
        let _ = write!(head, "\n      {} {what}", at.format("%H:%M:%S%.6f"));
    }
    head
}
