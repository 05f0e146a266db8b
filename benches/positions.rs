//! The cost of positions at depth: polls and submissions in a queue of a million, and the surveys behind them.
//!
//! Times are of one call on one connection, with the round trip to the server. Maintenance runs all the time, as in every `serve`
//! and worker.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "a benchmark stops at the first thing that is wrong"
)]

mod support;

use std::time::{Duration, Instant};

use sqlx::{Connection, PgConnection};
use support::{BATCH, Bench, number};
use tidegate::internals::maintenance;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// An empty call: its time is the machine's share in all other figures.
const NOTHING: &str = "select 0::bigint where $1::uuid is not null";
const OUTLOOK: &str = "select queue_position from tidegate.request_outlook($1)";
const POSITION: &str = "select tidegate.request_position($1)";
const SUBMIT: &str = "select queue_position from tidegate.submit('direct', '{}')";

fn main() {
    support::run(measure());
}

async fn measure() {
    let depth = number("DEPTH", 1_000_000);
    let calls = number("CALLS", 3000);
    // Dropping it stops the private server, if there is one.
    let location = support::location().await;
    let bench = Bench::new(&location).await;
    let mut session = PgConnection::connect(&bench.url).await.unwrap();
    println!("a tx queue of {depth} messages; {calls} calls of each, one after the other");
    println!("{:<38} {:>9} {:>9} {:>9} {:>9}", "what", "p50", "p99", "worst", "calls/s");

    submits(&mut session, "submit, empty queue", calls.min(200)).await;
    bench.submit(1000).await;
    submits(&mut session, "submit, 1,000 deep", calls).await;
    bench.submit(depth).await;
    sqlx::query("vacuum analyze").execute(&mut session).await.unwrap();
    sqlx::query("checkpoint").execute(&mut session).await.unwrap();

    let shutdown = CancellationToken::new();
    let maintained = tokio::spawn(maintenance::run(bench.store.clone(), shutdown.clone()));
    while survey_lacks(&mut session).await {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    submits(&mut session, &format!("submit, {depth} deep"), calls).await;
    polls(&mut session, "nothing, quiet", NOTHING, calls).await;
    polls(&mut session, "request_outlook, quiet", OUTLOOK, calls).await;
    polls(&mut session, "request_position, quiet", POSITION, calls).await;
    report_surveys(&mut session, "surveys, quiet").await;

    let stop = CancellationToken::new();
    let busy = [keep_claiming(&bench, stop.clone()), keep_submitting(&bench, stop.clone())];
    polls(&mut session, "nothing, busy", NOTHING, calls).await;
    polls(&mut session, "request_outlook, busy", OUTLOOK, calls).await;
    polls(&mut session, "request_position, busy", POSITION, calls).await;
    submits(&mut session, "submit, busy", calls).await;
    report_surveys(&mut session, "surveys, busy").await;
    stop.cancel();
    let mut moved = Vec::new();
    for task in busy {
        let (requests, seconds) = task.await.unwrap();
        moved.push(format!("{:.0}", f64::from(requests) / seconds));
    }
    println!("(busy: {} requests/s claimed and settled, {} submitted, in batches of {BATCH})", moved[0], moved[1]);

    shutdown.cancel();
    maintained.await.unwrap();
    session.close().await.unwrap();
    bench.drop().await;
}

/// Times a call for ids from the whole queue, except the head, which may be drained before the call.
async fn polls(session: &mut PgConnection, what: &str, sql: &str, calls: usize) {
    let ids: Vec<Uuid> = sqlx::query_scalar(
        "select tidegate.message_request_id(m.message)
         from (select min(msg_id) as low, max(msg_id) as high from pgmq.q_tx) as s
         cross join lateral generate_series(1, $1)
         join lateral (select s.low + ((0.3 + 0.7 * random()) * (s.high - s.low))::bigint as n) as pick on true
         join pgmq.q_tx as m on m.msg_id = pick.n",
    )
    .bind(i64::try_from(calls).unwrap())
    .fetch_all(&mut *session)
    .await
    .unwrap();
    let mut times = Vec::with_capacity(ids.len());
    for id in ids {
        let begun = Instant::now();
        let _: Option<i64> = sqlx::query_scalar(sql).bind(id).fetch_one(&mut *session).await.unwrap();
        times.push(begun.elapsed());
    }
    report(what, times);
}

async fn submits(session: &mut PgConnection, what: &str, calls: usize) {
    let mut times = Vec::with_capacity(calls);
    for _ in 0..calls {
        let begun = Instant::now();
        let _: Option<i64> = sqlx::query_scalar(SUBMIT).fetch_one(&mut *session).await.unwrap();
        times.push(begun.elapsed());
    }
    report(what, times);
}

fn report(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |share: usize| times[(times.len() - 1) * share / 100].as_secs_f64() * 1000.0;
    let calls = f64::from(u32::try_from(times.len()).unwrap());
    let total: Duration = times.iter().sum();
    println!(
        "{what:<38} {:>6.2} ms {:>6.2} ms {:>6.2} ms {:>9.0}",
        at(50),
        at(99),
        at(100),
        calls / total.as_secs_f64()
    );
}

async fn survey_lacks(session: &mut PgConnection) -> bool {
    sqlx::query_scalar(
        "select coalesce(sum(s.waiting), 0) < (select count(*) - 256 from pgmq.q_tx) from tidegate.queue_survey as s",
    )
    .fetch_one(session)
    .await
    .unwrap()
}

/// The share of one session's time that surveys use.
async fn report_surveys(session: &mut PgConnection, what: &str) {
    let watched = Duration::from_secs(15);
    let begun = Instant::now();
    let mut last = String::new();
    let mut took = Vec::new();
    while begun.elapsed() < watched {
        let (ran_at, took_ms): (String, f64) = sqlx::query_as(
            "select ran_at::text, coalesce(took_ms, 0)::float8 from tidegate.maintenance where duty = 'survey_queues'",
        )
        .fetch_one(&mut *session)
        .await
        .unwrap();
        if ran_at != last && !last.is_empty() {
            took.push(took_ms);
        }
        last = ran_at;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let total: f64 = took.iter().sum();
    println!(
        "{what:<38} {:.1} % of the time of one session: {} in {} s, {:.1} ms each",
        total / 10.0 / begun.elapsed().as_secs_f64(),
        took.len(),
        watched.as_secs(),
        total / f64::from(u32::try_from(took.len().max(1)).unwrap())
    );
}

/// Claims and settles batch after batch; returns the number of requests and the seconds.
fn keep_claiming(bench: &Bench, stop: CancellationToken) -> JoinHandle<(u32, f64)> {
    let store = bench.store.clone();
    let pool = bench.pool.clone();
    tokio::spawn(async move {
        let begun = Instant::now();
        let mut requests = 0;
        while !stop.is_cancelled() {
            let claimed: String = sqlx::query_scalar(
                "select array_agg(lease)::text from tidegate.claim_tx('tx', 'bench', $1, interval '30 seconds')",
            )
            .bind(i32::try_from(BATCH).unwrap())
            .fetch_one(store.pool())
            .await
            .unwrap();
            let settled: i64 =
                sqlx::query_scalar("select count(*) from tidegate.settle($1::text::tidegate.lease[], '{receipt}')")
                    .bind(claimed)
                    .fetch_one(&pool)
                    .await
                    .unwrap();
            requests += u32::try_from(settled).unwrap();
        }
        (requests, begun.elapsed().as_secs_f64())
    })
}

fn keep_submitting(bench: &Bench, stop: CancellationToken) -> JoinHandle<(u32, f64)> {
    let pool = bench.pool.clone();
    tokio::spawn(async move {
        let begun = Instant::now();
        let mut requests = 0;
        while !stop.is_cancelled() {
            let submitted: i64 = sqlx::query_scalar(
                "select count(*)
                 from tidegate.submit_batch('direct', array_fill('{}'::jsonb, array[$1]), admission => 'accepted')",
            )
            .bind(i32::try_from(BATCH).unwrap())
            .fetch_one(&pool)
            .await
            .unwrap();
            requests += u32::try_from(submitted).unwrap();
        }
        (requests, begun.elapsed().as_secs_f64())
    })
}
