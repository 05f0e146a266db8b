//! What a submission would be told, before it is made.

use std::sync::Arc;

use axum::{Json, extract::State};
use serde::Serialize;
use tidegate::{internals::store::Quote, retry_after::RetryAfter};
use utoipa::ToSchema;

use super::{
    answers::tenths,
    context::Api,
    openapi::{
        refusals::{Call, OfKind, Quoting, Refusals},
        schemas,
    },
    path::KindPath,
    problem::Problem,
    submit::refusal,
};
use crate::state::access::Caller;

/// What a submission would be told now.
#[derive(Serialize, ToSchema)]
#[schema(as = Quote)]
pub(super) struct Quoted {
    /// Whether a submission would be accepted or refused.
    #[schema(schema_with = schemas::quote_outcome)]
    outcome: &'static str,
    /// In how many seconds to ask for the answer; if it would be refused, in how many to submit.
    #[schema(value_type = u64, minimum = 1)]
    eta_seconds: RetryAfter,
    /// In how many seconds the answer would be there with a probability of 50 and of 90 %, to a tenth.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    eta_p50: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    eta_p90: Option<f64>,
    /// How many waiting requests would be before it in its queue; null: it would be refused.
    #[schema(minimum = 0, required)]
    position: Option<i64>,
}

impl From<Quote> for Quoted {
    fn from(quote: Quote) -> Self {
        let (outcome, position, eta_seconds, eta) = match quote {
            Quote::Accepted { position, eta } => ("accepted", Some(position), eta.retry_after, Some(eta)),
            Quote::Refused { retry_after } => ("refused", None, retry_after, None),
        };
        let eta_p50 = eta.and_then(|eta| eta.p50).map(tenths);
        let eta_p90 = eta.and_then(|eta| eta.p90).map(tenths);
        Self { outcome, eta_seconds, eta_p50, eta_p90, position }
    }
}

/// Ask what a submission would be told now.
///
/// Whether the gates would admit it, how many requests would be before it, and when to come back. Nothing is stored or
/// reserved, so a submission a moment later may be told something else.
#[utoipa::path(
    get,
    path = "/v1/{kind}/quote",
    params(KindPath),
    responses(
        (status = 200, description = "What a submission would be told now", body = Quoted),
        Refusals<(Call, OfKind, Quoting)>,
    ),
)]
pub(super) async fn quote(
    State(api): State<Arc<Api>>,
    KindPath { kind }: KindPath,
    caller: Caller,
) -> Result<Json<Quoted>, Problem> {
    let quote = api.store.quote(&kind, caller.submitter()).await;
    Ok(Json(quote.map_err(|error| refusal(&error, &kind))?.into()))
}
