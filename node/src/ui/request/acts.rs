//! What an operator can do with one request.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    response::{IntoResponse, Redirect, Response},
};
use maud::{Markup, html};
use tidegate::{
    internals::store::{Cancelled, Failed, Redrive, RequestDetail, Resolved},
    request::{Executed, RequestId, Status},
};

use crate::ui::{
    context::Ui,
    fault::Fault,
    session::{Act, Viewer},
};

fn form(detail: &RequestDetail, viewer: &Viewer, act: &str, fields: &Markup, word: &str) -> Markup {
    html! {
        form.row method="post" action={ "/ui/requests/" (detail.id) "/" (act) } {
            (viewer.seal())
            (fields)
            button.act { (word) }
        }
    }
}

/// Whether the request may be executed a second time; not asked where it was not executed.
fn redrive_fields(detail: &RequestDetail) -> Markup {
    html! {
        @if detail.executed.as_deref() != Some("no") {
            label.box {
                input type="checkbox" name="may_repeat" value="yes";
                "although it may have been executed"
            }
        }
    }
}

/// What the downstream says.
fn resolve_fields() -> Markup {
    html! {
        label {
            "Executed"
            select name="executed" {
                option value="yes" { "yes" }
                option value="no" { "no" }
            }
        }
        label { "Note" input name="note" maxlength="1000" size="24"; }
    }
}

pub(super) fn forms(detail: &RequestDetail, viewer: &Viewer) -> Markup {
    let none = html! {};
    let reason = html! { label { "Reason" input name="reason" required maxlength="1000" size="30"; } };
    let is_live = !detail.status.is_terminal();
    let has_failed = matches!(detail.status, Status::Failure | Status::TimedOut);
    html! {
        div.cards {
            @if is_live {
                div.card {
                    h3 { "Cancel" }
                    p.soft { "It is not sent; if it is being sent, it ends as cancelled unless that succeeds." }
                    (form(detail, viewer, "cancel", &none, "Cancel"))
                }
                div.card {
                    h3 { "Fail" }
                    p.soft { "Whatever its state; its caller gets the reason." }
                    (form(detail, viewer, "fail", &reason, "Fail"))
                }
            }
            @if has_failed && detail.redriven_as.is_none() {
                div.card {
                    h3 { "Redrive" }
                    p.soft { "It is submitted again, as a new request." }
                    (form(detail, viewer, "redrive", &redrive_fields(detail), "Submit it again"))
                }
            }
            @if detail.executed.as_deref() == Some("unknown") {
                div.card {
                    h3 { "Resolve" }
                    p.soft { "What the downstream says: was it executed?" }
                    (form(detail, viewer, "resolve", &resolve_fields(), "Resolve"))
                }
            }
            @if detail.delivery.is_some() {
                div.card {
                    h3 { "Webhook" }
                    p.soft { "It is delivered again under its id." }
                    (form(detail, viewer, "redeliver", &none, "Deliver again"))
                }
            }
        }
    }
}

/// What an act was, for the page that comes after it.
pub(super) fn sentence(done: &str) -> Option<&'static str> {
    Some(match done {
        "cancelled" => "It is cancelled.",
        "cancelling" => "It is being sent, and ends as cancelled unless that succeeds.",
        "failed" => "It has failed.",
        "redriven" => "It was submitted again.",
        "resolved" => "What is known of it is on record.",
        "known" => "That was known before.",
        "redelivered" => "Its webhook is delivered again.",
        _ => return None,
    })
}

/// `POST /ui/requests/{id}/{act}`
pub(in crate::ui) async fn act(
    State(ui): State<Arc<Ui>>,
    Path((id, word)): Path<(String, String)>,
    act: Act,
) -> Result<Response, Fault> {
    let store = act.store(&ui)?;
    let id = id.parse::<RequestId>().map_err(|_| Fault::NothingHere)?;
    let cannot =
        |status: Status, verb: &str| Err(Fault::Invalid(format!("the request is {status}: it cannot be {verb}")));
    let done = match &*word {
        "cancel" => match store.cancel(id).await? {
            Cancelled::Cancelled => {
                ui.node.moved(id, Status::Failure);
                "cancelled"
            }
            Cancelled::Cancelling => "cancelling",
            Cancelled::NotCancellable(status) => return cannot(status, "cancelled"),
            Cancelled::Unknown => return Err(Fault::NothingHere),
        },
        "fail" => match store.fail_request(id, act.fields.need("reason")?).await? {
            Failed::Failed => {
                ui.node.moved(id, Status::Failure);
                "failed"
            }
            Failed::Ended(status) => return cannot(status, "failed"),
            Failed::Unknown => return Err(Fault::NothingHere),
        },
        "redrive" => return redrive(&ui, &act, id).await,
        "resolve" => {
            let executed = act.fields.need("executed")?.parse::<Executed>();
            let executed = executed.map_err(|error| Fault::Invalid(error.to_string()))?;
            match store.resolve(id, executed, act.fields.get("note"), false).await? {
                Resolved::Resolved => "resolved",
                Resolved::Known => "known",
                Resolved::Kept { executed, source } => {
                    return Err(Fault::Invalid(format!(
                        "the downstream has said {executed} ({source}), and is believed"
                    )));
                }
                Resolved::NotUnresolved(status) => return cannot(status, "resolved"),
            }
        }
        "redeliver" => {
            store.webhook_redeliver(id).await?.ok_or(Fault::NothingHere)?;
            "redelivered"
        }
        _ => return Err(Fault::NothingHere),
    };
    Ok(Redirect::to(&format!("/ui/requests/{id}?done={done}")).into_response())
}

async fn redrive(ui: &Ui, act: &Act, id: RequestId) -> Result<Response, Fault> {
    let step = Redrive {
        batch: 1,
        dry_run: false,
        kind: None,
        since: None,
        code: None,
        may_repeat: act.fields.get("may_repeat").is_some(),
        submitter: None,
        until: None,
        requests: Some(&[id.0]),
        statuses: &[],
    };
    let done = act.store(ui)?.redrive(&step, None).await?;
    if let Some(new) = done.new_ids.first() {
        return Ok(Redirect::to(&format!("/ui/requests/{new}?done=redriven")).into_response());
    }
    let reason = done.unfit_reasons.into_iter().next().unwrap_or_else(|| match done.retry_after_seconds {
        Some(seconds) if done.refused > 0 => format!("a gate has no room for it: again in {seconds} s"),
        _ => {
            "it was submitted again already, was cancelled, or may have been executed: then say that it may be repeated"
                .to_owned()
        }
    });
    Err(Fault::Invalid(reason))
}
