//! `/ui/honesty`: what callers were told, and what came of it.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use chrono::{TimeDelta, Utc};
use maud::{Markup, html};
use tidegate::internals::store::{EtaFigures, EtaMinute};

use super::{
    chart::{self, Line, Mark},
    context::Ui,
    fault::Fault,
    format::{count, or_none, percent, span, tag},
    frame::Page,
    session::{Fields, Viewer},
};

/// `GET /ui/honesty`
pub(super) async fn show(State(ui): State<Arc<Ui>>, viewer: Viewer, fields: Fields) -> Result<Response, Fault> {
    let hours = super::history::hours(&fields)?;
    let until = Utc::now();
    let range = (until - TimeDelta::hours(hours), until);
    let figures = ui.store.eta_figures().await?;
    let minutes = ui.store.eta_history(range.0).await?;
    let right = [Mark { name: "right".to_owned(), at: 0.9 }];
    let body = html! {
        p.soft {
            "An error is the time of the answer less what the caller was told at the submission: \
             above 0 the answer came later."
        }
        (super::history::range_links("/ui/honesty?", hours))
        @if figures.is_empty() { p.note { "There is no kind yet." } }
        @for kind in &figures {
            h2 { (kind.kind) " " (tag(&kind.eta, "")) }
            @let line = |name, figure: fn(&EtaMinute) -> Option<f64>| {
                let own = minutes.iter().filter(|minute| minute.kind == kind.kind);
                Line::of(name, own.map(|minute| (minute.minute, figure(minute))))
            };
            div.cards {
                div.card {
                    h3 { "Of all requests so far" }
                    (figures_of(kind))
                }
                div.card {
                    h3 { "When answers came" }
                    (chart::bins(&kind.error_bins))
                }
                @let error = [
                    line("mean error, without its sign", |minute| minute.mean_abs_error_seconds),
                    line("late (above 0) or early", |minute| minute.mean_error_seconds),
                ];
                (chart::lines("Error of ETAs", range, &error, &[], span))
                @let held = [line("answered within the stated 90 %", |minute| minute.p90_held_share)];
                (chart::lines("Share within the 90 %", range, &held, &right, percent))
                @let polls = [line("polls until the end was answered", |minute| minute.polls_per_request)];
                (chart::lines("Polls a request", range, &polls, &[], |polls| format!("{polls:.1}")))
            }
        }
    };
    Ok(Page { title: "Honesty", section: "/ui/honesty", live: None, body }.show(&ui, &viewer))
}

fn figures_of(kind: &EtaFigures) -> Markup {
    let polls = or_none(kind.polls_per_request, |polls| format!("{polls:.2}"));
    html! {
        table.plain {
            tr { th { "ended" } td.n { (count(kind.requests)) } }
            tr { th { "completed with an ETA" } td.n { (count(kind.predicted)) } }
            tr { th { "mean error" } td.n { (or_none(kind.mean_error_seconds, span)) } }
            tr { th { "without its sign" } td.n { (or_none(kind.mean_abs_error_seconds, span)) } }
            tr { th { "within the 90 %" } td.n { (or_none(kind.p90_held_share, percent)) } }
            tr { th { "polls a request" } td.n { (polls) } }
            tr { th { "lateness of the last poll" } td.n { (or_none(kind.mean_lateness_seconds, span)) } }
        }
    }
}
