//! Which endpoints may be asked.
//!
//! Three calls in a row without an answer open an endpoint's breaker. A survey asks every endpoint for its chain and its
//! head, every two seconds: its answer closes the breaker, unless it is that of another chain.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use alloy::primitives::U64;
use futures_util::future::join_all;
use tokio::time::{MissedTickBehavior, interval};

use super::{Chain, ChainError, Endpoint, Endpoints, RpcCall, RpcError};
use crate::node_error::Class;

const SURVEY_EVERY: Duration = Duration::from_secs(2);

/// Calls without an answer that open the breaker.
const FAILURES_MAX: u32 = 3;

/// An endpoint further behind the best one than this is not read from.
const LAG_MAX: u64 = 20;

#[derive(Default)]
pub(super) struct Health {
    /// Calls without an answer since the last one that had one.
    failures: AtomicU32,
    /// The chain of the endpoint by the last survey that it answered; 0 before.
    chain_id: AtomicU64,
    head: AtomicU64,
}

impl Endpoint {
    fn is_healthy(&self, chain_id: u64) -> bool {
        self.health.chain_id.load(Relaxed) == chain_id && self.health.failures.load(Relaxed) < FAILURES_MAX
    }

    fn reaches(&self, head: u64) -> bool {
        self.health.head.load(Relaxed) + LAG_MAX >= head
    }

    /// Counts an HTTP call, for the breaker.
    pub(super) fn note<T>(&self, outcome: &Result<T, RpcError>) {
        let Err(error) = outcome else {
            self.health.failures.store(0, Relaxed);
            return;
        };
        let failures = match error.class() {
            Class::WrongChain => self.health.failures.swap(FAILURES_MAX, Relaxed),
            class if class == Class::Limited || error.is_unreachable() => self.health.failures.fetch_add(1, Relaxed),
            _ => return,
        };
        if failures < FAILURES_MAX && self.health.failures.load(Relaxed) >= FAILURES_MAX {
            tracing::warn!(endpoint = self.name, %error, "an endpoint fails: it is not used until it answers again");
        }
    }

    /// Counts an error for the figures.
    pub(super) fn count(&self, error: &RpcError) {
        let class = if error.is_unreachable() { "no_answer" } else { error.class().name() };
        metrics::counter!("evm_endpoint_errors_total", "endpoint" => self.name.clone(), "class" => class).increment(1);
    }
}

impl Endpoints {
    /// Asks every endpoint for its chain and its head.
    pub(super) async fn survey(&self) {
        join_all(self.list.iter().map(|endpoint| self.survey_one(endpoint))).await;
    }

    async fn survey_one(&self, endpoint: &Endpoint) {
        let calls = [RpcCall::new("eth_chainId", ()), RpcCall::new("eth_blockNumber", ())];
        let answers = self.post(endpoint, &calls).await.and_then(|answers| {
            let numbers = calls.iter().zip(answers).map(|(call, answer)| Ok(call.parse::<U64>(&answer?)?.to()));
            numbers.collect::<Result<Vec<u64>, RpcError>>()
        });
        match answers.as_deref() {
            Ok(&[chain_id, head]) => {
                let before = endpoint.health.chain_id.swap(chain_id, Relaxed);
                if chain_id != self.chain_id && before != chain_id {
                    let (endpoint, wanted) = (&endpoint.name, self.chain_id);
                    tracing::error!(endpoint, chain_id, wanted, "an endpoint is of another chain: it is not used");
                }
                endpoint.health.head.store(head, Relaxed);
                let labels = [("chain", self.chain_id.to_string()), ("endpoint", endpoint.name.clone())];
                metrics::gauge!("evm_head", &labels).set(head as f64);
            }
            Ok(_) => {}
            Err(error) => endpoint.count(error),
        }
        endpoint.note(&answers);
    }

    /// The endpoints that may be asked, best first.
    pub(super) fn healthy(&self) -> impl Iterator<Item = &Endpoint> {
        self.list.iter().filter(|endpoint| endpoint.is_healthy(self.chain_id))
    }

    /// The endpoints that are known to be of this chain, also those that fail at present, if their last known head is
    /// about the newest.
    pub(super) fn of_chain(&self) -> impl Iterator<Item = &Endpoint> {
        let head = self.head();
        let of_chain = |endpoint: &&Endpoint| endpoint.health.chain_id.load(Relaxed) == self.chain_id;
        self.list.iter().filter(of_chain).filter(move |endpoint| endpoint.reaches(head))
    }

    /// The healthy endpoints that have about the newest block.
    pub(super) fn current(&self) -> impl Iterator<Item = &Endpoint> {
        let head = self.head();
        self.healthy().filter(move |endpoint| endpoint.reaches(head))
    }

    /// The newest block that the last survey found.
    pub(super) fn head(&self) -> u64 {
        self.healthy().map(|endpoint| endpoint.health.head.load(Relaxed)).max().unwrap_or(0)
    }

    /// Fails if every endpoint that has answered is of another chain.
    pub(super) fn of_this_chain(&self) -> Result<(), ChainError> {
        let chain = self.chain_id;
        let answered = self.list.iter().map(|endpoint| (endpoint, endpoint.health.chain_id.load(Relaxed)));
        let answered: Vec<_> = answered.filter(|(_, found)| *found != 0).collect();
        match answered.first() {
            Some((endpoint, found)) if answered.iter().all(|(_, found)| *found != chain) => {
                Err(ChainError::WrongChain { chain, endpoint: endpoint.name.clone(), found: *found })
            }
            _ => Ok(()),
        }
    }
}

impl Chain {
    /// The newest block that the last survey found.
    #[must_use]
    pub fn head(&self) -> u64 {
        self.endpoints.head()
    }
}

/// Surveys the endpoints for as long as a [`Chain`] has them.
pub(super) fn keep_surveying(endpoints: &Arc<Endpoints>) {
    let endpoints = Arc::downgrade(endpoints);
    tokio::spawn(async move {
        let mut ticks = interval(SURVEY_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.tick().await;
        loop {
            ticks.tick().await;
            let Some(endpoints) = endpoints.upgrade() else { return };
            endpoints.survey().await;
        }
    });
}
