//! Submissions in traces: the span of a call that submits, and the `traceparent` that its requests are stored with.

use axum::{
    extract::{MatchedPath, Request},
    http::{HeaderMap, Method, request::Parts},
    middleware::Next,
    response::Response,
};
use tidegate::internals::traces::{self, Origin, Place, TARGET, TRACEPARENT, Traced};
use tracing::{Instrument, field::Empty};

/// The routes that submit.
const SUBMISSIONS: [&str; 2] = ["/v1/{kind}", "/v1/{kind}/batch"];

/// The `traceparent` of a call's span.
#[derive(Clone)]
struct OfCall(String);

/// Runs a call, and one that submits in a span of its own.
pub(super) async fn run(request: Request, route: Option<&MatchedPath>, next: Next) -> Response {
    let route = route.map(MatchedPath::as_str).filter(|route| SUBMISSIONS.contains(route));
    match route.filter(|_| request.method() == Method::POST) {
        Some(route) => in_span(request, route, next).await,
        None => next.run(request).await,
    }
}

/// Runs a call that submits in a span of its own, if the program exports traces. `route` is its path with parameters.
pub async fn in_span(mut request: Request, route: &str, next: Next) -> Response {
    let Some(Traced { span, traceparent }) = begin(&request, route) else {
        return next.run(request).await;
    };
    request.extensions_mut().insert(OfCall(traceparent));
    let response = Box::pin(next.run(request).instrument(span.clone())).await;
    let status = response.status();
    span.record("http.response.status_code", i64::from(status.as_u16()));
    if status.is_server_error() {
        traces::fail(&span, status.as_str());
    }
    response
}

fn begin(request: &Request, route: &str) -> Option<Traced> {
    if !traces::is_on() {
        return None;
    }
    let caller = header(request.headers());
    Place::of(caller.as_deref().map_or(Origin::New, Origin::Below))?.begin(|| {
        let span = tracing::info_span!(
            target: TARGET,
            parent: None,
            "POST",
            otel.name = format!("POST {route}"),
            otel.kind = "server",
            http.response.status_code = Empty,
            trace_id = Empty,
            "error.type" = Empty,
            otel.status_code = Empty,
        );
        let attributes = [
            ("http.request.method", "POST".to_owned()),
            ("http.route", route.to_owned()),
            ("url.scheme", "http".to_owned()),
            ("url.path", request.uri().path().to_owned()),
        ];
        (span, attributes)
    })
}

/// The `traceparent` for the requests of a call: that of its span, or else its caller's.
#[must_use]
pub fn traceparent(parts: &Parts) -> Option<String> {
    match parts.extensions.get() {
        Some(OfCall(traceparent)) => Some(traceparent.clone()),
        None => header(&parts.headers),
    }
}

/// The caller's `traceparent`. One that is invalid, or that occurs twice, is ignored.
fn header(headers: &HeaderMap) -> Option<String> {
    let mut values = headers.get_all(TRACEPARENT).iter();
    let value = values.next().filter(|_| values.next().is_none())?;
    traces::valid_traceparent(value.to_str().ok()?)
}
