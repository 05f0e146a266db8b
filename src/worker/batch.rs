//! Outcomes that one SQL function settles together.

use std::{collections::HashSet, hash::Hash};

use super::{
    effects::{self, WithEffect},
    outcome::{Outcome, Unsettled},
};
use crate::{
    request::{RequestError, Status},
    stage::Receipt,
    store::{Lease, Moved, Retry, Settle, Snooze, Store},
};

/// Outcomes of one sort.
pub(super) enum Batch {
    Passed(Vec<Settle<()>>),
    Snooze(Vec<Settle<Snooze>>),
    CheckFailed(Vec<Settle<RequestError>>),
    Receipts(Vec<Settle<Receipt>>),
    /// Receipts whose effects commit with them.
    Effects(Vec<Settle<WithEffect>>),
    Retries(Vec<Settle<Retry>>),
    Rejected(Vec<Settle<RequestError>>),
    Released(Vec<Settle<()>>),
}

/// The same done to the outcomes of a batch, of whatever sort they are.
macro_rules! outcomes {
    ($batch:expr, $outcomes:ident => $done:expr) => {
        match $batch {
            Batch::Passed($outcomes) | Batch::Released($outcomes) => $done,
            Batch::Snooze($outcomes) => $done,
            Batch::CheckFailed($outcomes) | Batch::Rejected($outcomes) => $done,
            Batch::Receipts($outcomes) => $done,
            Batch::Effects($outcomes) => $done,
            Batch::Retries($outcomes) => $done,
        }
    };
}

/// What settling a batch brought about.
pub(super) struct Settled {
    /// The requests that moved; the others were not this holder's any more.
    pub(super) moved: Vec<Moved>,
    /// Queues that were empty before and have something to claim now.
    pub(super) wake: Vec<String>,
}

impl Batch {
    /// What its outcomes say, one of [`WORDS`](super::outcome::WORDS).
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Passed(_) => "passed",
            Self::Snooze(_) => "snoozed",
            Self::CheckFailed(_) => "check_failed",
            Self::Receipts(_) | Self::Effects(_) => "receipt",
            Self::Retries(_) => "retry",
            Self::Rejected(_) => "rejected",
            Self::Released(_) => "released",
        }
    }

    /// Sorts outcomes into the batches that settle them.
    pub(super) fn sort(settles: impl Iterator<Item = Settle<Outcome>>) -> Vec<Self> {
        let mut passed = Vec::new();
        let mut snooze = Vec::new();
        let mut check_failed = Vec::new();
        let mut receipts = Vec::new();
        let mut effects = Vec::new();
        let mut retries = Vec::new();
        let mut rejected = Vec::new();
        let mut released = Vec::new();
        for mut settle in settles {
            let outcome = std::mem::replace(&mut settle.outcome, Outcome::Lost);
            match outcome {
                Outcome::Passed => passed.push(settle.with(())),
                Outcome::Snooze(what) => snooze.push(settle.with(what)),
                Outcome::CheckFailed(error) => check_failed.push(settle.with(error)),
                Outcome::Receipt(receipt, None) => receipts.push(settle.with(receipt)),
                Outcome::Receipt(receipt, Some(effect)) => {
                    effects.push(settle.with(WithEffect { receipt, effect }));
                }
                Outcome::Retry(retry) => retries.push(settle.with(retry)),
                Outcome::Rejected(error) => rejected.push(settle.with(error)),
                Outcome::Release => released.push(settle.with(())),
                // Somebody else's by now: nothing to say about it.
                Outcome::Lost => {}
            }
        }
        effects.sort_by_key(|settle| settle.lease.id);
        let mut batches = vec![
            Self::Passed(passed),
            Self::Snooze(snooze),
            Self::CheckFailed(check_failed),
            Self::Receipts(receipts),
            Self::Retries(retries),
            Self::Rejected(rejected),
            Self::Released(released),
        ];
        let lots = apart(effects, |settle| settle.outcome.effect.request.id);
        batches.extend(lots.into_iter().map(Self::Effects));
        batches.retain(|batch| batch.len() > 0);
        batches
    }

    pub(super) fn len(&self) -> usize {
        outcomes!(self, outcomes => outcomes.len())
    }

    /// Keeps only outcomes whose lease satisfies `keep`.
    pub(super) fn retain(&mut self, keep: impl Fn(&Lease) -> bool) {
        outcomes!(self, outcomes => outcomes.retain(|settle| keep(&settle.lease)));
    }

    /// One batch, one transaction; and but for effects one statement.
    pub(super) async fn settle(&self, store: &Store, queue: &str) -> Result<Settled, Unsettled> {
        let moved = match self {
            Self::Passed(outcomes) => {
                let passed = store.settle_passed(queue, outcomes).await?;
                let moved = passed.iter().map(|passed| Moved {
                    id: passed.id,
                    status: Status::Processing,
                });
                let moved = moved.collect();
                let mut wake: Vec<_> = passed
                    .into_iter()
                    .filter(|passed| passed.wake)
                    .map(|passed| passed.queue)
                    .collect();
                wake.sort();
                wake.dedup();
                return Ok(Settled { moved, wake });
            }
            Self::Snooze(outcomes) => store.settle_snooze(queue, outcomes).await?,
            Self::CheckFailed(outcomes) => store.settle_failed(queue, outcomes).await?,
            Self::Receipts(outcomes) => store.settle_receipt(queue, outcomes).await?,
            Self::Effects(outcomes) => effects::settle(store, queue, outcomes).await?,
            Self::Retries(outcomes) => store.settle_retry(queue, outcomes).await?,
            Self::Rejected(outcomes) => store.settle_rejected(queue, outcomes).await?,
            Self::Released(outcomes) => {
                let leases: Vec<_> = outcomes.iter().map(|settle| settle.lease).collect();
                store.release(queue, &leases).await?
            }
        };
        Ok(Settled {
            moved,
            wake: Vec::new(),
        })
    }

    /// What to settle instead of a batch that the database refuses for good; the last first.
    ///
    /// One outcome may carry what cannot be stored (a downstream wrote it) or an effect that fails, and must not take
    /// the others with it: the batch is halved until it stands alone, unless it is known, and then its request ends
    /// with an error of our own making, or is tried again for the sake of its effect.
    pub(super) fn instead(mut self, why: &Unsettled) -> Vec<Self> {
        if self.len() > 1 {
            if let Some(fits) = why.fits {
                return self.in_parts(fits);
            }
            if let (Self::Effects(outcomes), Some(culprit)) = (&mut self, why.culprit) {
                let alone = outcomes.extract_if(.., |settle| settle.lease == culprit);
                return vec![Self::Effects(alone.collect()), self];
            }
            let rest = self.split_off(self.len() / 2);
            return vec![rest, self];
        }
        let reason = why.error.to_string();
        match self {
            Self::Effects(outcomes) if why.of_effect => {
                vec![Self::Retries(with(outcomes, |_| Retry {
                    error: RequestError::new(
                        "effect_failed",
                        format!("the downstream took it, but its effect failed: {reason}"),
                        true,
                    ),
                    after: None,
                    may_have_left: true,
                }))]
            }
            Self::Receipts(outcomes) => vec![unstorable(outcomes, &reason)],
            Self::Effects(outcomes) => vec![unstorable(outcomes, &reason)],
            // Everything else is ours, and stored as we clean it: what is refused even so is left to its lease.
            _ => Vec::new(),
        }
    }

    /// Effects in parts of at most `fits`, everything else as it is; the last first.
    pub(super) fn in_parts(mut self, fits: usize) -> Vec<Self> {
        let mut parts = Vec::new();
        if matches!(self, Self::Effects(_)) {
            let fits = fits.max(1);
            while self.len() > fits {
                let whole = (self.len() - 1) / fits * fits;
                parts.push(self.split_off(whole));
            }
        }
        parts.push(self);
        parts
    }

    fn split_off(&mut self, at: usize) -> Self {
        match self {
            Self::Passed(outcomes) => Self::Passed(outcomes.split_off(at)),
            Self::Released(outcomes) => Self::Released(outcomes.split_off(at)),
            Self::Snooze(outcomes) => Self::Snooze(outcomes.split_off(at)),
            Self::CheckFailed(outcomes) => Self::CheckFailed(outcomes.split_off(at)),
            Self::Rejected(outcomes) => Self::Rejected(outcomes.split_off(at)),
            Self::Receipts(outcomes) => Self::Receipts(outcomes.split_off(at)),
            Self::Effects(outcomes) => Self::Effects(outcomes.split_off(at)),
            Self::Retries(outcomes) => Self::Retries(outcomes.split_off(at)),
        }
    }
}

/// Lots of which each has a request once, in order.
///
/// A request that was lost and claimed again by the same worker may have a receipt under either hold. Which of them is
/// left the database knows: it moves the request, and in a lot of its own the effect is the one of the hold that did.
fn apart<T, K: Eq + Hash>(mut all: Vec<T>, request: impl Fn(&T) -> K) -> Vec<Vec<T>> {
    let mut lots = Vec::new();
    while !all.is_empty() {
        let mut requests = HashSet::new();
        let is_first = |one: &mut T| requests.insert(request(one));
        lots.push(all.extract_if(.., is_first).collect());
    }
    lots
}

fn with<T, U>(outcomes: Vec<Settle<T>>, outcome: impl Fn(&T) -> U) -> Vec<Settle<U>> {
    outcomes
        .into_iter()
        .map(|settle| {
            let outcome = outcome(&settle.outcome);
            settle.with(outcome)
        })
        .collect()
}

fn unstorable<T>(outcomes: Vec<Settle<T>>, reason: &str) -> Batch {
    Batch::Rejected(with(outcomes, |_| {
        RequestError::new(
            "unstorable_response",
            format!("the downstream took it, but its answer cannot be stored: {reason}"),
            false,
        )
    }))
}

#[cfg(test)]
mod tests {
    use super::apart;

    #[test]
    fn a_request_under_two_holds_is_in_two_lots() {
        let holds = vec![("a", 1), ("b", 1), ("a", 2), ("c", 1), ("a", 3), ("c", 2)];
        assert_eq!(
            apart(holds, |(request, _)| *request),
            [
                vec![("a", 1), ("b", 1), ("c", 1)],
                vec![("a", 2), ("c", 2)],
                vec![("a", 3)]
            ]
        );
        assert!(apart(Vec::<i64>::new(), |one| *one).is_empty());
    }
}
