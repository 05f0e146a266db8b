//! The demo's verdict, from the tables and from the downstream's own counts.

use std::{collections::BTreeMap, fmt};

use anyhow::Context;
use serde::Deserialize;
use tidegate::internals::store::{Lives, Store};

use super::{
    callers::{Callers, Results},
    fleet::Fleet,
    picture::estimates,
    story::Story,
};

/// The downstream's counts.
#[derive(Debug, Deserialize)]
struct Downstream {
    taken: u64,
    duplicates: u64,
    rate_violations: u64,
    concurrency_violations: u64,
}

pub(super) struct Verdict {
    expected: u32,
    results: Results,
    story: Story,
    lives: Lives,
    downstream: Downstream,
}

pub(super) async fn reach(store: &Store, callers: &Callers, fleet: &Fleet, story: Story) -> anyhow::Result<Verdict> {
    let results = callers.results();
    let lives = store.lives(&results.accepted).await?;
    let downstream = reqwest::get(format!("{}/stats", fleet.downstream))
        .await
        .and_then(reqwest::Response::error_for_status)
        .context("cannot read the downstream's counts")?
        .json()
        .await?;
    Ok(Verdict { expected: callers.expected, results, story, lives, downstream })
}

impl Verdict {
    /// Every request ended in exactly one terminal status along a legal path, every caller has its answer, the
    /// downstream's limits held, and the gate has closed, refused callers, and opened again.
    pub(super) fn holds(&self) -> bool {
        let lives = &self.lives;
        self.results.errors.is_empty()
            && self.results.answers.len() == self.expected as usize
            && lives.missing + lives.unfinished + lives.finished_twice + lives.illegal_steps == 0
            && self.downstream.rate_violations + self.downstream.concurrency_violations == 0
            && self.story.closed_and_opened().is_some()
            && self.results.refused > 0
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (results, lives, downstream) = (&self.results, &self.lives, &self.downstream);
        let mut statuses = BTreeMap::<&str, u32>::new();
        for answer in &results.answers {
            *statuses.entry(&answer.status).or_default() += 1;
        }
        let statuses: Vec<_> = statuses.iter().map(|(status, count)| format!("{count} {status}")).collect();
        let (answered, statuses) = (results.answers.len(), statuses.join(", "));
        writeln!(f, "\nSummary")?;
        writeln!(f, "  answered        {answered} of {} ({statuses})", self.expected)?;
        writeln!(f, "  estimates       {}", estimates(&results.answers))?;
        let (refused, unavailable) = (results.refused, results.unavailable);
        writeln!(f, "  refused         {refused} at the closed gate (429), {unavailable} for other reasons (503)")?;
        let slowest = results.slowest_submission.as_secs_f64();
        writeln!(f, "  submissions     answered within {slowest:.2} s")?;
        writeln!(f, "  gate            {}", self.story)?;
        writeln!(f, "  recovered       {} sends whose worker was lost", lives.recovered)?;
        writeln!(
            f,
            "  histories       {} missing, {} unfinished, {} ended twice, {} illegal steps",
            lives.missing, lives.unfinished, lives.finished_twice, lives.illegal_steps
        )?;
        writeln!(
            f,
            "  downstream      {} taken, {} sent twice, {} rate violations, {} concurrency violations",
            downstream.taken, downstream.duplicates, downstream.rate_violations, downstream.concurrency_violations
        )?;
        for error in results.errors.iter().take(10) {
            writeln!(f, "  error           {error}")?;
        }
        f.write_str(if self.holds() { "Everything holds." } else { "Something is WRONG." })
    }
}
