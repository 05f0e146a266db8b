//! `/ui/doctor`: searches for violations of invariants, and recoveries.

use std::sync::Arc;

use axum::{
    extract::State,
    http::HeaderValue,
    response::{IntoResponse, Redirect, Response},
};
use chrono::{DateTime, Utc};
use maud::{Markup, html};
use tidegate::internals::{
    doctor::Findings,
    lock::lock,
    recovery::Recovered,
    store::{RecoveryRun, RequestCount},
};

use super::{
    context::Ui,
    examinations::{Examinations, Recovering, Search},
    fault::Fault,
    format::{count, scrolling_table, time, time_or_none},
    frame::Page,
    session::{Act, Viewer},
};

/// Runs that the page shows.
const RUNS: i32 = 20;

/// `GET /ui/doctor`
pub(super) async fn show(State(ui): State<Arc<Ui>>, viewer: Viewer) -> Result<Response, Fault> {
    let runs = ui.store.recoveries(RUNS).await?;
    let is_under_way = ui.examinations.is_under_way();
    let body = html! {
        section #doctor data-live { (sections(&ui.examinations)) }
        @if viewer.may_act() {
            h2 { "Begin" }
            form.row method="post" action="/ui/doctor" {
                (viewer.seal())
                button.main name="act" value="search" { "Search for violations" }
                button name="act" value="dry_run" { "Recover: only count" }
                button.act name="act" value="recover" { "Recover" }
            }
            p.soft {
                "A recovery makes lost messages, claims, counts and gates again from the rows. It is safe at any time."
            }
        }
        h2 { "Recoveries on record" }
        (recoveries(&runs))
    };
    let live = Some("/ui/live/doctor".to_owned());
    let mut response = Page { title: "Doctor", section: "/ui/doctor", live, body }.show(&ui, &viewer);
    if is_under_way {
        // For browsers without scripts.
        response.headers_mut().insert("refresh", HeaderValue::from_static("5"));
    }
    Ok(response)
}

pub(super) fn live(ui: &Ui) -> Markup {
    html! { section #doctor data-live { (sections(&ui.examinations)) } }
}

fn sections(examinations: &Examinations) -> Markup {
    html! {
        h2 { "Invariants" }
        @match &*lock(&examinations.search) {
            None => { p.note { "This node has not searched yet." } }
            Some(Search::UnderWay { began, progress }) => {
                p.note { "Searching since " (time(*began)) " … " (progress) }
            }
            Some(Search::Ended { at, result: Err(error) }) => {
                p.note.bad { "The search of " (time(*at)) " has failed: " (error) }
            }
            Some(Search::Ended { at, result: Ok(findings) }) => { (found(findings, *at)) }
        }
        h2 { "Recovery" }
        @match &*lock(&examinations.recovery) {
            None => { p.note { "This node has not recovered since it started." } }
            Some(Recovering::UnderWay { began, dry_run }) => {
                p.note { @if *dry_run { "Counting" } @else { "Recovering" } " since " (time(*began)) " …" }
            }
            Some(Recovering::Ended { at, done, before, after, error }) => {
                (recovered(*at, done, before, after, error.as_deref()))
            }
        }
    }
}

fn found(findings: &Findings, at: DateTime<Utc>) -> Markup {
    html! {
        @if findings.is_sound() {
            p.note.good {
                @if findings.is_complete() {
                    "All " (findings.checked()) " invariants hold"
                } @else {
                    "No violation was found"
                }
                ", " (time(at)) "."
            }
        }
        @if !findings.is_complete() {
            p.note.warn {
                "The newest " (count(findings.read)) " of about " (count(findings.requests)) " requests were read; "
                code { "tidegate doctor --time-limit 0s" } " reads all."
            }
        }
        @for (invariant, violation) in findings.broken() {
            div.note.bad {
                strong { (invariant.name) ": " (count(violation.violations)) } br;
                "Rule: " (invariant.rule) br;
                "Violated by " (violation.samples.join(", "))
                details {
                    summary { "The query of all violations" }
                    pre { (invariant.query) }
                }
            }
        }
        @for warning in &findings.warnings { p.note.warn { (warning.subject) ": " (warning.message) } }
    }
}

fn recovered(
    at: DateTime<Utc>,
    done: &Recovered,
    before: &[RequestCount],
    after: &[RequestCount],
    error: Option<&str>,
) -> Markup {
    let would = if done.dry_run { "would be " } else { "" };
    html! {
        p {
            @if done.dry_run { "Only counted" } @else { "Recovered" }
            ", " (time(at)) ": " (count(done.examined)) " live requests examined."
        }
        @if let Some(error) = error { p.note.bad { "It has ended early: " (error) } }
        @if !done.is_anything_wrong() && error.is_none() { p.note.good { "Nothing was wrong." } }
        ul {
            @for queue in &done.storages {
                li { "queue " (queue) " without its table, its counters or free numbers, " (would) "made" }
            }
            @for (figure, sentence) in done.figures() {
                li { (count(figure)) " " (sentence.replace("{}", would)) }
            }
            @for wrong in &done.counts {
                li {
                    (wrong.kind) " " (wrong.status) ": counted " (count(wrong.counted))
                    ", there are " (count(wrong.requests)) ", " (would) "corrected"
                }
            }
        }
        (before_and_after(before, after))
    }
}

/// The requests of each kind and status, before a recovery and after it.
fn before_and_after(before: &[RequestCount], after: &[RequestCount]) -> Markup {
    let head = html! { th { "kind" } th { "state" } th.n { "before" } th.n { "after" } };
    let rows = html! {
        @for row in after {
            @let earlier = before.iter().find(|other| (&other.kind, &other.status) == (&row.kind, &row.status));
            tr {
                td { (row.kind) }
                td { (row.status) }
                td.n { (count(earlier.map_or(0, |row| row.requests))) }
                td.n { (count(row.requests)) }
            }
        }
    };
    scrolling_table(&head, &rows)
}

fn recoveries(runs: &[RecoveryRun]) -> Markup {
    if runs.is_empty() {
        return html! { p.note { "There was none." } };
    }
    let head = html! { th.n { "run" } th { "began" } th { "ended" } th { "by" } th { "options" } th { "did" } };
    let rows = html! {
        @for run in runs {
            tr {
                td.n { (run.id) }
                td { (time(run.began_at)) }
                td { (time_or_none(run.ended_at)) }
                td { (run.on_behalf_of.as_deref().unwrap_or(&run.actor)) }
                td { code { (run.options.as_deref().unwrap_or_default()) } }
                td { code { (run.figures.as_deref().unwrap_or_default()) } }
            }
        }
    };
    scrolling_table(&head, &rows)
}

/// `POST /ui/doctor`
pub(super) async fn act(State(ui): State<Arc<Ui>>, act: Act) -> Result<Response, Fault> {
    let store = act.store(&ui)?;
    match act.fields.need("act")? {
        "search" => ui.examinations.search(store),
        "dry_run" => ui.examinations.recover(store, true),
        "recover" => ui.examinations.recover(store, false),
        word => return Err(Fault::Invalid(format!("the doctor cannot {word}"))),
    }
    Ok(Redirect::to("/ui/doctor").into_response())
}
