//! A node's copy of the gates: how much room there is, without a statement a request.
//!
//! The copy informs; the database decides. It is read at most once a second, and only while somebody asks.

use std::{collections::HashMap, sync::Arc, time::Duration};

use crate::{
    error::StoreError,
    local_copy::{Ages, LocalCopy, Source},
    store::{GateRow, Store},
};

/// Once a second at most; a copy of more than two seconds tells nobody anything.
const AGES: Ages = Ages {
    fresh: Duration::from_secs(1),
    usable: Duration::from_secs(2),
};

/// The gate of a queue.
#[derive(Debug, Clone, PartialEq)]
pub struct Gate {
    /// The queue.
    pub queue: String,
    /// Whether it lets submissions in.
    pub accepting: bool,
    /// The depth at which it closes.
    pub high_water: u64,
    /// The depth, a moment ago.
    pub depth: u64,
    /// Messages served per second; none means no limit, 0 stopped.
    pub drain_rate: Option<f64>,
}

impl Gate {
    /// How many submissions there is room for; none behind a closed gate.
    #[must_use]
    pub fn room(&self) -> u64 {
        if self.accepting {
            self.high_water.saturating_sub(self.depth)
        } else {
            0
        }
    }

    /// In how many seconds so many messages are served, rounded up, at least 1; `None` when nobody can tell.
    #[must_use]
    pub fn seconds_to_drain(&self, messages: u64) -> Option<u64> {
        let rate = self.drain_rate.filter(|rate| *rate > 0.0)?;
        #[expect(clippy::cast_precision_loss, reason = "queues are shallower than 2^53")]
        let seconds = (messages as f64 / rate).ceil();
        // Beyond this no structured field can hold it (RFC 9651); a cast saturates.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is between these bounds"
        )]
        let seconds = seconds.clamp(1.0, 999_999_999_999_999.0) as u64;
        Some(seconds)
    }
}

impl From<GateRow> for Gate {
    fn from(row: GateRow) -> Self {
        Self {
            queue: row.queue,
            accepting: row.state == "accepting",
            high_water: u64::try_from(row.high_water).unwrap_or_default(),
            depth: u64::try_from(row.depth).unwrap_or_default(),
            drain_rate: row.drain_rate,
        }
    }
}

/// The gates, by the kinds whose submissions come to them. Cheap to clone; clones share their copy.
#[derive(Debug, Clone)]
pub struct Gates(LocalCopy<GatesOf>);

#[derive(Debug)]
struct GatesOf(Store);

impl Source for GatesOf {
    type Copy = HashMap<String, Arc<Gate>>;

    async fn read(&self, _: Option<Arc<Self::Copy>>) -> Result<Self::Copy, StoreError> {
        let mut gates = HashMap::new();
        for mut row in self.0.gate_copy().await? {
            let kinds = std::mem::take(&mut row.kinds);
            let gate = Arc::new(Gate::from(row));
            gates.extend(kinds.into_iter().map(|kind| (kind, Arc::clone(&gate))));
        }
        Ok(gates)
    }
}

impl Gates {
    /// The gates of this database.
    #[must_use]
    pub fn of(store: Store) -> Self {
        Self(LocalCopy::new(GatesOf(store), AGES))
    }

    /// The gate that submissions of a kind come to, at most two seconds old; `None` for an unknown kind, and while no
    /// copy is young enough. Never waits for the database.
    #[must_use]
    pub fn of_kind(&self, kind: &str) -> Option<Arc<Gate>> {
        self.0.at_hand()?.get(kind).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(depth: u64, drain_rate: Option<f64>) -> Gate {
        Gate {
            queue: "tx".to_owned(),
            accepting: true,
            high_water: 2000,
            depth,
            drain_rate,
        }
    }

    #[test]
    fn room_is_what_is_left_and_none_behind_a_closed_gate() {
        assert_eq!(gate(0, None).room(), 2000);
        assert_eq!(gate(1999, None).room(), 1);
        assert_eq!(gate(2000, None).room(), 0);
        assert_eq!(gate(3000, None).room(), 0);
        let closed = Gate {
            accepting: false,
            ..gate(1000, None)
        };
        assert_eq!(closed.room(), 0);
    }

    #[test]
    fn a_drain_takes_whole_seconds_and_nobody_knows_when_nothing_is_served() {
        assert_eq!(gate(0, Some(10.0)).seconds_to_drain(0), Some(1));
        assert_eq!(gate(0, Some(10.0)).seconds_to_drain(20), Some(2));
        assert_eq!(gate(0, Some(10.0)).seconds_to_drain(21), Some(3));
        assert_eq!(
            gate(0, Some(f64::MIN_POSITIVE)).seconds_to_drain(1),
            Some(999_999_999_999_999)
        );
        for rate in [None, Some(0.0), Some(-1.0), Some(f64::NAN)] {
            assert_eq!(gate(0, rate).seconds_to_drain(1), None);
        }
    }
}
