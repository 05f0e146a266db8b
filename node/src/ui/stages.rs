//! `/ui/stages`: policies in force, breakers and learned timeouts of each stage.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use maud::{Markup, html};
use tidegate::internals::store::EstimatorOverview;

use super::{
    alarms,
    context::Ui,
    fault::Fault,
    format::{count, ms, or_none, percent, rate, scrolling_table, tag, time_or_none},
    frame::Page,
    looks::Look,
    now,
    session::Viewer,
};

/// `GET /ui/stages`
pub(super) async fn show(State(ui): State<Arc<Ui>>, viewer: Viewer) -> Result<Response, Fault> {
    let look = ui.looks.latest().await?;
    let body = html! {
        p.soft { "The name of a stage leads to the settings of its policy." }
        (sections(&look))
    };
    let live = Some("/ui/live/stages".to_owned());
    Ok(Page { title: "Stages", section: "/ui/stages", live, body }.show(&ui, &viewer))
}

pub(super) fn sections(look: &Look) -> Markup {
    html! {
        h2 { "Over five minutes" }
        section #stages data-live { (alarms::stale(look)) (now::stages(&look.rest.stages)) }
        h2 { "Learned timeouts" }
        section #estimators data-live { (estimators(&look.rest.estimators)) }
    }
}

fn estimators(estimators: &[EstimatorOverview]) -> Markup {
    if estimators.is_empty() {
        return html! {
            p.note {
                "No policy learns its timeout: set " code { "KIND.STAGE.timeout_mode" } " to " code { "adaptive" } "."
            }
        };
    }
    let time = |value: Option<f64>| or_none(value, ms);
    let head = html! {
        th { "stage" }
        th { "state" }
        th.n { "timeout" }
        th.n { "smoothed" }
        th.n { "deviation" }
        th.n { "margin" }
        th.n { "time out" }
        th.n { "target" }
        th.n { "calls" }
        th.n { "processes" }
        th { "last folded" }
    };
    let rows = html! {
        @for learned in estimators {
            @let colour = if learned.state == "high_load" { "warn" } else { "good" };
            tr {
                td { (learned.kind) "." (learned.stage) }
                td { (tag(&learned.state.replace('_', " "), colour)) }
                td.n { (ms(learned.timeout_ms)) }
                td.n { (time(learned.srtt_ms)) }
                td.n { (time(learned.rttvar_ms)) }
                td.n { (learned.k_margin) }
                td.n { (or_none(learned.failure_rate, percent)) }
                td.n { (or_none(learned.slo, percent)) }
                td.n { (or_none(learned.load_rps, rate)) }
                td.n { (count(learned.processes)) }
                td { (time_or_none(learned.updated_at)) }
            }
        }
    };
    scrolling_table(&head, &rows)
}
