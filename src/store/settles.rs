//! Reporting outcomes. Each method returns what moved: a request that is missing was not this holder's any more.

use std::time::Duration;

use serde_json::Value;
use sqlx::FromRow;
use uuid::Uuid;

use super::{
    Lease, Store,
    claims::{columns, milliseconds},
    words::decode,
};
use crate::{
    error::StoreError,
    request::{RequestError, RequestId, Status},
    stage::Receipt,
};

/// A request that moved, and where it is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moved {
    /// The request.
    pub id: RequestId,
    /// Its status now.
    pub status: Status,
}

#[derive(FromRow)]
pub(super) struct MovedRow {
    id: Uuid,
    status: String,
}

impl TryFrom<MovedRow> for Moved {
    type Error = StoreError;

    fn try_from(row: MovedRow) -> Result<Self, StoreError> {
        Ok(Self {
            id: RequestId(row.id),
            status: decode(row.status)?,
        })
    }
}

/// A request whose readiness check passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passed {
    /// The request.
    pub id: RequestId,
    /// The tx queue it is in now.
    pub queue: String,
    /// Whether nothing waited in that queue before, so that its workers may be asleep.
    pub wake: bool,
}

fn moved(rows: Vec<MovedRow>) -> Result<Vec<Moved>, StoreError> {
    rows.into_iter().map(TryInto::try_into).collect()
}

fn errors(outcomes: &[(Lease, RequestError)]) -> (Vec<Lease>, Vec<Value>) {
    outcomes
        .iter()
        .map(|(lease, error)| (*lease, error.to_json()))
        .unzip()
}

impl Store {
    /// `tidegate.settle_passed`: queued → processing.
    ///
    /// # Errors
    ///
    /// Database trouble.
    pub async fn settle_passed(
        &self,
        queue: &str,
        leases: &[Lease],
    ) -> Result<Vec<Passed>, StoreError> {
        let (msg_ids, nonces) = columns(leases);
        let rows: Vec<(Uuid, String, bool)> = ask!(
            self,
            sqlx::query_as(include_str!("../../sql/queries/settle_passed.sql"))
                .bind(queue)
                .bind(msg_ids)
                .bind(nonces),
            fetch_all
        );
        Ok(rows
            .into_iter()
            .map(|(id, queue, wake)| Passed {
                id: RequestId(id),
                queue,
                wake,
            })
            .collect())
    }

    /// `tidegate.settle_not_yet`: checked again after the wait given, or as the policy says.
    ///
    /// # Errors
    ///
    /// Database trouble.
    pub async fn settle_not_yet(
        &self,
        queue: &str,
        outcomes: &[(Lease, Option<Duration>)],
    ) -> Result<Vec<Moved>, StoreError> {
        let (leases, waits): (Vec<_>, Vec<_>) = outcomes
            .iter()
            .map(|(lease, after)| (*lease, after.map(milliseconds)))
            .unzip();
        let (msg_ids, nonces) = columns(&leases);
        let rows = ask!(
            self,
            sqlx::query_as(include_str!("../../sql/queries/settle_not_yet.sql"))
                .bind(queue)
                .bind(msg_ids)
                .bind(nonces)
                .bind(waits),
            fetch_all
        );
        moved(rows)
    }

    /// `tidegate.settle_failed`: queued → failure.
    ///
    /// # Errors
    ///
    /// Database trouble.
    pub async fn settle_failed(
        &self,
        queue: &str,
        outcomes: &[(Lease, RequestError)],
    ) -> Result<Vec<Moved>, StoreError> {
        self.settle_ended(
            include_str!("../../sql/queries/settle_failed.sql"),
            queue,
            outcomes,
        )
        .await
    }

    /// `tidegate.settle_rejected`: `tx_in_flight` → failure.
    ///
    /// # Errors
    ///
    /// Database trouble.
    pub async fn settle_rejected(
        &self,
        queue: &str,
        outcomes: &[(Lease, RequestError)],
    ) -> Result<Vec<Moved>, StoreError> {
        self.settle_ended(
            include_str!("../../sql/queries/settle_rejected.sql"),
            queue,
            outcomes,
        )
        .await
    }

    async fn settle_ended(
        &self,
        sql: &'static str,
        queue: &str,
        outcomes: &[(Lease, RequestError)],
    ) -> Result<Vec<Moved>, StoreError> {
        let (leases, errors) = errors(outcomes);
        let (msg_ids, nonces) = columns(&leases);
        let rows = ask!(
            self,
            sqlx::query_as(sql)
                .bind(queue)
                .bind(msg_ids)
                .bind(nonces)
                .bind(errors),
            fetch_all
        );
        moved(rows)
    }

    /// `tidegate.settle_receipt`: `tx_in_flight` → `receipt_received`, or completed for a `direct` receipt with response.
    ///
    /// # Errors
    ///
    /// A response that cannot be stored, database trouble.
    pub async fn settle_receipt(
        &self,
        queue: &str,
        outcomes: &[(Lease, Receipt)],
    ) -> Result<Vec<Moved>, StoreError> {
        let leases: Vec<_> = outcomes.iter().map(|(lease, _)| *lease).collect();
        let references: Vec<_> = outcomes
            .iter()
            .map(|(_, receipt)| receipt.reference.as_deref())
            .collect();
        let responses: Vec<_> = outcomes
            .iter()
            .map(|(_, receipt)| receipt.response.as_ref())
            .collect();
        let (msg_ids, nonces) = columns(&leases);
        let rows = ask!(
            self,
            sqlx::query_as(include_str!("../../sql/queries/settle_receipt.sql"))
                .bind(queue)
                .bind(msg_ids)
                .bind(nonces)
                .bind(references)
                .bind(responses),
            fetch_all
        );
        moved(rows)
    }

    /// `tidegate.settle_retry`: `tx_in_flight` → processing, or failure when no attempt is left.
    ///
    /// Each outcome: the lease, why, the downstream's wish when to try again, and whether the request may have left.
    ///
    /// # Errors
    ///
    /// Database trouble.
    pub async fn settle_retry(
        &self,
        queue: &str,
        outcomes: &[(Lease, RequestError, Option<Duration>, bool)],
    ) -> Result<Vec<Moved>, StoreError> {
        let leases: Vec<_> = outcomes.iter().map(|outcome| outcome.0).collect();
        let errors: Vec<_> = outcomes.iter().map(|outcome| outcome.1.to_json()).collect();
        let waits: Vec<_> = outcomes
            .iter()
            .map(|outcome| outcome.2.map(milliseconds))
            .collect();
        let may_have_left: Vec<_> = outcomes.iter().map(|outcome| outcome.3).collect();
        let (msg_ids, nonces) = columns(&leases);
        let rows = ask!(
            self,
            sqlx::query_as(include_str!("../../sql/queries/settle_retry.sql"))
                .bind(queue)
                .bind(msg_ids)
                .bind(nonces)
                .bind(errors)
                .bind(waits)
                .bind(may_have_left),
            fetch_all
        );
        moved(rows)
    }
}
