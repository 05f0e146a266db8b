//! Configuration by documented names: what is set, changing it, who changed it.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Serialize, Serializer, ser::SerializeStruct};
use serde_json::{Value, json, value::RawValue};
use sqlx::{FromRow, types::Json};

use super::Store;
use crate::error::StoreError;

/// One setting, as `config_get` shows it.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct ConfigSetting {
    /// Its documented name, such as `tx.per_seconds`.
    pub name: String,
    /// Its value, as text; none for no limit, or not set.
    pub value: Option<String>,
    /// What the value counts.
    pub unit: Option<String>,
    /// `number`, `boolean`, `text`, `interval`, `list` or `backoff`.
    pub r#type: String,
    /// What it belongs to, such as `queue tx`.
    pub subject: String,
    /// Whether it has the value that its row came with.
    pub is_default: bool,
    /// The value that its row came with.
    pub default_value: Option<String>,
    /// What it does.
    pub comment: Option<String>,
}

impl Serialize for ConfigSetting {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut shown = serializer.serialize_struct("ConfigSetting", 8)?;
        shown.serialize_field("name", &self.name)?;
        shown.serialize_field("value", &typed(&self.r#type, self.value.as_deref()))?;
        shown.serialize_field("unit", &self.unit)?;
        shown.serialize_field("type", &self.r#type)?;
        shown.serialize_field("subject", &self.subject)?;
        shown.serialize_field("is_default", &self.is_default)?;
        shown.serialize_field("default", &typed(&self.r#type, self.default_value.as_deref()))?;
        shown.serialize_field("comment", &self.comment)?;
        shown.end()
    }
}

/// A setting that `config_set` changed.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct ConfigChange {
    /// What it belongs to, such as `queue tx`.
    pub subject: String,
    /// Its documented name.
    pub name: String,
    /// What it was; none for no limit, or not set.
    pub old_value: Option<String>,
    /// What it is now.
    pub new_value: Option<String>,
    /// As [`ConfigSetting::type`](ConfigSetting#structfield.type).
    pub r#type: String,
}

impl Serialize for ConfigChange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut shown = serializer.serialize_struct("ConfigChange", 4)?;
        shown.serialize_field("name", &self.name)?;
        shown.serialize_field("subject", &self.subject)?;
        shown.serialize_field("old", &typed(&self.r#type, self.old_value.as_deref()))?;
        shown.serialize_field("new", &typed(&self.r#type, self.new_value.as_deref()))?;
        shown.end()
    }
}

/// A change of the configuration, as its history keeps it.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct ConfigRecord {
    /// Ascends with time.
    pub id: i64,
    /// When.
    pub at: DateTime<Utc>,
    /// The database user.
    pub actor: String,
    /// For whom, as the program said.
    pub on_behalf_of: Option<String>,
    /// What was done to the row: `insert`, `update` or `delete`.
    pub operation: String,
    /// What it belongs to, such as `queue tx`.
    pub subject: String,
    /// The setting's documented name.
    pub name: String,
    /// What it was.
    pub old_value: Option<String>,
    /// What it became.
    pub new_value: Option<String>,
    /// As [`ConfigSetting::type`](ConfigSetting#structfield.type).
    pub r#type: String,
}

impl Serialize for ConfigRecord {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut shown = serializer.serialize_struct("ConfigRecord", 9)?;
        shown.serialize_field("id", &self.id)?;
        shown.serialize_field("at", &self.at)?;
        shown.serialize_field("actor", &self.actor)?;
        shown.serialize_field("on_behalf_of", &self.on_behalf_of)?;
        shown.serialize_field("operation", &self.operation)?;
        shown.serialize_field("subject", &self.subject)?;
        shown.serialize_field("name", &self.name)?;
        shown.serialize_field("old", &typed(&self.r#type, self.old_value.as_deref()))?;
        shown.serialize_field("new", &typed(&self.r#type, self.new_value.as_deref()))?;
        shown.end()
    }
}

/// A value of the database's, as JSON of its type.
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
    /// The same store, for changes that somebody else asks for: the history of the configuration names them.
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
    pub async fn config_get(&self, name: Option<&str>) -> Result<Vec<ConfigSetting>, StoreError> {
        run!(self, fetch_all query_as "config_get.sql"(name))
    }

    /// Changes a setting by its documented name: `tidegate.config_set`. Returns what changed.
    ///
    /// # Errors
    ///
    /// Unknown name, a value that makes no sense, a database error.
    pub async fn config_set(&self, name: &str, value: &str) -> Result<Vec<ConfigChange>, StoreError> {
        run!(self, fetch_all query_as "config_set.sql"(name, value, self.actor.as_deref()))
    }

    /// Changes several settings, all or none: `tidegate.config_set_many`. Returns what changed.
    ///
    /// # Errors
    ///
    /// As [`Store::config_set`].
    pub async fn config_set_many(
        &self,
        changes: &BTreeMap<String, Box<RawValue>>,
    ) -> Result<Vec<ConfigChange>, StoreError> {
        run!(self, fetch_all query_as "config_set_many.sql"(Json(changes), self.actor.as_deref()))
    }

    /// Who changed the configuration, the latest change first: `tidegate.config_history`.
    ///
    /// # Errors
    ///
    /// Unknown name, a limit that makes no sense, a database error.
    pub async fn config_history(
        &self,
        name: Option<&str>,
        limit: i32,
        before: Option<i64>,
    ) -> Result<Vec<ConfigRecord>, StoreError> {
        run!(self, fetch_all query_as "config_history.sql"(name, limit, before))
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
