//! `/ui/requests/{id}`: the life of a request, what holds it now, and what can be done with it.

pub(super) mod acts;

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    response::Response,
};
use chrono::{DateTime, Utc};
use maud::{Markup, html};
use tidegate::{
    internals::store::{Outlook, Reason, RequestDetail, RequestStep},
    request::RequestId,
};

use super::{
    context::Ui,
    fault::Fault,
    format::{NONE, between, bytes, colour_of, count, request, seconds, span, tag, time, time_or_none},
    frame::Page,
    session::{Fields, Viewer},
};

/// Characters of a payload or a response that a page shows.
const SHOWN: i32 = 100_000;

fn id_of(text: &str) -> Result<RequestId, Fault> {
    text.parse().map_err(|_| Fault::NothingHere)
}

/// `GET /ui/requests/{id}`
pub(super) async fn show(
    State(ui): State<Arc<Ui>>,
    viewer: Viewer,
    Path(id): Path<String>,
    fields: Fields,
) -> Result<Response, Fault> {
    let id = id_of(&id)?;
    let detail = ui.store.request_detail(id).await?.ok_or(Fault::NothingHere)?;
    let steps = ui.store.request_steps(id).await?;
    let reasons = ui.store.explain(id).await?;
    let outlook = ui.store.outlook(id).await?;
    let body = html! {
        @if let Some(done) = fields.get("done").and_then(acts::sentence) { p.note.good role="status" { (done) } }
        (reasons_of(&reasons))
        div.cards {
            div.card {
                h2 { "Where it is" }
                (place(&detail, outlook.as_ref()))
            }
            div.card {
                h2 { "What it is" }
                (facts(&detail))
            }
        }
        h2 { "Its life" }
        (life(&steps, detail.finished_at))
        h2 { "Payload and response" }
        (contents(&detail, &viewer))
        @if viewer.may_act() {
            h2 { "Acts" }
            (acts::forms(&detail, &viewer))
        }
    };
    let title = format!("Request {id}");
    Ok(Page { title: &title, section: "/ui/requests", live: None, body }.show(&ui, &viewer))
}

fn reasons_of(reasons: &[Reason]) -> Markup {
    html! { @for reason in reasons { p.note { (reason.sentence) } } }
}

fn place(detail: &RequestDetail, outlook: Option<&Outlook>) -> Markup {
    let executed = detail.executed.as_deref();
    html! {
        table.plain {
            tr {
                th { "state" }
                td { (tag(detail.status.as_str(), colour_of(detail.status.as_str()))) " by " (detail.cause) }
            }
            @if let Some(queue) = &detail.queue {
                tr { th { "queue" } td { a href={ "/ui/history?queue=" (queue) } { (queue) } } }
            }
            @if let Some(outlook) = outlook { (expectations(outlook)) }
            @if let Some(word) = executed {
                tr { th { "executed" } td { (tag(word, if word == "unknown" { "warn" } else { "" })) } }
            }
            @if let Some(resolution) = outlook.and_then(|outlook| outlook.resolution.as_ref()) {
                tr {
                    th { "known" }
                    td { (resolution.executed.as_str()) " by " (resolution.source) ", " (time(resolution.at)) }
                }
            }
            @if detail.finished_at.is_none() { tr { th { "deadline" } td { (time(detail.deadline_at)) } } }
            @if let Some(at) = detail.cancel_requested_at { tr { th { "cancel requested" } td { (time(at)) } } }
            @if let Some(error) = &detail.error { tr { th { "error" } td { code { (error) } } } }
        }
    }
}

/// When the answer to a request is expected.
fn expectations(outlook: &Outlook) -> Markup {
    html! {
        @if let Some(position) = outlook.position { tr { th { "before it" } td { (count(position)) } } }
        tr { th { "for" } td { (span(outlook.elapsed.as_secs_f64())) } }
        @if let Some(eta) = outlook.eta {
            tr { th { "its caller is told" } td { "come back in " (seconds(eta.retry_after.as_secs())) } }
            @if let (Some(p50), Some(p90)) = (eta.p50, eta.p90) {
                tr {
                    th { "answered" }
                    td { "half within " (span(p50.as_secs_f64())) ", 90 % within " (span(p90.as_secs_f64())) }
                }
            }
        }
    }
}

fn facts(detail: &RequestDetail) -> Markup {
    let text = |value: Option<&str>| value.unwrap_or(NONE).to_owned();
    html! {
        table.plain {
            tr {
                th { "kind" }
                td { a href={ "/ui/requests?kind=" (detail.kind) } { (detail.kind) } " (" (detail.flow) ")" }
            }
            tr { th { "submitter" } td { (text(detail.submitter.as_deref())) } }
            tr { th { "submitted" } td { (time(detail.submitted_at)) } }
            tr { th { "told then" } td { (super::format::or_none(detail.eta_seconds, span)) } }
            tr { th { "ended" } td { (time_or_none(detail.finished_at)) } }
            tr {
                th { "checks, sends" }
                td {
                    (detail.readiness_attempt) ", " (detail.tx_attempt)
                    @if detail.tx_unsent > 0 { " (" (detail.tx_unsent) " did not leave)" }
                }
            }
            tr { th { "reference" } td { (text(detail.reference.as_deref())) } }
            @if detail.response_threshold > 1 {
                tr { th { "shares" } td { (detail.shares) " of " (detail.response_threshold) } }
            }
            @if let Some(id) = detail.send_id { tr { th { "sent as" } td { (request(id)) } } }
            @if let Some(id) = detail.redrive_of { tr { th { "repeats" } td { (request(id)) } } }
            @if let Some(id) = detail.redriven_as { tr { th { "submitted again as" } td { (request(id)) } } }
            @if let Some(url) = &detail.callback_url { tr { th { "callback" } td { (url) } } }
            @if let Some(state) = &detail.delivery {
                tr {
                    th { "webhook" }
                    td {
                        (state) ", " (detail.delivery_attempt.unwrap_or_default()) " attempts"
                        @if let Some(status) = detail.delivery_status { ", answered " (status) }
                        @if let Some(error) = &detail.delivery_error { ": " (error) }
                    }
                }
            }
        }
    }
}

/// Each step, with the time until the next.
fn life(steps: &[RequestStep], finished_at: Option<DateTime<Utc>>) -> Markup {
    if steps.is_empty() {
        return html! { p.note { "Its history was removed." } };
    }
    let ends = steps.iter().skip(1).map(|next| Some(next.at)).chain([finished_at.is_none().then(Utc::now)]);
    html! {
        ol.life {
            @for (step, end) in steps.iter().zip(ends) {
                li {
                    strong { (step.to_status) }
                    @if let Some(end) = end { " for " (span(between(step.at, end))) }
                    br;
                    span.soft {
                        (step.transition_no) ", " (step.cause) ", " (time(step.at))
                        @if step.attempt > 0 { ", attempt " (step.attempt) }
                        @if let Some(worker) = &step.worker { ", " (worker) }
                    }
                    @if let Some(detail) = &step.detail { br; code { (detail) } }
                }
            }
        }
    }
}

fn contents(detail: &RequestDetail, viewer: &Viewer) -> Markup {
    html! {
        p {
            "Payload, " (bytes(detail.payload_bytes)) " as stored; "
            @match detail.response_bytes {
                Some(size) => { "response, " (bytes(size)) "." }
                None => { "no response." }
            }
        }
        @if viewer.sees_payloads() {
            p.row {
                a href={ "/ui/requests/" (detail.id) "/payload" } { "Show the payload" }
                @if detail.response_bytes.is_some() {
                    a href={ "/ui/requests/" (detail.id) "/response" } { "Show the response" }
                }
            }
        } @else {
            p.soft { "Only keys with the scope " code { "payload" } " see them." }
        }
    }
}

/// `GET /ui/requests/{id}/payload` and `/response`
pub(super) async fn content(
    State(ui): State<Arc<Ui>>,
    viewer: Viewer,
    Path((id, part)): Path<(String, String)>,
) -> Result<Response, Fault> {
    if !viewer.sees_payloads() {
        return Err(Fault::Lacks("payload"));
    }
    let id = id_of(&id)?;
    let (text, length) = ui.store.request_content(id, &part, SHOWN).await?.ok_or(Fault::NothingHere)?;
    tracing::info!(request = %id, viewer = viewer.name(), part, "an operator has read what a request contains");
    let title = format!("The {part} of {id}");
    let body = html! {
        p { a href={ "/ui/requests/" (id) } { "Back to the request" } }
        @if length > SHOWN.into() {
            p.note.warn { "The first " (count(SHOWN.into())) " of " (count(length)) " characters." }
        }
        pre tabindex="0" { (text) }
    };
    Ok(Page { title: &title, section: "/ui/requests", live: None, body }.show(&ui, &viewer))
}
