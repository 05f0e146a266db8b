//! Outcomes that are settled together.

use std::{collections::HashSet, hash::Hash};

use super::{
    effects,
    outcome::{Report, Unsettled},
};
use crate::{
    request::RequestError,
    store::{Moved, Outcome, Retry, Settle, Snooze, Store},
};

/// Outcomes that are settled in one transaction: all with effects, or none; at least one.
pub(super) type Batch = Vec<Settle<Report>>;

/// Sorts reports into batches. A lost lease has nothing to settle.
pub(super) fn sort(reports: impl Iterator<Item = Settle<Report>>) -> Vec<Batch> {
    let reports = reports.filter(|settle| !matches!(settle.outcome, Report::Lost));
    let (mut effects, plain): (Batch, Batch) = reports.partition(|settle| matches!(settle.outcome, Report::Effect(_)));
    effects.sort_by_key(|settle| settle.lease.id);
    let batches = split_repeats(effects, |settle| settle.lease.id).into_iter().chain([plain]);
    batches.filter(|batch| !batch.is_empty()).collect()
}

/// Whether each outcome of a batch is a receipt with an effect.
pub(super) fn writes_effects(batch: &[Settle<Report>]) -> bool {
    matches!(batch[0].outcome, Report::Effect(_))
}

/// Settles a batch in one transaction; without effects in one statement. Returns the requests that moved; the leases of
/// the others were lost.
pub(super) async fn settle(batch: &[Settle<Report>], store: &Store, queue: &str) -> Result<Vec<Moved>, Unsettled> {
    if writes_effects(batch) {
        let effects = batch.iter().filter_map(|settle| match &settle.outcome {
            Report::Effect(effect) => Some(settle.with(effect)),
            _ => None,
        });
        return effects::settle(store, queue, &effects.collect::<Vec<_>>()).await;
    }
    let outcomes = batch.iter().filter_map(|settle| match &settle.outcome {
        Report::Outcome(outcome) => Some(settle.with(outcome)),
        _ => None,
    });
    Ok(store.settle(queue, &outcomes.collect::<Vec<_>>()).await?)
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
    if let Report::Outcome(
        Outcome::Rejected(error)
        | Outcome::CheckFailed(error)
        | Outcome::Retry(Retry { error, .. })
        | Outcome::Snoozed(Snooze { error: Some(error), .. }),
    ) = &mut batch[0].outcome
        && error.details.take().is_some()
    {
        // They come from the stage, and may be what cannot be stored.
        return vec![batch];
    }
    let reason = &why.error;
    let outcome = match batch[0].outcome {
        Report::Effect(_) if why.of_effect => Outcome::retry(RequestError::new(
            "effect_failed",
            format!("the downstream took it, but its effect failed: {reason}"),
            true,
        )),
        Report::Outcome(Outcome::Receipt(_)) | Report::Effect(_) => Outcome::Rejected(RequestError::new(
            "unstorable_response",
            format!("the downstream took it, but its answer cannot be stored: {reason}"),
            false,
        )),
        // Every other value is made storable: one that is refused all the same waits for the end of its lease.
        _ => return Vec::new(),
    };
    vec![vec![batch[0].with(outcome.into())]]
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
