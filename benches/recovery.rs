//! The time of `tidegate recover` for many lost messages in a table of a million requests, and of `doctor` for all of it.
//!
//! Half of the live requests (`LIVE` of `REQUESTS`) are in flight when every nth message is deleted, `LOST` in all; afterwards each
//! request must have its old position.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "a benchmark stops at the first thing that is wrong"
)]

mod support;

use std::{
    process::Command,
    time::{Duration, Instant},
};

use sqlx::{Connection, Executor, PgConnection};

use support::{Bench, number};

/// Requests in a claim.
const CLAIM: usize = 500;

fn main() {
    support::run(measure());
}

async fn measure() {
    let all = number("REQUESTS", 1_000_000);
    let live = number("LIVE", 100_000);
    let lost = number("LOST", live.min(100_000));
    // Dropping it stops the private server, if there is one.
    let location = support::location().await;
    let bench = Bench::new(&location).await;
    let mut session = PgConnection::connect(&bench.url).await.unwrap();
    println!("a table of {all} requests, {live} of them live, {lost} of these without their message");

    bench.insert_ended(all - live).await;
    bench.submit(live).await;
    // As workers claim: who holds a request is looked up among those of its claim.
    for _ in 0..live / 2 / CLAIM {
        let claimed = format!("select count(*) from tidegate.claim_tx('tx', 'lost', {CLAIM}, '1 hour')");
        sqlx::query(&claimed).execute(&mut session).await.unwrap();
    }
    let before = line(&mut session).await;
    let lose = format!(
        "with lost as (update tidegate.request set lease = null where lease is not null and msg_id % {0} = 0)
         delete from pgmq.q_tx where msg_id % {0} = 0",
        live / lost
    );
    for sql in [&*lose, "vacuum analyze", "checkpoint"] {
        session.execute(sql).await.unwrap();
    }

    run(&bench.url, "recover --dry-run", Some(3));
    let took = run(&bench.url, "recover", Some(3));
    assert_eq!(line(&mut session).await, before, "the order is another one");
    println!("{:<28} {:>9.0} requests/s", "", lost as f64 / took.as_secs_f64());
    run(&bench.url, "recover", Some(0));
    run(&bench.url, "doctor", Some(0));

    session.close().await.unwrap();
    bench.drop().await;
}

/// The requests of the queue, in order.
async fn line(session: &mut PgConnection) -> Vec<(i64, String)> {
    let line = "select msg_id, message ->> 'id' from pgmq.q_tx
                union all
                select msg_id, id::text from tidegate.leased_request
                order by msg_id";
    sqlx::query_as(line).fetch_all(session).await.unwrap()
}

/// Runs a command as an operator does, and prints its time.
fn run(url: &str, command: &str, expected: Option<i32>) -> Duration {
    let began = Instant::now();
    let output = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(command.split(' '))
        .env("DATABASE_URL", url)
        .output()
        .unwrap();
    let took = began.elapsed();
    assert_eq!(
        output.status.code(),
        expected,
        "{command}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    println!("{:<28} {:>9.2} s", format!("tidegate {command}"), took.as_secs_f64());
    took
}
