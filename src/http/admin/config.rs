//! Settings by their documented names.

use std::sync::Arc;

use axum::{
    Json as JsonAnswer,
    extract::{FromRequestParts, Query, State},
    http::request::Parts,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Acting, SettingPath, changes::Changes};
use crate::{
    http::{
        Api,
        body::Json,
        openapi::{
            parameters::SettingParameter,
            refusals::{Budgeting, Call, Changing, OfSetting, Refusals, WithBody, WithQuery},
        },
        problem::{INVALID_PARAMETER, Problem},
    },
    store::{ConfigChange, ConfigRecord, ConfigSetting},
};

/// How many changes a page of the history has at most, and unless the caller says.
const PAGE_MAX: i32 = 1000;
const PAGE: i32 = 100;

/// Settings.
#[derive(Serialize, ToSchema)]
pub(super) struct Settings {
    settings: Vec<ConfigSetting>,
}

/// `GET /v1/admin/config`: every setting, with its value, unit and default.
#[utoipa::path(
    get,
    path = "/v1/admin/config",
    operation_id = "settings",
    tag = "administration",
    summary = "Every setting, with its value, unit and default",
    responses((status = 200, description = "All there are", body = Settings), Refusals<(Call,)>),
    security((), ("api_key" = ["admin"])),
)]
pub(super) async fn all(State(api): State<Arc<Api>>) -> Result<JsonAnswer<Settings>, Problem> {
    let settings = api.store.config_get(None).await?;
    Ok(JsonAnswer(Settings { settings }))
}

/// `GET /v1/admin/config/{name}`: one setting by its name, or all of the queue or kind of that name; 404 when there is
/// neither.
#[utoipa::path(
    get,
    path = "/v1/admin/config/{name}",
    operation_id = "setting",
    tag = "administration",
    summary = "One setting, or all of a queue or kind",
    params(SettingParameter),
    responses(
        (status = 200, description = "Those of this name", body = Settings),
        Refusals<(Call, OfSetting)>,
    ),
    security((), ("api_key" = ["admin"])),
)]
pub(super) async fn one(
    State(api): State<Arc<Api>>,
    SettingPath(name): SettingPath,
) -> Result<JsonAnswer<Settings>, Problem> {
    let settings = api.store.config_get(Some(&name)).await?;
    Ok(JsonAnswer(Settings { settings }))
}

/// What has changed.
#[derive(Serialize, ToSchema)]
#[schema(as = ChangedSettings)]
pub(super) struct Changed {
    /// Without what was so before.
    changed: Vec<ConfigChange>,
}

/// `PATCH /v1/admin/config`: an object of names and values, all or none. Answers what changed. 404 for an unknown name,
/// 400 for a value that makes no sense, 422 for a policy that cannot hold.
#[utoipa::path(
    patch,
    path = "/v1/admin/config",
    operation_id = "change_settings",
    tag = "administration",
    summary = "Change settings, all or none",
    request_body(content = Changes),
    responses(
        (status = 200, description = "They are so, everywhere within a second", body = Changed),
        Refusals<(Call, OfSetting, WithBody, Changing, Budgeting)>,
    ),
    security((), ("api_key" = ["admin"])),
)]
pub(super) async fn change(
    Acting(store): Acting,
    Json(Changes(changes)): Json<Changes>,
) -> Result<JsonAnswer<Changed>, Problem> {
    let changed = store.config_set_many(&changes).await?;
    Ok(JsonAnswer(Changed { changed }))
}

/// Changes of the configuration.
#[derive(Serialize, ToSchema)]
#[schema(as = ConfigurationHistory)]
pub(super) struct History {
    /// The latest first.
    changes: Vec<ConfigRecord>,
    /// Where the next page begins; null: there is none.
    #[schema(required)]
    next_before: Option<i64>,
}

/// `GET /v1/admin/config/history`: who changed what, the latest first. `next_before` is where the next page begins, null
/// on the last one.
#[utoipa::path(
    get,
    path = "/v1/admin/config/history",
    operation_id = "settings_history",
    tag = "administration",
    summary = "Who changed what, the latest first",
    params(Page),
    responses(
        (status = 200, description = "A page of changes", body = History),
        Refusals<(Call, OfSetting, WithQuery)>,
    ),
    security((), ("api_key" = ["admin"])),
)]
pub(super) async fn history(State(api): State<Arc<Api>>, page: Page) -> Result<JsonAnswer<History>, Problem> {
    let limit = page.limit.unwrap_or(PAGE);
    let changes = api
        .store
        .config_history(page.name.as_deref(), limit, page.before)
        .await?;
    let is_full = usize::try_from(limit).is_ok_and(|limit| changes.len() == limit);
    let next_before = changes.last().filter(|_| is_full).map(|last| last.id);
    Ok(JsonAnswer(History { changes, next_before }))
}

/// Which changes are wanted.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Page {
    /// Only those of this setting, or of the queue or kind of this name.
    #[param(nullable = false, example = "tx.per_seconds")]
    name: Option<String>,
    /// How many at most.
    #[param(nullable = false, minimum = 1, maximum = 1000, default = 100)]
    limit: Option<i32>,
    /// Where to go on: `next_before` of the page before.
    #[param(nullable = false)]
    before: Option<i64>,
}

impl<S: Send + Sync> FromRequestParts<S> for Page {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let Query(page) = Query::<Self>::try_from_uri(&parts.uri)
            .map_err(|rejection| INVALID_PARAMETER.because(rejection.body_text()))?;
        if page.limit.is_some_and(|limit| !(1..=PAGE_MAX).contains(&limit)) {
            return Err(INVALID_PARAMETER.because(format!("limit is 1 to {PAGE_MAX}")));
        }
        if page.name.as_ref().is_some_and(|name| name.contains('\0')) {
            return Err(INVALID_PARAMETER.because("name is text"));
        }
        Ok(page)
    }
}
