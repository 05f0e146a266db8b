//! Do workers cut calls off after the timeouts that the fleet has learned, and does the fleet learn from every call?

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use serde_json::json;
use tidegate::{
    internals::{
        store::{KnownTimeout, Store},
        worker::WorkerOptions,
    },
    request::{Request, Stage},
    stage::{Check, JsonText, Readiness, Receipt, Sent, Transact},
};
use tidegate_policy::adaptive_timeout::{Estimator, Report, State};
use tokio::sync::Barrier;

use crate::{
    support::{TestDatabase, eventually, race::Session, until_blocked},
    worker::lives::{Running, all_stages, until},
};

/// A downstream that answers at once, or never.
#[derive(Clone, Default)]
struct Service {
    silent: Arc<AtomicBool>,
    calls: Arc<AtomicU64>,
}

impl Service {
    fn silent() -> Self {
        let service = Self::default();
        service.silent.store(true, Ordering::SeqCst);
        service
    }

    async fn call(&self) {
        self.calls.fetch_add(1, Ordering::SeqCst);
        if self.silent.load(Ordering::SeqCst) {
            pending::<()>().await;
        }
    }
}

impl Readiness for Service {
    type Payload = JsonText;

    async fn check(&self, _: &Request) -> Check {
        self.call().await;
        Check::Ready
    }
}

impl Transact for Service {
    type Payload = JsonText;

    async fn send(&self, _: &Request) -> Sent {
        self.call().await;
        Sent::Receipt(Receipt { reference: None, response: Some(json!({}).into()) })
    }
}

/// Sends of `direct` and checks of `public_decrypt` have adaptive timeouts of ten seconds at most.
async fn adaptive(interval_ms: u32) -> TestDatabase {
    let database = TestDatabase::unlimited().await;
    database
        .execute(&format!(
            "update tidegate.policy
             set timeout_mode = 'adaptive', timeout_ms = least({interval_ms} - 1, 10000), adaptive_interval_ms = {interval_ms},
               attempts = 1, adaptive_slo = 0.1
             where (kind, stage) in (('direct', 'tx'), ('public_decrypt', 'readiness'))"
        ))
        .await;
    database
}

async fn known(store: &Store, kind: &str, stage: Stage, worker: &str) -> KnownTimeout {
    let kinds = [kind.to_owned()];
    let mut known = store.read_timeouts(&kinds, stage, worker).await.unwrap();
    known.pop().unwrap()
}

/// What another process has learned: answers in ten milliseconds, give or take.
async fn learned(store: &Store, kind: &str, stage: Stage) -> Duration {
    let known = known(store, kind, stage, "earlier").await;
    let mut estimator = Estimator::new(known.config.clone(), known.estimate.clone(), 0, Duration::ZERO).unwrap();
    for took in [10, 12, 10, 14, 10, 12, 10, 13, 10, 12] {
        estimator.begin();
        estimator.answered(Duration::from_millis(took));
    }
    let report = estimator.report(Duration::from_secs(1));
    let mut estimate = known.estimate.clone();
    estimate.fold(&known.config, &report, 0.0, known.now_us);
    let stored = store.fold_timeouts(&known, stage, &estimate, &report, "earlier").await;
    assert!(stored.unwrap());
    Duration::from_nanos(estimate.timeout_ns)
}

fn named(name: &str) -> WorkerOptions {
    WorkerOptions { name: name.to_owned(), ..WorkerOptions::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_process_uses_the_learned_timeouts_of_the_fleet_in_both_stages() {
    let database = adaptive(3_600_000).await;
    let tx = learned(&database.store, "direct", Stage::Tx).await;
    let readiness = learned(&database.store, "public_decrypt", Stage::Readiness).await;
    assert!(tx < Duration::from_millis(40) && tx == readiness, "{tx:?}");

    let stages = all_stages().readiness("public_decrypt", Service::silent()).transact("direct", Service::silent());
    let running = Running::start(&database.store, stages, named("new"));
    let direct = database.submit("direct").await;
    let decrypt = database.submit("public_decrypt").await;
    for (id, status, what) in [(direct, "failure", "sending"), (decrypt, "timed_out", "the check")] {
        until(&database, id, status).await;
        let said = database
            .text(&format!(
                "select string_agg(coalesce(error ->> 'message', ''), '') from tidegate.request where id = '{id}'"
            ))
            .await
            .unwrap();
        let expected = format!("{what} took longer than {} ms", tx.as_millis());
        assert!(said.contains(&expected), "{said}");
    }
    running.stop().await;

    for (kind, stage) in [("direct", Stage::Tx), ("public_decrypt", Stage::Readiness)] {
        let known = known(&database.store, kind, stage, "new").await;
        assert!(known.sequence > 0, "its last report arrives when it stops");
        assert!(known.estimate.failures > 0, "{known:?}");
        assert!(known.estimate.srtt_ns.is_some_and(|srtt| srtt < 40_000_000));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_estimator_calls_have_the_longest_timeout_and_it_is_learned_from_them() {
    let database = adaptive(600).await;
    let service = Service::default();
    let stages = all_stages().transact("direct", service.clone()).readiness("public_decrypt", service.clone());
    let running = Running::start(&database.store, stages, named("only"));
    eventually("three intervals are closed for both stages", || async {
        database.submit("direct").await;
        database.submit("public_decrypt").await;
        database.number("select count(*) from tidegate.timeout_estimator where interval_no >= 3").await == 2
    })
    .await;
    let overview = database
        .text(
            "select string_agg(format(
               '%s.%s %s %s', kind, stage, state, srtt_ms < 100 and timeout_ms < 599 and processes = 1 and k_margin = 1), ', ')
             from tidegate.estimator_overview",
        )
        .await;
    assert_eq!(overview.as_deref(), Some("direct.tx normal t, public_decrypt.readiness normal t"));
    running.stop().await;
    let reported = database.number("select sum(reported) from tidegate.timeout_report").await;
    assert_eq!(reported, i64::try_from(service.calls.load(Ordering::SeqCst)).unwrap(), "every call");
}

/// A process stops while its report waits for another session: the report repeats, and a second one has the later
/// calls.
#[tokio::test(flavor = "multi_thread")]
async fn a_stop_in_the_middle_of_a_report_loses_no_call() {
    let database = adaptive(500).await;
    let service = Service::default();
    let stages = all_stages().transact("direct", service.clone());
    let running = Running::start(&database.store, stages, named("stopped"));
    eventually("the first report has arrived", || async {
        database.submit("direct").await;
        database.number("select count(*) from tidegate.timeout_report").await == 1
    })
    .await;

    let mut other = Session::begin(&database).await;
    other.execute("select from tidegate.timeout_estimator for update").await;
    let first = database.submit("direct").await;
    until(&database, first, "completed").await;
    until_blocked(&database, 1).await;
    let later = database.submit("direct").await;
    until(&database, later, "completed").await;
    running.stop.cancel();
    until_blocked(&database, 2).await;
    other.commit().await;
    running.stop().await;

    let reported = database.number("select sum(reported) from tidegate.timeout_report").await;
    assert_eq!(reported, i64::try_from(service.calls.load(Ordering::SeqCst)).unwrap(), "every call");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_its_request_had_no_time_for_tells_nothing() {
    let database = adaptive(3_600_000).await;
    let stages = all_stages().transact("direct", Service::silent());
    let running = Running::start(&database.store, stages, named("patient"));
    let id = database.submit("direct").await;
    until(&database, id, "tx_in_flight").await;
    // Its next call has a second.
    database
        .execute(&format!(
            "update tidegate.policy set attempts = 2, base_ms = 1, cap_ms = 1, jitter_ms = 0 where kind = 'direct'; \
             update tidegate.request set deadline_at = now() + interval '1 second' where id = '{id}'"
        ))
        .await;
    running.stop.cancel();
    running.task.abort();
    let _ = running.task.await;
    let stages = all_stages().transact("direct", Service::silent());
    database.execute("update pgmq.q_tx set vt = now() - interval '1 second'").await;
    let running = Running::start(&database.store, stages, named("hurried"));
    eventually("it has ended", || async {
        let status = database.status(id).await;
        status == "failure" || status == "timed_out"
    })
    .await;
    running.stop().await;
    let known = known(&database.store, "direct", Stage::Tx, "hurried").await;
    assert_eq!((known.estimate.responses, known.estimate.failures), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn high_load_that_one_process_sees_is_known_to_the_fleet_at_once() {
    let database = adaptive(3_600_000).await;
    database.execute("update tidegate.policy set timeout_ms = 20 where kind = 'direct' and stage = 'tx'").await;
    let stages = all_stages().transact("direct", Service::silent());
    let running = Running::start(&database.store, stages, named("first"));
    for _ in 0..40 {
        database.submit("direct").await;
    }
    eventually("high load is in the row", || async {
        database.text("select state from tidegate.estimator_overview where kind = 'direct'").await.as_deref()
            == Some("high_load")
    })
    .await;
    let known = known(&database.store, "direct", Stage::Tx, "second").await;
    assert_eq!(known.estimate.state, State::HighLoad);
    assert_eq!(known.estimate.interval_no, 0, "long before its end");
    running.stop().await;
}

/// Both stages fail once; only the policy of sends has the source's settings.
#[tokio::test(flavor = "multi_thread")]
async fn as_the_source_has_it_one_computed_maximum_is_high_load() {
    let database = adaptive(3_600_000).await;
    database
        .execute(
            r#"update tidegate.policy set timeout_ms = 20 where timeout_mode = 'adaptive';
               select tidegate.config_set_many('{
                 "direct.tx.adaptive_alarm_samples": 1, "direct.tx.adaptive_best_case": "minimum",
                 "direct.tx.adaptive_interval_calls": 50
               }')"#,
        )
        .await;
    // Another process has made fifty calls of 2 and 8 ms.
    for (kind, stage) in [("direct", Stage::Tx), ("public_decrypt", Stage::Readiness)] {
        let known = known(&database.store, kind, stage, "earlier").await;
        let mut estimator = Estimator::new(known.config.clone(), known.estimate.clone(), 0, Duration::ZERO).unwrap();
        for number in 0..50 {
            estimator.begin();
            estimator.answered(Duration::from_millis(if number % 2 == 0 { 2 } else { 8 }));
        }
        let mut estimate = known.estimate.clone();
        let report = estimator.report(Duration::from_secs(1));
        estimate.fold(&known.config, &report, 0.0, known.now_us + 20_000);
        assert!(
            (15_000_000..20_000_000).contains(&estimate.timeout_ns),
            "a call that times out computes a maximum: {estimate:?}"
        );
        let folded = database.store.fold_timeouts(&known, stage, &estimate, &report, "earlier").await;
        assert!(folded.unwrap());
    }

    let stages = all_stages().readiness("public_decrypt", Service::silent()).transact("direct", Service::silent());
    let running = Running::start(&database.store, stages, named("one"));
    let direct = database.submit("direct").await;
    let decrypt = database.submit("public_decrypt").await;
    until(&database, direct, "failure").await;
    until(&database, decrypt, "timed_out").await;
    running.stop().await;

    let overview = database
        .column(
            "select format('%s.%s %s, %s intervals', kind, stage, state, intervals)
               || case when state = 'high_load' then format(', %s ms', timeout_ms) else '' end
             from tidegate.estimator_overview order by kind",
        )
        .await;
    assert_eq!(
        overview,
        [
            "direct.tx high_load, 1 intervals, 6.000 ms",
            // One of 32, and its interval lasts for 200 calls.
            "public_decrypt.readiness normal, 0 intervals",
        ],
        "the minimum is 2 ms, and the mean 5"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_is_adaptive_no_more_has_its_declared_timeout_and_its_estimator_rests() {
    let database = adaptive(3_600_000).await;
    let _ = learned(&database.store, "direct", Stage::Tx).await;
    let stages = all_stages().transact("direct", Service::silent());
    let running = Running::start(&database.store, stages, named("one"));
    let cut_off = database.submit("direct").await;
    until(&database, cut_off, "failure").await;
    database.execute("update tidegate.policy set timeout_mode = 'fixed', timeout_ms = 777 where kind = 'direct'").await;
    let fixed = database.submit("direct").await;
    until(&database, fixed, "failure").await;
    let said =
        database.text(&format!("select error ->> 'message' from tidegate.request where id = '{fixed}'")).await.unwrap();
    assert!(said.contains("took longer than 777 ms"), "{said}");
    running.stop().await;
    assert_eq!(database.number("select version from tidegate.timeout_estimator").await, 1);
}

/// Eight processes read, and fold when all have read: in each round one is first, and the others read again.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn reports_that_meet_lose_nothing_and_count_once() {
    const PROCESSES: u64 = 8;
    const REPORTS: u64 = 10;
    let database = adaptive(3_600_000).await;
    database.execute("update tidegate.policy set adaptive_slo = 0.001").await;
    let barrier = Arc::new(Barrier::new(PROCESSES as usize));
    let mut tasks = tokio::task::JoinSet::new();
    for process in 0..PROCESSES {
        let (store, barrier) = (database.store.clone(), Arc::clone(&barrier));
        tasks.spawn(async move {
            let name = format!("process-{process}");
            let mut conflicts = 0_u64;
            for sequence in 1..=REPORTS {
                let report = Report {
                    sequence,
                    requests: 3,
                    responses: 3,
                    failures: 1,
                    mean_ns: Some(10_000_000),
                    smoothed_ns: Some([10_000_000, 1_000_000, 14_000_000]),
                    load_rps: 3.0,
                    ..Report::default()
                };
                let mut read = known(&store, "direct", Stage::Tx, &name).await;
                barrier.wait().await;
                loop {
                    let mut estimate = read.estimate.clone();
                    estimate.fold(&read.config, &report, read.others_rps, read.now_us);
                    let folded = store.fold_timeouts(&read, Stage::Tx, &estimate, &report, &name).await;
                    if folded.unwrap() {
                        break;
                    }
                    conflicts += 1;
                    read = known(&store, "direct", Stage::Tx, &name).await;
                }
                barrier.wait().await;
            }
            conflicts
        });
    }
    let conflicts: u64 = tasks.join_all().await.into_iter().sum();
    assert!(conflicts >= REPORTS * (PROCESSES - 1), "{conflicts}: all but one conflict in each round");
    let known = known(&database.store, "direct", Stage::Tx, "reader").await;
    let counts = (known.estimate.requests, known.estimate.responses, known.estimate.failures);
    let all = PROCESSES * REPORTS;
    assert_eq!(counts, (3 * all, 3 * all, all));
    assert_eq!(known.version, i64::try_from(all).unwrap());
    assert_eq!(known.others_rps, 24.0);
    assert_eq!(
        database.number("select sum(reported) from tidegate.timeout_report").await,
        i64::try_from(3 * all).unwrap()
    );
}
