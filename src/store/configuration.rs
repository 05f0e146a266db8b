//! Configuration by documented names: settings, changes and their history.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use sqlx::{FromRow, types::Json};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{ArrayBuilder, ObjectBuilder, OneOfBuilder, RefOr, Schema, Type},
};

use super::Store;
use crate::{error::Result, request::JsonText};

/// The statements of this module.
const SQL: &str = include_str!("../../sql/queries/configuration.sql");

/// A value of the configuration; JSON shows it as its type prescribes.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "record")]
pub struct SettingValue {
    /// `number`, `boolean`, `text`, `interval`, `list` or `backoff`.
    pub r#type: String,
    /// The value, as text; none for no limit, or not set.
    pub text: Option<String>,
}

impl Serialize for SettingValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        typed(&self.r#type, self.text.as_deref()).serialize(serializer)
    }
}

impl PartialSchema for SettingValue {
    fn schema() -> RefOr<Schema> {
        let of = |plain| ObjectBuilder::new().schema_type(plain);
        OneOfBuilder::new()
            .description(Some(
                "A number, a text, true or false, a list of texts, or null for none, as its type prescribes",
            ))
            .item(of(Type::Number))
            .item(of(Type::String))
            .item(of(Type::Boolean))
            .item(ArrayBuilder::new().items(of(Type::String)))
            .item(of(Type::Null))
            .into()
    }
}

impl ToSchema for SettingValue {}

/// A setting.
#[derive(Debug, Clone, PartialEq, Eq, FromRow, Serialize, ToSchema)]
#[schema(as = Setting)]
pub struct ConfigSetting {
    /// Its documented name, such as `tx.per_seconds`.
    pub name: String,
    /// Its value; null for no limit, or not set.
    pub value: SettingValue,
    /// The unit of the value.
    #[schema(required)]
    pub unit: Option<String>,
    /// The type of the value.
    #[schema(pattern = "^(number|boolean|text|interval|list|backoff)$")]
    pub r#type: String,
    /// Its subject, such as `queue tx`.
    pub subject: String,
    /// Whether it has the value that its row came with.
    pub is_default: bool,
    /// The value that its row came with.
    #[serde(rename = "default")]
    pub default_value: SettingValue,
    /// Its effect.
    #[schema(required)]
    pub comment: Option<String>,
}

/// A setting that has changed.
#[derive(Debug, Clone, PartialEq, Eq, FromRow, Serialize, ToSchema)]
#[schema(as = ChangedSetting)]
pub struct ConfigChange {
    /// Its documented name.
    pub name: String,
    /// Its subject, such as `queue tx`.
    pub subject: String,
    /// The value before.
    #[serde(rename = "old")]
    pub old_value: SettingValue,
    /// The new value.
    #[serde(rename = "new")]
    pub new_value: SettingValue,
}

/// A change of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, FromRow, Serialize, ToSchema)]
#[schema(as = ConfigurationChange)]
pub struct ConfigRecord {
    /// Ascends with time.
    pub id: i64,
    /// When.
    pub at: DateTime<Utc>,
    /// The database user.
    pub actor: String,
    /// The actor that the program named.
    #[schema(required)]
    pub on_behalf_of: Option<String>,
    /// The operation on the setting's row.
    #[schema(pattern = "^(insert|update|delete)$")]
    pub operation: String,
    /// The setting's subject, such as `queue tx`.
    pub subject: String,
    /// Its documented name.
    pub name: String,
    /// The value before.
    #[serde(rename = "old")]
    pub old_value: SettingValue,
    /// The new value.
    #[serde(rename = "new")]
    pub new_value: SettingValue,
}

/// A value of the configuration, as JSON of its type.
fn typed(kind: &str, value: Option<&str>) -> Value {
    let Some(value) = value else {
        return Value::Null;
    };
    let read = match kind {
        "number" | "boolean" => serde_json::from_str(value).ok(),
        "list" if value.is_empty() => Some(json!([])),
        "list" => Some(value.split(',').collect()),
        _ => None,
    };
    read.unwrap_or_else(|| value.into())
}

impl Store {
    /// The same store, for changes on behalf of an operator: the history of the configuration names this actor.
    #[must_use]
    pub fn on_behalf_of(mut self, actor: &str) -> Self {
        self.actor = Some(actor.into());
        self
    }

    /// Settings by name, of a queue or kind, or all: `tidegate.config_get`.
    ///
    /// # Errors
    ///
    /// Unknown name, a database error.
    pub async fn config_get(&self, name: Option<&str>) -> Result<Vec<ConfigSetting>> {
        run!(self, fetch_all query_as "config_get"(name))
    }

    /// Changes a setting by its documented name: `tidegate.config_set`. Returns the changes.
    ///
    /// # Errors
    ///
    /// Unknown name, an invalid value, a database error.
    pub async fn config_set(&self, name: &str, value: &str) -> Result<Vec<ConfigChange>> {
        run!(self, fetch_all query_as "config_set"(name, value, self.actor.as_deref()))
    }

    /// Changes several settings, all or none: `tidegate.config_set_many`. Returns the changes.
    ///
    /// # Errors
    ///
    /// As [`Store::config_set`].
    pub async fn config_set_many(&self, changes: &BTreeMap<String, JsonText>) -> Result<Vec<ConfigChange>> {
        run!(self, fetch_all query_as "config_set_many"(Json(changes), self.actor.as_deref()))
    }

    /// The changes of the configuration, the latest first: `tidegate.config_history`.
    ///
    /// # Errors
    ///
    /// Unknown name, an invalid limit, a database error.
    pub async fn config_history(
        &self,
        name: Option<&str>,
        limit: i32,
        before: Option<i64>,
    ) -> Result<Vec<ConfigRecord>> {
        run!(self, fetch_all query_as "config_history"(name, limit, before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_json_of_their_type_and_text_where_they_are_not() {
        for (kind, value, expected) in [
            ("number", Some("0.2"), json!(0.2)),
            ("number", Some("300"), json!(300)),
            ("number", Some("?"), json!("?")),
            ("number", None, json!(null)),
            ("boolean", Some("true"), json!(true)),
            ("list", Some("5xx,timeout"), json!(["5xx", "timeout"])),
            ("list", Some(""), json!([])),
            ("interval", Some("01:00:00"), json!("01:00:00")),
            ("text", Some("true"), json!("true")),
        ] {
            assert_eq!(typed(kind, value), expected, "{kind} {value:?}");
        }
    }
}
