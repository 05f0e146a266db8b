//! Outcomes that one SQL function settles together.

use std::time::Duration;

use super::settler::Outcome;
use crate::{
    error::StoreError,
    request::{RequestError, Status},
    stage::Receipt,
    store::{Lease, Moved, Store},
};

/// Outcomes of one sort, each with the lease it settles.
pub(super) enum Batch {
    Passed(Vec<Lease>),
    NotYet(Vec<(Lease, Option<Duration>)>),
    CheckFailed(Vec<(Lease, RequestError)>),
    Receipts(Vec<(Lease, Receipt)>),
    Retries(Vec<(Lease, RequestError, Option<Duration>, bool)>),
    Rejected(Vec<(Lease, RequestError)>),
    Released(Vec<Lease>),
}

/// What settling a batch brought about.
pub(super) struct Settled {
    /// The requests that moved; the others were not this holder's any more.
    pub(super) moved: Vec<Moved>,
    /// Queues that were empty before and have something to claim now.
    pub(super) wake: Vec<String>,
}

impl Batch {
    /// The words for what each sort says; [`Batch::outcome`] is the place of one's own.
    pub(super) const OUTCOMES: [&str; 7] = [
        "passed",
        "not_yet",
        "check_failed",
        "receipt",
        "retry",
        "rejected",
        "released",
    ];

    pub(super) fn outcome(&self) -> usize {
        match self {
            Self::Passed(_) => 0,
            Self::NotYet(_) => 1,
            Self::CheckFailed(_) => 2,
            Self::Receipts(_) => 3,
            Self::Retries(_) => 4,
            Self::Rejected(_) => 5,
            Self::Released(_) => 6,
        }
    }

    /// Sorts outcomes into the batches that settle them.
    pub(super) fn sort(outcomes: impl Iterator<Item = (Lease, Outcome)>) -> Vec<Self> {
        let mut passed = Vec::new();
        let mut not_yet = Vec::new();
        let mut check_failed = Vec::new();
        let mut receipts = Vec::new();
        let mut retries = Vec::new();
        let mut rejected = Vec::new();
        let mut released = Vec::new();
        for (lease, outcome) in outcomes {
            match outcome {
                Outcome::Passed => passed.push(lease),
                Outcome::NotYet(after) => not_yet.push((lease, after)),
                Outcome::CheckFailed(error) => check_failed.push((lease, error)),
                Outcome::Receipt(receipt) => receipts.push((lease, receipt)),
                Outcome::Retry {
                    error,
                    after,
                    may_have_left,
                } => retries.push((lease, error, after, may_have_left)),
                Outcome::Rejected(error) => rejected.push((lease, error)),
                Outcome::Release => released.push(lease),
                // Somebody else's by now: nothing to say about it.
                Outcome::Lost => {}
            }
        }
        let mut batches = vec![
            Self::Passed(passed),
            Self::NotYet(not_yet),
            Self::CheckFailed(check_failed),
            Self::Receipts(receipts),
            Self::Retries(retries),
            Self::Rejected(rejected),
            Self::Released(released),
        ];
        batches.retain(|batch| batch.len() > 0);
        batches
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Passed(leases) | Self::Released(leases) => leases.len(),
            Self::NotYet(outcomes) => outcomes.len(),
            Self::CheckFailed(outcomes) | Self::Rejected(outcomes) => outcomes.len(),
            Self::Receipts(outcomes) => outcomes.len(),
            Self::Retries(outcomes) => outcomes.len(),
        }
    }

    /// Keeps only outcomes whose lease satisfies `keep`.
    pub(super) fn retain(&mut self, keep: impl Fn(&Lease) -> bool) {
        match self {
            Self::Passed(leases) | Self::Released(leases) => leases.retain(keep),
            Self::NotYet(outcomes) => outcomes.retain(|outcome| keep(&outcome.0)),
            Self::CheckFailed(outcomes) | Self::Rejected(outcomes) => {
                outcomes.retain(|outcome| keep(&outcome.0));
            }
            Self::Receipts(outcomes) => outcomes.retain(|outcome| keep(&outcome.0)),
            Self::Retries(outcomes) => outcomes.retain(|outcome| keep(&outcome.0)),
        }
    }

    /// One batch, one statement, one transaction.
    pub(super) async fn settle(&self, store: &Store, queue: &str) -> Result<Settled, StoreError> {
        let moved = match self {
            Self::Passed(leases) => {
                let passed = store.settle_passed(queue, leases).await?;
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
            Self::NotYet(outcomes) => store.settle_not_yet(queue, outcomes).await?,
            Self::CheckFailed(outcomes) => store.settle_failed(queue, outcomes).await?,
            Self::Receipts(outcomes) => store.settle_receipt(queue, outcomes).await?,
            Self::Retries(outcomes) => store.settle_retry(queue, outcomes).await?,
            Self::Rejected(outcomes) => store.settle_rejected(queue, outcomes).await?,
            Self::Released(leases) => store.release(queue, leases).await?,
        };
        Ok(Settled {
            moved,
            wake: Vec::new(),
        })
    }

    /// What to settle instead of a batch that the database refuses for good.
    ///
    /// One outcome may carry what cannot be stored (a downstream wrote it), and must not take the others with it: the
    /// batch is halved until it stands alone, and then its request ends with an error of our own making.
    pub(super) fn instead(mut self, reason: &str) -> Vec<Self> {
        if self.len() > 1 {
            let rest = self.split_off(self.len() / 2);
            return vec![self, rest];
        }
        match self {
            Self::Receipts(outcomes) => outcomes
                .into_iter()
                .map(|(lease, _)| {
                    let error = RequestError::new(
                        "unstorable_response",
                        format!(
                            "the downstream took it, but its answer cannot be stored: {reason}"
                        ),
                        false,
                    );
                    Self::Rejected(vec![(lease, error)])
                })
                .collect(),
            // Everything else is ours, and stored as we clean it: what is refused even so is left to its lease.
            _ => Vec::new(),
        }
    }

    fn split_off(&mut self, at: usize) -> Self {
        match self {
            Self::Passed(leases) => Self::Passed(leases.split_off(at)),
            Self::Released(leases) => Self::Released(leases.split_off(at)),
            Self::NotYet(outcomes) => Self::NotYet(outcomes.split_off(at)),
            Self::CheckFailed(outcomes) => Self::CheckFailed(outcomes.split_off(at)),
            Self::Rejected(outcomes) => Self::Rejected(outcomes.split_off(at)),
            Self::Receipts(outcomes) => Self::Receipts(outcomes.split_off(at)),
            Self::Retries(outcomes) => Self::Retries(outcomes.split_off(at)),
        }
    }
}
