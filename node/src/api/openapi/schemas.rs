//! Schemas that several answers share, or that no type derives.

use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use tidegate::request::Executed;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{ArrayBuilder, ObjectBuilder, RefOr, Schema, Type, extensions::Extensions, schema::SchemaType},
};

/// One of these words.
pub(in crate::api) fn words(words: impl IntoIterator<Item = impl Into<Value>>) -> RefOr<Schema> {
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words)).into()
}

/// The public status of a request that is under way.
pub(in crate::api) fn queued() -> RefOr<Schema> {
    words(["queued"])
}

/// The public status of a request that has a result.
pub(in crate::api) fn succeeded() -> RefOr<Schema> {
    words(["succeeded"])
}

/// The public statuses of requests that ended without a result.
pub(in crate::api) fn unsuccessful() -> RefOr<Schema> {
    words(["failed", "timed_out"])
}

/// Whether the downstream has executed a request without a result.
pub(in crate::api) fn executed() -> RefOr<Schema> {
    words(Executed::ALL.iter().map(|executed| executed.as_str()))
}

/// The downstream has executed a request that has a result.
pub(in crate::api) fn executed_yes() -> RefOr<Schema> {
    words([Executed::Yes.as_str()])
}

/// The status of several requests, all of which have ended.
pub(in crate::api) const ALL_ENDED: &str = "ended";

/// The status of several requests, all of which have ended.
pub(in crate::api) fn all_ended() -> RefOr<Schema> {
    words([ALL_ENDED])
}

/// The outcome of a cancellation.
pub(in crate::api) fn cancelled() -> RefOr<Schema> {
    words(["cancelled"])
}

/// The states in which requests can be cancelled.
pub(in crate::api) fn cancellable_states() -> RefOr<Schema> {
    ArrayBuilder::new().items(words(["queued", "processing", "tx_in_flight"])).into()
}

/// The states in which requests can be submitted again.
pub(in crate::api) fn redrivable_states() -> RefOr<Schema> {
    ArrayBuilder::new().items(words(["failure", "timed_out"])).into()
}

/// What a submission would be.
pub(in crate::api) fn quote_outcome() -> RefOr<Schema> {
    words(["accepted", "refused"])
}

/// The outcome of a failure by hand.
pub(in crate::api) fn failed() -> RefOr<Schema> {
    words(["failed"])
}

/// Any JSON value.
pub(in crate::api) type Json = Value;

/// Why a request has not succeeded
#[derive(ToSchema)]
#[schema(as = RequestError)]
#[expect(dead_code, reason = "describes `RequestError`")]
pub(in crate::api) struct ErrorDocument {
    /// For programs: stable, such as `rejected`
    code: String,
    /// For people
    message: String,
    /// Whether submitting the same again may succeed, and repeats nothing that was, or may have been, executed
    retryable: bool,
    /// More for programs, of a stage that failed; the downstream's verdict on a rejected proof, of kinds that show it
    #[schema(required = false)]
    details: Json,
}

/// How it is known whether a request was executed
#[derive(ToSchema)]
#[schema(as = Resolution)]
#[expect(dead_code, reason = "describes `Resolution`")]
pub(in crate::api) struct ResolutionDocument {
    #[schema(schema_with = known)]
    executed: Executed,
    /// Who knows: `settle` (the worker), `response`, `search`, `receipt_taken_back`, `downstream` or `operator`
    source: String,
    /// Since when
    at: DateTime<Utc>,
    /// The verdict of a response that came after the end
    #[schema(nullable = false)]
    accept: Option<bool>,
    /// The response that came after the end
    #[schema(required = false)]
    response: Json,
}

/// Whether the downstream has executed a request, once that is known.
pub(in crate::api) fn known() -> RefOr<Schema> {
    words([Executed::No.as_str(), Executed::Yes.as_str()])
}

/// A time in a header: text, because generators of clients take no `date-time` there.
pub(in crate::api) fn time_text() -> RefOr<Schema> {
    let format = Extensions::from_iter([("allOf", json!([{"format": "date-time"}]))]);
    let text = ObjectBuilder::new().schema_type(Type::String);
    text.extensions(Some(format)).into()
}

/// A stream of server-sent events, or one of these.
#[derive(ToSchema)]
#[serde(untagged)]
#[schema(as = ServerSentEvents)]
#[expect(dead_code, reason = "describes what `events` writes")]
pub(in crate::api) enum Events {
    /// The whole stream, for clients that do not read events.
    Stream(String),
    Event(EventFields),
}

/// One of a stream's events: its fields, each on a line of its own.
#[derive(ToSchema)]
#[schema(as = ServerSentEvent)]
#[expect(dead_code, reason = "describes what `events` writes")]
pub(in crate::api) struct EventFields {
    #[schema(schema_with = events)]
    event: String,
    /// The number of the request's latest transition, for `Last-Event-ID`.
    #[schema(pattern = "^[1-9][0-9]*$")]
    id: String,
    /// The event's body, as JSON.
    data: String,
}

fn events() -> RefOr<Schema> {
    words(["state", "position", "eta", "result"])
}

/// The payloads of a batch.
pub(in crate::api) struct Payloads;

impl PartialSchema for Payloads {
    fn schema() -> RefOr<Schema> {
        // A list of all types but null is no type in generated clients.
        let not_null = Extensions::from_iter([("not", json!({"type": "null"}))]);
        ArrayBuilder::new()
            .items(ObjectBuilder::new().schema_type(SchemaType::AnyValue).extensions(Some(not_null)))
            .min_items(Some(1))
            .max_items(Some(10_000))
            .into()
    }
}

impl ToSchema for Payloads {}
