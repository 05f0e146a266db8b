//! Does one process of the fleet run a task at a time, and does another one take over when it stops, dies or hangs?

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use tidegate::{Error, Tidegate};
use tokio::{sync::Notify, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::support::{
    TestDatabase, eventually,
    race::{Session, against},
};

const TAKE: &str = "select coalesce(tidegate.lease_take('tides', 'a', '5 s')::text, 'none')";

fn keep(epoch: i64) -> String {
    format!("select tidegate.lease_keep('tides', {epoch}, '5 s')")
}

fn release(epoch: i64) -> String {
    format!("select tidegate.lease_release('tides', {epoch})")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_is_held_by_one_until_it_is_released_or_runs_out_and_epochs_grow() {
    let database = TestDatabase::unlimited().await;
    database.stop_clock().await;
    let mut session = Session::open(&database).await;
    let other = "select tidegate.lease_take('ebb', 'a', '5 s')";
    for (sql, answer) in [
        (TAKE, "1"),
        (TAKE, "none"),
        (&keep(1), "t"),
        (&keep(2), "f"),
        // Another name is another lease.
        (other, "1"),
        (&release(2), "f"),
        (&release(1), "t"),
        (&release(1), "f"),
        (&keep(1), "f"),
        (TAKE, "2"),
        // The stale holder changes nothing.
        (&keep(1), "f"),
        (&release(1), "f"),
        (&keep(2), "t"),
        (TAKE, "none"),
    ] {
        assert_eq!(session.text(sql).await, answer, "{sql}");
    }
    let passes = |by: &'static str| format!("update public.test_clock set at = at + interval '{by}'");

    // Kept until five seconds after the last call, to the instant.
    database.execute(&passes("4.999999 s")).await;
    assert_eq!(session.text(TAKE).await, "none");
    assert_eq!(session.text(&keep(2)).await, "t");
    database.execute(&passes("5 s")).await;
    assert_eq!(session.text(&keep(2)).await, "f", "it has run out, although no other process has taken it");
    assert_eq!(session.text(&release(2)).await, "f");
    assert_eq!(session.text(TAKE).await, "3");

    // A clock that steps back does not lengthen it.
    database.execute(&passes("-1 hour")).await;
    assert_eq!(session.text(&keep(3)).await, "f");
    assert_eq!(session.text(TAKE).await, "4");
    let row = "select concat_ws(' ', holder, epoch, until - taken_at) from tidegate.singleton where name = 'tides'";
    assert_eq!(session.text(row).await, "a 4 00:00:05");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_that_take_a_lease_at_once_do_not_both_get_it() {
    let database = TestDatabase::unlimited().await;
    // The first ever, and one after a release.
    for first in ["1", "2"] {
        let mut taker = Session::begin(&database).await;
        assert_eq!(taker.text(TAKE).await, first);
        assert_eq!(against(&database, &mut taker, true, TAKE).await, ["none"]);
        database.execute(&format!("select tidegate.lease_release('tides', {first})")).await;
    }
    // The second one asks first, and waits for the row.
    let mut taker = Session::begin(&database).await;
    taker.execute("select from tidegate.singleton for update").await;
    let waiting = Session::open(&database).await.start(TAKE);
    waiting.until_blocked_by(&database, &taker).await;
    assert_eq!(taker.text(TAKE).await, "3");
    taker.commit().await;
    assert_eq!(waiting.finish().await.1, ["none"]);
    database.execute(&release(3)).await;
    // First the taker's transaction fails; then a keep is open.
    let mut taker = Session::begin(&database).await;
    assert_eq!(taker.text(TAKE).await, "4");
    assert_eq!(against(&database, &mut taker, false, TAKE).await, ["4"]);
    let mut keeper = Session::begin(&database).await;
    assert_eq!(keeper.text(&keep(4)).await, "t");
    assert_eq!(against(&database, &mut keeper, true, TAKE).await, ["none"]);
    // While another one takes it, one that has run out is not kept.
    database.execute("update tidegate.singleton set until = clock_timestamp()").await;
    let mut taker = Session::begin(&database).await;
    assert_eq!(taker.text(TAKE).await, "5");
    assert_eq!(database.value(&keep(4)).await, "f");
    taker.commit().await;
    assert_eq!(database.value(&keep(5)).await, "t");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_lasts_from_the_end_of_the_wait_for_its_row() {
    let database = TestDatabase::unlimited().await;
    // The first ever, while another one's transaction fails; then a keep, while the row is locked and not changed.
    for (holds, call, answer) in
        [(TAKE, TAKE.to_owned(), "1"), ("select from tidegate.singleton for update", keep(1), "t")]
    {
        let mut holder = Session::begin(&database).await;
        holder.texts(holds).await;
        let waiting = Session::open(&database).await.start(&call);
        waiting.until_blocked_by(&database, &holder).await;
        let waited = database.value("select clock_timestamp()::text").await;
        holder.rollback().await;
        assert_eq!(waiting.finish().await.1, [answer]);
        let lasts = format!("select until >= '{waited}'::timestamptz + interval '5 s' from tidegate.singleton");
        assert_eq!(database.text(&lasts).await.as_deref(), Some("true"), "{call}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_and_lengths_that_are_invalid_are_refused() {
    let database = TestDatabase::unlimited().await;
    for (call, code) in [
        ("lease_take('', 'a', '5 s')", "23514"),
        ("lease_take(null, 'a', '5 s')", "23502"),
        ("lease_take('x', null, '5 s')", "23502"),
        ("lease_take('x', 'a', '9 ms')", "TG007"),
        ("lease_take('x', 'a', null)", "TG007"),
        ("lease_keep('x', 1, '2 days')", "TG007"),
    ] {
        assert_eq!(database.refused(&format!("select tidegate.{call}")).await.code, code, "{call}");
    }
    let run = Tidegate::from_pool(database.pool.clone()).singleton("").run(async |_, _| panic!("it has no lease"));
    assert!(matches!(run.await, Err(Error::Store(_))), "an error that stays ends it");
}

const LENGTH: Duration = Duration::from_secs(2);

/// The runs of a task over all processes.
#[derive(Default)]
struct Runs {
    running: AtomicI64,
    epochs: Mutex<Vec<i64>>,
    ended: Mutex<Option<Instant>>,
}

/// One run; it ends with the future that has it, also if that is dropped.
struct Run(Arc<Runs>);

impl Run {
    fn begin(runs: &Arc<Runs>, epoch: i64) -> Self {
        assert_eq!(runs.running.fetch_add(1, Ordering::SeqCst), 0, "two run at once");
        runs.epochs.lock().unwrap().push(epoch);
        Self(Arc::clone(runs))
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        *self.0.ended.lock().unwrap() = Some(Instant::now());
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Runs {
    fn epoch(&self) -> i64 {
        self.epochs.lock().unwrap().last().copied().unwrap_or_default()
    }

    async fn until_epoch(&self, epoch: i64) {
        eventually(&format!("epoch {epoch} runs"), || async {
            self.epoch() == epoch && self.running.load(Ordering::SeqCst) == 1
        })
        .await;
    }
}

struct Process {
    stop: CancellationToken,
    task: JoinHandle<Result<(), Error>>,
}

/// A process that runs the task. `obeys`: it returns when its token is cancelled, and not only when the task is dropped.
fn process(database: &TestDatabase, runs: &Arc<Runs>, obeys: bool) -> Process {
    let stop = CancellationToken::new();
    // Connections of its own, as another process has.
    let pool = database.pool.clone();
    let singleton = Tidegate::from_pool(pool).singleton("tides").lease(LENGTH).until(stop.clone());
    let runs = Arc::clone(runs);
    let task = tokio::spawn(singleton.run(async move |epoch, cancelled: CancellationToken| {
        let _run = Run::begin(&runs, epoch);
        if obeys {
            cancelled.cancelled().await;
        } else {
            std::future::pending::<()>().await;
        }
    }));
    Process { stop, task }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_process_takes_over_when_one_stops_and_soon_after_one_has_died() {
    let database = TestDatabase::unlimited().await;
    let runs = Arc::new(Runs::default());
    let mut processes = vec![process(&database, &runs, true)];
    runs.until_epoch(1).await;
    processes.extend([process(&database, &runs, true), process(&database, &runs, false)]);

    // It stops: the lease is free at once.
    processes[0].stop.cancel();
    let stopped = processes.remove(0);
    stopped.task.await.unwrap().unwrap();
    runs.until_epoch(2).await;

    // The one that holds it dies, and does not release it.
    let holder = "select holder from tidegate.singleton";
    let before = database.text(holder).await;
    let died = Instant::now();
    for process in &processes {
        process.task.abort();
    }
    drop(processes);
    let next = process(&database, &runs, true);
    runs.until_epoch(3).await;
    assert!(
        died.elapsed() < LENGTH * 2,
        "{:?} after the death of a process whose lease is {LENGTH:?} long",
        died.elapsed()
    );
    assert_ne!(database.text(holder).await, before);

    // A task that ignores its token is dropped when the time of a lease has passed.
    next.stop.cancel();
    next.task.await.unwrap().unwrap();
    let last = process(&database, &runs, false);
    runs.until_epoch(4).await;
    last.stop.cancel();
    last.task.await.unwrap().unwrap();
    assert_eq!(runs.running.load(Ordering::SeqCst), 0);
    assert_eq!(database.text(TAKE).await.as_deref(), Some("5"), "it has released its lease");
    assert_eq!(*runs.epochs.lock().unwrap(), [1, 2, 3, 4]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_dropped_when_its_lease_is_lost_and_runs_again_when_it_is_free() {
    let database = TestDatabase::unlimited().await;
    let runs = Arc::new(Runs::default());
    let process = process(&database, &runs, false);
    runs.until_epoch(1).await;
    database
        .execute("update tidegate.singleton set epoch = 7, holder = 'b', until = clock_timestamp() + interval '1 s', lease_ms = 1000")
        .await;
    eventually("the task is dropped", || async { runs.running.load(Ordering::SeqCst) == 0 }).await;
    runs.until_epoch(8).await;
    process.stop.cancel();
    process.task.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_stops_before_its_lease_ends_while_the_database_is_away() {
    let database = TestDatabase::unlimited().await;
    let runs = Arc::new(Runs::default());
    let process = process(&database, &runs, true);
    runs.until_epoch(1).await;
    let kept = Instant::now();
    database.cut().await;
    eventually("the task has stopped", || async { runs.running.load(Ordering::SeqCst) == 0 }).await;
    let ran_on = runs.ended.lock().unwrap().unwrap() - kept;
    assert!(ran_on < LENGTH, "{ran_on:?}");
    database.restore().await;
    runs.until_epoch(2).await;
    process.stop.cancel();
    process.task.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_returns_runs_again_and_the_tasks_that_it_spawned_are_cancelled() {
    let database = TestDatabase::unlimited().await;
    let (stop, again) = (CancellationToken::new(), Arc::new(Notify::new()));
    let spawned = Arc::new(AtomicBool::new(false));
    let singleton = Tidegate::from_pool(database.pool.clone()).singleton("tides").lease(LENGTH).until(stop.clone());
    let mut epochs = Vec::new();
    // It borrows what it changes.
    singleton
        .run(async |epoch, cancelled: CancellationToken| {
            epochs.push(epoch);
            if epoch == 1 {
                let (spawned, again) = (Arc::clone(&spawned), Arc::clone(&again));
                tokio::spawn(async move {
                    cancelled.cancelled().await;
                    spawned.store(true, Ordering::SeqCst);
                    again.notify_one();
                });
            } else {
                again.notified().await;
                stop.cancel();
            }
        })
        .await
        .unwrap();
    assert_eq!(epochs, [1, 2]);
    assert!(spawned.load(Ordering::SeqCst));
}
