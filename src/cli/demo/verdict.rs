//! What the demo proves, read from the tables and from the downstream's own count.

use std::{collections::BTreeMap, fmt, time::Duration};

use anyhow::Context;
use serde::Deserialize;

use super::{
    callers::{Answer, Callers},
    fleet::Fleet,
    picture::estimates,
    story::Story,
};
use crate::store::{Lives, Store};

/// What the downstream counted.
#[derive(Debug, Deserialize)]
struct Downstream {
    taken: u64,
    duplicates: u64,
    rate_violations: u64,
    concurrency_violations: u64,
}

pub(super) struct Verdict {
    expected: u32,
    turned_away: u32,
    put_off: u32,
    slowest_submission: Duration,
    story: Story,
    answers: Vec<Answer>,
    troubles: Vec<String>,
    lives: Lives,
    downstream: Downstream,
}

pub(super) async fn reach(store: &Store, callers: &Callers, fleet: &Fleet, story: Story) -> anyhow::Result<Verdict> {
    let lives = store.lives(&callers.accepted()).await?;
    let downstream = reqwest::get(format!("{}/stats", fleet.downstream))
        .await
        .and_then(reqwest::Response::error_for_status)
        .context("the downstream does not tell its count")?
        .json()
        .await?;
    Ok(Verdict {
        expected: callers.expected(),
        turned_away: callers.turned_away(),
        put_off: callers.put_off(),
        slowest_submission: callers.slowest_submission(),
        story,
        answers: callers.answers(),
        troubles: callers.troubles(),
        lives,
        downstream,
    })
}

impl Verdict {
    /// Every request ended in exactly one terminal status along a legal path, every caller has its answer, the
    /// downstream's limits held, and the gate has closed, turned callers away, and opened again.
    pub(super) fn holds(&self) -> bool {
        let lives = &self.lives;
        self.troubles.is_empty()
            && self.answers.len() == self.expected as usize
            && lives.missing + lives.unfinished + lives.finished_twice + lives.illegal_steps == 0
            && self.downstream.rate_violations + self.downstream.concurrency_violations == 0
            && self.story.has_closed_and_opened()
            && self.turned_away > 0
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut statuses = BTreeMap::<&str, u32>::new();
        for answer in &self.answers {
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
            self.answers.len(),
            self.expected,
            statuses.join(", ")
        )?;
        writeln!(f, "  estimates       {}", estimates(&self.answers))?;
        writeln!(
            f,
            "  told to wait    {} times at the closed gate (429), {} times for other reasons (503)",
            self.turned_away, self.put_off
        )?;
        writeln!(
            f,
            "  submissions     answered within {:.2} s",
            self.slowest_submission.as_secs_f64()
        )?;
        writeln!(f, "  gate            {}", self.story)?;
        writeln!(
            f,
            "  recovered       {} sends whose worker was lost",
            self.lives.recovered
        )?;
        writeln!(
            f,
            "  legal lives     {} missing, {} unfinished, {} ended twice, {} illegal steps",
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
        for trouble in self.troubles.iter().take(10) {
            writeln!(f, "  trouble         {trouble}")?;
        }
        write!(
            f,
            "{}",
            if self.holds() {
                "Everything holds."
            } else {
                "Something is WRONG."
            }
        )
    }
}
