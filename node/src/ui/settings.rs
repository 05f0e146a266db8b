//! `/ui/settings`: every setting with its meaning, in forms, and who changed what.

use std::sync::Arc;

use axum::{
    extract::State,
    response::{IntoResponse, Redirect, Response},
};
use maud::{Markup, html};
use serde_json::Value;
use tidegate::internals::store::{ConfigRecord, ConfigSetting, SettingValue};

use super::{
    context::Ui,
    fault::Fault,
    format::{scrolling_table, tag, time},
    frame::Page,
    session::{Act, Fields, Viewer},
};

/// Changes that the page shows.
const CHANGES: i32 = 50;

/// `GET /ui/settings?name=NAME`: of a queue, a kind, or a stage; without a name what there is.
pub(super) async fn show(State(ui): State<Arc<Ui>>, viewer: Viewer, fields: Fields) -> Result<Response, Fault> {
    let name = fields.get("name");
    page(&ui, &viewer, name, None).await
}

async fn page(ui: &Ui, viewer: &Viewer, name: Option<&str>, refused: Option<&str>) -> Result<Response, Fault> {
    let look = ui.looks.latest().await?;
    let settings = ui.store.config_get(name).await?;
    let history = ui.store.config_history(name, CHANGES, None).await?;
    let body = html! {
        @if let Some(refused) = refused { p.note.bad role="alert" { "Not changed: " (refused) } }
        p.row {
            a href="/ui/settings" { "All" }
            @for queue in &look.queues {
                a href={ "/ui/settings?name=" (queue.queue) } { "queue " (queue.queue) }
            }
            @for kind in &look.rest.kinds {
                a href={ "/ui/settings?name=" (kind.name) } { "kind " (kind.name) }
            }
            @for stage in &look.rest.stages {
                a href={ "/ui/settings?name=" (stage.kind) "." (stage.stage) } { (stage.kind) "." (stage.stage) }
            }
        }
        (table(&settings, viewer, name))
        h2 { "Changes" }
        (changes(&history))
    };
    let title = name.map_or_else(|| "Settings".to_owned(), |name| format!("Settings of {name}"));
    Ok(Page { title: &title, section: "/ui/settings", live: None, body }.show(ui, viewer))
}

/// A value as `config set` takes it.
fn shown(value: &SettingValue) -> String {
    match serde_json::to_value(value).unwrap_or_default() {
        Value::Null => "none".to_owned(),
        Value::String(text) => text,
        Value::Array(items) => {
            let items = items.iter().map(|item| item.as_str().map_or_else(|| item.to_string(), str::to_owned));
            items.collect::<Vec<_>>().join(",")
        }
        other => other.to_string(),
    }
}

fn table(settings: &[ConfigSetting], viewer: &Viewer, of: Option<&str>) -> Markup {
    let head = html! { th { "setting" } th { "value" } th { "came with" } th { "meaning" } };
    let rows = html! {
        @for setting in settings {
            @let value = shown(&setting.value);
            tr {
                td { code { (setting.name) } @if !setting.is_default { " " (tag("changed", "warn")) } }
                td {
                    @if viewer.may_act() {
                        form.row method="post" action="/ui/settings" {
                            (viewer.seal())
                            input type="hidden" name="setting" value=(setting.name);
                            @if let Some(of) = of { input type="hidden" name="of" value=(of); }
                            input name="value" value=(value) size="14" aria-label=(setting.name);
                            button { "Set" }
                        }
                    } @else {
                        (value)
                    }
                    @if let Some(unit) = &setting.unit { span.soft { (unit) } }
                }
                td { (shown(&setting.default_value)) }
                td.soft { (setting.comment.as_deref().unwrap_or_default()) }
            }
        }
    };
    scrolling_table(&head, &rows)
}

fn changes(history: &[ConfigRecord]) -> Markup {
    if history.is_empty() {
        return html! { p.note { "Nothing was changed yet." } };
    }
    let head = html! { th { "when" } th { "setting" } th { "from" } th { "to" } th { "by" } };
    let rows = html! {
        @for change in history {
            tr {
                td { (time(change.at)) }
                td { code { (change.name) } }
                td { (shown(&change.old_value)) }
                td { (shown(&change.new_value)) }
                td { (change.on_behalf_of.as_deref().unwrap_or(&change.actor)) }
            }
        }
    };
    scrolling_table(&head, &rows)
}

/// `POST /ui/settings`: shows the sentence of a refusal, such as the inequality of a policy over its budget.
pub(super) async fn act(State(ui): State<Arc<Ui>>, act: Act) -> Result<Response, Fault> {
    let store = act.store(&ui)?;
    let of = act.fields.get("of");
    if let Err(error) = store.config_set(act.fields.need("setting")?, act.fields.need("value")?).await {
        let mut response = page(&ui, &act.viewer, of, Some(&error.to_string())).await?;
        *response.status_mut() = axum::http::StatusCode::UNPROCESSABLE_ENTITY;
        return Ok(response);
    }
    let query = serde_urlencoded::to_string(of.map(|of| ("name", of)).as_slice()).unwrap_or_default();
    Ok(Redirect::to(&format!("/ui/settings?{query}")).into_response())
}
