//! Receipts whose effects are written in the transaction that settles them.

use std::{borrow::Borrow, collections::HashSet, panic::AssertUnwindSafe};

use futures_util::FutureExt;
use sqlx::{Connection, PgConnection};

use super::outcome::{ToWrite, Unsettled, panicked};
use crate::{
    error::StoreError,
    request::Status,
    stage::Receipt,
    store::{Moved, Settle, Store},
};

/// A receipt that is settled only together with its effect.
pub(super) struct WithEffect {
    pub(super) receipt: Receipt,
    pub(super) effect: ToWrite,
}

impl Borrow<Receipt> for WithEffect {
    fn borrow(&self) -> &Receipt {
        &self.receipt
    }
}

/// Settles receipts and writes the effects of those requests that moved, all or none.
///
/// For half of the store's patience, a quarter of the lease: the messages are locked meanwhile, and a lease that is to
/// be prolonged waits for that. When the time is over in the midst of many effects, an eighth of what was written in it
/// is a part that leaves leases time to be prolonged.
pub(super) async fn settle(
    store: &Store,
    queue: &str,
    outcomes: &[Settle<WithEffect>],
) -> Result<Vec<Moved>, Unsettled> {
    let patience = store.patience() / 2;
    let mut connection = store.connection().await?;
    let mut of_effect = false;
    let mut culprit = None;
    let mut written = 0;
    let settled = async {
        let mut transaction = connection.get().begin().await.map_err(StoreError::from)?;
        // The database gives up before this process does: a statement left behind would keep the messages locked.
        let limit = patience * 3 / 4;
        let effects = store.begin_effects(&mut transaction, limit).await?;
        let moved = store.settle_receipt_in(&mut transaction, queue, outcomes).await?;
        let ours: HashSet<_> = moved
            .iter()
            .filter(|moved| moved.status != Status::Failure)
            .map(|moved| moved.id)
            .collect();
        of_effect = true;
        for settle in outcomes {
            if ours.contains(&settle.outcome.effect.request.id) {
                culprit = Some(settle.lease);
                write(&mut transaction, &settle.outcome).await?;
                store.check_effects(&mut transaction, &effects).await?;
                written += 1;
            }
        }
        culprit = None;
        transaction.commit().await.map_err(StoreError::from)?;
        Ok(moved)
    };
    let mut too_long = false;
    let error = match tokio::time::timeout(patience, settled).await {
        Ok(Ok(moved)) => return Ok(moved),
        Ok(Err(error)) => error,
        Err(_) => {
            connection.discard();
            too_long = true;
            StoreError::Unavailable(format!(
                "not settled with its effect within {} ms",
                patience.as_millis()
            ))
        }
    };
    Err(Unsettled {
        error,
        of_effect,
        culprit,
        fits: (too_long && written > 0).then(|| (written / 8).max(1)),
    })
}

/// Writes one effect; a panic in it is an error like any other.
async fn write(transaction: &mut PgConnection, outcome: &WithEffect) -> Result<(), StoreError> {
    let ToWrite { stage, request } = &outcome.effect;
    let written = AssertUnwindSafe(async { stage.write(transaction, request, &outcome.receipt).await });
    match written.catch_unwind().await {
        Ok(written) => written.map_err(StoreError::from),
        Err(panic) => Err(StoreError::Misuse(panicked(panic.as_ref()).message)),
    }
}
