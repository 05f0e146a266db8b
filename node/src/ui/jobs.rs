//! `/ui/jobs/{number}`: the progress of an act on many requests.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    http::HeaderValue,
    response::Response,
};
use maud::{Markup, html};
use tidegate::internals::lock::lock;
use tokio::time::Instant;

use super::{
    context::Ui,
    fault::Fault,
    format::{count, span},
    frame::Page,
    session::Viewer,
    work::{Job, Progress},
};

/// `GET /ui/jobs/{number}`
pub(super) async fn show(
    State(ui): State<Arc<Ui>>,
    viewer: Viewer,
    Path(number): Path<u64>,
) -> Result<Response, Fault> {
    let job = ui.jobs.find(number);
    let Some(job) = job else {
        let body = html! {
            p.note.warn {
                "This node does not know the job: it has restarted, or another node runs it. \
                 What its batches have done is done; begin it again, and it goes on."
            }
            p { a href="/ui/requests" { "To the requests" } }
        };
        return Ok(Page { title: "Job", section: "/ui/requests", live: None, body }.show(&ui, &viewer));
    };
    let live = lock(&job.progress).ended.is_none().then(|| format!("/ui/live/jobs/{number}"));
    let body = html! { section #job data-live aria-live="polite" { (body(&job, &viewer)) } };
    let title = if job.dry_run { "What would be done" } else { "Job" };
    let mut response = Page { title, section: "/ui/requests", live: live.clone(), body }.show(&ui, &viewer);
    if live.is_some() {
        // For browsers without scripts.
        response.headers_mut().insert("refresh", HeaderValue::from_static("2"));
    }
    Ok(response)
}

/// The section of a job, while it runs; `None` when it has ended.
pub(super) fn progress(ui: &Ui, viewer: &Viewer, number: u64) -> Option<Markup> {
    let job = ui.jobs.find(number)?;
    Some(html! { section #job data-live { (body(&job, viewer)) } })
}

fn body(job: &Job, viewer: &Viewer) -> Markup {
    let state = lock(&job.progress).clone();
    let would = if job.dry_run { "would be " } else { "" };
    let done = match job.act.verb() {
        "cancel" => "cancelled",
        _ => "submitted again",
    };
    let took = state.ended.unwrap_or_else(Instant::now).duration_since(job.began).as_secs_f64();
    html! {
        table.plain {
            tr { th { (would) (done) } td.n { (count(state.done)) } }
            @if job.act.verb() == "cancel" {
                tr {
                    th { "are being sent, " (would) "cancelled unless that succeeds" }
                    td.n { (count(state.cancelling)) }
                }
            }
            @if state.left > 0 { tr { th { "cannot be " (done) } td.n { (count(state.left)) } } }
            tr { th { @if state.ended.is_some() { "took" } @else { "takes so far" } } td.n { (span(took)) } }
        }
        @if let Some(reason) = &state.reason { p.note.warn { (reason) } }
        @if let Some(error) = &state.error { p.note.bad role="alert" { "It has ended early: " (error) } }
        @if state.ended.is_none() {
            p { @if job.dry_run { "Counting …" } @else { "At work …" } }
        } @else if !job.dry_run {
            p.note.good { "Ended. Begun by " (job.viewer) "." }
        } @else if state.done + state.cancelling > 0 && viewer.may_act() {
            (start(job, &state, viewer))
        } @else {
            p.note { "There is nothing to do." }
        }
        p { a href=(job.back) { "Back to the list" } }
    }
}

/// The form that does what the job has only counted.
fn start(job: &Job, counted: &Progress, viewer: &Viewer) -> Markup {
    html! {
        form method="post" action="/ui/requests/start" {
            (viewer.seal())
            @for (name, value) in &job.form { input type="hidden" name=(name) value=(value); }
            button.act {
                @if job.act.verb() == "cancel" {
                    "Cancel " (count(counted.done + counted.cancelling))
                } @else {
                    "Submit " (count(counted.done)) " again"
                }
            }
        }
    }
}
