//! Delivers the ends of requests to those who want to know: from the outbox, signed, again until they are taken.
//!
//! Any number of processes do this side by side. The database hands each delivery to one of them under a lease; a
//! process that dies in the middle loses it, and the delivery is made again under the same id. So a receiver hears of
//! each end at least once.

mod address;
mod attempt;
mod guard;
mod message;
mod signature;

use std::{fmt, sync::Arc, time::Duration};

use reqwest::dns::{Name, Resolve, Resolving};
use tokio::{task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;

use self::attempt::Clients;
pub use self::{
    address::{Reach, reach},
    signature::{TOLERANCE, sign, verify},
};
use crate::error::warn_of;
use crate::store::{Attempted, Delivery, Store};

/// How often a process that has nothing to deliver asks again.
const IDLE: Duration = Duration::from_millis(500);

/// How long a process that cannot reach the database waits before it asks again.
const DATABASE_PAUSE: Duration = Duration::from_secs(2);

/// How long what is under way may go on after `shutdown`.
const GRACE: Duration = Duration::from_secs(5);

/// How long before its lease runs out an attempt ends at the latest: the time to settle it.
const MARGIN: Duration = Duration::from_secs(10);

/// How a process delivers.
#[derive(Clone)]
pub struct Options {
    /// How many deliveries may be under way at once.
    pub concurrency: usize,
    /// Who turns names into addresses; what it says is judged before anything is sent there.
    pub resolver: Arc<dyn Resolve>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            concurrency: 32,
            resolver: Arc::new(SystemResolver),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("concurrency", &self.concurrency)
            .finish_non_exhaustive()
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

/// Delivers until `shutdown`; then lets what is under way finish for a few seconds, and gives back the rest.
pub async fn run(store: Store, options: Options, shutdown: CancellationToken) {
    let clients = match Clients::new(&options.resolver) {
        Ok(clients) => clients,
        Err(error) => {
            tracing::error!(%error, "no webhook is delivered: there is no HTTP client");
            return;
        }
    };
    let process = Arc::new(Process {
        store,
        clients,
        cut_off: CancellationToken::new(),
    });
    let mut under_way = JoinSet::new();
    let mut failing = false;
    while !shutdown.is_cancelled() {
        while under_way.try_join_next().is_some() {}
        let free = options.concurrency.saturating_sub(under_way.len());
        let mut pause = IDLE;
        if free > 0 {
            let began = Instant::now();
            match process.store.webhook_claim(free).await {
                Ok(deliveries) => {
                    failing = false;
                    for delivery in deliveries {
                        let process = Arc::clone(&process);
                        let stopping = shutdown.is_cancelled();
                        under_way.spawn(async move {
                            process.deliver(delivery, began, stopping).await;
                        });
                    }
                }
                Err(error) => {
                    // Said once, not every time.
                    if !failing {
                        warn_of!(error, "webhooks are held up");
                    }
                    failing = true;
                    pause = DATABASE_PAUSE;
                }
            }
        }
        tokio::select! {
            () = shutdown.cancelled() => {}
            // A place is free, perhaps one of those that its host allows.
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

/// What the deliveries of this process share.
struct Process {
    store: Store,
    clients: Clients,
    cut_off: CancellationToken,
}

impl Process {
    /// Makes one attempt and settles it. `began` is when the claim was asked for: the lease is not shorter than that.
    async fn deliver(&self, delivery: Delivery, began: Instant, stopping: bool) {
        let lease_ends = began + delivery.lease;
        let within = (lease_ends - MARGIN)
            .saturating_duration_since(Instant::now())
            .min(delivery.timeout);
        let attempted = if stopping || within.is_zero() {
            Attempted::Unsent
        } else {
            tokio::select! {
                attempted = self.clients.attempt(&delivery, within) => attempted,
                () = self.cut_off.cancelled() => Attempted::Retry {
                    status: None,
                    error: "the deliverer stopped before there was an answer".to_owned(),
                    wait: None,
                },
            }
        };
        self.settle(&delivery, &attempted, lease_ends).await;
    }

    /// Settles, again and again while the database is away and the lease holds.
    async fn settle(&self, delivery: &Delivery, attempted: &Attempted, lease_ends: Instant) {
        let (request, nonce) = (delivery.request_id, delivery.nonce);
        loop {
            match self.store.webhook_settle(request, nonce, attempted).await {
                // What became of it is in the outbox.
                Ok(Some(state)) => {
                    tracing::debug!(request.id = %request, state, ?attempted, "a webhook");
                }
                Ok(None) => tracing::debug!(request.id = %request, "a webhook held no more"),
                Err(error) if error.is_transient() && Instant::now() < lease_ends => {
                    tracing::debug!(%error, "cannot settle a webhook yet");
                    tokio::select! {
                        () = tokio::time::sleep(Duration::from_millis(500)) => continue,
                        () = self.cut_off.cancelled() => {}
                    }
                }
                Err(error) => {
                    tracing::warn!(request.id = %request, %error, "a webhook may be delivered twice");
                }
            }
            return;
        }
    }
}
