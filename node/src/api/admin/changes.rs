//! The body of `PATCH /v1/admin/config`.

use std::{collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, Visitor},
};
use serde_json::json;
use tidegate::{internals::store::SettingValue, request::JsonText};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{ObjectBuilder, RefOr, Schema},
};

/// Settings to change, each named once: two values for one name would be ambiguous.
#[derive(Debug)]
pub(super) struct Changes(pub(super) BTreeMap<String, JsonText>);

/// The settings that do not depend on queues and kinds.
const EVERYWHERE: [&str; 7] = [
    "min_seconds",
    "max_seconds",
    "safety_margin",
    "jitter",
    "response_backoff",
    "readiness_check_seconds",
    "tx_confirmation_ms",
];

impl PartialSchema for Changes {
    fn schema() -> RefOr<Schema> {
        let known =
            EVERYWHERE.iter().fold(ObjectBuilder::new(), |object, name| object.property(*name, SettingValue::schema()));
        known
            .description(Some(
                "Settings by their documented names; those of queues and kinds are called such as `tx.per_seconds`",
            ))
            .additional_properties(Some(SettingValue::schema()))
            .examples([json!({
                "tx.per_seconds": 25, "readiness.max_concurrency": null, "direct.deadline": "2 hours"
            })])
            .into()
    }
}

impl ToSchema for Changes {}

impl<'de> Deserialize<'de> for Changes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EachOnce).map(Self)
    }
}

struct EachOnce;

impl<'de> Visitor<'de> for EachOnce {
    type Value = BTreeMap<String, JsonText>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of settings and their values")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut changes = BTreeMap::new();
        while let Some((name, value)) = members.next_entry::<String, JsonText>()? {
            if changes.contains_key(&name) {
                return Err(A::Error::custom(format!("{name} occurs twice")));
            }
            changes.insert(name, value);
        }
        Ok(changes)
    }
}
