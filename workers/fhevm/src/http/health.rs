//! Whether this node lives, and whether what it depends on answers.

use std::{collections::BTreeMap, time::Duration};

use alloy::primitives::U64;
use axum::{Json, extract::State, http::StatusCode};
use futures_util::future::join_all;
use serde::Serialize;
use serde_json::{Value, json};
use tidegate::store::Store;
use tidegate_evm::Chain;
use tokio::{
    sync::Mutex,
    time::{Instant, timeout},
};

use super::Relayer;
use crate::config::Gateway;

/// How long an answer holds: checks of health, however many, ask the endpoints no more often.
const HOLDS: Duration = Duration::from_secs(2);

/// How long a dependency may take.
const PATIENCE: Duration = Duration::from_secs(3);

/// What the relayer depends on.
pub(super) struct Dependencies {
    store: Store,
    /// The gateway's endpoints, each by itself; `None` for one that is of another chain.
    endpoints: Vec<Option<Chain>>,
    last: Mutex<Option<(Instant, BTreeMap<String, Health>)>>,
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
            chain
                .inspect_err(|error| tracing::error!(%error, "an endpoint of the gateway is not used"))
                .ok()
        });
        Self {
            store,
            endpoints: join_all(endpoints).await,
            last: Mutex::default(),
        }
    }

    /// The health of each, by its name.
    async fn health(&self) -> BTreeMap<String, Health> {
        let mut last = self.last.lock().await;
        if let Some((at, health)) = &*last
            && at.elapsed() < HOLDS
        {
            return health.clone();
        }
        let endpoints = join_all(self.endpoints.iter().map(|chain| async {
            let Some(chain) = chain else { return false };
            matches!(
                timeout(PATIENCE, chain.read::<U64>("eth_chainId", json!([]))).await,
                Ok(Ok(_))
            )
        }));
        let database = timeout(PATIENCE, self.store.check_writable());
        let (database, endpoints) = tokio::join!(database, endpoints);
        let mut health = BTreeMap::from([
            ("database".to_owned(), matches!(database, Ok(Ok(()))).into()),
            ("gateway_http".to_owned(), endpoints.contains(&true).into()),
        ]);
        let listeners = endpoints.into_iter().enumerate();
        health.extend(listeners.map(|(place, answers)| (format!("gateway_listener_{place}"), answers.into())));
        *last = Some((Instant::now(), health.clone()));
        health
    }
}

pub(super) async fn liveness() -> Json<Value> {
    Json(json!({"status": "alive"}))
}

/// 503 while a dependency fails; one endpoint of several may.
pub(super) async fn health(State(relayer): State<Relayer>) -> (StatusCode, Json<Value>) {
    let dependencies = relayer.0.dependencies.health().await;
    let healthy = ["database", "gateway_http"]
        .iter()
        .all(|name| dependencies.get(*name) == Some(&Health::Ok));
    let (code, status) = match healthy {
        true => (StatusCode::OK, "healthy"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "unhealthy"),
    };
    (code, Json(json!({"status": status, "dependencies": dependencies})))
}
