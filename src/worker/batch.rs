//! Outcomes that one SQL function settles together.

use std::{
    collections::{BTreeSet, HashSet},
    hash::Hash,
    mem::discriminant,
};

use super::{
    effects,
    outcome::{Outcome, Unsettled},
};
use crate::{
    request::{RequestError, Status},
    store::{Moved, Retry, Settle, Snooze, Store},
};

/// Outcomes of one sort; at least one.
pub(super) type Batch = Vec<Settle<Outcome>>;

/// The result of a batch's settle.
pub(super) struct Settled {
    /// The requests that moved; the leases of the others were lost.
    pub(super) moved: Vec<Moved>,
    /// Queues that were empty before and have something to claim now.
    pub(super) wake: BTreeSet<String>,
}

/// Sorts outcomes into batches. A lost lease has nothing to settle.
pub(super) fn sort(outcomes: impl Iterator<Item = Settle<Outcome>>) -> Vec<Batch> {
    let mut batches: Vec<Batch> = Vec::new();
    for settle in outcomes.filter(|settle| !matches!(settle.outcome, Outcome::Lost)) {
        let sort = discriminant(&settle.outcome);
        match batches.iter_mut().find(|batch| discriminant(&batch[0].outcome) == sort) {
            Some(batch) => batch.push(settle),
            None => batches.push(vec![settle]),
        }
    }
    let in_order = |mut batch: Batch| {
        if !writes_effects(&batch) {
            return vec![batch];
        }
        batch.sort_by_key(|settle| settle.lease.id);
        split_repeats(batch, |settle| settle.lease.id)
    };
    batches.into_iter().flat_map(in_order).collect()
}

/// Whether each outcome of a batch is a receipt with an effect.
pub(super) fn writes_effects(batch: &[Settle<Outcome>]) -> bool {
    matches!(batch[0].outcome, Outcome::Effect(_))
}

/// The outcomes of one variant.
macro_rules! outcomes {
    ($batch:expr, $variant:ident) => {
        &$batch
            .iter()
            .filter_map(|settle| match &settle.outcome {
                Outcome::$variant(outcome) => Some(settle.with(outcome)),
                _ => None,
            })
            .collect::<Vec<_>>()
    };
}

/// Settles a batch in one transaction; without effects in one statement.
pub(super) async fn settle(batch: &[Settle<Outcome>], store: &Store, queue: &str) -> Result<Settled, Unsettled> {
    let mut wake = BTreeSet::new();
    let moved = match &batch[0].outcome {
        Outcome::Passed => {
            let passed = store.settle_passed(queue, batch).await?;
            let status = Status::Processing;
            let moved = passed.iter().map(|passed| Moved { id: passed.id, status }).collect();
            wake.extend(passed.into_iter().filter_map(|passed| passed.wake.then_some(passed.queue)));
            moved
        }
        Outcome::Snooze(_) => store.settle_snooze(queue, outcomes!(batch, Snooze)).await?,
        Outcome::CheckFailed(_) => store.settle_failed(queue, outcomes!(batch, CheckFailed)).await?,
        Outcome::Receipt(_) => store.settle_receipt(queue, outcomes!(batch, Receipt)).await?,
        Outcome::Effect(_) => effects::settle(store, queue, outcomes!(batch, Effect)).await?,
        Outcome::Retry(_) => store.settle_retry(queue, outcomes!(batch, Retry)).await?,
        Outcome::Rejected(_) => store.settle_rejected(queue, outcomes!(batch, Rejected)).await?,
        Outcome::Released | Outcome::Lost => {
            let leases: Vec<_> = batch.iter().map(|settle| settle.lease).collect();
            store.release(queue, &leases).await?
        }
    };
    Ok(Settled { moved, wake })
}

/// The batches to settle instead of one that the database refuses; the last comes first.
///
/// One outcome may carry a response that cannot be stored or an effect that fails, and must not fail the others: the
/// batch is halved until that outcome is alone, unless its lease is known. Then its request ends with an error of this
/// program, or is retried for its effect.
pub(super) fn fallback(mut batch: Batch, why: &Unsettled) -> Vec<Batch> {
    if batch.len() > 1 {
        if let Some(fits) = why.fits {
            return in_parts(batch, fits);
        }
        if let Some(culprit) = why.culprit {
            let alone = batch.extract_if(.., |settle| settle.lease == culprit);
            return vec![alone.collect(), batch];
        }
        let rest = batch.split_off(batch.len() / 2);
        return vec![rest, batch];
    }
    if let Outcome::Rejected(error)
    | Outcome::CheckFailed(error)
    | Outcome::Retry(Retry { error, .. })
    | Outcome::Snooze(Snooze { error: Some(error), .. }) = &mut batch[0].outcome
        && error.details.take().is_some()
    {
        // They come from the stage, and may be what cannot be stored.
        return vec![batch];
    }
    let reason = &why.error;
    let outcome = match batch[0].outcome {
        Outcome::Effect(_) if why.of_effect => Outcome::retry(RequestError::new(
            "effect_failed",
            format!("the downstream took it, but its effect failed: {reason}"),
            true,
        )),
        Outcome::Receipt(_) | Outcome::Effect(_) => Outcome::Rejected(RequestError::new(
            "unstorable_response",
            format!("the downstream took it, but its answer cannot be stored: {reason}"),
            false,
        )),
        // Every other value is made storable: one that is refused all the same waits for the end of its lease.
        _ => return Vec::new(),
    };
    vec![vec![batch[0].with(outcome)]]
}

/// Effects in parts of at most `fits`, every other batch whole; the last comes first.
pub(super) fn in_parts(mut batch: Batch, fits: usize) -> Vec<Batch> {
    let mut parts = Vec::new();
    while writes_effects(&batch) && batch.len() > fits {
        let whole = (batch.len() - 1) / fits * fits;
        parts.push(batch.split_off(whole));
    }
    parts.push(batch);
    parts
}

/// Lists in which each request is once, in order.
///
/// A request that the same worker has claimed again may have a receipt under each of its leases. Only the
/// settle of the lease that holds moves the request, so a list for each lease keeps the effect with its own settle.
fn split_repeats<T, K: Eq + Hash>(mut all: Vec<T>, request: impl Fn(&T) -> K) -> Vec<Vec<T>> {
    let mut lists = Vec::new();
    while !all.is_empty() {
        let mut requests = HashSet::new();
        let is_first = |one: &mut T| requests.insert(request(one));
        lists.push(all.extract_if(.., is_first).collect());
    }
    lists
}

#[cfg(test)]
mod tests {
    use super::split_repeats;

    #[test]
    fn a_request_under_two_leases_is_in_two_batches() {
        let leases = vec![("a", 1), ("b", 1), ("a", 2), ("c", 1), ("a", 3), ("c", 2)];
        assert_eq!(
            split_repeats(leases, |(request, _)| *request),
            [vec![("a", 1), ("b", 1), ("c", 1)], vec![("a", 2), ("c", 2)], vec![("a", 3)]]
        );
        assert!(split_repeats(Vec::<i64>::new(), |one| *one).is_empty());
    }
}
