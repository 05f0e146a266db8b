//! The flips of the gate while the demo runs, from its history.

use std::fmt;

use tidegate::internals::store::{GateChange, Store};

/// The queue whose gate closes: every request passes it.
pub(super) const GATE: &str = "tx";

/// More flips than a demo has between two reads.
const FLIPS: i32 = 100;

/// The gate's flips so far, the first one first.
#[derive(Debug, Default)]
pub(super) struct Story {
    flips: Vec<GateChange>,
}

impl Story {
    /// Reads the new flips; returns a line for each.
    pub(super) async fn go_on(&mut self, store: &Store) -> anyhow::Result<Vec<String>> {
        let known = self.flips.last().map_or(0, |flip| flip.epoch);
        // The last known one too: its duration has changed.
        self.flips.pop();
        let history = store.gate_history(Some(GATE), FLIPS, None).await?;
        let from = history.into_iter().filter(|flip| flip.epoch >= known);
        self.flips.extend(from.rev());
        Ok(self
            .flips
            .iter()
            .filter(|flip| flip.epoch > known)
            .map(|flip| format!("gate {GATE}: {} at depth {} ({})", flip.signal, flip.depth, flip.cause))
            .collect())
    }

    /// Whether it is closed now.
    pub(super) fn is_closed(&self) -> bool {
        self.flips.last().is_some_and(closes)
    }

    /// The first flip at which it closed, and the next one, at which it opened.
    pub(super) fn closed_and_opened(&self) -> Option<(&GateChange, &GateChange)> {
        let pairs = self.flips.windows(2);
        pairs.map(|pair| (&pair[0], &pair[1])).find(|(closed, opened)| closes(closed) && !closes(opened))
    }
}

fn closes(flip: &GateChange) -> bool {
    flip.signal == "TOO_MANY_REQUESTS"
}

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((closed, opened)) = self.closed_and_opened() else {
            return write!(f, "did not close and open again");
        };
        write!(
            f,
            "closed at depth {}, open again at depth {} after {:.1} s",
            closed.depth, opened.depth, closed.lasted_seconds
        )?;
        match self.flips.iter().filter(|flip| closes(flip)).count() {
            0 | 1 => Ok(()),
            times => write!(f, "; closed {times} times in all"),
        }
    }
}
