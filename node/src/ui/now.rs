//! `/ui`: when callers will be answered, and if not, why.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use chrono::Utc;
use maud::{Markup, html};
use tidegate::internals::store::{
    EtaFigures, Gate, KindMinute, QueueMinute, QueueOverview, Quote, StageLevel, WorkerOverview,
};

use super::{
    alarms,
    chart::{self, Line, Mark},
    context::Ui,
    fault::Fault,
    format::{NONE, colour_of, count, float, ms, or_none, percent, rate, scrolling_table, seconds, span, tag, time},
    frame::Page,
    looks::{Look, Rest},
    session::Viewer,
};

/// `GET /ui`
pub(super) async fn show(State(ui): State<Arc<Ui>>, viewer: Viewer) -> Result<Response, Fault> {
    let look = ui.looks.latest().await?;
    let page = Page { title: "Now", section: "/ui", live: Some("/ui/live/now".to_owned()), body: body(&ui, &look) };
    Ok(page.show(&ui, &viewer))
}

/// What the page shows, in sections that are renewed by themselves.
pub(super) fn body(ui: &Ui, look: &Look) -> Markup {
    html! {
        section #alarms data-live aria-live="polite" aria-label="Alarms" {
            (alarms::stale(look))
            (alarms::list(&alarms::of(ui, look)))
        }
        h2 { "When callers are answered" }
        section #answers data-live { (answers(look)) }
        h2 { "Queues" }
        section #queues data-live { (queues(look)) }
        h2 { "The last hour" }
        section #charts data-live { (charts(look)) }
        h2 { "Stages, over five minutes" }
        section #stages data-live { (stages(&look.rest.stages)) }
        h2 { "Requests" }
        section #requests data-live { (requests(look)) }
        h2 { "Workers" }
        section #workers data-live { (workers(&look.rest.workers)) }
        h2 { "The last changes of gates" }
        section #flips data-live { (super::gates::changes(&look.rest.flips)) }
    }
}

/// For each kind what a caller would be told now, from the first in line to the tail, and how true that was so far.
fn answers(look: &Look) -> Markup {
    let rest = &look.rest;
    if rest.kinds.is_empty() {
        return html! {
            p.note {
                "There is no kind yet: make one with " code { "tidegate kind add NAME --flow direct --rate 20" } "."
            }
        };
    }
    let head = html! {
        th { "kind" }
        th.n { "first in line" }
        th.n { "before the next" }
        th.n { "the next is told" }
        th.n { "half within" }
        th.n { "90 % within" }
        th { span.soft { "from now, with the past error" } }
        th.n { "past error" }
        th.n { "held the 90 %" }
        th.n { "polls" }
    };
    let rows = html! {
        @for (kind, quote) in &rest.quotes { (answer_row(rest, kind, *quote)) }
    };
    scrolling_table(&head, &rows)
}

fn answer_row(rest: &Rest, kind: &str, quote: Option<Quote>) -> Markup {
    let overview = rest.kinds.iter().find(|known| known.name == kind);
    let entry = overview.map(|known| known.readiness_queue.as_deref().unwrap_or(&known.tx_queue));
    let first = rest.first.iter().find(|(queue, _)| Some(&**queue) == entry).and_then(|(_, eta)| *eta);
    let past = rest.etas.iter().find(|past| past.kind == kind);
    html! {
        tr {
            td {
                a href={ "/ui/requests?kind=" (kind) } { (kind) }
                @if overview.is_some_and(|known| known.paused) { " " (tag("paused", "warn")) }
            }
            td.n { (or_none(first, seconds)) }
            (told(quote))
            td { (band(quote, past)) }
            (past_figures(past))
        }
    }
}

fn told(quote: Option<Quote>) -> Markup {
    let within = |time: Option<std::time::Duration>| or_none(time, |time| span(time.as_secs_f64()));
    match quote {
        Some(Quote::Accepted { position, eta }) => html! {
            td.n { (count(position)) }
            td.n { "come back in " (seconds(eta.retry_after.as_secs())) }
            td.n { (within(eta.p50)) }
            td.n { (within(eta.p90)) }
        },
        Some(Quote::Refused { retry_after }) => html! {
            td.n { (NONE) }
            td.n { (tag("refused", "bad")) " submit again in " (seconds(retry_after.as_secs())) }
            td.n { (NONE) }
            td.n { (NONE) }
        },
        None => html! { td.n { (NONE) } td.n { "no nominal times" } td.n { (NONE) } td.n { (NONE) } },
    }
}

fn band(quote: Option<Quote>, past: Option<&EtaFigures>) -> Markup {
    let Some(Quote::Accepted { eta, .. }) = quote else { return html! {} };
    let seconds = |time: Option<std::time::Duration>| time.map(|time| time.as_secs_f64());
    let error = past.and_then(|past| past.mean_abs_error_seconds);
    chart::band(
        std::time::Duration::from_secs(eta.retry_after.as_secs()).as_secs_f64(),
        seconds(eta.p50),
        seconds(eta.p90),
        error,
    )
}

fn past_figures(past: Option<&EtaFigures>) -> Markup {
    html! {
        td.n { (or_none(past.and_then(|past| past.mean_abs_error_seconds), |error| format!("± {}", span(error)))) }
        td.n { (or_none(past.and_then(|past| past.p90_held_share), percent)) }
        td.n { (or_none(past.and_then(|past| past.polls_per_request), |polls| format!("{polls:.1}"))) }
    }
}

fn queues(look: &Look) -> Markup {
    html! {
        div.cards {
            @for queue in &look.queues {
                (queue_card(queue, look.gates.iter().find(|gate| gate.name == queue.queue)))
            }
        }
    }
}

fn queue_card(queue: &QueueOverview, gate: Option<&Gate>) -> Markup {
    let is_closed = queue.gate != "accepting";
    let limit = match (queue.per_seconds, queue.max_concurrency) {
        (Some(limit), _) => rate(limit),
        (None, Some(limit)) => format!("{limit} at once"),
        (None, None) => "no limit".to_owned(),
    };
    let tail = (queue.per_second_1m > 0.0).then(|| float(queue.depth) / queue.per_second_1m);
    html! {
        div.card {
            h3 {
                a href={ "/ui/history?queue=" (queue.queue) } { (queue.queue) }
                " " (if is_closed { tag("gate closed", "bad") } else { tag("gate open", "good") })
                @if gate.is_some_and(|gate| gate.forced) { " " (tag("held by hand", "warn")) }
                @if queue.paused { " " (tag("paused", "warn")) }
            }
            (chart::depth(queue.depth, queue.low_water, queue.high_water))
            table.plain {
                tr {
                    th { "depth" }
                    td.n { (count(queue.depth)) }
                    td.soft {
                        "opens at " (count(queue.low_water.into())) ", closes at " (count(queue.high_water.into()))
                    }
                }
                tr {
                    th { "held" }
                    td.n { (count(queue.held)) }
                    td.soft { (count(queue.waiting)) " wait, " (count(queue.backing_off)) " come later" }
                }
                tr {
                    th { "leave" }
                    td.n { (rate(queue.per_second_10s)) }
                    td.soft { "of " (limit) "; " (rate(queue.per_second_1m)) " over a minute" }
                }
                tr {
                    th { "tail" }
                    td.n { (or_none(tail, span)) }
                    td.soft { "oldest " (span(queue.oldest_seconds)) }
                }
            }
        }
    }
}

fn charts(look: &Look) -> Markup {
    let rest = &look.rest;
    let until = Utc::now();
    let range = (until - chrono::TimeDelta::hours(1), until);
    // Of what had nothing to do there are no charts.
    let has_queue = |name: &str| rest.of_queues.iter().any(|minute| minute.queue == name);
    let has_kind = |name: &str| rest.of_kinds.iter().any(|minute| minute.kind == name);
    html! {
        div.cards {
            @for queue in look.queues.iter().filter(|queue| has_queue(&queue.queue)) {
                (queue_charts(&rest.of_queues, queue, range))
            }
            @for kind in rest.kinds.iter().filter(|kind| has_kind(&kind.name)) {
                (kind_charts(&rest.of_kinds, &kind.name, range))
            }
        }
        @if rest.of_queues.is_empty() && rest.of_kinds.is_empty() {
            p.note { "No figures yet: a node or a worker records them by the minute." }
        }
    }
}

type Range = (chrono::DateTime<Utc>, chrono::DateTime<Utc>);

pub(super) fn queue_charts(minutes: &[QueueMinute], queue: &QueueOverview, range: Range) -> Markup {
    let line = |name, figure: fn(&QueueMinute) -> f64| {
        let own = minutes.iter().filter(|minute| minute.queue == queue.queue);
        Line::of(name, own.map(|minute| (minute.minute, Some(figure(minute)))))
    };
    let marks = [
        Mark { name: "closes".to_owned(), at: queue.high_water.into() },
        Mark { name: "opens".to_owned(), at: queue.low_water.into() },
    ];
    let depth = [line("depth", |minute| float(minute.depth))];
    let left = [line("left", |minute| float(minute.drained) / 60.0)];
    let limit: Vec<_> =
        queue.per_seconds.map(|limit| Mark { name: "limit".to_owned(), at: limit }).into_iter().collect();
    html! {
        (chart::lines(&format!("{}: depth", queue.queue), range, &depth, &marks, |depth| format!("{depth:.0}")))
        (chart::lines(&format!("{}: requests that left", queue.queue), range, &left, &limit, rate))
    }
}

pub(super) fn kind_charts(minutes: &[KindMinute], kind: &str, range: Range) -> Markup {
    let line = |name, figure: fn(&KindMinute) -> Option<f64>| {
        let own = minutes.iter().filter(|minute| minute.kind == kind);
        Line::of(name, own.map(|minute| (minute.minute, figure(minute))))
    };
    let latency = [
        line("half within", |minute| minute.p50_ms.map(f64::from)),
        line("95 % within", |minute| minute.p95_ms.map(f64::from)),
        line("99 % within", |minute| minute.p99_ms.map(f64::from)),
    ];
    let trouble = [
        line("retries", |minute| Some(float(minute.retries))),
        line("failed or timed out", |minute| Some(float(minute.failed + minute.timed_out))),
    ];
    let whole = |number: f64| format!("{number:.0}");
    html! {
        (chart::lines(&format!("{kind}: how long a send takes"), range, &latency, &[], ms))
        (chart::lines(&format!("{kind}: retries and failures a minute"), range, &trouble, &[], whole))
    }
}

pub(super) fn stages(stages: &[StageLevel]) -> Markup {
    let head = html! {
        th { "stage" }
        th.n { "calls a minute" }
        th.n { "failed" }
        th.n { "half within" }
        th.n { "99 % within" }
        th.n { "timeouts a request" }
        th.n { "retries a request" }
        th.n { "backoff" }
        th { "breaker" }
        th.n { "timeout" }
        th.n { "W_retry" }
        th.n { "succeeds" }
    };
    let rows = html! {
        @for stage in stages { (stage_row(stage)) }
    };
    scrolling_table(&head, &rows)
}

fn stage_row(stage: &StageLevel) -> Markup {
    let breaker = match &*stage.breaker {
        "open" => "bad",
        "half_open" => "warn",
        _ => "",
    };
    let each = |share: Option<f64>| or_none(share, |share| format!("{share:.2}"));
    html! {
        tr {
            td { a href={ "/ui/settings?name=" (stage.kind) "." (stage.stage) } { (stage.kind) "." (stage.stage) } }
            td.n { (format!("{:.1}", stage.calls_per_minute)) }
            td.n { (or_none(stage.error_ratio, percent)) }
            td.n { (or_none(stage.p50_ms, |p50| ms(p50.into()))) }
            td.n {
                (or_none(stage.p99_ms, |p99| ms(p99.into())))
                @if let Some(target) = stage.slo_p99_ms { span.soft { " of " (ms(target.into())) } }
            }
            td.n { (each(stage.timeout_rate)) }
            td.n { (each(stage.retry_rate)) }
            td.n { "× " (stage.stretch) @if stage.congested { " × 2, congested" } }
            td { (tag(&stage.breaker.replace('_', " "), breaker)) }
            td.n { (ms(stage.timeout_ms.into())) }
            td.n { (span(stage.w_retry_ms / 1000.0)) }
            td.n { (or_none(stage.p_ok, percent)) }
        }
    }
}

fn requests(look: &Look) -> Markup {
    let rest = &look.rest;
    let statuses: Vec<_> = tidegate::request::Status::ALL.iter().map(|status| status.as_str()).collect();
    let of = |kind: &str, status: &str| {
        let found = rest.requests.iter().find(|count| count.kind == kind && count.status == status);
        found.map_or(0, |count| count.requests)
    };
    let head = html! {
        th { "kind" }
        @for status in &statuses { th.n { (status) } }
    };
    let rows = html! {
        @for kind in &rest.kinds {
            tr {
                td { (kind.name) }
                @for status in &statuses {
                    td.n { (link_to_requests(&kind.name, status, of(&kind.name, status))) }
                }
            }
        }
    };
    scrolling_table(&head, &rows)
}

/// How many requests of a kind have a status; it leads to them.
fn link_to_requests(kind: &str, status: &str, number: i64) -> Markup {
    html! {
        @if number == 0 {
            (NONE)
        } @else {
            a class=(colour_of(status)) href={ "/ui/requests?kind=" (kind) "&state=" (status) } { (count(number)) }
        }
    }
}

pub(super) fn workers(workers: &[WorkerOverview]) -> Markup {
    if workers.is_empty() {
        return html! {
            p.note {
                "No worker has been seen: start one, such as "
                code { "tidegate-worker --queue tx --url http://…" } "."
            }
        };
    }
    let head = html! {
        th { "worker" }
        th { "queues" }
        th { "state" }
        th.n { "holds" }
        th { "last seen" }
        th { "started" }
    };
    let rows = html! {
        @for worker in workers {
            @let colour = match worker.state() { "alive" => "good", "lost" => "bad", _ => "" };
            tr {
                td { (worker.name) }
                td { (worker.queues.join(", ")) }
                td { (tag(worker.state(), colour)) }
                td.n { (count(worker.held)) }
                td { (time(worker.last_seen_at)) }
                td { (time(worker.started_at)) }
            }
        }
    };
    scrolling_table(&head, &rows)
}
