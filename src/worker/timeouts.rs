//! Learned timeouts of a process: each call changes them, and once an interval a report goes to the estimator that the
//! fleet shares, whose estimate comes back.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use tidegate_policy::adaptive_timeout::Estimator;
use tokio::{sync::Notify, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{
    error::{StoreError, warn_of},
    lock::lock,
    request::Stage,
    store::{Claimed, KnownTimeout, Store},
};

/// The least time between two rounds of reports.
const LEAST_PAUSE: Duration = Duration::from_millis(100);

/// The pause after a report that the database did not store.
const ERROR_PAUSE: Duration = Duration::from_secs(1);

/// How often a report is repeated because another process was faster.
const ATTEMPTS: u32 = 10;

/// The time limit of the last reports of a process.
const LAST_LIMIT: Duration = Duration::from_secs(2);

/// Reports of a fleet that ends its intervals together are spread over this part of an interval.
const SPREAD: u32 = 20;

/// The learned timeouts of a process, for all of its queues.
pub(super) struct LearnedTimeouts {
    store: Store,
    worker: String,
    began: Instant,
    learned: Mutex<HashMap<(Stage, String), Arc<LearnedTimeout>>>,
    /// Notified when a report should not wait for the end of its interval.
    early: Arc<Notify>,
}

/// The learned timeout of one dependency: a stage of a kind.
pub(super) struct LearnedTimeout {
    stage: Stage,
    kind: String,
    early: Arc<Notify>,
    /// The start of the estimator's clock.
    began: Instant,
    inner: Mutex<Inner>,
}

struct Inner {
    estimator: Estimator,
    /// When to report.
    due: Instant,
    /// The version of the policy in the last claim: another version may have other bounds.
    policy_version: Option<i32>,
}

/// A call under way. One that is dropped without an end is no sample.
pub(super) struct TimedCall {
    learned: Arc<LearnedTimeout>,
    pub(super) timeout: Duration,
    has_ended: bool,
}

impl LearnedTimeouts {
    pub(super) fn new(store: Store, worker: String) -> Self {
        Self { store, worker, began: Instant::now(), learned: Mutex::default(), early: Arc::default() }
    }

    /// The learned timeouts of claimed requests, by kind, as the fleet knows them. A call without one has the timeout
    /// of its policy.
    pub(super) async fn of(&self, stage: Stage, claimed: &[Claimed]) -> HashMap<String, Arc<LearnedTimeout>> {
        let adaptive: BTreeMap<_, _> = claimed
            .iter()
            .filter(|claimed| claimed.adaptive)
            .map(|claimed| (claimed.request.kind.clone(), claimed.policy_version))
            .collect();
        let is_missing = |kind: &&String| !lock(&self.learned).contains_key(&(stage, String::clone(kind)));
        let missing: Vec<_> = adaptive.keys().filter(is_missing).cloned().collect();
        if !missing.is_empty() {
            self.load(stage, &missing).await;
        }
        let learned = lock(&self.learned);
        let of_kind = |(kind, version)| {
            let found = Arc::clone(learned.get(&(stage, String::clone(&kind)))?);
            found.note_policy(version);
            Some((kind, found))
        };
        adaptive.into_iter().filter_map(of_kind).collect()
    }

    /// Loads the estimates of these kinds.
    async fn load(&self, stage: Stage, kinds: &[String]) {
        let known = match self.store.read_timeouts(kinds, stage, &self.worker).await {
            Ok(known) => known,
            Err(error) => {
                warn_of!(
                    error,
                    kinds = kinds.join(" "),
                    "failed to load learned timeouts; calls have those of their policies"
                );
                return;
            }
        };
        for known in known.into_iter().filter(|known| known.adaptive) {
            let due = Instant::now() + next_report(&known);
            let estimator = match Estimator::new(known.config, known.estimate, known.sequence, self.began.elapsed()) {
                Ok(estimator) => estimator,
                Err(error) => {
                    tracing::warn!(%error, "invalid configuration of a learned timeout; calls have that of their policy");
                    continue;
                }
            };
            let inner = Inner { estimator, due, policy_version: None };
            let learned = LearnedTimeout {
                stage,
                kind: known.kind.clone(),
                early: Arc::clone(&self.early),
                began: self.began,
                inner: Mutex::new(inner),
            };
            lock(&self.learned).entry((stage, known.kind)).or_insert(Arc::new(learned));
            // The next report may be due before the one that the reporting task waits for.
            self.early.notify_one();
        }
    }

    /// Reports at the end of each interval, until `end`; then the rest.
    pub(super) async fn run(self: Arc<Self>, end: CancellationToken) {
        let round = async || {
            let next = self.all().iter().map(|learned| lock(&learned.inner).due).min();
            tokio::select! {
                () = self.early.notified() => {}
                () = tokio::time::sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
            }
            for learned in self.all() {
                if learned.is_due() && !self.forget_idle(&learned) {
                    self.report(&learned).await;
                }
            }
            tokio::time::sleep(LEAST_PAUSE).await;
        };
        // A report that is cut off may have been stored: the last reports read its number.
        while end.run_until_cancelled(round()).await.is_some() {}
        let last = async {
            // A report that was cut off is repeated unchanged; a second one has the calls that ended after it.
            for learned in self.all().iter().flat_map(|learned| [learned; 2]) {
                if !self.forget_idle(learned) {
                    self.report(learned).await;
                }
            }
        };
        if tokio::time::timeout(LAST_LIMIT, last).await.is_err() {
            tracing::debug!("the last report of learned timeouts was not stored in time");
        }
    }

    /// Folds a report into the estimate of the fleet. When another process was faster, reads its estimate and folds
    /// again.
    async fn report(&self, learned: &LearnedTimeout) {
        for _ in 0..ATTEMPTS {
            match self.try_report(learned).await {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => {
                    tracing::debug!(kind = learned.kind, %error, "failed to report learned timeouts");
                    break;
                }
            }
        }
        lock(&learned.inner).due = Instant::now() + ERROR_PAUSE;
    }

    /// Whether the report was folded, or none is needed.
    async fn try_report(&self, learned: &LearnedTimeout) -> Result<bool, StoreError> {
        let stage = learned.stage;
        let kinds = [learned.kind.clone()];
        let mut known = self.store.read_timeouts(&kinds, stage, &self.worker).await?;
        let Some(known) = known.pop().filter(|known| known.adaptive) else {
            // Its policy is not adaptive any more.
            lock(&self.learned).remove(&(stage, kinds.concat()));
            return Ok(true);
        };
        let (report, estimate) = {
            let mut inner = lock(&learned.inner);
            if let Err(error) = inner.estimator.configure(known.config.clone()) {
                tracing::warn!(%error, "invalid configuration of a learned timeout; the one before is kept");
            }
            let report = inner.estimator.report(self.began.elapsed());
            if known.sequence >= report.sequence {
                // It had been stored, and only the answer was lost.
                learned.reported(inner, &known);
                return Ok(true);
            }
            let mut estimate = known.estimate.clone();
            estimate.fold(inner.estimator.config(), &report, known.others_rps, known.now_us);
            (report, estimate)
        };
        let Self { store, worker, .. } = self;
        let is_folded = store.fold_timeouts(&known, stage, &estimate, &report, worker).await?;
        if is_folded {
            learned.reported(lock(&learned.inner), &KnownTimeout { estimate, ..known });
        }
        Ok(is_folded)
    }

    /// Forgets a timeout that no call has used for an interval: the next call loads the estimate of the fleet.
    fn forget_idle(&self, learned: &Arc<LearnedTimeout>) -> bool {
        let mut all = lock(&self.learned);
        // The map has one reference and the caller another; a call would have a third.
        let is_idle = Arc::strong_count(learned) <= 2 && lock(&learned.inner).estimator.is_idle();
        if is_idle {
            all.remove(&(learned.stage, learned.kind.clone()));
        }
        is_idle
    }

    fn all(&self) -> Vec<Arc<LearnedTimeout>> {
        lock(&self.learned).values().cloned().collect()
    }
}

impl LearnedTimeout {
    /// Takes the policy version of a claim. A new version is read soon.
    fn note_policy(&self, version: i32) {
        let mut inner = lock(&self.inner);
        let before = inner.policy_version.replace(version);
        if before.is_some_and(|before| before != version) {
            inner.due = Instant::now();
            drop(inner);
            self.early.notify_one();
        }
    }

    /// A call begins.
    pub(super) fn begin(self: &Arc<Self>) -> TimedCall {
        TimedCall { timeout: lock(&self.inner).estimator.begin(), learned: Arc::clone(self), has_ended: false }
    }

    fn is_due(&self) -> bool {
        let inner = lock(&self.inner);
        inner.due <= Instant::now() || inner.estimator.is_early(self.began.elapsed())
    }

    fn reported(&self, mut inner: MutexGuard<'_, Inner>, known: &KnownTimeout) {
        inner.estimator.folded(known.estimate.clone());
        inner.due = Instant::now() + next_report(known);
        drop(inner);
        tracing::debug!(
            kind = self.kind,
            stage = self.stage.as_str(),
            timeout_ms = known.estimate.timeout_ns / 1_000_000,
            k_margin = known.estimate.k_margin,
            "timeouts reported"
        );
    }

    fn ended(&self, how: impl FnOnce(&mut Estimator)) {
        let is_early = {
            let estimator = &mut lock(&self.inner).estimator;
            how(estimator);
            estimator.is_early(self.began.elapsed())
        };
        if is_early {
            self.early.notify_one();
        }
    }
}

impl TimedCall {
    /// The call ends with a sample.
    pub(super) fn end(mut self, sample: impl FnOnce(&mut Estimator)) {
        self.has_ended = true;
        self.learned.ended(sample);
    }
}

impl Drop for TimedCall {
    fn drop(&mut self) {
        if !self.has_ended {
            self.learned.ended(Estimator::dropped);
        }
    }
}

/// The time until the next report: soon after the end of the fleet's interval, which the first report closes.
fn next_report(known: &KnownTimeout) -> Duration {
    let interval = known.config.interval;
    let closes_in = known.estimate.closes_in(&known.config, known.now_us);
    closes_in.max(interval / 2) + (interval / SPREAD).mul_f64(rand::random())
}
