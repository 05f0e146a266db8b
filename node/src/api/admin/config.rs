//! Settings by their documented names.

use std::sync::Arc;

use axum::{
    Json as JsonAnswer,
    extract::{FromRequestParts, State},
    http::request::Parts,
};
use serde::{Deserialize, Serialize};
use tidegate::internals::store::{ConfigChange, ConfigRecord, ConfigSetting};
use utoipa::ToSchema;

use super::{AdminStore, Answer, PAGE, PAGE_MAX, SettingPath, changes::Changes, history};
use crate::api::{
    body::Json,
    context::Api,
    openapi::refusals::{Budgeting, Call, Changing, OfSetting, Refusals, WithBody, WithQuery},
    problem::{INVALID_PARAMETER, Problem},
};

/// Settings.
#[derive(Serialize, ToSchema)]
#[schema(as = SettingList)]
pub(super) struct Settings {
    settings: Vec<ConfigSetting>,
}

/// Every setting, with its value, unit and default.
#[utoipa::path(
    get,
    path = "/v1/admin/config",
    responses((status = 200, description = "The settings", body = Settings), Refusals<Call>),
)]
pub(super) async fn settings(State(api): State<Arc<Api>>) -> Answer<Settings> {
    let settings = api.store.config_get(None).await?;
    Ok(JsonAnswer(Settings { settings }))
}

/// One setting, or all of a queue or kind.
///
/// 404 when there is neither a setting nor a queue or kind of that name.
#[utoipa::path(
    get,
    path = "/v1/admin/config/{name}",
    params(SettingPath),
    responses(
        (status = 200, description = "The settings of this name", body = Settings),
        Refusals<(Call, OfSetting)>,
    ),
)]
pub(super) async fn setting(State(api): State<Arc<Api>>, SettingPath { name }: SettingPath) -> Answer<Settings> {
    let settings = api.store.config_get(Some(&name)).await?;
    Ok(JsonAnswer(Settings { settings }))
}

/// The result of changing settings.
#[derive(Serialize, ToSchema)]
pub(super) struct ChangedSettings {
    /// The settings whose value was another one before.
    changed: Vec<ConfigChange>,
}

/// Change settings, all or none.
///
/// Takes an object of names and values; answers with the changes. 404 for an unknown name, 400 for an invalid value,
/// 422 for a policy that cannot hold.
#[utoipa::path(
    patch,
    path = "/v1/admin/config",
    request_body(content = Changes),
    responses(
        (status = 200, description = "The changes; in force everywhere within a second", body = ChangedSettings),
        Refusals<(Call, OfSetting, WithBody, Changing, Budgeting)>,
    ),
)]
pub(super) async fn change_settings(
    AdminStore(store): AdminStore,
    Json(Changes(changes)): Json<Changes>,
) -> Answer<ChangedSettings> {
    let changed = store.config_set_many(&changes).await?;
    Ok(JsonAnswer(ChangedSettings { changed }))
}

history!(
    ConfigurationHistory of ConfigRecord,
    /// Only those of this setting, or of the queue or kind of this name.
    name = "tx.per_seconds"
);

/// Changes of settings with their actors, the latest first.
///
/// `next_before` is where the next page begins, null on the last one.
#[utoipa::path(
    get,
    path = "/v1/admin/config/history",
    params(HistoryQuery),
    responses(
        (status = 200, description = "A page of changes", body = History),
        Refusals<(Call, OfSetting, WithQuery)>,
    ),
)]
pub(super) async fn settings_history(State(api): State<Arc<Api>>, query: HistoryQuery) -> Answer<History> {
    let limit = query.limit.unwrap_or(PAGE);
    let changes = api.store.config_history(query.name.as_deref(), limit, query.before);
    Ok(JsonAnswer(History::page(changes.await?, limit)))
}
