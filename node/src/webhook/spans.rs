//! The spans of deliveries, while the program exports traces.

use tidegate::internals::{
    store::{Attempted, Delivery},
    traces::{self, Origin, Place, TARGET, Traced},
};
use tracing::{Span, field::Empty};

/// The span of one attempt of a delivery.
pub(super) fn delivery(delivery: &Delivery) -> Option<Traced> {
    Place::of(Origin::of_attempt(delivery.traceparent.as_deref(), delivery.begins_trace))?.begin(|| {
        let span = tracing::info_span!(
            target: TARGET,
            parent: None,
            "webhook",
            otel.kind = "client",
            request.id = %delivery.request_id,
            request.kind = delivery.kind,
            delivery.id = %delivery.id,
            delivery.event = delivery.event,
            delivery.attempt = i64::from(delivery.attempt),
            delivery.outcome = Empty,
            http.response.status_code = Empty,
            trace_id = Empty,
            "error.type" = Empty,
            otel.status_code = Empty,
        );
        // Not the URL: it may have a secret in it.
        let host = delivery.host_port.rsplit_once(':').map_or(&*delivery.host_port, |(host, _)| host);
        (span, [("http.request.method", "POST".to_owned()), ("server.address", host.to_owned())])
    })
}

/// Notes the outcome of an attempt.
pub(super) fn note(span: &Span, attempted: &Attempted) {
    let (outcome, status) = match attempted {
        Attempted::Delivered { status } => ("delivered", Some(*status)),
        Attempted::Refused { status, .. } => ("refused", *status),
        Attempted::Retry { status, .. } => ("retry", *status),
        Attempted::Unsent => ("unsent", None),
    };
    span.record("delivery.outcome", outcome);
    if let Some(status) = status {
        span.record("http.response.status_code", i64::from(status));
    }
    if matches!(attempted, Attempted::Refused { .. } | Attempted::Retry { .. }) {
        traces::fail(span, &status.map_or_else(|| "no_answer".to_owned(), |status| status.to_string()));
    }
}
