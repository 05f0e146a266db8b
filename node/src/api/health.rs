//! Liveness and readiness of the node.

use std::sync::Arc;

use axum::{Json, extract::State};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    context::Api,
    openapi::refusals::{Anywhere, Asking, Refusals},
    problem::Problem,
};

/// A node that answers, or that can serve.
#[derive(Serialize, ToSchema)]
pub(super) struct Health {
    #[schema(inline)]
    status: HealthStatus,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum HealthStatus {
    Alive,
    Ready,
}

/// Whether this node answers.
///
/// This call does not check the database, because restarting a node does not repair that.
#[utoipa::path(
    get,
    path = "/livez",
    responses((status = 200, description = "It does", body = Health), Refusals<Anywhere>),
)]
pub(super) async fn live() -> Json<Health> {
    let status = HealthStatus::Alive;
    Json(Health { status })
}

/// Whether this node can serve.
///
/// The database answers, is migrated and takes writes; otherwise 503 with the remedy.
#[utoipa::path(
    get,
    path = "/readyz",
    responses((status = 200, description = "It can", body = Health), Refusals<(Anywhere, Asking)>),
)]
pub(super) async fn ready(State(api): State<Arc<Api>>) -> Result<Json<Health>, Problem> {
    api.store.check_writable().await?;
    let status = HealthStatus::Ready;
    Ok(Json(Health { status }))
}
