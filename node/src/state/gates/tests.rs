//! A node's copy of the gates, after readings and notifications.

use std::{
    collections::VecDeque,
    sync::atomic::{AtomicU32, Ordering},
};

use tidegate::internals::error::StoreError;
use tokio::{sync::Semaphore, task::yield_now, time::advance};

use super::{copy::USABLE, *};

mod waits;

/// The gate of a queue with marks 30 and 15, at 10 messages per second.
fn row(name: &str, accepting: bool, depth: i64, epoch: i64) -> GateRow {
    GateRow {
        name: name.to_owned(),
        queue: Some(name.to_owned()),
        kinds: vec!["direct".to_owned()],
        accepting,
        high_water: 30,
        low_water: 15,
        depth,
        epoch,
        drain_rate: Some(10.0),
        safety_margin: 0.2,
        min_seconds: 1.0,
        max_seconds: 300.0,
        nodes: 1.0,
        ..GateRow::default()
    }
}

fn open(epoch: i64) -> GateRow {
    row("tx", true, 0, epoch)
}

fn closed(epoch: i64) -> GateRow {
    row("tx", false, 30, epoch)
}

/// A gate with other values.
fn with(mut row: GateRow, change: impl FnOnce(&mut GateRow)) -> GateRow {
    change(&mut row);
    row
}

fn notification(signal: &str, epoch: i64) -> String {
    format!(r#"{{"queue":"tx","signal":"{signal}","depth":30,"epoch":{epoch}}}"#)
}

const CLOSES: &str = "TOO_MANY_REQUESTS";
const OPENS: &str = "ACCEPTING_REQUESTS";

/// The results of readings, in order; the last one repeatedly. Each takes a permit.
#[derive(Clone)]
struct Script(Arc<Scripted>);

struct Scripted {
    readings: Mutex<VecDeque<Option<Vec<GateRow>>>>,
    permits: Semaphore,
    begun: AtomicU32,
}

impl Script {
    fn of(readings: impl IntoIterator<Item = Option<Vec<GateRow>>>) -> Self {
        Self::with(readings, Semaphore::MAX_PERMITS)
    }

    fn held(readings: impl IntoIterator<Item = Option<Vec<GateRow>>>) -> Self {
        Self::with(readings, 0)
    }

    fn with(readings: impl IntoIterator<Item = Option<Vec<GateRow>>>, permits: usize) -> Self {
        Self(Arc::new(Scripted {
            readings: Mutex::new(readings.into_iter().collect()),
            permits: Semaphore::new(permits),
            begun: AtomicU32::new(0),
        }))
    }

    async fn let_one_go(&self) {
        self.0.permits.add_permits(1);
        settle().await;
    }

    fn begun(&self) -> u32 {
        self.0.begun.load(Ordering::SeqCst)
    }

    async fn read(self) -> Result<Vec<GateRow>> {
        self.0.begun.fetch_add(1, Ordering::SeqCst);
        self.0.permits.acquire().await.unwrap().forget();
        let mut readings = self.0.readings.lock().unwrap();
        let reading = readings.pop_front().unwrap();
        if readings.is_empty() {
            readings.push_back(reading.clone());
        }
        reading.ok_or_else(|| StoreError::Unavailable("on purpose".to_owned()))
    }
}

/// Lets the reading task run without an advance of time.
async fn settle() {
    for _ in 0..10 {
        yield_now().await;
    }
}

/// Advances time in small steps.
async fn pass(time: Duration) {
    settle().await;
    let until = Instant::now() + time;
    while Instant::now() < until {
        advance(Duration::from_millis(50)).await;
        settle().await;
    }
}

async fn reading(script: &Script) -> Gates {
    let script = script.clone();
    let gates = Gates::read_by(move || script.clone().read());
    settle().await;
    gates
}

/// A copy of one gate.
async fn copy_of(row: GateRow) -> Gates {
    reading(&Script::of([Some(vec![row])])).await
}

fn refuses(gates: &Gates) -> bool {
    gates.refuse("direct", None).is_some()
}

#[tokio::test(start_paused = true)]
async fn the_gates_are_read_at_the_start_and_again_without_a_submission() {
    let script = Script::of([Some(vec![open(0)]), Some(vec![closed(1)])]);
    let gates = reading(&script).await;
    assert_eq!(script.begun(), 1);
    assert!(!refuses(&gates));

    pass(READ_EVERY).await;

    assert_eq!(script.begun(), 2);
    assert!(refuses(&gates));
    pass(READ_EVERY * 10).await;
    assert_eq!(script.begun(), 12);
}

#[tokio::test(start_paused = true)]
async fn a_notification_flips_the_gate_at_once_and_a_reading_follows_soon() {
    let script = Script::of([Some(vec![open(4)]), Some(vec![closed(5)])]);
    let gates = reading(&script).await;

    gates.on_notification(&notification(CLOSES, 5));

    assert!(refuses(&gates));
    assert_eq!(script.begun(), 1);
    pass(PAUSE).await;
    assert_eq!(script.begun(), 2);
    assert!(refuses(&gates));
    gates.on_notification(&notification(OPENS, 6));
    assert!(!refuses(&gates));
}

#[tokio::test(start_paused = true)]
async fn notifications_that_come_late_or_twice_change_nothing() {
    let script = Script::held([Some(vec![closed(5)])]);
    let gates = reading(&script).await;
    script.let_one_go().await;

    for epoch in [-1, 0, 4, 5] {
        gates.on_notification(&notification(OPENS, epoch));
        assert!(refuses(&gates), "{epoch}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_reading_that_was_under_way_during_a_notification_counts_if_its_epoch_is_newer() {
    for (read_epoch, refused) in [(4, true), (6, false)] {
        let script = Script::held([Some(vec![open(4)]), Some(vec![open(read_epoch)])]);
        let gates = reading(&script).await;
        script.let_one_go().await;
        pass(READ_EVERY).await;
        assert_eq!(script.begun(), 2);

        gates.on_notification(&notification(CLOSES, 5));
        script.let_one_go().await;

        assert_eq!(refuses(&gates), refused, "{read_epoch}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_reading_that_began_after_a_notification_counts_whatever_its_epoch() {
    // The notification is forged.
    let gates = copy_of(open(4)).await;
    gates.on_notification(&notification(CLOSES, i64::MAX));
    assert!(refuses(&gates));
    pass(PAUSE).await;
    assert!(!refuses(&gates));
    gates.on_notification(&notification(CLOSES, 5));
    assert!(refuses(&gates));
}

#[tokio::test(start_paused = true)]
async fn a_database_that_was_restored_goes_back_and_its_nodes_with_it() {
    let script = Script::of([Some(vec![closed(700)]), Some(vec![open(3)])]);
    let gates = reading(&script).await;
    assert!(refuses(&gates));
    pass(READ_EVERY).await;
    assert!(!refuses(&gates));
    gates.on_notification(&notification(CLOSES, 4));
    assert!(refuses(&gates));
}

#[tokio::test(start_paused = true)]
async fn an_invalid_notification_is_ignored() {
    let gates = copy_of(open(0)).await;
    for payload in [
        "",
        "{",
        "null",
        "[]",
        r#"{"queue":"tx"}"#,
        r#"{"queue":"tx","signal":"CLOSED","depth":30,"epoch":1}"#,
        r#"{"queue":"tx","signal":"TOO_MANY_REQUESTS","depth":-1,"epoch":1}"#,
        r#"{"queue":"tx","signal":"TOO_MANY_REQUESTS","depth":30,"epoch":1e99}"#,
        r#"{"queue":"tx","kind":"direct","signal":"TOO_MANY_REQUESTS","depth":30,"epoch":1}"#,
        r#"{"signal":"TOO_MANY_REQUESTS","depth":30,"epoch":1}"#,
        r#"{"queue":"unknown","signal":"TOO_MANY_REQUESTS","depth":30,"epoch":1}"#,
    ] {
        gates.on_notification(payload);
        assert!(!refuses(&gates), "{payload}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_was_made_again_has_the_gates_read() {
    let script = Script::of([Some(vec![open(0)]), Some(vec![closed(1)])]);
    let gates = reading(&script).await;
    gates.on_reconnect();
    pass(PAUSE).await;
    assert!(refuses(&gates));
}

#[tokio::test(start_paused = true)]
async fn a_notification_during_a_reading_starts_another_one() {
    let script = Script::held([Some(vec![open(0)])]);
    let gates = reading(&script).await;
    gates.on_reconnect();
    script.let_one_go().await;
    pass(PAUSE).await;
    assert_eq!(script.begun(), 2);
}

#[tokio::test(start_paused = true)]
async fn under_many_notifications_the_gates_are_read_ten_times_a_second_at_most() {
    let script = Script::of([Some(vec![open(0)])]);
    let gates = reading(&script).await;
    for _ in 0..100 {
        gates.on_notification(&notification(CLOSES, 1));
        pass(Duration::from_millis(10)).await;
    }
    assert!(script.begun() <= 52, "{}", script.begun());
}

#[tokio::test(start_paused = true)]
async fn without_a_reading_the_copy_refuses_for_six_seconds_and_then_admits() {
    let script = Script::of([Some(vec![closed(1)]), None]);
    let gates = reading(&script).await;
    pass(USABLE - Duration::from_millis(50)).await;
    assert!(refuses(&gates));
    assert!(gates.of_submission("direct", None, true).is_some());

    pass(Duration::from_millis(50)).await;

    assert!(!refuses(&gates));
    // A notification alone does not make the copy young.
    gates.on_notification(&notification(CLOSES, 9));
    assert!(!refuses(&gates));
    assert_eq!(gates.of_submission("direct", None, true), None);
}

#[tokio::test(start_paused = true)]
async fn a_failed_reading_is_repeated() {
    let script = Script::of([None, None, Some(vec![closed(1)])]);
    let gates = reading(&script).await;
    assert!(!refuses(&gates));
    pass(READ_EVERY * 2).await;
    assert!(refuses(&gates));
}

#[tokio::test(start_paused = true)]
async fn a_reading_that_hangs_is_given_up_and_repeated() {
    let script = Script::held([Some(vec![closed(1)])]);
    let gates = reading(&script).await;
    pass(READ_LIMIT + READ_EVERY).await;
    assert_eq!(script.begun(), 2);
    script.let_one_go().await;
    assert!(refuses(&gates));
}

#[tokio::test(start_paused = true)]
async fn the_reading_ends_with_the_node() {
    let script = Script::of([Some(vec![open(0)])]);
    let gates = reading(&script).await;
    let clone = gates.clone();
    drop(gates);
    pass(READ_EVERY).await;
    assert_eq!(script.begun(), 2);
    drop(clone);
    pass(READ_EVERY * 5).await;
    assert_eq!(script.begun(), 2);
    assert_eq!(Arc::strong_count(&script.0), 1);
}

#[tokio::test(start_paused = true)]
async fn any_closed_gate_on_the_way_refuses() {
    let kinds = |kinds: &[&str]| kinds.iter().map(|kind| String::from(*kind)).collect();
    let entered = with(row("readiness", true, 0, 0), |gate| gate.kinds = kinds(&["public"]));
    let later = with(open(0), |gate| gate.passed_by = kinds(&["public"]));
    let of_kind = with(row("kind public", true, 0, 0), |gate| {
        (gate.queue, gate.kinds) = (None, kinds(&["public"]));
    });
    let of_submitter = with(row("submitter ann", true, 0, 0), |gate| {
        (gate.queue, gate.submitter) = (None, Some("ann".to_owned()));
        gate.kinds = kinds(&["public", "direct"]);
    });
    // The gate of the queue comes first, in whatever order they are read.
    let all = [of_kind, later, of_submitter, entered];
    for (place, refused) in [
        (0, [true, true, false, false]),
        (1, [true, true, true, true]),
        (2, [false, true, false, true]),
        (3, [true, true, false, false]),
    ] {
        let mut rows = all.clone();
        rows[place].accepting = false;
        let name = rows[place].name.clone();
        let gates = reading(&Script::of([Some(rows.to_vec())])).await;
        let submissions = [("public", None), ("public", Some("ann")), ("direct", Some("bob")), ("direct", Some("ann"))];
        for ((kind, submitter), refused) in submissions.into_iter().zip(refused) {
            let refusing = gates.refuse(kind, submitter).map(|refusal| refusal.gate.name);
            assert_eq!(refusing, refused.then(|| name.clone()), "{kind} of {submitter:?}");
        }
        assert_eq!(gates.refuse("unheard_of", Some("ann")), None);
        let first = gates.of_submission("public", Some("ann"), false).unwrap();
        assert_eq!(first.name, "readiness");
        let refusing = gates.of_submission("public", Some("ann"), true).unwrap();
        assert_eq!(refusing.name, name);
    }
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_makes_its_own_keys_is_refused_by_the_database_only() {
    let mut keyed = closed(1);
    keyed.kinds.push("orders".to_owned());
    keyed.keyed.push("orders".to_owned());
    let gates = copy_of(keyed).await;
    assert!(refuses(&gates));
    assert_eq!(gates.refuse("orders", None), None);
    // A refusal of the database describes the same gate.
    assert_eq!(gates.of_submission("orders", None, true).unwrap().name, "tx");
}
