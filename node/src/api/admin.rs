//! The calls of operators: configuration, kinds, queues, gates, quotas and single requests. One router, so that one layer
//! guards all of it.

mod changes;
mod config;
mod fair_keys;
mod gates;
mod kinds;
mod many;
mod minutes;
mod queues;
mod quotas;
mod request_list;
mod requests;

use std::{convert::Infallible, sync::Arc};

use axum::{
    Json, Router,
    extract::{FromRequestParts, Query},
    http::request::Parts,
    routing::any,
};
use serde::de::DeserializeOwned;
use tidegate::{
    internals::store::{Store, Watched},
    request::RequestId,
};
use utoipa::IntoParams;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    context::Api,
    layers::unknown_path,
    path::parameter,
    problem::{INVALID_PARAMETER, Problem, UNKNOWN_QUEUE, UNKNOWN_QUOTA, UNKNOWN_REQUEST, UNKNOWN_SETTING},
};
use crate::state::access::Caller;

/// Everything below `/v1/admin`.
pub(super) fn routes() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::new()
        .routes(routes!(config::settings, config::change_settings))
        .routes(routes!(config::settings_history))
        .routes(routes!(config::setting))
        .routes(routes!(kinds::kinds, kinds::add_kind))
        .routes(routes!(kinds::remove_kind))
        .routes(routes!(kinds::pause_kind))
        .routes(routes!(kinds::resume_kind))
        .routes(routes!(minutes::kind_history))
        .routes(routes!(minutes::queue_history))
        .routes(routes!(queues::queues, queues::add_queue))
        .routes(routes!(queues::remove_queue))
        .routes(routes!(queues::submitters))
        .routes(routes!(fair_keys::keys, fair_keys::set_key))
        .routes(routes!(queues::pause))
        .routes(routes!(queues::resume))
        .routes(routes!(gates::gates))
        .routes(routes!(gates::gates_history))
        .routes(routes!(gates::gate, gates::mark_gate))
        .routes(routes!(gates::close_gate))
        .routes(routes!(gates::open_gate))
        .routes(routes!(gates::release_gate))
        .routes(routes!(quotas::quota, quotas::put_quota))
        .routes(routes!(quotas::mark_quota, quotas::remove_quota))
        .routes(routes!(quotas::close_quota))
        .routes(routes!(quotas::open_quota))
        .routes(routes!(quotas::release_quota))
        .routes(routes!(request_list::requests))
        .routes(routes!(request_list::waiting))
        .routes(routes!(many::cancel_requests))
        .routes(routes!(many::redrive_requests))
        .routes(routes!(requests::fail))
}

/// The parameters of a call; any other is refused.
fn read_query<T: DeserializeOwned>(parts: &Parts) -> Result<T, Problem> {
    let query = Query::try_from_uri(&parts.uri);
    let Query(parameters) = query.map_err(|rejection| INVALID_PARAMETER.because(rejection.body_text()))?;
    Ok(parameters)
}

/// Answers every other path below `/v1/admin` with 404, because no kind is named `admin`.
pub(super) fn nothing_else(routes: Router<Arc<Api>>) -> Router<Arc<Api>> {
    routes.route("/v1/admin", any(unknown_path)).route("/v1/admin/{*rest}", any(unknown_path))
}

/// The store; the history of the configuration records its changes under the caller's name.
struct AdminStore(Store);

impl FromRequestParts<Arc<Api>> for AdminStore {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Self, Infallible> {
        let name = parts.extensions.get().and_then(Caller::name);
        Ok(Self(api.store.clone().on_behalf_of(name.as_deref().unwrap_or("http"))))
    }
}

/// The answer to a call of an operator.
type Answer<T> = Result<Json<T>, Problem>;

/// Reads the parameters of a path, which PostgreSQL has to be able to store as text.
macro_rules! storable {
    ($path:ident { $($name:ident),+ }, $unknown:ident, $check:expr) => {
        impl<S: Send + Sync> FromRequestParts<S> for $path {
            type Rejection = Problem;

            async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
                $(let $name = match parameter(parts, state, stringify!($name)).await {
                    Ok(value) if !value.contains('\0') => value,
                    _ => return Err($unknown.because("the path is not text")),
                };)+
                $check(Self { $($name),+ })
            }
        }
    };
}

use storable;

/// A path that names a gate.
trait GatePath {
    /// The gate's name in the database.
    fn gate(&self) -> String;

    /// The answer when there is no such gate.
    fn unknown(&self) -> Problem;
}

/// A path that names a queue.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
struct QueuePath {
    /// The queue, as the database names it.
    #[param(pattern = "^[a-z][a-z0-9_]{0,39}$", example = "tx")]
    queue: String,
}

storable!(QueuePath { queue }, UNKNOWN_QUEUE, Ok);

impl GatePath for QueuePath {
    fn gate(&self) -> String {
        self.queue.clone()
    }

    fn unknown(&self) -> Problem {
        UNKNOWN_QUEUE.because(format!("there is no queue \"{}\"", self.queue))
    }
}

/// A path that names a quota.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
struct QuotaPath {
    /// What it limits: `kind` or `submitter`.
    #[param(pattern = "^(kind|submitter)$", example = "kind")]
    of: String,
    /// The kind, as the database names it, or the submitter.
    #[param(min_length = 1, max_length = 200, example = "direct")]
    name: String,
}

storable!(QuotaPath { of, name }, UNKNOWN_QUOTA, Self::check);

impl QuotaPath {
    fn check(self) -> Result<Self, Problem> {
        if self.name.chars().count() > 200 {
            return Err(UNKNOWN_QUOTA.because("kinds and submitters have at most 200 characters"));
        }
        if !matches!(self.of.as_str(), "kind" | "submitter") {
            return Err(UNKNOWN_QUOTA.because("a quota is of a kind or of a submitter"));
        }
        Ok(self)
    }

    fn watched(&self) -> Watched {
        match self.of.as_str() {
            "kind" => Watched::Kind(self.name.clone()),
            _ => Watched::Submitter(self.name.clone()),
        }
    }
}

impl GatePath for QuotaPath {
    fn gate(&self) -> String {
        self.watched().gate()
    }

    fn unknown(&self) -> Problem {
        UNKNOWN_QUOTA.because(format!("the {} \"{}\" has no quota", self.of, self.name))
    }
}

/// A path that names a setting.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
struct SettingPath {
    /// A setting's documented name, or the name of a queue, a kind or a `KIND.STAGE` for all of its settings.
    #[param(min_length = 1, example = "tx.per_seconds")]
    name: String,
}

storable!(SettingPath { name }, UNKNOWN_SETTING, Ok);

/// A path that names a request of any kind.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
struct RequestPath {
    /// The id that the submission was answered with.
    #[param(rename = "job_id", value_type = uuid::Uuid, example = "01a1f8bb-a1f9-70c0-84de-b7fe94f3591c")]
    id: RequestId,
}

impl<S: Send + Sync> FromRequestParts<S> for RequestPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let id = parameter(parts, state, "job_id").await?;
        let id = id.parse().map_err(|_| UNKNOWN_REQUEST.because("a job id is a UUID"))?;
        Ok(Self { id })
    }
}

/// The largest page of a history, and its size by default.
const PAGE_MAX: i32 = 1000;
const PAGE: i32 = 100;

/// Declares the query of a history, which filters by one name, and its answer.
macro_rules! history {
    ($schema:ident of $record:ty, $(#[$doc:meta])* $filter:ident = $example:tt) => {
        /// Which changes to list.
        #[derive(Debug, Deserialize, utoipa::IntoParams)]
        #[into_params(parameter_in = Query)]
        #[serde(deny_unknown_fields)]
        pub(super) struct HistoryQuery {
            $(#[$doc])*
            #[param(nullable = false, example = $example)]
            $filter: Option<String>,
            /// How many at most.
            #[param(nullable = false, minimum = 1, maximum = 1000, default = 100)]
            limit: Option<i32>,
            /// Where to go on: `next_before` of the page before.
            #[param(nullable = false)]
            before: Option<i64>,
        }

        impl<S: Send + Sync> FromRequestParts<S> for HistoryQuery {
            type Rejection = Problem;

            async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
                let query: Self = super::read_query(parts)?;
                if query.limit.is_some_and(|limit| !(1..=PAGE_MAX).contains(&limit)) {
                    return Err(INVALID_PARAMETER.because(format!("limit is 1 to {PAGE_MAX}")));
                }
                if query.$filter.as_ref().is_some_and(|name| name.contains('\0')) {
                    return Err(INVALID_PARAMETER.because(concat!(stringify!($filter), " is text")));
                }
                Ok(query)
            }
        }

        /// A page of a history.
        #[derive(Serialize, ToSchema)]
        #[schema(as = $schema)]
        pub(super) struct History {
            /// The latest first.
            changes: Vec<$record>,
            /// Where the next page begins; null: there is none.
            #[schema(required)]
            next_before: Option<i64>,
        }

        impl History {
            fn page(changes: Vec<$record>, limit: i32) -> Self {
                let is_full = usize::try_from(limit).is_ok_and(|limit| changes.len() == limit);
                let next_before = changes.last().filter(|_| is_full).map(|last| last.id);
                Self { changes, next_before }
            }
        }
    };
}
use history;
