//! The demo's verdict, from the tables and from the downstream's own counts.

use std::{collections::BTreeMap, fmt};

use anyhow::Context;
use serde::Deserialize;

use super::{
    callers::{Callers, Results},
    fleet::Fleet,
    picture::estimates,
    story::Story,
};
use crate::store::{Lives, Store};

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
    Ok(Verdict {
        expected: callers.expected(),
        results,
        story,
        lives,
        downstream,
    })
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
            && self.story.has_closed_and_opened()
            && self.results.refused > 0
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut statuses = BTreeMap::<&str, u32>::new();
        for answer in &self.results.answers {
            *statuses.entry(&answer.status).or_default() += 1;
        }
        let statuses: Vec<_> = statuses
            .iter()
            .map(|(status, count)| format!("{count} {status}"))
            .collect();
        writeln!(f, "\nSummary")?;
        writeln!(
            f,
            "  answered        {} of {} ({})",
            self.results.answers.len(),
            self.expected,
            statuses.join(", ")
        )?;
        writeln!(f, "  estimates       {}", estimates(&self.results.answers))?;
        writeln!(
            f,
            "  told to wait    {} times at the closed gate (429), {} times for other reasons (503)",
            self.results.refused, self.results.unavailable
        )?;
        writeln!(
            f,
            "  submissions     answered within {:.2} s",
            self.results.slowest_submission.as_secs_f64()
        )?;
        writeln!(f, "  gate            {}", self.story)?;
        writeln!(
            f,
            "  recovered       {} sends whose worker was lost",
            self.lives.recovered
        )?;
        writeln!(
            f,
            "  histories       {} missing, {} unfinished, {} ended twice, {} illegal steps",
            self.lives.missing, self.lives.unfinished, self.lives.finished_twice, self.lives.illegal_steps
        )?;
        writeln!(
            f,
            "  downstream      {} taken, {} sent twice, {} rate violations, {} concurrency violations",
            self.downstream.taken,
            self.downstream.duplicates,
            self.downstream.rate_violations,
            self.downstream.concurrency_violations
        )?;
        for error in self.results.errors.iter().take(10) {
            writeln!(f, "  error           {error}")?;
        }
        f.write_str(if self.holds() {
            "Everything holds."
        } else {
            "Something is WRONG."
        })
    }
}
