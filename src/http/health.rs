//! Is the process there, and can it serve?

use std::sync::Arc;

use axum::{Json, extract::State};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    Api,
    openapi::refusals::{Anywhere, Asking, Refusals},
    problem::Problem,
};

/// A node that answers.
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

/// `GET /livez`: the process answers. It says nothing about the database, because restarting a node repairs none.
#[utoipa::path(
    get,
    path = "/livez",
    operation_id = "live",
    tag = "health",
    summary = "Whether this node answers",
    responses((status = 200, description = "It does", body = Alive), Refusals<Anywhere>),
    security(()),
)]
pub(super) async fn live() -> Json<Alive> {
    Json(Alive { status: Life::Alive })
}

/// `GET /readyz`: the database answers, is migrated and takes writes; otherwise 503, naming what to do.
#[utoipa::path(
    get,
    path = "/readyz",
    operation_id = "ready",
    tag = "health",
    summary = "Whether this node can serve",
    responses((status = 200, description = "It can", body = Ready), Refusals<(Anywhere, Asking)>),
    security(()),
)]
pub(super) async fn ready(State(api): State<Arc<Api>>) -> Result<Json<Ready>, Problem> {
    api.store.check_writable().await?;
    Ok(Json(Ready {
        status: Readiness::Ready,
    }))
}
