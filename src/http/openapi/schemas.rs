//! Schemas that several answers share, or that no type derives.

use std::borrow::Cow;

use serde_json::Value;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{ArrayBuilder, ObjectBuilder, RefOr, Schema, Type, schema::SchemaType},
};

use super::super::problem::{self, Class};
use crate::request::Status;

/// The error of a call (RFC 9457).
#[derive(ToSchema)]
#[schema(as = Problem)]
#[expect(dead_code, reason = "describes what `Problem::into_response` writes")]
pub(in crate::http) struct ProblemDocument {
    /// The class of problem, as a URI.
    #[schema(format = "uri", example = "urn:problem-type:tidegate:unknown_kind")]
    r#type: String,
    /// The class of problem, in words.
    title: String,
    /// The status of the answer.
    #[schema(minimum = 400, maximum = 599)]
    status: u16,
    /// The cause of this occurrence, and the remedy.
    detail: String,
    /// The class of problem, for programs: stable.
    #[schema(value_type = Code)]
    code: String,
    /// Whether the same call may succeed later without any intervention.
    retryable: bool,
}

/// The codes of all classes.
struct Code;

impl PartialSchema for Code {
    fn schema() -> RefOr<Schema> {
        let mut codes: Vec<_> = problem::ALL.iter().map(|class: &&Class| class.code).collect();
        codes.sort_unstable();
        words(codes)
    }
}

impl ToSchema for Code {}

impl PartialSchema for Status {
    fn schema() -> RefOr<Schema> {
        words(Self::ALL.iter().map(|status| status.as_str()))
    }
}

impl ToSchema for Status {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("State")
    }
}

fn words<'a>(words: impl IntoIterator<Item = &'a str>) -> RefOr<Schema> {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .enum_values(Some(words))
        .into()
}

/// Any JSON value.
pub(in crate::http) type Json = Value;

/// Why a request has not succeeded
#[derive(ToSchema)]
#[schema(as = RequestError)]
#[expect(dead_code, reason = "describes `RequestError`")]
pub(in crate::http) struct ErrorDocument {
    /// For programs: stable, such as `rejected`
    code: String,
    /// For people
    message: String,
    /// Whether submitting the same again may succeed
    retryable: bool,
}

/// One of a stream's events: its fields, each on a line of its own.
#[derive(ToSchema)]
#[schema(as = Event)]
#[expect(dead_code, reason = "describes what `events` writes")]
pub(in crate::http) struct EventFields {
    event: EventName,
    /// The number of the request's latest transition, for `Last-Event-ID`.
    #[schema(pattern = "^[1-9][0-9]*$")]
    id: String,
    /// The event's body, as JSON.
    data: String,
}

/// The sort of an event.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "describes what `events` writes")]
enum EventName {
    State,
    Position,
    Eta,
    Result,
}

/// The payloads of a batch.
pub(in crate::http) struct Payloads;

impl PartialSchema for Payloads {
    fn schema() -> RefOr<Schema> {
        let all_but_null = [Type::Object, Type::Array, Type::String, Type::Number, Type::Boolean];
        ArrayBuilder::new()
            .items(ObjectBuilder::new().schema_type(SchemaType::from_iter(all_but_null)))
            .min_items(Some(1))
            .max_items(Some(10_000))
            .into()
    }
}

impl ToSchema for Payloads {}
