//! Settings by their documented names.

use std::sync::Arc;

use axum::{
    Json as JsonAnswer,
    extract::{FromRequestParts, Query, State},
    http::request::Parts,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    AdminStore, PAGE, PAGE_MAX, SettingPath,
    changes::Changes,
    history,
    schemas::{ChangedSetting, ConfigurationChange, Setting},
};
use crate::{
    http::{
        Api,
        body::Json,
        openapi::refusals::{Budgeting, Call, Changing, OfSetting, Refusals, WithBody, WithQuery},
        problem::{INVALID_PARAMETER, Problem},
    },
    store::{ConfigChange, ConfigRecord, ConfigSetting},
};

/// Settings.
#[derive(Serialize, ToSchema)]
pub(super) struct Settings {
    #[schema(value_type = Vec<Setting>)]
    settings: Vec<ConfigSetting>,
}

/// `GET /v1/admin/config`: every setting, with its value, unit and default.
#[utoipa::path(
    get,
    path = "/v1/admin/config",
    summary = "Every setting, with its value, unit and default",
    responses((status = 200, description = "The settings", body = Settings), Refusals<(Call,)>),
)]
pub(super) async fn settings(State(api): State<Arc<Api>>) -> Result<JsonAnswer<Settings>, Problem> {
    let settings = api.store.config_get(None).await?;
    Ok(JsonAnswer(Settings { settings }))
}

/// `GET /v1/admin/config/{name}`: one setting by its name, or all of the queue or kind of that name; 404 when there is
/// neither.
#[utoipa::path(
    get,
    path = "/v1/admin/config/{name}",
    summary = "One setting, or all of a queue or kind",
    params(SettingPath),
    responses(
        (status = 200, description = "The settings of this name", body = Settings),
        Refusals<(Call, OfSetting)>,
    ),
)]
pub(super) async fn setting(
    State(api): State<Arc<Api>>,
    SettingPath { name }: SettingPath,
) -> Result<JsonAnswer<Settings>, Problem> {
    let settings = api.store.config_get(Some(&name)).await?;
    Ok(JsonAnswer(Settings { settings }))
}

/// The result of changing settings.
#[derive(Serialize, ToSchema)]
pub(super) struct ChangedSettings {
    /// The settings whose value was another one before.
    #[schema(value_type = Vec<ChangedSetting>)]
    changed: Vec<ConfigChange>,
}

/// `PATCH /v1/admin/config`: an object of names and values, all or none. Answers with the changes. 404 for an unknown
/// name, 400 for an invalid value, 422 for a policy that cannot hold.
#[utoipa::path(
    patch,
    path = "/v1/admin/config",
    summary = "Change settings, all or none",
    request_body(content = Changes),
    responses(
        (status = 200, description = "The changes; in force everywhere within a second", body = ChangedSettings),
        Refusals<(Call, OfSetting, WithBody, Changing, Budgeting)>,
    ),
)]
pub(super) async fn change_settings(
    AdminStore(store): AdminStore,
    Json(Changes(changes)): Json<Changes>,
) -> Result<JsonAnswer<ChangedSettings>, Problem> {
    let changed = store.config_set_many(&changes).await?;
    Ok(JsonAnswer(ChangedSettings { changed }))
}

history!(
    ConfigurationHistory of ConfigRecord as ConfigurationChange,
    /// Only those of this setting, or of the queue or kind of this name.
    name = "tx.per_seconds"
);

/// `GET /v1/admin/config/history`: changes of settings with their actors, the latest first. `next_before` is where the
/// next page begins, null on the last one.
#[utoipa::path(
    get,
    path = "/v1/admin/config/history",
    summary = "Changes of settings with their actors, the latest first",
    params(HistoryQuery),
    responses(
        (status = 200, description = "A page of changes", body = History),
        Refusals<(Call, OfSetting, WithQuery)>,
    ),
)]
pub(super) async fn settings_history(
    State(api): State<Arc<Api>>,
    query: HistoryQuery,
) -> Result<JsonAnswer<History>, Problem> {
    let limit = query.limit.unwrap_or(PAGE);
    let changes = api.store.config_history(query.name.as_deref(), limit, query.before);
    Ok(JsonAnswer(History::page(changes.await?, limit)))
}
