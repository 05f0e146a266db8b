//! `/ui/workers`: who works, what it holds, and the pause of queues and kinds.

use std::sync::Arc;

use axum::{
    extract::State,
    response::{IntoResponse, Redirect, Response},
};
use maud::{Markup, html};

use super::{
    alarms,
    context::Ui,
    fault::Fault,
    format::{count, scrolling_table, tag},
    frame::Page,
    looks::Look,
    now,
    session::{Act, Viewer},
};

/// `GET /ui/workers`
pub(super) async fn show(State(ui): State<Arc<Ui>>, viewer: Viewer) -> Result<Response, Fault> {
    let look = ui.looks.latest().await?;
    let head = html! { th { "name" } th { "state" } th.n { "depth" } th { span.soft { "change" } } };
    let rows = html! {
        @for queue in &look.queues { (row(&viewer, "queue", &queue.queue, queue.paused, Some(queue.depth))) }
        @for kind in &look.rest.kinds { (row(&viewer, "kind", &kind.name, kind.paused, None)) }
    };
    let body = html! {
        (sections(&look))
        h2 { "Queues and kinds" }
        p.soft { "While one is paused, nothing of it is claimed; what workers hold goes on." }
        (scrolling_table(&head, &rows))
    };
    let live = Some("/ui/live/workers".to_owned());
    Ok(Page { title: "Workers", section: "/ui/workers", live, body }.show(&ui, &viewer))
}

pub(super) fn sections(look: &Look) -> Markup {
    html! { section #workers data-live { (alarms::stale(look)) (now::workers(&look.rest.workers)) } }
}

fn row(viewer: &Viewer, sort: &str, name: &str, paused: bool, depth: Option<i64>) -> Markup {
    html! {
        tr {
            td { (sort) " " (name) }
            td { (if paused { tag("paused", "warn") } else { tag("goes", "good") }) }
            td.n { (super::format::or_none(depth, count)) }
            td {
                @if viewer.may_act() {
                    form method="post" action="/ui/workers" {
                        (viewer.seal())
                        input type="hidden" name=(sort) value=(name);
                        @if paused {
                            button name="act" value="resume" { "Resume" }
                        } @else {
                            button.act name="act" value="pause" { "Pause" }
                        }
                    }
                }
            }
        }
    }
}

/// `POST /ui/workers`
pub(super) async fn act(State(ui): State<Arc<Ui>>, act: Act) -> Result<Response, Fault> {
    let store = act.store(&ui)?;
    let paused = match act.fields.need("act")? {
        "pause" => true,
        "resume" => false,
        word => return Err(Fault::Invalid(format!("a queue cannot {word}"))),
    };
    match (act.fields.get("queue"), act.fields.get("kind")) {
        (Some(queue), None) => drop(store.pause(Some(queue), paused).await?),
        (None, Some(kind)) => drop(store.pause_kind(kind, paused).await?),
        _ => return Err(Fault::Invalid("name a queue or a kind".to_owned())),
    }
    Ok(Redirect::to("/ui/workers").into_response())
}
