//! Whether this node lives, and whether what it depends on answers.

use std::{collections::BTreeMap, time::Duration};

use axum::{Json, extract::State, http::StatusCode};
use futures_util::future::join_all;
use serde::Serialize;
use serde_json::{Value, json};
use tidegate::internals::store::Store;
use tidegate_evm::{
    Chain,
    store::{Store as Wallets, WalletOverview},
};
use tokio::{
    sync::Mutex,
    time::{Instant, timeout},
};

use super::Relayer;
use crate::{config::Gateway, watch::WATCHER};

/// How long an answer holds: checks of health, however many, ask the endpoints no more often.
const HOLDS: Duration = Duration::from_secs(2);

/// How long a dependency may take.
const PATIENCE: Duration = Duration::from_secs(3);

/// For how long the watcher may stand where an endpoint's chain does not.
const STANDSTILL: Duration = Duration::from_secs(120);

/// For how long a nonce may be signed and not mined.
const UNMINED: Duration = Duration::from_secs(30);

/// What the relayer depends on.
pub(super) struct Dependencies {
    store: Store,
    wallets: Wallets,
    chain_id: u64,
    /// How many blocks below the newest one the watcher does not read.
    confirmations: u64,
    /// The gateway's endpoints, each by itself; `None` for one that is of another chain.
    endpoints: Vec<Option<Chain>>,
    last: Mutex<Last>,
}

/// What was found last.
#[derive(Default)]
struct Last {
    health: Option<(Instant, BTreeMap<String, Health>)>,
    /// Of each endpoint.
    standstills: Vec<Standstill>,
}

/// A watcher that stands where a chain does not: it cannot read it, or has read another one.
#[derive(Default)]
struct Standstill {
    cursor: Option<u64>,
    since: Option<Instant>,
}

impl Standstill {
    /// Whether it has lasted for too long, by the watcher's cursor and the block that it should be at.
    fn lasts(&mut self, cursor: Option<u64>, wanted: u64, now: Instant) -> bool {
        let stands = cursor == self.cursor && cursor != Some(wanted);
        self.cursor = cursor;
        if !stands {
            self.since = None;
        }
        cursor != Some(wanted) && now.duration_since(*self.since.get_or_insert(now)) >= STANDSTILL
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Health {
    Ok,
    Fail,
}

impl From<bool> for Health {
    fn from(answers: bool) -> Self {
        if answers { Self::Ok } else { Self::Fail }
    }
}

impl Dependencies {
    pub(super) async fn new(store: Store, gateway: &Gateway) -> Self {
        let endpoints = gateway.http.iter();
        let endpoints = endpoints.map(|url| async {
            let chain = Chain::connect(gateway.chain_id, std::slice::from_ref(url)).await;
            chain.inspect_err(|error| tracing::error!(%error, "an endpoint of the gateway is not used")).ok()
        });
        let endpoints = join_all(endpoints).await;
        Self {
            wallets: Wallets::new(store.pool().clone()),
            store,
            chain_id: gateway.chain_id,
            confirmations: gateway.confirmations,
            last: Mutex::new(Last {
                standstills: endpoints.iter().map(|_| Standstill::default()).collect(),
                health: None,
            }),
            endpoints,
        }
    }

    /// The health of each, by its name.
    async fn health(&self) -> BTreeMap<String, Health> {
        let Last { health: last, standstills } = &mut *self.last.lock().await;
        if let Some((at, health)) = &*last
            && at.elapsed() < HOLDS
        {
            return health.clone();
        }
        let heads = join_all(self.endpoints.iter().map(|chain| async {
            let head = timeout(PATIENCE, chain.as_ref()?.block_number()).await;
            head.ok()?.ok()
        }));
        let database = timeout(PATIENCE, self.store.check_writable());
        let cursor = timeout(PATIENCE, self.wallets.watched_up_to(WATCHER, self.chain_id));
        let unmined = timeout(PATIENCE, self.wallets.overview(self.chain_id));
        let (database, heads, cursor, unmined) = tokio::join!(database, heads, cursor, unmined);
        let is_unmined = |wallet: &WalletOverview| wallet.unmined.is_some_and(|age| age >= UNMINED);
        let mined = matches!(&unmined, Ok(Ok(wallets)) if !wallets.iter().any(is_unmined));
        let mut health = BTreeMap::from([
            ("database".to_owned(), matches!(database, Ok(Ok(()))).into()),
            ("gateway_http".to_owned(), heads.iter().any(Option::is_some).into()),
            ("wallets".to_owned(), mined.into()),
        ]);
        let now = Instant::now();
        for (place, (head, standstill)) in heads.into_iter().zip(standstills).enumerate() {
            let mut stands = |head: u64| match &cursor {
                Ok(Ok(cursor)) => standstill.lasts(*cursor, head.saturating_sub(self.confirmations), now),
                _ => false,
            };
            let listens = head.is_some_and(|head| !stands(head));
            health.insert(format!("gateway_listener_{place}"), listens.into());
        }
        *last = Some((now, health.clone()));
        health
    }
}

pub(super) async fn liveness() -> Json<Value> {
    Json(json!({"status": "alive"}))
}

/// 503 while the database fails or no endpoint answers, for then this node can serve nothing. It goes on to take requests
/// and to answer polls while an endpoint of several, the watcher, or a wallet fails: these only show.
pub(super) async fn health(State(relayer): State<Relayer>) -> (StatusCode, Json<Value>) {
    let dependencies = relayer.0.dependencies.health().await;
    let healthy = ["database", "gateway_http"].iter().all(|name| dependencies.get(*name) == Some(&Health::Ok));
    let (code, status) = match healthy {
        true => (StatusCode::OK, "healthy"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "unhealthy"),
    };
    (code, Json(json!({"status": status, "dependencies": dependencies})))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watcher_stands_still_when_its_cursor_has_been_elsewhere_for_two_minutes_without_a_move() {
        let (start, mut standstill) = (Instant::now(), Standstill::default());
        let mut at = |seconds, cursor, wanted| standstill.lasts(cursor, wanted, start + Duration::from_secs(seconds));
        // The chain is shorter than what was read.
        assert!(!at(0, Some(5914), 40));
        assert!(!at(119, Some(5914), 45));
        assert!(at(120, Some(5914), 45));
        assert!(at(500, Some(5914), 50));
        // It moves, however far it is behind.
        for second in 501..700 {
            assert!(!at(second, Some(second), 10_000));
        }
        // It is where it should be, and a new block is no standstill.
        assert!(!at(701, Some(10_000), 10_000));
        assert!(!at(2000, Some(10_000), 10_000));
        assert!(!at(2001, Some(10_000), 10_001));
        assert!(at(2121, Some(10_000), 10_002));
        // Nothing watches.
        assert!(!at(2122, None, 10_003));
        assert!(at(2242, None, 10_004));
    }
}
