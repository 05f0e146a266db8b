//! The API's document (OpenAPI 3.1), generated from the handlers, and the page to browse it.
//!
//! A handler describes its parameters and answers in its own `#[utoipa::path]`; a route cannot be made without one.
//! Shared parts are in [`refusals`] and [`schemas`]. [`describe_group`] adds tag and scope to a group of routes,
//! [`finish`] the headers that depend on the status.

pub(super) mod refusals;
pub(super) mod schemas;

use std::sync::Arc;

use axum::{
    Router,
    extract::{Path, State},
    http::{
        HeaderName,
        header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS},
    },
    response::{IntoResponse, Redirect},
    routing::get,
};
use tidegate::internals::api_key::Scope;
use utoipa::{
    OpenApi as _,
    openapi::{
        Header, HeaderBuilder, ObjectBuilder, OpenApi, RefOr, Response, Schema, Type,
        path::{Operation, PathItem},
        security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme},
    },
};
use utoipa_swagger_ui::Config;

use self::refusals::{Anywhere, Refusals};
use super::{
    context::Api,
    problem::{ProblemDocument, UNKNOWN_PATH},
};

/// The name of the security scheme.
const API_KEY: &str = "api_key";

/// The parts of the document that no handler describes.
#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Tidegate",
        description = "A request relay: takes requests, sends them on no faster than the downstream allows, keeps the \
                       answers, and gives every caller the time to come back.\n\n\
                       Every error is a problem document (RFC 9457) with a stable `code`. Every 202, 429 and 503 has a \
                       `Retry-After` in whole seconds, at least 1.",
    ),
    components(schemas(ProblemDocument)),
    tags(
        (name = "requests", description = "Submitting, polling, listing and cancelling requests"),
        (name = "responses", description = "Responses of the downstream"),
        (name = "administration", description = "Calls of operators: configuration, kinds, queues, gates, quotas, requests"),
        (name = "health", description = "Whether this node is up, and ready to serve"),
        (name = "documents", description = "This document, and metrics for monitoring"),
    ),
)]
struct About;

/// The document without routes.
pub(super) fn begin() -> OpenApi {
    About::openapi()
}

/// Adds a tag to the operations of a group of routes, and the scope that a key needs for them.
pub(super) fn describe_group(document: &mut OpenApi, tag: &str, scope: Option<Scope>) {
    let mut security = vec![SecurityRequirement::default()];
    security.extend(scope.map(|scope| SecurityRequirement::new(API_KEY, [scope.as_str()])));
    for operation in document.paths.paths.values_mut().flat_map(operations) {
        operation.tags = Some(vec![tag.to_owned()]);
        operation.security = Some(security.clone());
    }
}

/// Adds the security scheme, and to every operation the headers of its answers.
pub(super) fn finish(mut document: OpenApi) -> OpenApi {
    let components = document.components.get_or_insert_default();
    let description =
        "An API key. Operations name the scope that the key needs. Calls need no key as long as none has been created.";
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(description));
    components.schemas.extend(refusals::schemas());
    components.add_security_scheme(API_KEY, SecurityScheme::Http(bearer.build()));
    for operation in document.paths.paths.values_mut().flat_map(operations) {
        let parameters = operation.parameters.iter().flatten();
        let parameters: Vec<_> = parameters.map(|parameter| parameter.name.as_str()).collect();
        let gated = operation.responses.responses.contains_key("429");
        for (status, response) in &mut operation.responses.responses {
            if let RefOr::T(response) = response {
                response.headers.extend(headers(status, gated, &parameters));
            }
        }
        // The connection sends these without a body, before a handler gets the request.
        let responses = &mut operation.responses.responses;
        responses.insert("414".to_owned(), Response::new("The URI is too long").into());
        responses.insert("431".to_owned(), Response::new("The head of the request is too large").into());
    }
    document
}

/// The operations of a path, by the methods that the API has.
fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    let reading = [&mut item.get].into_iter();
    let writing = [&mut item.put, &mut item.post, &mut item.patch, &mut item.delete];
    reading.chain(writing).flatten()
}

/// The headers of an answer, by its status and the call's parameters; `gated`: a gate may refuse the call.
fn headers(status: &str, gated: bool, parameters: &[&str]) -> Vec<(String, Header)> {
    let accepted = matches!(status, "200" | "202");
    // With 200, too: the headers were added when the request was accepted, before the wait for its end.
    let gated = gated && (accepted || status == "429");
    let repeated = matches!(status, "202" | "429" | "503");
    let waits = accepted && parameters.contains(&"Prefer");
    let keyed = accepted && parameters.contains(&"Idempotency-Key");
    let needs_key = matches!(status, "401" | "403");
    let repeat = "In how many seconds to repeat the call";
    let policy = "The gate: how many messages close it, and in how many seconds they are served";
    let limit = "The room left, and in how many seconds the whole quota is free again";
    let replayed = "`true` when all of it was stored before, under this key";
    let text: RefOr<Schema> = ObjectBuilder::new().schema_type(Type::String).into();
    let seconds: RefOr<Schema> = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1)).into();
    [
        (repeated, "Retry-After", &seconds, repeat),
        (gated, "RateLimit-Policy", &text, policy),
        (gated, "RateLimit", &text, limit),
        (waits, "Preference-Applied", &text, "The wait in force"),
        (keyed, "Idempotency-Replayed", &text, replayed),
        (needs_key, "WWW-Authenticate", &text, "The key that is needed"),
    ]
    .into_iter()
    .filter(|(applies, ..)| *applies)
    .map(|(_, name, schema, description)| {
        let header = HeaderBuilder::new().schema(schema.clone()).description(Some(description));
        (name.to_owned(), header.build())
    })
    .collect()
}

/// This document.
#[utoipa::path(
    get,
    path = "/openapi.json",
    responses(
        (status = 200, description = "OpenAPI 3.1", content_type = "application/json", body = Object),
        Refusals<Anywhere>,
    ),
)]
pub(super) async fn openapi(State(api): State<Arc<Api>>) -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], api.document.clone())
}

/// The page calls this server with the keys that people type into it: it runs no script of others, and in no frame.
const PAGE_HEADERS: [(HeaderName, &str); 3] = [
    (
        CONTENT_SECURITY_POLICY,
        "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'",
    ),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
];

/// The page that shows the document and can try it out: `/docs/`, with its files. It is not in the document.
pub(super) fn page<S: Clone + Send + Sync + 'static>() -> Router<S> {
    let config = Arc::new(Config::from("/openapi.json"));
    let file = move |name: String| {
        let config = Arc::clone(&config);
        async move {
            match utoipa_swagger_ui::serve(&name, config) {
                Ok(Some(file)) => Ok((PAGE_HEADERS, [(CONTENT_TYPE, file.content_type)], file.bytes).into_response()),
                _ => Err(UNKNOWN_PATH.because(format!("there is nothing at /docs/{name}"))),
            }
        }
    };
    let index = file.clone();
    Router::new()
        .route("/docs", get(|| async { Redirect::permanent("/docs/") }))
        .route("/docs/", get(move || index(String::new())))
        .route("/docs/{*file}", get(move |Path(name): Path<String>| file(name)))
}
