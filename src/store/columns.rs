//! How columns of a row become values of Rust, and values become parameters.

use std::{collections::HashMap, convert::Infallible, time::Duration};

use sqlx::{
    Decode, Encode, Postgres, Row, Type,
    encode::IsNull,
    error::BoxDynError,
    postgres::{PgArgumentBuffer, PgHasArrayType, PgRow, PgTypeInfo, PgValueRef},
    types::Json,
};
use uuid::Uuid;

use crate::{
    api_key::{KeyHash, Scope},
    request::{Executed, JsonText, RequestError, RequestId, Stage, Status, UnknownWord},
    retry_after::RetryAfter,
};

/// Lets a type be read from a column of type `base`, and from an array of them.
macro_rules! column_type {
    ($type:ty, $base:ty, $convert:expr) => {
        impl Type<Postgres> for $type {
            fn type_info() -> PgTypeInfo {
                <$base as Type<Postgres>>::type_info()
            }

            fn compatible(info: &PgTypeInfo) -> bool {
                <$base as Type<Postgres>>::compatible(info)
            }
        }

        impl PgHasArrayType for $type {
            fn array_type_info() -> PgTypeInfo {
                <$base as PgHasArrayType>::array_type_info()
            }
        }

        impl<'r> Decode<'r, Postgres> for $type {
            fn decode(value: PgValueRef<'r>) -> Result<Self, BoxDynError> {
                let convert: fn($base) -> Result<Self, _> = $convert;
                Ok(convert(<$base as Decode<Postgres>>::decode(value)?)?)
            }
        }
    };
}

column_type!(RequestId, Uuid, |id| Ok::<_, Infallible>(Self(id)));
column_type!(Status, String, |word| word.parse());
column_type!(Stage, String, |word| word.parse());
column_type!(Executed, String, |word| word.parse());
column_type!(Scope, String, |word| word.parse());
column_type!(JsonText, Json<Self>, |Json(json)| Ok::<_, Infallible>(json));
column_type!(RetryAfter, i32, |seconds| Ok::<_, Infallible>(Self::seconds(u64::try_from(seconds).unwrap_or_default())));
column_type!(KeyHash, Vec<u8>, |bytes| bytes
    .try_into()
    .map(Self)
    .map_err(|_| UnknownWord::new("hash of an API key", "a value of another length")));

// After a hand edit, the row of an error may lack a field.
column_type!(RequestError, JsonText, |error| {
    let mut members: HashMap<String, JsonText> = serde_json::from_str(error.get()).unwrap_or_default();
    let text = |name: &str| serde_json::from_str::<String>(members.get(name)?.get()).ok();
    Ok::<_, Infallible>(Self {
        code: text("code").unwrap_or_else(|| "unknown".to_owned()),
        message: text("message").unwrap_or_default(),
        retryable: members.get("retryable").is_some_and(|json| json.get() == "true"),
        details: members.remove("details"),
    })
});

impl Encode<'_, Postgres> for JsonText {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        Json(self).encode_by_ref(buffer)
    }
}

/// A time in a column of milliseconds; the database stores none below 0.
pub(super) struct Milliseconds(Duration);

column_type!(Milliseconds, i32, |number| Ok::<_, Infallible>(Self(from_milliseconds(number))));

impl From<Milliseconds> for Duration {
    fn from(Milliseconds(duration): Milliseconds) -> Self {
        duration
    }
}

/// Reads the columns of a row one after the other: to find one by its name takes longer than to decode it.
pub(super) struct Columns<'r> {
    row: &'r PgRow,
    next: usize,
}

impl<'r> Columns<'r> {
    pub(super) const fn of(row: &'r PgRow) -> Self {
        Self { row, next: 0 }
    }

    /// The next column.
    pub(super) fn next<T: Decode<'r, Postgres> + Type<Postgres>>(&mut self) -> sqlx::Result<T> {
        self.next += 1;
        self.row.try_get(self.next - 1)
    }

    /// The next column, of milliseconds.
    pub(super) fn length(&mut self) -> sqlx::Result<Option<Duration>> {
        Ok(self.next::<Option<Milliseconds>>()?.map(Duration::from))
    }
}

/// A count; the database stores none below 0.
pub(super) fn count(number: i32) -> u32 {
    u32::try_from(number).unwrap_or_default()
}

pub(super) fn from_milliseconds(number: impl TryInto<u64>) -> Duration {
    Duration::from_millis(number.try_into().unwrap_or_default())
}

pub(super) fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
