//! Measures the retries that the SQL path makes: how long they take and how often they succeed, against the figures of
//! their policy.
//!
//! A kind of its own has a downstream that loses half of its calls, each apart from the others, as `p_ok` supposes. Then
//! the network to that downstream is partitioned again and again, so that calls are lost together.

mod lossy;

use std::time::Duration;

use rand::{Rng, SeedableRng, rngs::StdRng};
use sqlx::{PgConnection, Row};
use tokio::time::{Instant, sleep};

pub(crate) use self::lossy::JITTER_MS;
use self::lossy::Lossy;
use crate::{
    evidence::{Measured, PolicyFigures, Seen},
    fleet::Fleet,
    journal::Journal,
    proxy::{Flow, Proxy, Told, Upstream},
    unit::Unit,
};

/// The kind that is measured, and its queue.
pub const KIND: &str = "measured";

/// The marks of requests before the partitions begin with this.
pub const CALM: &str = "calm";

/// The fault that partitions the network of this kind only.
pub const PARTITIONED: &str = "retries_partitioned";

/// How many requests are submitted at once, and how often.
const BATCH: usize = 20;
const PAUSE: Duration = Duration::from_millis(100);

/// So many may be live when more are submitted: a busy machine gets no more than it can do.
const LIVE: i64 = 300;

/// How long the requests may take to end, and the figures to be there.
const PATIENCE: Duration = Duration::from_secs(120);

/// The queue and the kind: nothing but its policy makes a request wait. The rate is far above the load, so that the
/// queue is never congested, and no backoff is lengthened by healing.
pub(crate) fn scene() -> String {
    format!(
        "insert into tidegate.queue (name, stage, per_seconds, burst) values ('{KIND}', 'tx', 2000, 100);
         update tidegate.gate set high_water = 20000, low_water = 10000 where queue = '{KIND}';
         insert into tidegate.kind (name, flow, tx_queue, processing_ms, tx_confirmation_ms)
         values ('{KIND}', 'direct', '{KIND}', 500, 100);
         update tidegate.policy
         set attempts = 3, base_ms = 300, factor = 2, cap_ms = 2000, jitter_ms = 150, timeout_ms = 400,
           deadline_ms = 10000, margin_ms = 1000, heal_retry_rate = null, heal_timeout_rate = null
         where kind = '{KIND}' and stage = 'tx';"
    )
}

/// Submits `count` requests, then some while the network is partitioned; returns when all have ended.
///
/// # Errors
///
/// When they do not end, or a part does not start.
pub async fn measure(
    fleet: &Fleet,
    journal: &Journal,
    logs: &std::path::Path,
    count: usize,
    seed: u64,
) -> anyhow::Result<(Option<Measured>, Vec<Seen>)> {
    if count == 0 {
        return Ok((None, Vec::new()));
    }
    let lossy = Lossy::start(seed).await?;
    let network = Proxy::start(Upstream::Tcp(vec![lossy.address])).await?;
    let service = format!("http://{}", network.address);
    let arguments = [
        "http",
        "--name",
        "meter",
        "--queue",
        KIND,
        "--kind",
        KIND,
        "--batch",
        "200",
        "--concurrency",
        "4000",
        "--answer",
        "envelope",
        "--send-url",
        &format!("{service}/send/{{kind}}"),
        "--receipt-url",
        &format!("{service}/receipt/{{kind}}/{{id}}"),
        "--metrics-listen",
        "127.0.0.1:0",
    ];
    let arguments = arguments.map(str::to_owned).to_vec();
    let database = Proxy::start(fleet.server().upstream()?).await?;
    let (worker, _) = Unit::start("meter", &fleet.programs.worker, arguments, database, logs).await?;
    let mut session = fleet.server().session().await?;

    journal.say(&format!("{count} requests measure the retries"));
    submit(&mut session, CALM, count).await?;
    live_at_most(&mut session, 0).await?;
    let policy = figures(&mut session).await?;
    let mut submitting = fleet.server().session().await?;
    let submitted = tokio::spawn(async move { submit(&mut submitting, "partitioned", count / 4).await });
    partition(&network, journal, seed, &submitted).await;
    submitted.await??;
    live_at_most(&mut session, 0).await?;
    if !worker.terminate().await? {
        journal.wrong("the worker that is measured did not stop well when it was asked to".to_owned());
    }
    Ok((Some(Measured { policy }), lossy.stop()))
}

async fn submit(session: &mut PgConnection, mark: &str, count: usize) -> anyhow::Result<()> {
    for batch in 0..count.div_ceil(BATCH) {
        let numbers = batch * BATCH..count.min((batch + 1) * BATCH);
        let payloads: Vec<_> =
            numbers.map(|number| serde_json::json!({ "mark": format!("{mark}-{number}") })).collect();
        sqlx::query("select from tidegate.submit_batch(kind => $1, payloads => $2)")
            .bind(KIND)
            .bind(payloads)
            .execute(&mut *session)
            .await?;
        sleep(PAUSE).await;
        live_at_most(session, LIVE).await?;
    }
    Ok(())
}

/// Stalls the network for longer and shorter than a call, or refuses connections, as long as requests are submitted.
async fn partition<T>(network: &Proxy, journal: &Journal, seed: u64, submitted: &tokio::task::JoinHandle<T>) {
    let mut random = StdRng::seed_from_u64(seed);
    while !submitted.is_finished() {
        let time = Duration::from_secs_f64(random.random_range(0.2..1.0));
        let flow = if random.random_bool(0.7) { Flow::Stalled } else { Flow::Refused };
        let running = journal.inject(PARTITIONED, &format!("{flow:?} for {:.1} s", time.as_secs_f64()));
        network.flow(flow);
        sleep(time).await;
        network.cut(Told::Both);
        network.heal();
        journal.over(&running);
        sleep(Duration::from_secs_f64(random.random_range(0.3..1.0))).await;
    }
}

/// Waits until no more than so many requests have not ended.
async fn live_at_most(session: &mut PgConnection, most: i64) -> anyhow::Result<()> {
    let live = "select count(*) from tidegate.request where kind = $1 and req_status not in ('completed', 'failure')";
    let until = Instant::now() + PATIENCE;
    loop {
        let left: i64 = sqlx::query_scalar(live).bind(KIND).fetch_one(&mut *session).await?;
        if left <= most {
            return Ok(());
        }
        anyhow::ensure!(Instant::now() < until, "{left} requests of {KIND} do not end");
        sleep(PAUSE).await;
    }
}

/// The figures of the policy, as the engine computes them from all calls.
async fn figures(session: &mut PgConnection) -> anyhow::Result<PolicyFigures> {
    let sql = "select o.attempts, o.timeout_ms, o.w_retry_ms::float8, o.budget_ms, o.p_drop::float8, o.p_ok::float8,
                 o.expected_attempts::float8, o.calls_5m::bigint,
                 (select sum(r.tx_attempt) from tidegate.request as r where r.kind = o.kind) as made
               from tidegate.policy_overview as o
               where o.kind = $1 and o.stage = 'tx'";
    let until = Instant::now() + PATIENCE;
    loop {
        let row = sqlx::query(sql).bind(KIND).fetch_one(&mut *session).await?;
        let (counted, made): (i64, i64) = (row.get("calls_5m"), row.get("made"));
        if counted >= made {
            return Ok(PolicyFigures {
                attempts: u32::try_from(row.get::<i32, _>("attempts"))?,
                timeout_us: i64::from(row.get::<i32, _>("timeout_ms")) * 1000,
                w_retry_us: (row.get::<f64, _>("w_retry_ms") * 1000.0) as i64,
                budget_us: i64::from(row.get::<i32, _>("budget_ms")) * 1000,
                p_drop: row.get("p_drop"),
                p_ok: row.get("p_ok"),
                expected_attempts: row.get("expected_attempts"),
            });
        }
        anyhow::ensure!(Instant::now() < until, "{counted} of {made} calls of {KIND} are counted");
        sleep(PAUSE).await;
    }
}
