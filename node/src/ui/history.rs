//! `/ui/history`: a queue or a kind over the last hours.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use chrono::{TimeDelta, Utc};
use maud::{Markup, html};

use super::{
    context::Ui,
    fault::Fault,
    frame::Page,
    now::{kind_charts, queue_charts},
    session::{Fields, Viewer},
};

/// The hours that a page shows: 1, or up to the 24 that are kept.
pub(super) fn hours(fields: &Fields) -> Result<i64, Fault> {
    let hours = fields.number::<i64>("hours")?.unwrap_or(1);
    if (1..=24).contains(&hours) { Ok(hours) } else { Err(Fault::Invalid("hours is 1 to 24".to_owned())) }
}

pub(super) fn range_links(path: &str, hours: i64) -> Markup {
    html! {
        p.row {
            @for choice in [1, 6, 24] {
                a href={ (path) "hours=" (choice) } aria-current=[(choice == hours).then_some("true")] {
                    @if choice == 1 { "1 hour" } @else { (choice) " hours" }
                }
            }
        }
    }
}

/// `GET /ui/history?queue=NAME` or `?kind=NAME`
pub(super) async fn show(State(ui): State<Arc<Ui>>, viewer: Viewer, fields: Fields) -> Result<Response, Fault> {
    let hours = hours(&fields)?;
    let until = Utc::now();
    let range = (until - TimeDelta::hours(hours), until);
    let (title, path, charts) = match (fields.get("queue"), fields.get("kind")) {
        (Some(name), _) => {
            let look = ui.looks.latest().await?;
            let queue = look.queues.iter().find(|queue| queue.queue == name).ok_or(Fault::NothingHere)?;
            let minutes = ui.store.queue_history(Some(name), range.0).await?;
            (format!("Queue {name}"), format!("queue={name}"), queue_charts(&minutes, queue, range))
        }
        (None, Some(name)) => {
            let minutes = ui.store.kind_history(Some(name), range.0).await?;
            (format!("Kind {name}"), format!("kind={name}"), kind_charts(&minutes, name, range))
        }
        (None, None) => return Err(Fault::NothingHere),
    };
    let body = html! {
        (range_links(&format!("/ui/history?{path}&"), hours))
        div.cards { (charts) }
    };
    Ok(Page { title: &title, section: "/ui", live: None, body }.show(&ui, &viewer))
}
