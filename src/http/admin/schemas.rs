//! What the answers about the configuration hold. The store writes them: see `ConfigSetting` there.

use chrono::{DateTime, Utc};
use utoipa::{
    ToSchema,
    openapi::{ArrayBuilder, ObjectBuilder, OneOfBuilder, RefOr, Schema, Type},
};

use crate::store::{ConfigChange, ConfigRecord, ConfigSetting};

/// A setting's value: a number, a text, `true` or `false`, a list of texts, or null for none.
pub(super) struct SettingValue;

impl utoipa::PartialSchema for SettingValue {
    fn schema() -> RefOr<Schema> {
        let of = |plain| ObjectBuilder::new().schema_type(plain);
        OneOfBuilder::new()
            .description(Some(
                "A number, a text, true or false, a list of texts, or null for none; what it may be, its type says",
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
#[schema(as = Setting)]
#[expect(dead_code, reason = "describes what `ConfigSetting` is shown as")]
struct Setting {
    /// Its documented name, such as `tx.per_seconds`.
    name: String,
    /// What it is; null for no limit, or not set.
    value: SettingValue,
    /// What the value counts.
    #[schema(required)]
    unit: Option<String>,
    #[schema(inline)]
    r#type: SettingType,
    /// What it belongs to, such as `queue tx`.
    subject: String,
    /// Whether it has the value that its row came with.
    is_default: bool,
    /// The value that its row came with.
    default: SettingValue,
    /// What it does.
    #[schema(required)]
    comment: Option<String>,
}

/// What a value is.
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
#[schema(as = ChangedSetting)]
#[expect(dead_code, reason = "describes what `ConfigChange` is shown as")]
struct Changed {
    /// Its documented name.
    name: String,
    /// What it belongs to, such as `queue tx`.
    subject: String,
    /// What it was.
    old: SettingValue,
    /// What it is.
    new: SettingValue,
}

/// A change of the configuration.
#[derive(ToSchema)]
#[schema(as = ConfigurationChange)]
#[expect(dead_code, reason = "describes what `ConfigRecord` is shown as")]
struct Record {
    /// Ascends with time.
    id: i64,
    /// When.
    at: DateTime<Utc>,
    /// The database user.
    actor: String,
    /// For whom, as the program said.
    #[schema(required)]
    on_behalf_of: Option<String>,
    #[schema(inline)]
    operation: Operation,
    /// What the setting belongs to, such as `queue tx`.
    subject: String,
    /// Its documented name.
    name: String,
    /// What it was.
    old: SettingValue,
    /// What it became.
    new: SettingValue,
}

/// What was done to a setting's row.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "describes words of the database's")]
enum Operation {
    Insert,
    Update,
    Delete,
}

/// Declares that a type of the store's is shown as one of these.
macro_rules! shown_as {
    ($($stored:ident as $shown:ident),+) => {
        $(
            impl utoipa::PartialSchema for $stored {
                fn schema() -> RefOr<Schema> {
                    <$shown as utoipa::PartialSchema>::schema()
                }
            }

            impl ToSchema for $stored {
                fn name() -> std::borrow::Cow<'static, str> {
                    $shown::name()
                }

                fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
                    $shown::schemas(schemas);
                }
            }
        )+
    };
}

shown_as!(
    ConfigSetting as Setting,
    ConfigChange as Changed,
    ConfigRecord as Record
);
