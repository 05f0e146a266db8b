//! `GET /v2/keyurl`: where callers find the public key.

use std::sync::Mutex;

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{PATIENCE, Relayer, answer::Answer};
use crate::{
    config,
    labels::{Label, Refusal},
    store::Store,
};

/// The answer: that of the configuration, or the one that a process of the fleet has read last.
pub(super) struct KeyUrl {
    store: Store,
    fixed: Option<Value>,
    /// Served while the database is away.
    last: Mutex<Option<Value>>,
}

impl KeyUrl {
    pub(super) fn new(store: &tidegate::internals::store::Store, config: &config::KeyUrl) -> Self {
        let fixed = config.r#static.as_ref().map(|urls| {
            json!({
                "fheKeyInfo": [
                    {"fhePublicKey": {"dataId": urls.public_key_id, "urls": [urls.public_key_url.as_str()]}},
                ],
                "crs": {"2048": {"dataId": urls.crs_id, "urls": [urls.crs_url.as_str()]}},
            })
        });
        Self { store: Store::new(store.pool().clone()), fixed, last: Mutex::default() }
    }

    async fn answer(&self) -> Option<Value> {
        if self.fixed.is_some() {
            return self.fixed.clone();
        }
        let read = timeout(PATIENCE, self.store.key_url()).await;
        let mut last = self.last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match read {
            Ok(Ok(Some(answer))) => *last = Some(answer),
            Ok(Ok(None)) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the key URL is the one that this node has read before"),
            Err(_) => tracing::warn!("the key URL is the one that this node has read before: the database is slow"),
        }
        last.clone()
    }
}

pub(super) async fn key_url(State(relayer): State<Relayer>) -> Response {
    match relayer.0.key_url.answer().await {
        Some(answer) => Json(json!({"status": "succeeded", "response": answer})).into_response(),
        None => {
            let refusal = Refusal::new(Label::InternalServerError, "Key URL not yet initialized");
            Answer::Failed(refusal).into_response()
        }
    }
}
