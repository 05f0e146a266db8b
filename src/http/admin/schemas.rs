//! Schemas of the answers about the configuration. The store serialises these types: see `ConfigSetting` there.

use chrono::{DateTime, Utc};
use utoipa::{
    ToSchema,
    openapi::{ArrayBuilder, ObjectBuilder, OneOfBuilder, RefOr, Schema, Type},
};

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

/// A setting.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes what `ConfigSetting` is shown as")]
pub(super) struct Setting {
    /// Its documented name, such as `tx.per_seconds`.
    name: String,
    /// Its value; null for no limit, or not set.
    value: SettingValue,
    /// The unit of the value.
    #[schema(required)]
    unit: Option<String>,
    #[schema(inline)]
    r#type: SettingType,
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

/// The type of a value.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "describes words of the database's")]
enum SettingType {
    Number,
    Boolean,
    Text,
    Interval,
    List,
    Backoff,
}

/// A setting that has changed.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes what `ConfigChange` is shown as")]
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
#[expect(dead_code, reason = "describes what `ConfigRecord` is shown as")]
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
    #[schema(inline)]
    operation: Operation,
    /// The setting's subject, such as `queue tx`.
    subject: String,
    /// Its documented name.
    name: String,
    /// The value before.
    old: SettingValue,
    /// The new value.
    new: SettingValue,
}

/// The change of a setting's row.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "describes words of the database's")]
enum Operation {
    Insert,
    Update,
    Delete,
}
