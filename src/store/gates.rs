//! Gates by hand.

use chrono::{DateTime, Utc};
use serde::Serialize;
use sqlx::FromRow;
use utoipa::ToSchema;

use super::Store;
use crate::error::StoreError;

/// A queue's gate.
#[derive(Debug, Clone, PartialEq, Eq, FromRow, Serialize, ToSchema)]
pub struct Gate {
    /// The queue.
    pub queue: String,
    /// `accepting` or `too_many_requests`.
    #[schema(pattern = "^(accepting|too_many_requests)$")]
    pub state: String,
    /// `strict` or `soft`.
    #[schema(pattern = "^(strict|soft)$")]
    pub mode: String,
    /// The depth at which it closes.
    pub high_water: i32,
    /// The depth at which it opens again.
    pub low_water: i32,
    /// Whether an operator holds it by hand.
    pub forced: bool,
    /// How often its state changed, or was taken or released by hand.
    pub epoch: i64,
    /// The queue's depth when that last happened.
    pub depth_at_change: i64,
    /// When that was.
    pub changed_at: DateTime<Utc>,
}

/// A change of a gate: one row of `gate_history`.
#[derive(Debug, Clone, PartialEq, FromRow, Serialize)]
pub struct GateChange {
    /// When it changed.
    pub at: DateTime<Utc>,
    /// Which change of this gate it was, from 1.
    pub epoch: i64,
    /// What the nodes were told: `ACCEPTING_REQUESTS` or `TOO_MANY_REQUESTS`.
    pub signal: String,
    /// The depth then, in messages.
    pub depth: i64,
    /// Why: a mark, or an operator's hand.
    pub cause: String,
    /// How long it stayed so, or has by now, in seconds.
    pub lasted_seconds: f64,
    /// Whether it is so still.
    pub is_current: bool,
}

/// What an operator does to a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateHold {
    /// Holds it open.
    Open,
    /// Holds it closed.
    Close,
    /// Lets it go by its marks again.
    Release,
}

impl GateHold {
    const fn state(self) -> Option<&'static str> {
        match self {
            Self::Open => Some("accepting"),
            Self::Close => Some("too_many_requests"),
            Self::Release => None,
        }
    }
}

impl Store {
    /// The gate of a queue, or of all.
    ///
    /// # Errors
    ///
    /// Database trouble.
    pub async fn gates(&self, queue: Option<&str>) -> Result<Vec<Gate>, StoreError> {
        Ok(ask!(
            self,
            sqlx::query_as(include_str!("../../sql/queries/gates.sql")).bind(queue),
            fetch_all
        ))
    }

    /// The changes of a gate, latest first, at most `limit`; none of a gate that is not known.
    ///
    /// # Errors
    ///
    /// Database trouble.
    pub async fn gate_history(
        &self,
        gate: &str,
        limit: i64,
    ) -> Result<Vec<GateChange>, StoreError> {
        Ok(ask!(
            self,
            sqlx::query_as(include_str!("../../sql/queries/gate_history.sql"))
                .bind(gate)
                .bind(limit),
            fetch_all
        ))
    }

    /// Holds a gate by hand, or releases it: `tidegate.gate_force`. Returns whether that changed anything.
    ///
    /// # Errors
    ///
    /// Unknown queue, database trouble.
    pub async fn gate_force(&self, queue: &str, hold: GateHold) -> Result<bool, StoreError> {
        Ok(ask!(
            self,
            sqlx::query_scalar(include_str!("../../sql/queries/gate_force.sql"))
                .bind(queue)
                .bind(hold.state())
                .bind(self.actor.as_deref()),
            fetch_one
        ))
    }
}
