//! Delivers the ends of requests to webhooks: from the outbox, signed, repeated until the receiver accepts. A receiver
//! checks the signature with a library of [Standard Webhooks](https://www.standardwebhooks.com).
//!
//! Any number of processes do this concurrently. The database gives each delivery to one of them under a lease; when
//! that process dies, the lease runs out and the delivery is repeated under the same id. So a receiver gets each end at
//! least once.

mod address;
mod attempt;
mod guard;
mod retry_after;
mod signature;
mod spans;

use std::{sync::Arc, time::Duration};

use reqwest::dns::{Name, Resolve, Resolving};
use tokio::{sync::Semaphore, task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;

use self::attempt::{Clients, again};
#[doc(hidden)]
pub use self::{
    address::{Reach, reach},
    retry_after::retry_after,
    signature::sign,
};
use tidegate::internals::{
    error::warn_of,
    store::{Attempted, Delivery, Store},
    traces::Traced,
};
use tracing::Instrument;

/// How often a process without deliveries claims again.
const IDLE: Duration = Duration::from_millis(200);

/// How long a process waits before it claims again after a database error.
const DATABASE_PAUSE: Duration = Duration::from_secs(2);

/// How long deliveries under way may go on after `shutdown`.
const GRACE: Duration = Duration::from_secs(5);

/// The time before the end of the lease at which an attempt ends at the latest: it is needed for the settle.
const MARGIN: Duration = Duration::from_secs(10);

/// How a process delivers.
#[doc(hidden)]
#[derive(Clone)]
pub struct Options {
    /// How many deliveries may be under way at once.
    pub concurrency: usize,
    /// Resolves names; its addresses are checked before a connection is made.
    pub resolver: Arc<dyn Resolve>,
}

impl Default for Options {
    fn default() -> Self {
        Self { concurrency: 32, resolver: Arc::new(SystemResolver) }
    }
}

/// The machine's own resolver.
struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let addresses = tokio::net::lookup_host((name.as_str(), 0)).await?;
            Ok(Box::new(addresses.collect::<Vec<_>>().into_iter()) as _)
        })
    }
}

/// Delivers until `shutdown`; then lets deliveries under way finish for some seconds, and settles the rest for a retry.
#[doc(hidden)]
pub async fn run(store: Store, options: Options, shutdown: CancellationToken) {
    let clients = match Clients::new(&options.resolver) {
        Ok(clients) => clients,
        Err(error) => {
            tracing::error!(%error, "cannot deliver webhooks: failed to create the HTTP client");
            return;
        }
    };
    let cut_off = CancellationToken::new();
    let process = Arc::new(Process { store, clients, cut_off });
    let mut under_way = JoinSet::new();
    // Hosts that have not answered may take up half of the deliveries, and answer none of them.
    let unproven = Arc::new(Semaphore::new(options.concurrency.div_ceil(2)));
    let mut failing = false;
    while !shutdown.is_cancelled() {
        while under_way.try_join_next().is_some() {}
        let free = options.concurrency.saturating_sub(under_way.len());
        let mut pause = IDLE;
        if free > 0 {
            let began = Instant::now();
            match process.store.webhook_claim(free, unproven.available_permits()).await {
                Ok(deliveries) => {
                    failing = false;
                    let stopping = shutdown.is_cancelled();
                    for delivery in deliveries {
                        let share = Arc::clone(&unproven).try_acquire_owned().ok();
                        let share = share.filter(|_| !delivery.host_answers);
                        let delivered = Arc::clone(&process).deliver(delivery, began, stopping);
                        under_way.spawn(async move {
                            delivered.await;
                            drop(share);
                        });
                    }
                }
                Err(error) => {
                    // Logged once, not every time.
                    if !failing {
                        warn_of!(error, "failed to claim webhook deliveries");
                    }
                    failing = true;
                    pause = DATABASE_PAUSE;
                }
            }
        }
        tokio::select! {
            () = shutdown.cancelled() => {}
            // Another delivery may begin, perhaps one to the same host.
            Some(_) = under_way.join_next(), if !failing => {}
            () = tokio::time::sleep(pause) => {}
        }
    }

    let finished = async { while under_way.join_next().await.is_some() {} };
    if tokio::time::timeout(GRACE, finished).await.is_err() {
        process.cut_off.cancel();
        while under_way.join_next().await.is_some() {}
    }
}

/// The shared state of the deliveries of this process.
struct Process {
    store: Store,
    clients: Clients,
    cut_off: CancellationToken,
}

impl Process {
    /// Makes one attempt and settles it, in a span of its own if the program exports traces.
    async fn deliver(self: Arc<Self>, mut delivery: Delivery, began: Instant, stopping: bool) {
        let Some(Traced { span, traceparent }) = spans::delivery(&delivery) else {
            self.attempt(delivery, began, stopping).await;
            return;
        };
        delivery.traceparent = Some(traceparent);
        let attempted = Box::pin(self.attempt(delivery, began, stopping).instrument(span.clone())).await;
        spans::note(&span, &attempted);
    }

    /// `began` is the time of the claim's call: the lease began no earlier.
    async fn attempt(&self, delivery: Delivery, began: Instant, stopping: bool) -> Attempted {
        let lease_ends = began + delivery.lease;
        let left = (lease_ends - MARGIN).saturating_duration_since(Instant::now());
        let within = left.min(delivery.timeout);
        let attempted = if stopping || within.is_zero() {
            Attempted::Unsent
        } else {
            tokio::select! {
                attempted = self.clients.attempt(&delivery, within) => attempted,
                () = self.cut_off.cancelled() => again("the process stopped before the receiver answered".to_owned()),
            }
        };
        self.settle(&delivery, &attempted, lease_ends).await;
        attempted
    }

    /// Settles; repeats that while the database is unavailable and the lease lasts.
    async fn settle(&self, delivery: &Delivery, attempted: &Attempted, lease_ends: Instant) {
        let (request, lease_token) = (delivery.request_id, delivery.lease_token);
        loop {
            match self.store.webhook_settle(request, lease_token, attempted).await {
                Ok(Some(state)) => {
                    tracing::debug!(request.id = %request, state, ?attempted, "settled a webhook delivery");
                }
                Ok(None) => tracing::debug!(request.id = %request, "lost the lease of a webhook delivery"),
                Err(error) if error.is_transient() && Instant::now() < lease_ends => {
                    tracing::debug!(%error, "failed to settle a webhook delivery; trying again");
                    tokio::select! {
                        () = tokio::time::sleep(Duration::from_millis(500)) => continue,
                        () = self.cut_off.cancelled() => {}
                    }
                }
                Err(error) => {
                    tracing::warn!(request.id = %request, %error, "failed to settle a webhook delivery; it may be repeated");
                }
            }
            return;
        }
    }
}
