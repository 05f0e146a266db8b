//! Liveness and readiness of the node.

use std::sync::Arc;

use axum::{Json, extract::State};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    Api,
    openapi::refusals::{Anywhere, Asking, Refusals},
    problem::Problem,
};

/// A node that is up.
#[derive(Serialize, ToSchema)]
pub(super) struct Alive {
    #[schema(inline)]
    status: Life,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Life {
    Alive,
}

/// A node that can serve.
#[derive(Serialize, ToSchema)]
pub(super) struct Ready {
    #[schema(inline)]
    status: Readiness,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Readiness {
    Ready,
}

/// `GET /livez`: the process answers. It does not check the database, because restarting a node does not repair that.
#[utoipa::path(
    get,
    path = "/livez",
    summary = "Whether this node answers",
    responses((status = 200, description = "It does", body = Alive), Refusals<Anywhere>),
)]
pub(super) async fn live() -> Json<Alive> {
    Json(Alive { status: Life::Alive })
}

/// `GET /readyz`: the database answers, is migrated and takes writes; otherwise 503 with the remedy.
#[utoipa::path(
    get,
    path = "/readyz",
    summary = "Whether this node can serve",
    responses((status = 200, description = "It can", body = Ready), Refusals<(Anywhere, Asking)>),
)]
pub(super) async fn ready(State(api): State<Arc<Api>>) -> Result<Json<Ready>, Problem> {
    api.store.check_writable().await?;
    Ok(Json(Ready {
        status: Readiness::Ready,
    }))
}
