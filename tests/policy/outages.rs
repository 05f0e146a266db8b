//! Do the policies that a kind comes with carry an outage of half its deadline without a loss?

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use serde_json::json;
use tidegate::{
    internals::worker::WorkerOptions,
    request::{Request, RequestError},
    stage::{Check, Found, JsonText, Readiness, Receipt, Sent, Stages, Transact},
};

use crate::{
    support::{TestDatabase, eventually, race::submit_many},
    worker::lives::Running,
};

/// How a downstream is away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Away {
    RefusesConnections,
    Answers503,
    SwallowsPackets,
}

/// A downstream that is away until it is back.
#[derive(Clone)]
struct Downstream {
    away: Away,
    back: Arc<AtomicBool>,
    calls: Arc<AtomicU32>,
}

impl Downstream {
    /// The error of a send while it is down, and whether the request may have left.
    async fn fault(&self) -> Option<(RequestError, bool)> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        if self.back.load(Ordering::SeqCst) {
            return None;
        }
        Some(match self.away {
            Away::RefusesConnections => (RequestError::new("connect", "refused", true), false),
            Away::Answers503 => (RequestError::new("http_503", "away", true), true),
            Away::SwallowsPackets => std::future::pending().await,
        })
    }
}

impl Readiness for Downstream {
    type Payload = JsonText;

    async fn check(&self, _: &Request) -> Check {
        match self.fault().await {
            None => Check::Ready,
            Some((error, _)) => Check::Retry { error, after: None },
        }
    }
}

impl Transact for Downstream {
    type Payload = JsonText;

    async fn send(&self, _: &Request) -> Sent {
        match self.fault().await {
            None => Sent::Receipt(Receipt { reference: None, response: Some(json!({}).into()) }),
            Some((error, may_have_left)) => Sent::Retry { error, after: None, may_have_left },
        }
    }

    async fn find_receipt(&self, _: &Request) -> Result<Found, RequestError> {
        match self.fault().await {
            None => Ok(Found::Nothing),
            Some((error, _)) => Err(error),
        }
    }
}

/// Requests of a kind with a deadline of twelve seconds meet a downstream that is away for six; backoffs are lengthened as far
/// as they may be half-way through, as they are when healing finds a stage failing.
async fn survives(away: Away) {
    let database = TestDatabase::unlimited().await;
    database
        .execute(
            "insert into tidegate.kind (name, flow, tx_queue, processing_ms, tx_confirmation_ms, deadline, readiness_timeout)
             values ('brief', 'direct', 'tx', 1, 1, '12 s', '12 s')",
        )
        .await;
    let downstream = Downstream { away, back: Arc::default(), calls: Arc::default() };
    let options = WorkerOptions { queues: vec!["tx".to_owned()], ..WorkerOptions::default() };
    let stages = Stages::new().transact("brief", downstream.clone());
    let worker = Running::start(&database.store, stages, options);
    submit_many(&database, "brief", 50).await;
    let since_then = "select extract(epoch from clock_timestamp() - min(submitted_at)) * 1000 from tidegate.request";
    let passed = async |ms: f64| {
        let now: f64 = database.value(since_then).await.parse().unwrap();
        now >= ms
    };
    eventually("a quarter of the deadline has passed", || passed(3000.0)).await;
    database
        .execute(
            "select tidegate_internal.policy_activate('brief', 'tx', 8, true, 'retry_rate', null, clock_timestamp())",
        )
        .await;
    eventually("half the deadline has passed", || passed(6000.0)).await;
    assert!(downstream.calls.load(Ordering::SeqCst) >= 100, "{away:?}");
    downstream.back.store(true, Ordering::SeqCst);

    eventually("all have ended", || async {
        database
            .number("select count(*) from tidegate.request where req_status in ('completed', 'failure', 'timed_out')")
            .await
            == 50
    })
    .await;
    let ends = database.column("select cause || ' ' || count(*) from tidegate.request group by cause").await;
    assert_eq!(ends, ["receipt 50"], "{away:?}");
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_downstream_that_refuses_connections_for_half_the_deadline_loses_nothing() {
    survives(Away::RefusesConnections).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_downstream_that_answers_503_for_half_the_deadline_loses_nothing() {
    survives(Away::Answers503).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_downstream_that_swallows_packets_for_half_the_deadline_loses_nothing() {
    survives(Away::SwallowsPackets).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn checks_that_fail_for_half_their_time_lose_nothing() {
    let database = TestDatabase::unlimited().await;
    database
        .execute(
            "insert into tidegate.kind (name, flow, readiness_queue, tx_queue, readiness_ms, processing_ms, tx_confirmation_ms,
               deadline, readiness_timeout)
             values ('brief', 'decrypt', 'readiness', 'tx', 1, 1, 1, '32 s', '8 s')",
        )
        .await;
    let downstream = Downstream { away: Away::Answers503, back: Arc::default(), calls: Arc::default() };
    let options = WorkerOptions { queues: vec!["readiness".to_owned()], ..WorkerOptions::default() };
    let stages = Stages::new().readiness("brief", downstream.clone());
    let worker = Running::start(&database.store, stages, options);
    submit_many(&database, "brief", 20).await;
    let waited = tokio::time::Instant::now();
    eventually("half the time has passed", || async { waited.elapsed() >= Duration::from_secs(4) }).await;
    downstream.back.store(true, Ordering::SeqCst);
    eventually("all have passed", || async {
        database.number("select count(*) from tidegate.request where req_status <> 'queued'").await == 20
    })
    .await;
    let ends = database.column("select cause || ' ' || count(*) from tidegate.request group by cause").await;
    assert_eq!(ends, ["readiness_passed 20"]);
    worker.stop().await;
}

/// For any deadline, the attempts that a kind comes with span half of it when each fails at once, and fit their budget; below a
/// second there may be time for one only.
#[tokio::test(flavor = "multi_thread")]
async fn the_policies_of_a_new_kind_span_half_its_deadline_and_fit_it() {
    let database = TestDatabase::new().await;
    let wrong = database
        .column(
            "with kind as (
               select f.flow, d.ms, t.part, jsonb_populate_record(null::tidegate.kind, jsonb_build_object(
                 'name', 'any', 'flow', f.flow, 'deadline', d.ms * interval '1 ms',
                 'readiness_timeout', d.ms * t.part * interval '1 ms'
               )) as kind
               from unnest('{decrypt,proof,direct}'::tidegate.flow[]) as f(flow)
               cross join (
                 select (10 ^ (i / 40.0))::bigint as ms from generate_series(40, 372) as i
               ) as d
               cross join (values (1.0), (0.25), (0.01)) as t(part)
             ), found as (
               select k.flow, k.ms, k.part, s.stage, p.*,
                 tidegate.w_retry_ms(p.attempts, p.timeout_ms, p.base_ms, p.factor, p.cap_ms, p.jitter_ms) as w_retry_ms,
                 case s.stage when 'readiness' then least(k.ms * k.part, k.ms / 4.0) else k.ms end / 2 as half,
                 (select sum(least(p.cap_ms, p.base_ms * power(2, i)) - p.jitter_ms)
                  from generate_series(0, least(p.attempts, 60) - 2) as i)
                   + greatest(p.attempts - 60, 0) * (p.cap_ms - p.jitter_ms)::numeric as spanned
               from kind as k
               cross join unnest('{readiness,tx}'::tidegate.stage[]) as s(stage)
               cross join lateral tidegate.default_policy(k.kind, s.stage) as p
               where s.stage = 'tx' or k.flow = 'decrypt'
             )
             select format('%s %s of %s ms: %s', flow, stage, ms, to_jsonb(found)) from found
             where w_retry_ms > deadline_ms - margin_ms or attempts > 1000 or timeout_ms < 1
               or deadline_ms > greatest(ms, 2)
               or attempts = 1 and ms * least(part, 0.25) > 4000
               or attempts > 1 and coalesce(spanned, 0) < least(half, 1073741823)
             limit 5",
        )
        .await;
    assert_eq!(wrong, Vec::<String>::new());
}
