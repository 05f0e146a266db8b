//! The API's document (OpenAPI 3.1), generated from the handlers, and the page to browse it.
//!
//! A handler says what it takes and answers in its own `#[utoipa::path]`; a route cannot be made without one. What
//! several handlers share is here: [`parameters`], [`refusals`], [`schemas`]. What holds for every answer is added at
//! the end, by [`finish`].

pub(super) mod parameters;
pub(super) mod refusals;
pub(super) mod schemas;

use std::sync::Arc;

use axum::{
    Router,
    extract::{Path, State},
    http::header::CONTENT_TYPE,
    response::{IntoResponse, Redirect},
    routing::get,
};
use utoipa::{
    OpenApi as _,
    openapi::{
        Header, HeaderBuilder, ObjectBuilder, OpenApi, RefOr, Response, Type,
        path::{Operation, PathItem},
        security::{HttpAuthScheme, HttpBuilder, SecurityScheme},
    },
};
use utoipa_swagger_ui::Config;

use self::refusals::{Anywhere, Refusals};
use super::{Api, problem::UNKNOWN_PATH};

/// The name of the security scheme.
const API_KEY: &str = "api_key";

/// What the handlers do not say: what this API is.
#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Tidegate",
        description = "A request relay: takes requests, sends them on no faster than the downstream allows, keeps the \
                       answers, and tells every caller when to come back.\n\n\
                       Every error is a problem document (RFC 9457) with a stable `code`. Every 202, 429 and 503 has a \
                       `Retry-After` in whole seconds, at least 1.",
    ),
    components(schemas(schemas::ProblemDocument)),
    tags(
        (name = "requests", description = "Submitting requests, and asking after them"),
        (name = "responses", description = "What the downstream calls"),
        (name = "administration", description = "What operators do: configuration, queues, gates"),
        (name = "health", description = "Whether this node lives, and can serve"),
        (name = "documents", description = "This document, and figures for monitoring"),
    ),
)]
struct About;

/// The document to begin with: the routes add themselves.
pub(super) fn begin() -> OpenApi {
    About::openapi()
}

/// Completes the document with what holds for every operation.
pub(super) fn finish(mut document: OpenApi) -> OpenApi {
    let components = document.components.get_or_insert_default();
    components.add_security_scheme(
        API_KEY,
        SecurityScheme::Http(
            HttpBuilder::new()
                .scheme(HttpAuthScheme::Bearer)
                .description(Some(
                    "An API key. Operations name the scope that the key needs. Nobody has to show one as long as none \
                     is made.",
                ))
                .build(),
        ),
    );
    for item in document.paths.paths.values_mut() {
        for operation in operations(item) {
            let gated = operation.responses.responses.contains_key("429");
            for (status, response) in &mut operation.responses.responses {
                if let RefOr::T(response) = response {
                    for (name, header) in headers(status, gated) {
                        response.headers.entry(name.to_owned()).or_insert(header);
                    }
                }
            }
            // The connection answers these before there is a request, and without a body.
            for (status, why) in [
                ("414", "The URI is too long"),
                ("431", "The head of the request is too large"),
            ] {
                let responses = &mut operation.responses.responses;
                responses
                    .entry(status.to_owned())
                    .or_insert_with(|| Response::new(why).into());
            }
        }
    }
    document
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [
        &mut item.get,
        &mut item.put,
        &mut item.post,
        &mut item.patch,
        &mut item.delete,
    ]
    .into_iter()
    .flatten()
}

/// The headers that come with a status whatever the call; `gated`: a gate may refuse the call.
fn headers(status: &str, gated: bool) -> Vec<(&'static str, Header)> {
    let seconds = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1));
    let text = || ObjectBuilder::new().schema_type(Type::String);
    let mut headers = Vec::new();
    if matches!(status, "202" | "429" | "503") {
        headers.push(("Retry-After", header(seconds, "In how many seconds to come back")));
    }
    // 200: who has waited was told so when it was taken.
    if gated && matches!(status, "200" | "202" | "429") {
        headers.extend([
            (
                "RateLimit-Policy",
                header(
                    text(),
                    "The gate: how many messages close it, and in how many seconds they are served",
                ),
            ),
            (
                "RateLimit",
                header(text(), "How much room there is, and when there is all of it"),
            ),
        ]);
    }
    if matches!(status, "401" | "403") {
        headers.push(("WWW-Authenticate", header(text(), "What key is needed")));
    }
    headers
}

fn header(schema: ObjectBuilder, description: &str) -> Header {
    HeaderBuilder::new()
        .schema(schema)
        .description(Some(description))
        .build()
}

/// `GET /openapi.json`: this document.
#[utoipa::path(
    get,
    path = "/openapi.json",
    operation_id = "openapi",
    tag = "documents",
    summary = "This document",
    responses(
        (status = 200, description = "OpenAPI 3.1", content_type = "application/json", body = Object),
        Refusals<Anywhere>,
    ),
    security(()),
)]
pub(super) async fn serve(State(api): State<Arc<Api>>) -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], api.document.clone())
}

/// The page that shows the document and can try it out: `/docs/`, with what it loads beside it.
///
/// Not in the document: it is for people.
pub(super) fn page<S: Clone + Send + Sync + 'static>() -> Router<S> {
    let config = Arc::new(Config::from("/openapi.json"));
    let file = move |name: String| {
        let config = Arc::clone(&config);
        async move {
            match utoipa_swagger_ui::serve(&name, config) {
                Ok(Some(file)) => Ok(([(CONTENT_TYPE, file.content_type)], file.bytes).into_response()),
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
