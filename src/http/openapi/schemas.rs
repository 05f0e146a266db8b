//! What several answers hold.

use std::borrow::Cow;

use serde_json::Value;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{ArrayBuilder, ObjectBuilder, OneOfBuilder, RefOr, Schema, Type, schema::SchemaType},
};

use super::super::{
    answers::Outcome,
    problem::{self, Class},
};
use crate::request::{RequestError, Status};

/// What went wrong with a call (RFC 9457).
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
    /// What happened this time, and what to do about it.
    detail: String,
    /// The class of problem, for programs: stable.
    #[schema(value_type = Code)]
    code: String,
    /// Whether the same call may succeed later, with nobody doing anything about it.
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

impl PartialSchema for RequestError {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .description(Some("Why a request has not succeeded"))
            .property("code", about("For programs: stable, such as `rejected`"))
            .required("code")
            .property("message", about("For people"))
            .required("message")
            .property(
                "retryable",
                ObjectBuilder::new()
                    .schema_type(Type::Boolean)
                    .description(Some("Whether submitting the same again may succeed")),
            )
            .required("retryable")
            .into()
    }
}

impl ToSchema for RequestError {}

impl PartialSchema for Outcome {
    fn schema() -> RefOr<Schema> {
        OneOfBuilder::new()
            .item(
                ObjectBuilder::new()
                    .title(Some("Succeeded"))
                    .property("result", Json::schema())
                    .required("result"),
            )
            .item(
                ObjectBuilder::new()
                    .title(Some("Failed or timed out"))
                    .property("error", RequestError::schema())
                    .required("error"),
            )
            .into()
    }
}

impl ToSchema for Outcome {}

/// One of a stream's events: its fields, each on a line of its own.
#[derive(ToSchema)]
#[schema(as = Event)]
#[expect(dead_code, reason = "describes what `events` writes")]
pub(in crate::http) struct EventFields {
    event: EventName,
    /// The number of the request's latest transition, for `Last-Event-ID`.
    #[schema(pattern = "^[1-9][0-9]*$")]
    id: String,
    /// What it says, as JSON.
    data: String,
}

/// What an event is about.
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

fn about(description: &str) -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .description(Some(description))
}
