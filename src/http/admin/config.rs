//! Settings by their documented names.

use std::{collections::BTreeMap, fmt, sync::Arc};

use axum::{
    Json as JsonAnswer,
    extract::{FromRequestParts, Query, State},
    http::request::Parts,
};
use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, Visitor},
};
use serde_json::{Value, json, value::RawValue};

use super::{Acting, SettingPath};
use crate::http::{
    Api,
    body::Json,
    problem::{INVALID_PARAMETER, Problem},
};

/// How many changes a page of the history has at most, and unless the caller says.
const PAGE_MAX: i32 = 1000;
const PAGE: i32 = 100;

/// `GET /v1/admin/config`: every setting, with its value, unit and default.
pub(super) async fn all(State(api): State<Arc<Api>>) -> Result<JsonAnswer<Value>, Problem> {
    let settings = api.store.config_get(None).await?;
    Ok(JsonAnswer(json!({ "settings": settings })))
}

/// `GET /v1/admin/config/{name}`: one setting by its name, or all of the queue or kind of that name; 404 when there is
/// neither.
pub(super) async fn one(
    State(api): State<Arc<Api>>,
    SettingPath(name): SettingPath,
) -> Result<JsonAnswer<Value>, Problem> {
    let settings = api.store.config_get(Some(&name)).await?;
    Ok(JsonAnswer(json!({ "settings": settings })))
}

/// `PATCH /v1/admin/config`: an object of names and values, all or none. Answers what changed. 404 for an unknown name,
/// 400 for a value that makes no sense.
pub(super) async fn change(
    Acting(store): Acting,
    Json(Changes(changes)): Json<Changes>,
) -> Result<JsonAnswer<Value>, Problem> {
    let changed = store.config_set_many(&changes).await?;
    Ok(JsonAnswer(json!({ "changed": changed })))
}

/// `GET /v1/admin/config/history`: who changed what, the latest first. `next_before` is where the next page begins, null
/// on the last one.
pub(super) async fn history(
    State(api): State<Arc<Api>>,
    page: Page,
) -> Result<JsonAnswer<Value>, Problem> {
    let limit = page.limit.unwrap_or(PAGE);
    let changes = api
        .store
        .config_history(page.name.as_deref(), limit, page.before)
        .await?;
    let is_full = usize::try_from(limit).is_ok_and(|limit| changes.len() == limit);
    let next = changes.last().filter(|_| is_full).map(|last| last.id);
    Ok(JsonAnswer(
        json!({ "changes": changes, "next_before": next }),
    ))
}

/// Which changes are wanted.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Page {
    name: Option<String>,
    limit: Option<i32>,
    before: Option<i64>,
}

impl<S: Send + Sync> FromRequestParts<S> for Page {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let Query(page) = Query::<Self>::try_from_uri(&parts.uri)
            .map_err(|rejection| INVALID_PARAMETER.because(rejection.body_text()))?;
        if page
            .limit
            .is_some_and(|limit| !(1..=PAGE_MAX).contains(&limit))
        {
            return Err(INVALID_PARAMETER.because(format!("limit is 1 to {PAGE_MAX}")));
        }
        if page.name.as_ref().is_some_and(|name| name.contains('\0')) {
            return Err(INVALID_PARAMETER.because("name is text"));
        }
        Ok(page)
    }
}

/// Settings to change, each named once: of two values for one name, nobody could say which counts.
#[derive(Debug)]
pub(super) struct Changes(BTreeMap<String, Box<RawValue>>);

impl<'de> Deserialize<'de> for Changes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EachOnce).map(Self)
    }
}

struct EachOnce;

impl<'de> Visitor<'de> for EachOnce {
    type Value = BTreeMap<String, Box<RawValue>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of settings and their values")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut changes = BTreeMap::new();
        while let Some((name, value)) = members.next_entry::<String, Box<RawValue>>()? {
            if changes.contains_key(&name) {
                return Err(A::Error::custom(format!("{name} is there twice")));
            }
            changes.insert(name, value);
        }
        Ok(changes)
    }
}
