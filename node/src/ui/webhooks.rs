//! `/ui/webhooks`: deliveries, hosts and secrets.

use std::sync::Arc;

use axum::{
    extract::State,
    response::{IntoResponse, Redirect, Response},
};
use maud::{Markup, html};
use tidegate::{
    internals::store::{CallbackHost, DeliveryRecord},
    request::RequestId,
};

use super::{
    context::Ui,
    fault::Fault,
    format::{NONE, count, request, scrolling_table, tag, time, time_or_none},
    frame::Page,
    session::{Act, Fields, Viewer},
};

/// Deliveries on a page.
const SHOWN: u32 = 100;

/// Deliveries made due again in one transaction.
const BATCH: i32 = 1000;

/// `GET /ui/webhooks`
pub(super) async fn show(State(ui): State<Arc<Ui>>, viewer: Viewer, fields: Fields) -> Result<Response, Fault> {
    let only_failed = fields.get("failed").is_some();
    let counts = ui.store.webhook_counts().await?;
    let deliveries = ui.store.webhook_deliveries(only_failed, SHOWN).await?;
    let hosts = ui.store.webhook_hosts().await?;
    let body = html! {
        table.plain {
            tr { th { "wait" } td.n { (count(counts.waiting)) } }
            tr { th { "under way" } td.n { (count(counts.under_way)) } }
            tr { th { "failed" } td.n { (count(counts.failed)) } }
        }
        @if viewer.may_act() && counts.failed > 0 {
            form.row method="post" action="/ui/webhooks" {
                (viewer.seal())
                button.act name="act" value="redeliver_failed" {
                    "Deliver the " (count(counts.failed)) " failed ones again"
                }
            }
        }
        h2 { @if only_failed { "Failed deliveries" } @else { "Deliveries, the latest first" } }
        p {
            @if only_failed {
                a href="/ui/webhooks" { "All" }
            } @else {
                a href="/ui/webhooks?failed=yes" { "Only failed ones" }
            }
        }
        (table_of_deliveries(&deliveries, &viewer))
        h2 { "Hosts that callbacks may name" }
        (table_of_hosts(&hosts))
    };
    Ok(Page { title: "Webhooks", section: "/ui/webhooks", live: None, body }.show(&ui, &viewer))
}

fn table_of_deliveries(deliveries: &[DeliveryRecord], viewer: &Viewer) -> Markup {
    if deliveries.is_empty() {
        return html! { p.note { "There is none: a request with a callback has one when it ends." } };
    }
    let head = html! {
        th { "request" }
        th { "URL" }
        th { "state" }
        th.n { "attempts" }
        th { "answer" }
        th { "next" }
        th { "ended" }
        th { span.soft { "act" } }
    };
    let rows = html! {
        @for delivery in deliveries { (delivery_row(delivery, viewer)) }
    };
    scrolling_table(&head, &rows)
}

fn delivery_row(delivery: &DeliveryRecord, viewer: &Viewer) -> Markup {
    let colour = match &*delivery.state {
        "delivered" => "good",
        "failed" => "bad",
        _ => "",
    };
    html! {
        tr {
            td { (request(delivery.request_id)) }
            td { (delivery.url) }
            td { (tag(&delivery.state, colour)) @if delivery.under_way { " under way" } }
            td.n { (delivery.attempt) }
            td {
                @match delivery.last_status {
                    Some(status) => { (status) }
                    None => { (NONE) }
                }
                @if let Some(error) = &delivery.last_error { ": " (error) }
            }
            td { @if delivery.state == "pending" { (time(delivery.due_at)) } @else { (NONE) } }
            td { (time_or_none(delivery.finished_at)) }
            td {
                @if viewer.may_act() && delivery.state != "pending" {
                    form method="post" action="/ui/webhooks" {
                        (viewer.seal())
                        input type="hidden" name="id" value=(delivery.request_id);
                        button name="act" value="redeliver" { "Again" }
                    }
                }
            }
        }
    }
}

fn table_of_hosts(hosts: &[CallbackHost]) -> Markup {
    if hosts.is_empty() {
        return html! { p.note { "None: " code { "tidegate webhook hosts add HOST" } "." } };
    }
    let head = html! { th { "host" } th { "private addresses" } th { "allowed" } th { "by" } };
    let rows = html! {
        @for host in hosts {
            tr {
                td { (host.host) }
                td { @if host.allow_private { "yes" } @else { "no" } }
                td { (time(host.created_at)) }
                td { (host.created_by) }
            }
        }
    };
    scrolling_table(&head, &rows)
}

/// `POST /ui/webhooks`
pub(super) async fn act(State(ui): State<Arc<Ui>>, act: Act) -> Result<Response, Fault> {
    let store = act.store(&ui)?;
    match act.fields.need("act")? {
        "redeliver" => {
            let id = act.fields.need("id")?.parse::<RequestId>().map_err(|_| Fault::NothingHere)?;
            store.webhook_redeliver(id).await?.ok_or(Fault::NothingHere)?;
        }
        "redeliver_failed" => {
            let mut after = None;
            loop {
                (_, after) = store.webhook_redeliver_failed(BATCH, after).await?;
                if after.is_none() {
                    break;
                }
            }
        }
        word => return Err(Fault::Invalid(format!("a webhook cannot {word}"))),
    }
    Ok(Redirect::to("/ui/webhooks").into_response())
}
