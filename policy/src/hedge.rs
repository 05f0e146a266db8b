//! A second call when the first is slow, within a share of extra load.

use std::{
    future::{Future, pending, ready},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use futures_util::{StreamExt, stream::FuturesUnordered};

#[cfg(test)]
mod tests;

/// The cost of one hedge, in the unit of a share: millionths.
const ONE_HEDGE: u64 = 1_000_000;

/// How many hedges can be saved up. Without a bound, a downstream that becomes slow after a million calls would
/// get twice its load for as many calls as that.
const SAVED_HEDGES: u64 = 100;

/// How much load hedging may add: hedges as a share of first calls, over all calls that share this.
///
/// Every first call earns `share` of a hedge and every hedge spends one, so at any moment and for any number of
/// callers at once `hedges <= share * calls`. At most 100 hedges are saved up.
#[derive(Debug)]
pub struct HedgeShare {
    /// The earnings of a call, in millionths of a hedge.
    share: AtomicU64,
    /// The balance, in the same unit.
    earned: AtomicU64,
    calls: AtomicU64,
    hedges: AtomicU64,
}

impl Default for HedgeShare {
    /// Five hedges in a hundred calls.
    fn default() -> Self {
        Self::new(0.05)
    }
}

impl HedgeShare {
    /// Hedges may be this share of the calls, such as 0.05. Millionths count; below 0 is 0, and more than 1 is 1.
    #[must_use]
    pub fn new(share: f64) -> Self {
        Self {
            share: AtomicU64::new(millionths(share)),
            earned: AtomicU64::new(0),
            calls: AtomicU64::new(0),
            hedges: AtomicU64::new(0),
        }
    }

    /// From now on, calls earn this share. Earlier earnings stay.
    pub fn set(&self, share: f64) {
        self.share.store(millionths(share), Ordering::Relaxed);
    }

    /// How many first calls there were.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// How many calls were started beyond the first ones.
    #[must_use]
    pub fn hedges(&self) -> u64 {
        self.hedges.load(Ordering::Relaxed)
    }

    /// Counts a first call.
    fn call(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.earn(self.share.load(Ordering::Relaxed));
    }

    fn earn(&self, amount: u64) {
        // The closure always returns a value.
        let _ = self.earned.fetch_update(Ordering::AcqRel, Ordering::Acquire, |earned| {
            Some((earned + amount).min(SAVED_HEDGES * ONE_HEDGE))
        });
    }

    /// Reserves one hedge, if the balance allows it; dropped unused, the reservation is paid back.
    fn reserve(&self) -> Option<Reservation<'_>> {
        self.earned
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |earned| earned.checked_sub(ONE_HEDGE))
            .is_ok()
            .then(|| Reservation(self))
    }
}

fn millionths(share: f64) -> u64 {
    // A decimal share such as 0.29 may be slightly smaller in binary. The cast makes 0 of NaN.
    (share.clamp(0.0, 1.0) * 1e6 + 1e-6) as u64
}

/// One hedge, paid for.
struct Reservation<'a>(&'a HedgeShare);

impl Reservation<'_> {
    fn spend(self) {
        self.0.hedges.fetch_add(1, Ordering::Relaxed);
        // Without the drop, which would pay it back.
        std::mem::forget(self);
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.0.earn(ONE_HEDGE);
    }
}

/// The outcome of a call that may have been hedged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hedged<T> {
    /// The winner's result; the first call's error when all failed.
    pub outcome: T,
    /// How many calls were started beyond the first.
    pub hedges: u32,
    /// The call with this outcome: 0 is the first call, `n` the `n`-th hedge.
    pub winner: u32,
}

/// Calls, and calls again while there is no answer after `after`, at most `max_extra` times more and within `share`.
///
/// `call(0)` starts at once, `call(n)` when the one before it has run for `after`. The first `Ok` wins and the others
/// are dropped, which cancels them. After an `Err` the other calls go on, so a final refusal belongs in `Ok`. When the
/// last running call fails, no further call is started, and the first call's error is the outcome: hedging is against
/// slowness, failures are for [`retry`](super::retry).
///
/// The calls run inside this future, not in tasks: dropping it drops them all. It sets no limit of time.
///
/// Source: hedging in the seed's chapter 5, VI (bound `N_hedge`, bind `idemp_key`, converge on the fastest success and
/// cancel the rest). Only for calls that are safe to make twice.
pub async fn hedge<T, E, F>(
    after: Duration,
    max_extra: u32,
    share: &HedgeShare,
    call: impl FnMut(u32) -> F,
) -> Hedged<Result<T, E>>
where
    F: Future<Output = Result<T, E>>,
{
    hedge_if(after, max_extra, share, |_| ready(true), call).await
}

/// [`hedge`], where each further call asks for permission first, such as a slot of a rate limit.
///
/// `may_start(n)` is called when `call(n)` is due and `share` allows it; it may wait, and running calls go on
/// meanwhile. After a `false` no further call is started. When the answer comes first, the future is dropped with its
/// reservation: a hedge that did not start counts neither as a hedge nor against the share.
pub async fn hedge_if<T, E, F, P>(
    after: Duration,
    max_extra: u32,
    share: &HedgeShare,
    mut may_start: impl FnMut(u32) -> P,
    mut call: impl FnMut(u32) -> F,
) -> Hedged<Result<T, E>>
where
    F: Future<Output = Result<T, E>>,
    P: Future<Output = bool>,
{
    share.call();
    let mut race = Race { running: FuturesUnordered::new(), failure: None, hedges: 0 };
    race.running.push(numbered(0, call(0)));

    let mut number = 0;
    loop {
        number += 1;
        let permitted = async {
            if number <= max_extra {
                tokio::time::sleep(after).await;
                if let Some(reservation) = share.reserve()
                    && may_start(number).await
                {
                    return reservation;
                }
            }
            // No further call is started.
            pending().await
        };
        tokio::pin!(permitted);
        let reservation = loop {
            tokio::select! {
                biased;
                Some((caller, result)) = race.running.next() => {
                    if let Some(outcome) = race.answered(caller, result) {
                        return outcome;
                    }
                }
                reservation = &mut permitted => break reservation,
            }
        };
        reservation.spend();
        race.hedges = number;
        race.running.push(numbered(number, call(number)));
    }
}

async fn numbered<F: Future>(number: u32, call: F) -> (u32, F::Output) {
    (number, call.await)
}

/// The calls under way, never none.
struct Race<F, E> {
    running: FuturesUnordered<F>,
    /// The failure of the earliest call that failed: the first call's, once all have.
    failure: Option<(u32, E)>,
    hedges: u32,
}

impl<F, E> Race<F, E> {
    /// A call is over; the outcome of all, if that is known now.
    fn answered<T>(&mut self, caller: u32, result: Result<T, E>) -> Option<Hedged<Result<T, E>>> {
        let (winner, outcome) = match result {
            Ok(value) => (caller, Ok(value)),
            Err(error) => {
                let (first, error) = match self.failure.take() {
                    Some((earlier, failure)) if earlier < caller => (earlier, failure),
                    _ => (caller, error),
                };
                if !self.running.is_empty() {
                    self.failure = Some((first, error));
                    return None;
                }
                (first, Err(error))
            }
        };
        Some(Hedged { outcome, hedges: self.hedges, winner })
    }
}
