//! Receipts whose effects are written in the transaction that settles them.

use std::collections::HashSet;

use sqlx::{Connection, PgConnection};

use super::outcome::{Unsettled, WithEffect, caught};
use crate::{
    error::StoreError,
    request::Status,
    store::{Moved, Outcome, Settle, Store},
};

/// Settles receipts and writes the effects of those requests that moved, all or none.
///
/// The limit is half of the store's time limit, a quarter of the lease: the messages are locked meanwhile, and
/// extending a lease waits for that. When it passes amid many effects, an eighth of those written is a part that leaves
/// time to extend the leases.
pub(super) async fn settle(
    store: &Store,
    queue: &str,
    outcomes: &[Settle<&WithEffect>],
) -> Result<Vec<Moved>, Unsettled> {
    let limit = store.time_limit / 2;
    let mut connection = store.connection().await?;
    let receipt = |settle: &Settle<&WithEffect>| settle.with(Outcome::Receipt(settle.outcome.receipt.clone()));
    let receipts: Vec<_> = outcomes.iter().map(receipt).collect();
    let mut of_effect = false;
    let mut culprit = None;
    let mut written = 0;
    let settled = async {
        let mut transaction = connection.get().begin().await.map_err(StoreError::from)?;
        // The database cancels before this process does: an abandoned statement would keep the messages locked.
        let effects = store.begin_effects(&mut transaction, limit * 3 / 4).await?;
        let moved = store.settle_in(&mut transaction, queue, &receipts).await?;
        let ours: HashSet<_> =
            moved.iter().filter(|moved| moved.status != Status::Failure).map(|moved| moved.id).collect();
        of_effect = true;
        for settle in outcomes {
            if ours.contains(&settle.outcome.request.id) {
                culprit = Some(settle.lease);
                write(&mut transaction, settle.outcome).await?;
                store.check_effects(&mut transaction, &effects).await?;
                written += 1;
            }
        }
        culprit = None;
        transaction.commit().await.map_err(StoreError::from)?;
        Ok(moved)
    };
    let (error, too_long) = match tokio::time::timeout(limit, settled).await {
        Ok(Ok(moved)) => return Ok(moved),
        Ok(Err(error)) => (error, false),
        Err(_) => {
            connection.discard();
            let error = format!("not settled with its effect within {} ms", limit.as_millis());
            (StoreError::Unavailable(error), true)
        }
    };
    Err(Unsettled { error, of_effect, culprit, fits: (too_long && written > 0).then(|| (written / 8).max(1)) })
}

/// Writes one effect; a panic in it is an error like any other.
async fn write(transaction: &mut PgConnection, outcome: &WithEffect) -> Result<(), StoreError> {
    let WithEffect { receipt, stage, request } = outcome;
    match caught(async { stage.write(transaction, request, receipt).await }).await {
        Ok(written) => written.map_err(StoreError::from),
        Err(panic) => Err(StoreError::Misuse(panic.message)),
    }
}
