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
