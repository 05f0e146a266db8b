//! The spans of attempts and settles, while the program exports traces.

use tracing::{Span, field::Empty};

use super::{outcome::Report, shared::ServedQueue};
use crate::{
    store::{Claimed, Settle},
    traces::{self, Origin, Place, TARGET, Traced},
};

/// The span of a claimed request's attempt.
pub(super) fn attempt(queue: &ServedQueue, claimed: &Claimed) -> Option<Traced> {
    let request = &claimed.request;
    Place::of(Origin::of_attempt(request.traceparent.as_deref(), claimed.begins_trace))?.begin(|| {
        let id = request.id.to_string();
        let span = tracing::info_span!(
            target: TARGET,
            parent: None,
            "attempt",
            otel.kind = "consumer",
            request.id = id,
            request.kind = request.kind,
            request.stage = queue.stage.as_str(),
            request.attempt = i64::from(request.attempt),
            request.outcome = Empty,
            trace_id = Empty,
            "error.type" = Empty,
            otel.status_code = Empty,
        );
        let attributes = [
            ("messaging.system", "tidegate".to_owned()),
            ("messaging.operation.name", "attempt".to_owned()),
            ("messaging.operation.type", "process".to_owned()),
            ("messaging.destination.name", queue.name.clone()),
            ("messaging.message.id", id),
        ];
        (span, attributes)
    })
}

/// Notes the outcome of an attempt.
pub(super) fn note(span: &Span, report: &Report) {
    span.record("request.outcome", report.word());
    if let Report::Outcome(outcome) = report
        && let Some(error) = outcome.error()
    {
        traces::fail(span, &error.code);
    }
}

/// The spans of the settle of a batch, one below each attempt; they end with the settle.
pub(super) fn settles(batch: &[Settle<Report>]) -> Vec<Span> {
    let below = |attempt| tracing::info_span!(target: TARGET, parent: attempt, "settle", otel.kind = "client");
    batch.iter().filter_map(|settle| settle.span.as_ref()).map(below).collect()
}
