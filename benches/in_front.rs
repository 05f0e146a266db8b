//! The cost of messages that a worker does not claim, for it and for callers: 100,000 (`FRONT`) of a kind that it has no stage for,
//! and as many snoozed for a day.
//!
//! Three databases, one with an empty queue, in turns. Times are of one call on one connection, with the commit and the round trip to the
//! server. Maintenance runs all the time, as in every `serve` and worker.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "a benchmark stops at the first thing that is wrong"
)]

mod support;

use std::time::{Duration, Instant};

use sqlx::{Connection, Executor, PgConnection};
use support::{BATCH, Bench, number};
use tidegate::internals::maintenance;
use tokio_util::sync::CancellationToken;

const SUBMIT: &str = "select queue_position from tidegate.submit('direct', '{}')";
const CALLS: [&str; 4] = ["submit", "claim and settle 1", "claim and settle 100", "claim of nothing"];

fn main() {
    support::run(measure());
}

async fn measure() {
    let front = number("FRONT", 100_000);
    let rounds = number("ROUNDS", 5);
    // Dropping it stops the private server, if there is one.
    let location = support::location().await;
    let shutdown = CancellationToken::new();
    let mut queues = Vec::new();
    for (name, submit) in [
        ("an empty queue", None),
        ("behind another kind", Some("submit_group('strange', $1)")),
        ("behind snoozed messages", Some("submit_group('direct', $1, not_before => now() + interval '1 day')")),
    ] {
        let bench = Bench::with_suffix(&location, &format!("_{}", queues.len())).await;
        let mut session = PgConnection::connect(&bench.url).await.unwrap();
        session
            .execute(
                "insert into tidegate.kind (name, flow, tx_queue, processing_ms, tx_confirmation_ms)
                 values ('strange', 'direct', 'tx', 1, 1)",
            )
            .await
            .unwrap();
        if let Some(submit) = submit {
            let batch = format!("array_fill('{{}}'::jsonb, array[{BATCH}])");
            let sql = format!("select count(*) from tidegate.{}", submit.replace("$1", &batch));
            for _ in 0..front / BATCH {
                session.execute(&*sql).await.unwrap();
            }
        }
        session.execute("vacuum analyze").await.unwrap();
        let maintained = maintenance::run(bench.store.clone(), shutdown.clone());
        let maintained = tokio::spawn(maintained);
        queues.push((name, bench, session, maintained));
    }
    // Round 0 fills caches and is not counted.
    let mut times = vec![[const { Vec::new() }; 4]; queues.len()];
    for round in 0..=rounds {
        for ((_, _, session, _), times) in queues.iter_mut().zip(&mut times) {
            for (call, times) in times.iter_mut().enumerate() {
                let took = timed(session, call).await;
                if round > 0 {
                    times.extend(took);
                }
            }
        }
    }
    println!("{front} messages in front; {rounds} rounds, alternating; the mean of the middle half");
    for (call, what) in CALLS.iter().enumerate() {
        let means = times.iter_mut().map(|times| middle(&mut times[call]));
        let means: Vec<f64> = means.collect();
        for ((name, ..), mean) in queues.iter().zip(&means) {
            println!("{what:<22} {name:<24} {mean:>8.3} ms {:>6.2}", mean / means[0]);
        }
    }
    shutdown.cancel();
    for (_, bench, session, maintained) in queues {
        maintained.await.unwrap();
        session.close().await.unwrap();
        bench.drop().await;
    }
}

async fn timed(session: &mut PgConnection, call: usize) -> Vec<Duration> {
    let (calls, batch) = [(300, 0), (300, 1), (20, 100), (100, 1)][call];
    let sql = if call == 0 {
        SUBMIT.to_owned()
    } else {
        format!(
            "select count(*)
             from (
               select array_agg(c.lease) as leases from tidegate.claim_tx('tx', 'w', {batch}, '1 minute', '{{direct}}') as c
             ) as c
             cross join lateral tidegate.settle(c.leases, '{{receipt}}') as s"
        )
    };
    let mut times = Vec::new();
    for _ in 0..calls {
        // A claim of nothing needs an empty queue, the other claims a full batch.
        let prepare = match call {
            1 | 2 => format!(
                "select count(*) from tidegate.submit_batch('direct', array_fill('{{}}'::jsonb, array[{batch}]), admission => 'accepted')"
            ),
            _ => String::new(),
        };
        session.execute(&*prepare).await.unwrap();
        let begun = Instant::now();
        sqlx::query(&sql).execute(&mut *session).await.unwrap();
        times.push(begun.elapsed());
    }
    if call != 3 {
        let drain = "select count(*)
             from (
               select array_agg(c.lease) as leases from tidegate.claim_tx('tx', 'w', 1000, '1 minute', '{direct}') as c
             ) as c
             cross join lateral tidegate.settle(c.leases, '{receipt}') as s";
        session.execute(drain).await.unwrap();
    }
    times
}

/// The mean of the middle half, in milliseconds.
fn middle(times: &mut [Duration]) -> f64 {
    times.sort();
    let middle = &times[times.len() / 4..times.len() * 3 / 4];
    let total: Duration = middle.iter().sum();
    total.as_secs_f64() * 1000.0 / f64::from(u32::try_from(middle.len()).unwrap())
}
