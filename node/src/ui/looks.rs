//! What the live pages show. All viewers of a node share one reading of the database a second; without viewers there is
//! none.

use std::{sync::Arc, time::Duration};

use chrono::{DateTime, Utc};
use tidegate::{
    internals::{
        error::StoreError,
        lock::lock,
        store::{
            ConfigurationWarning, EstimatorOverview, EtaFigures, Gate, GateChange, KindMinute, KindOverview,
            MaintenanceOverview, Quarantine, QueueMinute, QueueOverview, Quote, RequestCount, SnapshotHolder,
            StageLevel, Store, UnresolvedCounts, WebhookCounts, WorkerOverview,
        },
    },
    request::RequestId,
};
use tokio::time::Instant;

/// How old queues and gates may be.
const FRESH: Duration = Duration::from_secs(1);

/// How old everything else may be: it changes slowly, or costs more.
const SLOW: Duration = Duration::from_secs(5);

/// How many times as long as it takes a look is kept: of a second the database works 15 ms for queues and gates, and
/// 5 ms for everything else, however deep the queues are.
const PAUSE: u32 = 67;
const SLOW_PAUSE: u32 = 200;

/// The longest time between two looks while there are viewers.
const OLDEST: Duration = Duration::from_secs(15);

/// What charts show on the first page.
const HOUR: chrono::TimeDelta = chrono::TimeDelta::hours(1);

/// What a look has seen.
#[derive(Clone)]
pub(super) struct Look {
    began: Instant,
    /// How old it may become.
    lasts: Duration,
    /// By the clock of the node.
    pub(super) at: DateTime<Utc>,
    pub(super) queues: Vec<QueueOverview>,
    pub(super) gates: Vec<Gate>,
    pub(super) rest: Arc<Rest>,
    /// Why this is not younger; none: it is of this second.
    pub(super) stale: Option<Arc<StoreError>>,
}

impl Look {
    /// Whether it costs so much that the next one waits.
    pub(super) fn is_slow(&self) -> bool {
        self.lasts > 3 * FRESH
    }
}

/// What is looked at less often.
pub(super) struct Rest {
    began: Instant,
    lasts: Duration,
    pub(super) requests: Vec<RequestCount>,
    pub(super) kinds: Vec<KindOverview>,
    pub(super) stages: Vec<StageLevel>,
    pub(super) workers: Vec<WorkerOverview>,
    pub(super) estimators: Vec<EstimatorOverview>,
    pub(super) etas: Vec<EtaFigures>,
    pub(super) duties: Vec<MaintenanceOverview>,
    pub(super) unresolved: Vec<UnresolvedCounts>,
    pub(super) warnings: Vec<ConfigurationWarning>,
    pub(super) quarantine: Option<Quarantine>,
    pub(super) webhooks: WebhookCounts,
    pub(super) holders: Vec<SnapshotHolder>,
    pub(super) flips: Vec<GateChange>,
    /// What a submission of each kind would be told.
    pub(super) quotes: Vec<(String, Option<Quote>)>,
    /// When the first in each queue that waits is told to ask again.
    pub(super) first: Vec<(String, Option<u64>)>,
    pub(super) of_queues: Vec<QueueMinute>,
    pub(super) of_kinds: Vec<KindMinute>,
}

/// The latest look, shared by all viewers of a node.
pub(super) struct Looks {
    store: Store,
    last: std::sync::Mutex<Option<Arc<Look>>>,
    /// When an operator has last acted on this node: what was seen before may differ.
    acted_at: std::sync::Mutex<Option<Instant>>,
    /// Held by the viewer that looks; the others wait for what it sees.
    turn: tokio::sync::Mutex<()>,
}

impl Looks {
    pub(super) fn new(store: Store) -> Self {
        Self {
            store,
            last: std::sync::Mutex::default(),
            acted_at: std::sync::Mutex::default(),
            turn: tokio::sync::Mutex::default(),
        }
    }

    /// Makes the next viewer look again.
    pub(super) fn acted(&self) {
        *lock(&self.acted_at) = Some(Instant::now());
    }

    /// Whether what was seen then is young enough.
    fn is_young(&self, began: Instant, age: Duration) -> bool {
        began.elapsed() < age && lock(&self.acted_at).is_none_or(|acted_at| began >= acted_at)
    }

    fn last(&self) -> Option<Arc<Look>> {
        lock(&self.last).clone()
    }

    /// A look of this second; while the database does not answer, the last one, which says so.
    pub(super) async fn latest(&self) -> Result<Arc<Look>, Arc<StoreError>> {
        let fresh = |look: &Arc<Look>| self.is_young(look.began, look.lasts);
        if let Some(look) = self.last().filter(fresh) {
            return Ok(look);
        }
        let _turn = self.turn.lock().await;
        let last = self.last();
        if let Some(look) = last.clone().filter(fresh) {
            return Ok(look);
        }
        let look = match self.look(last.as_deref()).await {
            Ok(look) => look,
            Err(error) => {
                let error = Arc::new(error);
                let Some(last) = last else { return Err(error) };
                // Not asked again at once by each viewer.
                Look { began: Instant::now(), lasts: FRESH, stale: Some(error), ..Look::clone(&last) }
            }
        };
        let look = Arc::new(look);
        *lock(&self.last) = Some(Arc::clone(&look));
        Ok(look)
    }

    async fn look(&self, last: Option<&Look>) -> Result<Look, StoreError> {
        let began = Instant::now();
        let queues = self.store.queue_overview().await?;
        let gates = self.store.gate_states(&queues).await?;
        let lasts = (began.elapsed() * PAUSE).clamp(FRESH, OLDEST);
        let rest = match last.map(|last| &last.rest).filter(|rest| self.is_young(rest.began, rest.lasts)) {
            Some(rest) => Arc::clone(rest),
            None => Arc::new(self.rest(&queues).await?),
        };
        Ok(Look { began, lasts, at: Utc::now(), queues, gates, rest, stale: None })
    }

    async fn rest(&self, queues: &[QueueOverview]) -> Result<Rest, StoreError> {
        let store = &self.store;
        let began = Instant::now();
        let kinds = store.kinds(None).await?;
        let mut quotes = Vec::new();
        for kind in &kinds {
            let quote = match store.quote(&kind.name, None).await {
                Ok(quote) => Some(quote),
                // It has no nominal times, so no ETA; or it was removed a moment ago.
                Err(StoreError::KindNotConfigured(_) | StoreError::UnknownKind(_)) => None,
                Err(error) => return Err(error),
            };
            quotes.push((kind.name.clone(), quote));
        }
        let mut heads: Vec<(String, RequestId)> = Vec::new();
        for queue in queues.iter().filter(|queue| queue.waiting > 0) {
            let waiting = store.first_waiting(Some(&queue.queue), 1).await?;
            heads.extend(waiting.first().map(|waiting| (queue.queue.clone(), waiting.request.id)));
        }
        let ids: Vec<_> = heads.iter().map(|(_, id)| *id).collect();
        let outlooks = if ids.is_empty() { Vec::new() } else { store.outlooks(&ids).await? };
        let first = heads.into_iter().zip(outlooks).map(|((queue, _), outlook)| {
            let eta = outlook.and_then(|outlook| outlook.eta);
            (queue, eta.map(|eta| eta.retry_after.as_secs()))
        });
        let first = first.collect();
        let since = Utc::now() - HOUR;
        let mut rest = Rest {
            began,
            lasts: SLOW,
            requests: store.request_overview().await?,
            stages: store.stage_levels().await?,
            workers: store.worker_overview().await?,
            estimators: store.estimator_overview().await?,
            etas: store.eta_figures().await?,
            duties: store.maintenance_overview().await?,
            unresolved: store.unresolved_counts().await?,
            warnings: store.configuration_warnings().await?,
            quarantine: store.quarantine_state().await?,
            webhooks: store.webhook_counts().await?,
            holders: store.snapshot_holders().await?,
            flips: store.gate_history(None, 8, None).await?,
            of_queues: store.queue_history(None, since).await?,
            of_kinds: store.kind_history(None, since).await?,
            kinds,
            quotes,
            first,
        };
        rest.lasts = (began.elapsed() * SLOW_PAUSE).clamp(SLOW, OLDEST);
        Ok(rest)
    }
}
