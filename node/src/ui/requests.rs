//! `/ui/requests`: a list with filters that are in its address, and acts on what is chosen or on all that match.

use std::sync::{Arc, Mutex};

use axum::{
    extract::State,
    response::{IntoResponse, Redirect, Response},
};
use chrono::{DateTime, TimeDelta, Utc};
use maud::{Markup, html};
use tidegate::{
    internals::store::{ListedRequest, PageQuery},
    request::{Executed, Status},
};
use tokio::time::Instant;
use uuid::Uuid;

use super::{
    context::Ui,
    fault::Fault,
    format::{NONE, colour_of, count, request, scrolling_table, tag, time, time_or_none},
    frame::Page,
    looks::Look,
    session::{Act, Fields, Viewer},
    work::{self, Job},
};

const PAGE: i32 = 100;

/// What a list is filtered by, as its address has it.
pub(super) struct Filter {
    pub(super) query: PageQuery,
    /// The pairs of the address, for links and forms.
    pairs: Vec<(String, String)>,
}

/// The names that a filter has.
const NAMES: [&str; 9] = ["kind", "state", "submitter", "queue", "since", "until", "cause", "executed", "attempts"];

impl Filter {
    pub(super) fn of(fields: &Fields) -> Result<Self, Fault> {
        let statuses = fields.all("state").filter(|state| !state.is_empty()).map(str::parse::<Status>);
        let statuses = statuses.collect::<Result<_, _>>().map_err(|error| Fault::Invalid(error.to_string()))?;
        let executed = fields.get("executed").map(str::parse::<Executed>).transpose();
        let executed = executed.map_err(|error| Fault::Invalid(error.to_string()))?;
        let before = fields.get("before").map(str::parse::<Uuid>).transpose();
        let text = |name| fields.get(name).map(str::to_owned);
        let query = PageQuery {
            kind: text("kind").map(|kind| kind.replace('-', "_")),
            statuses,
            since: moment(fields, "since")?,
            until: moment(fields, "until")?,
            before: before.map_err(|_| Fault::Invalid("before is the id of a request".to_owned()))?,
            submitter: text("submitter"),
            queue: text("queue"),
            cause: text("cause"),
            executed,
            attempts: fields.number("attempts")?,
            limit: PAGE,
        };
        let pairs = fields.pairs().filter(|(name, _)| NAMES.contains(name));
        Ok(Self { query, pairs: pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect() })
    }

    fn address(&self, more: &[(&str, &str)]) -> String {
        let own = self.pairs.iter().map(|(name, value)| (&**name, &**value));
        let pairs: Vec<_> = own.chain(more.iter().copied()).collect();
        format!("/ui/requests?{}", serde_urlencoded::to_string(pairs).unwrap_or_default())
    }

    fn value(&self, name: &str) -> &str {
        self.pairs.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    fn hidden(&self) -> Markup {
        html! { @for (name, value) in &self.pairs { input type="hidden" name=(name) value=(value); } }
    }

    /// Whether `cancel_requests` has each part of it, and it names something.
    fn may_cancel_all(&self) -> bool {
        let query = &self.query;
        let has_more = query.cause.is_some() || query.executed.is_some() || query.attempts.is_some();
        let live = [Status::Queued, Status::Processing, Status::TxInFlight];
        let is_live = query.statuses.iter().all(|status| live.contains(status));
        let narrows =
            query.kind.is_some() || query.submitter.is_some() || query.queue.is_some() || query.until.is_some();
        !has_more && is_live && (narrows || query.since.is_some())
    }

    /// Whether `redrive` has each part of it: its times are those of ends, and here they are those of submissions.
    fn may_redrive_all(&self) -> bool {
        let query = &self.query;
        let ended = [Status::Failure, Status::TimedOut];
        !query.statuses.is_empty()
            && query.statuses.iter().all(|status| ended.contains(status))
            && query.queue.is_none()
            && query.executed.is_none()
            && query.attempts.is_none()
            && query.since.is_none()
            && query.until.is_none()
    }
}

/// A time such as 2026-11-29T08:00:00Z or 2026-11-29T08:00 (UTC), or how long ago, such as 90m.
fn moment(fields: &Fields, name: &str) -> Result<Option<DateTime<Utc>>, Fault> {
    let Some(text) = fields.get(name) else { return Ok(None) };
    let local = |form| chrono::NaiveDateTime::parse_from_str(text, form).ok().map(|at| at.and_utc());
    let ago = || {
        TimeDelta::from_std(humantime::parse_duration(text).ok()?)
            .ok()
            .and_then(|ago| Utc::now().checked_sub_signed(ago))
    };
    let found = DateTime::parse_from_rfc3339(text).ok().map(|at| at.to_utc());
    let found = found.or_else(|| local("%Y-%m-%dT%H:%M")).or_else(|| local("%Y-%m-%dT%H:%M:%S")).or_else(ago);
    found.map(Some).ok_or_else(|| {
        Fault::Invalid(format!("{name} is a time such as 2030-01-31T12:00:00Z, or a time ago such as 90m; not {text}"))
    })
}

/// `GET /ui/requests`
pub(super) async fn show(State(ui): State<Arc<Ui>>, viewer: Viewer, fields: Fields) -> Result<Response, Fault> {
    let filter = Filter::of(&fields)?;
    if let Some(name) = fields.get("find").map(str::trim) {
        let found =
            ui.store.request_found(name, filter.query.kind.as_deref(), filter.query.submitter.as_deref()).await?;
        if let Some(id) = found.first() {
            return Ok(Redirect::to(&format!("/ui/requests/{id}")).into_response());
        }
    }
    let look = ui.looks.latest().await?;
    let page = ui.store.list_requests(&filter.query).await?;
    let body = html! {
        (search(&fields))
        (filters(&filter, &look))
        p { (total(&filter, &look)) }
        form method="post" action="/ui/requests/preview" {
            (viewer.seal())
            (filter.hidden())
            (list(&page.requests, viewer.may_act()))
            @if viewer.may_act() { (acts(&filter)) }
        }
        p.row {
            @if filter.query.before.is_some() { a href=(filter.address(&[])) { "Newest" } }
            @if let Some(next) = page.next {
                a href=(filter.address(&[("before", &next.to_string())])) { "Older" }
            } @else if !page.requests.is_empty() {
                span.soft { "These are the oldest." }
            }
        }
    };
    Ok(Page { title: "Requests", section: "/ui/requests", live: None, body }.show(&ui, &viewer))
}

fn search(fields: &Fields) -> Markup {
    let name = fields.get("find");
    html! {
        form.row method="get" action="/ui/requests" role="search" {
            label {
                "Id, reference, or key (with kind, and submitter if it has one)"
                input name="find" size="44" value=[name];
            }
            label { "Kind" input name="kind" size="14"; }
            label { "Submitter" input name="submitter" size="14"; }
            button { "Find" }
        }
        @if let Some(name) = name { p.note.warn { "No request has the id, reference or key " code { (name) } "." } }
    }
}

/// A field of the filters that is one of these words, or all.
fn choice<'a>(
    label: &str,
    name: &str,
    words: impl Iterator<Item = &'a str>,
    is_chosen: impl Fn(&str) -> bool,
) -> Markup {
    html! {
        label {
            (label)
            select name=(name) {
                option value="" { "all" }
                @for word in words { option value=(word) selected[is_chosen(word)] { (word) } }
            }
        }
    }
}

fn filters(filter: &Filter, look: &Look) -> Markup {
    let query = &filter.query;
    let kinds = look.rest.kinds.iter().map(|kind| kind.name.as_str());
    let statuses = Status::ALL.iter().map(|status| status.as_str());
    let queues = look.queues.iter().map(|queue| queue.queue.as_str());
    let answers = ["yes", "no", "unknown"].into_iter();
    html! {
        form.row method="get" action="/ui/requests" aria-label="Filters" {
            (choice("Kind", "kind", kinds, |kind| query.kind.as_deref() == Some(kind)))
            (choice("State", "state", statuses, |word| query.statuses.iter().any(|status| status.as_str() == word)))
            (choice("Queue", "queue", queues, |queue| query.queue.as_deref() == Some(queue)))
            (choice("Executed", "executed", answers, |word| filter.value("executed") == word))
            label { "Cause or code" input name="cause" size="16" value=(filter.value("cause")); }
            label { "Submitter" input name="submitter" size="14" value=(filter.value("submitter")); }
            label {
                "Sends, at least"
                input name="attempts" size="5" inputmode="numeric" value=(filter.value("attempts"));
            }
            label { "Since (time, or 2h)" input name="since" size="20" value=(filter.value("since")); }
            label { "Until" input name="until" size="20" value=(filter.value("until")); }
            button { "Filter" }
            a href="/ui/requests" { "Clear" }
        }
    }
}

/// How many there are, where the folded counts say so: a scan would say it, too, and cost the database a lot.
fn total(filter: &Filter, look: &Look) -> Markup {
    let query = &filter.query;
    let is_counted = [&query.submitter, &query.queue, &query.cause].iter().all(|part| part.is_none())
        && query.executed.is_none()
        && query.attempts.is_none()
        && query.since.is_none()
        && query.until.is_none();
    if !is_counted {
        return html! {
            span.soft { "A page reads ten thousand requests at most; it may be short, and “Older” goes on." }
        };
    }
    let counted = look.rest.requests.iter().filter(|count| {
        query.kind.as_ref().is_none_or(|kind| *kind == count.kind)
            && (query.statuses.is_empty() || query.statuses.iter().any(|status| status.as_str() == count.status))
    });
    html! { (count(counted.map(|count| count.requests).sum())) " requests match" }
}

fn list(requests: &[ListedRequest], with_boxes: bool) -> Markup {
    if requests.is_empty() {
        return html! {
            p.note {
                "No request is here. A filter may leave them out, or nothing was submitted: "
                code { "tidegate submit KIND PAYLOAD" } "."
            }
        };
    }
    let head = html! {
        @if with_boxes {
            th {
                label.box {
                    input #every type="checkbox" hidden aria-label="Choose all of this page";
                    span.soft { "choose" }
                }
            }
        }
        th { "request" }
        th { "kind" }
        th { "state" }
        th { "code" }
        th { "submitter" }
        th { "queue" }
        th { "submitted" }
        th { "ended" }
    };
    let rows = html! {
        @for found in requests {
            tr {
                @if with_boxes {
                    td { input type="checkbox" name="id" value=(found.id) aria-label={ "Choose " (found.id) }; }
                }
                td { (request(found.id)) }
                td { (found.kind) }
                td { (tag(found.status.as_str(), colour_of(found.status.as_str()))) }
                td { (found.code.as_deref().unwrap_or(NONE)) }
                td { (found.submitter.as_deref().unwrap_or(NONE)) }
                td { (found.queue.as_deref().unwrap_or(NONE)) }
                td { (time(found.submitted_at)) }
                td { (time_or_none(found.finished_at)) }
            }
        }
    };
    scrolling_table(&head, &rows)
}

fn acts(filter: &Filter) -> Markup {
    html! {
        p.row {
            button.act name="act" value="cancel" { "Cancel the chosen …" }
            button.act name="act" value="redrive" { "Redrive the chosen …" }
            @if filter.may_cancel_all() { button.act name="act" value="cancel_all" { "Cancel all that match …" } }
            @if filter.may_redrive_all() { button.act name="act" value="redrive_all" { "Redrive all that match …" } }
            label.box {
                input type="checkbox" name="may_repeat" value="yes";
                "redrive also what may have been executed"
            }
        }
        p.soft { "Each is counted first; nothing is done before you say so." }
    }
}

/// `POST /ui/requests/preview`: counts what an act would do.
pub(super) async fn preview(State(ui): State<Arc<Ui>>, act: Act) -> Result<Response, Fault> {
    begin(&ui, &act, true)
}

/// `POST /ui/requests/start`: does it.
pub(super) async fn start(State(ui): State<Arc<Ui>>, act: Act) -> Result<Response, Fault> {
    begin(&ui, &act, false)
}

fn begin(ui: &Arc<Ui>, act: &Act, dry_run: bool) -> Result<Response, Fault> {
    let store = act.store(ui)?;
    let fields = &act.fields;
    let filter = Filter::of(fields)?;
    let ids = fields.all("id").map(str::parse::<Uuid>).collect::<Result<Vec<_>, _>>();
    let ids = ids.map_err(|_| Fault::Invalid("an id is a UUID".to_owned()))?;
    let redrive = work::Act::Redrive { may_repeat: fields.get("may_repeat").is_some() };
    let (word, query) = (fields.need("act")?, PageQuery { before: None, ..filter.query.clone() });
    let (of_all, chosen) = (None::<Vec<Uuid>>, Some(ids));
    let (what, ids, query) = match word {
        "cancel" | "redrive" if chosen.as_ref().is_none_or(Vec::is_empty) => {
            return Err(Fault::Invalid("no request was chosen: choose some in the first column".to_owned()));
        }
        "cancel" => (work::Act::Cancel, chosen, PageQuery::default()),
        "redrive" => (redrive, chosen, PageQuery::default()),
        "cancel_all" if filter.may_cancel_all() => (work::Act::Cancel, of_all, query),
        "redrive_all" if filter.may_redrive_all() => (redrive, of_all, query),
        _ => return Err(Fault::Invalid(format!("{word} does not take these filters"))),
    };
    let job = Job {
        act: what,
        ids,
        query,
        dry_run,
        viewer: act.viewer.name(),
        form: fields.pairs().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        back: filter.address(&[]),
        began: Instant::now(),
        progress: Mutex::default(),
    };
    let number = ui.jobs.begin(job, ui.node.clone(), store);
    Ok(Redirect::to(&format!("/ui/jobs/{number}")).into_response())
}
