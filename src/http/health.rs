//! Is the process there, and can it serve?

use std::sync::Arc;

use axum::{Json, extract::State};
use serde_json::{Value, json};

use super::{Api, problem::Problem};

/// `GET /livez`: the process answers. It says nothing about the database, because restarting a node repairs none.
pub(super) async fn live() -> Json<Value> {
    Json(json!({ "status": "alive" }))
}

/// `GET /readyz`: the database answers and is migrated; otherwise 503, naming what to do.
pub(super) async fn ready(State(api): State<Arc<Api>>) -> Result<Json<Value>, Problem> {
    api.store.check_ready().await?;
    Ok(Json(json!({ "status": "ready" })))
}
