//! `/ui/gates`: gates of queues, quotas of kinds and submitters, and their history.

use std::sync::Arc;

use axum::{
    extract::State,
    response::{IntoResponse, Redirect, Response},
};
use maud::{Markup, html};
use tidegate::internals::store::{Gate, GateChange, GateHold, QuotaMarks, Watched};

use super::{
    alarms, chart,
    context::Ui,
    fault::Fault,
    format::{count, scrolling_table, span, tag, time},
    frame::Page,
    looks::Look,
    session::{Act, Viewer},
};

/// How many changes the page shows.
const CHANGES: i32 = 100;

/// `GET /ui/gates`
pub(super) async fn show(State(ui): State<Arc<Ui>>, viewer: Viewer) -> Result<Response, Fault> {
    let look = ui.looks.latest().await?;
    let history = ui.store.gate_history(None, CHANGES, None).await?;
    let body = html! {
        section #gates data-live { (gates(&look, &viewer)) }
        @if viewer.may_act() {
            h2 { "Set a quota" }
            form.row method="post" action="/ui/gates" {
                (viewer.seal())
                label {
                    "Of"
                    select name="sort" {
                        option value="kind" { "kind" }
                        option value="submitter" { "submitter" }
                    }
                }
                label { "Name" input name="name" required maxlength="200"; }
                label { "Closes at" input name="high_water" inputmode="numeric" required size="8"; }
                label { "Opens at" input name="low_water" inputmode="numeric" size="8"; }
                button name="act" value="quota" { "Set" }
            }
        }
        h2 { "History" }
        (changes(&history))
    };
    let live = Some("/ui/live/gates".to_owned());
    Ok(Page { title: "Gates", section: "/ui/gates", live, body }.show(&ui, &viewer))
}

pub(super) fn live(look: &Look, viewer: &Viewer) -> Markup {
    html! { section #gates data-live { (gates(look, viewer)) } }
}

fn gates(look: &Look, viewer: &Viewer) -> Markup {
    html! {
        (alarms::stale(look))
        div.cards { @for gate in &look.gates { (card(gate, viewer)) } }
    }
}

fn card(gate: &Gate, viewer: &Viewer) -> Markup {
    html! {
        div.card {
            h3 {
                (gate.name) " "
                (if gate.state == "accepting" { tag("open", "good") } else { tag("closed", "bad") })
                @if gate.forced { " " (tag("held by hand", "warn")) }
                @if gate.queue.is_none() { " " (tag("quota", "")) }
            }
            (chart::depth(gate.depth, gate.low_water, gate.high_water))
            table.plain {
                tr { th { "depth" } td { (count(gate.depth)) } }
                tr {
                    th { "marks" }
                    td {
                        "closes at " (count(gate.high_water.into())) ", opens at " (count(gate.low_water.into()))
                        " (" (gate.mode) ")"
                    }
                }
                tr { th { "so since" } td { (time(gate.changed_at)) ", at a depth of " (count(gate.depth_at_change)) } }
            }
            @if viewer.may_act() { (forms(gate, viewer)) }
        }
    }
}

/// What an operator can do with a gate.
fn forms(gate: &Gate, viewer: &Viewer) -> Markup {
    html! {
        form.row method="post" action="/ui/gates" {
            (viewer.seal())
            input type="hidden" name="gate" value=(gate.name);
            @if gate.forced {
                button name="act" value="release" { "Release" }
            } @else {
                button.act name="act" value="close" { "Hold closed" }
                button.act name="act" value="open" { "Hold open" }
            }
            @if gate.queue.is_none() { button.act name="act" value="remove" { "Remove the quota" } }
        }
        form.row method="post" action="/ui/gates" {
            (viewer.seal())
            input type="hidden" name="gate" value=(gate.name);
            label { "Closes at" input name="high_water" inputmode="numeric" size="8" value=(gate.high_water); }
            label { "Opens at" input name="low_water" inputmode="numeric" size="8" value=(gate.low_water); }
            button name="act" value="marks" { "Set the marks" }
        }
    }
}

pub(super) fn changes(history: &[GateChange]) -> Markup {
    if history.is_empty() {
        return html! { p.note { "No gate has changed yet." } };
    }
    let head = html! {
        th { "when" }
        th { "gate" }
        th { "became" }
        th.n { "depth" }
        th { "cause" }
        th { "by" }
        th.n { "lasted" }
    };
    let rows = html! {
        @for change in history {
            tr {
                td { (time(change.at)) }
                td { (change.gate) }
                td { (if change.state == "accepting" { tag("open", "good") } else { tag("closed", "bad") }) }
                td.n { (count(change.depth)) }
                td { (change.cause) }
                td { (change.actor) }
                td.n { (span(change.lasted_seconds)) @if change.is_current { " so far" } }
            }
        }
    };
    scrolling_table(&head, &rows)
}

/// `POST /ui/gates`
pub(super) async fn act(State(ui): State<Arc<Ui>>, act: Act) -> Result<Response, Fault> {
    let store = act.store(&ui)?;
    let fields = &act.fields;
    let marks =
        QuotaMarks { high_water: fields.number("high_water")?, low_water: fields.number("low_water")?, mode: None };
    match fields.need("act")? {
        "quota" => {
            let name = fields.need("name")?.to_owned();
            let subject = match fields.need("sort")? {
                "kind" => Watched::Kind(name),
                "submitter" => Watched::Submitter(name),
                sort => return Err(Fault::Invalid(format!("a quota is of a kind or a submitter, not of a {sort}"))),
            };
            store.quota_set(&subject, marks).await?;
        }
        "marks" => drop(store.gate_set(fields.need("gate")?, marks).await?),
        "remove" => drop(store.quota_remove(fields.need("gate")?).await?),
        word => {
            let hold = match word {
                "close" => GateHold::Close,
                "open" => GateHold::Open,
                "release" => GateHold::Release,
                _ => return Err(Fault::Invalid(format!("a gate cannot {word}"))),
            };
            store.gate_force(fields.need("gate")?, hold).await?;
        }
    }
    Ok(Redirect::to("/ui/gates").into_response())
}
