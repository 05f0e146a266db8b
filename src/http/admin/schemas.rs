//! Schemas of the answers about the configuration. The store serialises these types: see `ConfigSetting` there.

use chrono::{DateTime, Utc};
use utoipa::{
    ToSchema,
    openapi::{ArrayBuilder, ObjectBuilder, OneOfBuilder, RefOr, Schema, Type},
};

use crate::http::openapi::schemas::words;

/// A setting's value: a number, a text, `true` or `false`, a list of texts, or null for none.
pub(super) struct SettingValue;

impl utoipa::PartialSchema for SettingValue {
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

fn types() -> RefOr<Schema> {
    words(["number", "boolean", "text", "interval", "list", "backoff"])
}

fn operations() -> RefOr<Schema> {
    words(["insert", "update", "delete"])
}

/// A setting.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes what `ConfigSetting` is serialised as")]
pub(super) struct Setting {
    /// Its documented name, such as `tx.per_seconds`.
    name: String,
    /// Its value; null for no limit, or not set.
    value: SettingValue,
    /// The unit of the value.
    #[schema(required)]
    unit: Option<String>,
    #[schema(schema_with = types)]
    r#type: String,
    /// Its subject, such as `queue tx`.
    subject: String,
    /// Whether it has the value that its row came with.
    is_default: bool,
    /// The value that its row came with.
    default: SettingValue,
    /// Its effect.
    #[schema(required)]
    comment: Option<String>,
}

/// A setting that has changed.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes what `ConfigChange` is serialised as")]
pub(super) struct ChangedSetting {
    /// Its documented name.
    name: String,
    /// Its subject, such as `queue tx`.
    subject: String,
    /// The value before.
    old: SettingValue,
    /// The new value.
    new: SettingValue,
}

/// A change of the configuration.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes what `ConfigRecord` is serialised as")]
pub(super) struct ConfigurationChange {
    /// Ascends with time.
    id: i64,
    /// When.
    at: DateTime<Utc>,
    /// The database user.
    actor: String,
    /// The actor that the program named.
    #[schema(required)]
    on_behalf_of: Option<String>,
    #[schema(schema_with = operations)]
    operation: String,
    /// The setting's subject, such as `queue tx`.
    subject: String,
    /// Its documented name.
    name: String,
    /// The value before.
    old: SettingValue,
    /// The new value.
    new: SettingValue,
}
