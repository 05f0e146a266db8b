//! What needs an operator, each with the command that repairs it.

use maud::{Markup, html};

use super::{
    context::Ui,
    format::{count, span, time},
    looks::Look,
};

pub(super) struct Alarm {
    is_grave: bool,
    sentence: String,
    /// What to run or to look at.
    remedy: String,
    path: &'static str,
}

/// A duty that is later than this is an alarm, in seconds.
const LATE: f64 = 10.0;

/// For how long a transaction may be open, in seconds.
const OPEN_LONG: f64 = 300.0;

pub(super) fn of(ui: &Ui, look: &Look) -> Vec<Alarm> {
    let mut alarms: Vec<_> = of_sends(look).into_iter().chain(of_workers(look)).chain(of_the_database(look)).collect();
    if let Some(found) = ui.examinations.broken() {
        let sentence = format!("{found} invariants do not hold, by the last search of this node");
        alarms.push(Alarm::grave(sentence, "tidegate doctor", "/ui/doctor"));
    }
    alarms.sort_by_key(|alarm| !alarm.is_grave);
    alarms
}

impl Alarm {
    /// Callers get no answers, or rows are wrong.
    fn grave(sentence: String, remedy: impl Into<String>, path: &'static str) -> Self {
        Self { is_grave: true, sentence, remedy: remedy.into(), path }
    }

    fn light(sentence: String, remedy: impl Into<String>, path: &'static str) -> Self {
        Self { is_grave: false, sentence, remedy: remedy.into(), path }
    }
}

/// What keeps requests from being admitted and sent.
fn of_sends(look: &Look) -> Vec<Alarm> {
    let rest = &look.rest;
    let mut alarms = Vec::new();
    if let Some(quarantine) = &rest.quarantine {
        let sentence = format!("Nothing is sent from this database: {}", quarantine.because);
        alarms.push(Alarm::grave(sentence, "tidegate adopt", "/ui/doctor"));
    }
    for gate in look.gates.iter().filter(|gate| gate.state != "accepting") {
        let depth = count(gate.depth);
        alarms.push(if gate.forced {
            let sentence = format!("The gate of {} is closed by hand: {depth} are in it", gate.name);
            Alarm::grave(sentence, format!("tidegate gate release '{}'", gate.name), "/ui/gates")
        } else {
            let (high, low) = (gate.high_water, gate.low_water);
            let sentence = format!(
                "The gate of {} is closed at its mark of {high}; it opens at {low}: {depth} are in it",
                gate.name
            );
            Alarm::light(sentence, "its queue drains by itself; `tidegate status` shows how fast", "/ui/gates")
        });
    }
    for stage in rest.stages.iter().filter(|stage| stage.breaker == "open") {
        let sentence =
            format!("The breaker of {}.{} is open: its downstream fails or is slow", stage.kind, stage.stage);
        alarms.push(Alarm::grave(sentence, "look at the downstream; probes close the breaker", "/ui/stages"));
    }
    for queue in look.queues.iter().filter(|queue| queue.paused) {
        let remedy = format!("tidegate resume {}", queue.queue);
        alarms.push(Alarm::light(format!("{} is paused", queue.queue), remedy, "/ui/workers"));
    }
    for kind in rest.unresolved.iter().filter(|kind| kind.unresolved > 0) {
        let sentence = format!("{} requests of {} may have been executed", count(kind.unresolved), kind.kind);
        alarms.push(Alarm::grave(sentence, "tidegate unresolved", "/ui/requests?executed=unknown"));
    }
    alarms
}

fn of_workers(look: &Look) -> Vec<Alarm> {
    let mut alarms = Vec::new();
    for queue in look.queues.iter().filter(|queue| !queue.unserved.is_empty()) {
        let sentence = format!("No live worker takes requests of {} from {}", queue.unserved.join(", "), queue.queue);
        alarms.push(Alarm::grave(sentence, format!("tidegate-worker http --queue {}", queue.queue), "/ui/workers"));
    }
    let lost = look.rest.workers.iter().filter(|worker| worker.state() == "lost" && worker.held > 0);
    for worker in lost {
        let sentence = format!("{} is lost and holds {}", worker.name, count(worker.held));
        alarms.push(Alarm::light(
            sentence,
            "their leases run out by themselves; `tidegate recover` is sooner",
            "/ui/workers",
        ));
    }
    if look.rest.webhooks.failed > 0 {
        let sentence = format!("{} webhooks have failed", count(look.rest.webhooks.failed));
        alarms.push(Alarm::light(sentence, "tidegate webhook redeliver --failed", "/ui/webhooks"));
    }
    alarms
}

/// Duties, settings, and what else is done in the database.
fn of_the_database(look: &Look) -> Vec<Alarm> {
    let rest = &look.rest;
    let mut alarms = Vec::new();
    for duty in &rest.duties {
        if let Some(error) = &duty.error {
            let sentence = format!("The duty {} fails: {error}", duty.duty);
            alarms.push(Alarm::grave(sentence, "tidegate doctor", "/ui/doctor"));
        } else if duty.overdue_seconds > LATE {
            let sentence = format!("The duty {} is {} late", duty.duty, span(duty.overdue_seconds));
            alarms.push(Alarm::grave(sentence, "start `tidegate serve` or a worker: they do it", "/ui/doctor"));
        }
    }
    for holder in rest.holders.iter().filter(|holder| holder.seconds > OPEN_LONG) {
        let program = if holder.application.is_empty() { "no program name" } else { &holder.application };
        let open = span(holder.seconds);
        let sentence =
            format!("A transaction of {} ({program}) is open for {open}: dead rows stay, tables grow", holder.user);
        alarms.push(Alarm::light(sentence, format!("select pg_terminate_backend({})", holder.pid), "/ui/doctor"));
    }
    for warning in &rest.warnings {
        let sentence = format!("{}: {}", warning.subject, warning.message);
        alarms.push(Alarm::light(sentence, "tidegate config get", "/ui/settings"));
    }
    alarms
}

pub(super) fn list(alarms: &[Alarm]) -> Markup {
    if alarms.is_empty() {
        return html! { p.note.good { "Nothing needs you." } };
    }
    html! {
        ul.alarms {
            @for alarm in alarms {
                li class=(if alarm.is_grave { "bad" } else { "warn" }) {
                    a href=(alarm.path) { (alarm.sentence) } " — " code { (alarm.remedy) }
                }
            }
        }
    }
}

pub(super) fn stale(look: &Look) -> Markup {
    html! {
        @if let Some(error) = &look.stale {
            p.note.bad role="alert" { "These are the figures of " (time(look.at)) ": " (error.to_string()) "." }
        } @else if look.is_slow() {
            p.soft { "Figures of " (time(look.at)) ": these queues are deep, and counting them takes a while." }
        }
    }
}
