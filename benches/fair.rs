//! What turns cost: calls on a fair queue beside those on a fifo queue with a rate limit, whose claims hold a lock, too; and
//! positions in a deep one.
//!
//! `WAITING` requests wait in each of the two queues, of `KEYS` submitters; the calls take turns. `DEPTH` messages, whose keys
//! follow a power law, wait for the positions. Times are of one call on one connection, with the commit.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "a benchmark stops at the first thing that is wrong"
)]

mod support;

use std::time::Instant;

use sqlx::{Connection, Executor, PgConnection};
use support::{Bench, number};

const ROUNDS: usize = 5;
const CALLS: usize = 60;

/// The calls, and how many requests each is for.
const VERBS: [(&str, usize); 6] = [
    ("submit of 1", 1),
    ("submit of 100", 100),
    ("claim of 1", 1),
    ("settle of 1", 1),
    ("claim of 100", 100),
    ("settle of 100", 100),
];

fn main() {
    support::run(measure());
}

async fn measure() {
    let location = support::location().await;
    let bench = Bench::new(&location).await;
    let mut session = PgConnection::connect(&bench.url).await.unwrap();
    // As in the functions that roles call.
    session
        .execute("set statement_timeout = 0; set jit = off; set plan_cache_mode = force_generic_plan")
        .await
        .unwrap();
    let waiting = number("WAITING", 20_000);
    println!("{waiting} waiting in each queue\n");
    println!("{:<16} {:>8} {:>10} {:>10} {:>8}", "what", "keys", "fifo, ms", "fair, ms", "ratio");
    for keys in [1, 10, 100, 1000] {
        verbs(&bench, &mut session, waiting, keys).await;
    }
    let depth = number("DEPTH", 1_000_000);
    println!("\n{depth} waiting\n{:<16} {:>8} {:>10} {:>10}", "what", "keys", "p50, ms", "p99, ms");
    for keys in [1, 100, 1000, 10_000] {
        positions(&mut session, depth, keys).await;
    }
    drop(session);
    bench.drop().await;
}

/// Both queues, with requests of so many submitters waiting in each.
async fn make_queues(bench: &Bench, session: &mut PgConnection, waiting: usize, keys: usize) {
    let sql = format!(
        "select tidegate.queue_add('fifo_{keys}', 'tx', per_seconds => 1000000, high_water => 1000000000);
         update tidegate.queue set burst = 1000 where name = 'fifo_{keys}';
         select tidegate.queue_add('fair_{keys}', 'tx', high_water => 1000000000, fair_by => 'submitter')"
    );
    session.execute(sql.as_str()).await.unwrap();
    for queue in ["fifo", "fair"] {
        let kind = format!("select tidegate.kind_add('{queue}_{keys}', 'direct', tx_queue => '{queue}_{keys}')");
        session.execute(kind.as_str()).await.unwrap();
        for _ in 0..waiting.div_ceil(1000) {
            session.execute(submit(queue, keys, 1000).as_str()).await.unwrap();
        }
    }
    for sql in ["call tidegate.maintain()", "vacuum analyze"] {
        sqlx::raw_sql(sql).execute(&bench.pool).await.unwrap();
    }
}

/// So many submissions of random submitters.
fn submit(queue: &str, keys: usize, count: usize) -> String {
    format!(
        "select from tidegate.submit_group('{queue}_{keys}', array_fill('{{}}'::jsonb, array[{count}]),
           submitters => array(select 'k' || floor(random() * {keys}) from generate_series(1, {count})))"
    )
}

async fn verbs(bench: &Bench, session: &mut PgConnection, waiting: usize, keys: usize) {
    make_queues(bench, session, waiting, keys).await;
    let mut times: [[Vec<f64>; 2]; VERBS.len()] = Default::default();
    for _ in 0..ROUNDS {
        for (of, queue) in ["fifo", "fair"].into_iter().enumerate() {
            for _ in 0..CALLS {
                for verb in [0, 1] {
                    let sql = submit(queue, keys, VERBS[verb].1);
                    let begun = Instant::now();
                    session.execute(sql.as_str()).await.unwrap();
                    times[verb][of].push(begun.elapsed().as_secs_f64());
                }
                for verb in [2, 4] {
                    let count = VERBS[verb].1;
                    let claim = format!(
                        "select array_agg(lease)::text
                         from tidegate.claim_tx('{queue}_{keys}', 'bench', {count}, interval '10 minutes')"
                    );
                    let begun = Instant::now();
                    let leases: String = sqlx::query_scalar(&claim).fetch_one(&mut *session).await.unwrap();
                    times[verb][of].push(begun.elapsed().as_secs_f64());
                    let settle = "select count(*) from tidegate.settle($1::text::tidegate.lease[], '{receipt}',
                         responses => array_fill('{}'::jsonb, array[cardinality($1::text::tidegate.lease[])]))";
                    let begun = Instant::now();
                    let settled: i64 = sqlx::query_scalar(settle).bind(leases).fetch_one(&mut *session).await.unwrap();
                    times[verb + 1][of].push(begun.elapsed().as_secs_f64());
                    assert_eq!(settled, i64::try_from(count).unwrap());
                }
            }
        }
        sqlx::raw_sql("call tidegate.maintain()").execute(&bench.pool).await.unwrap();
    }
    for ((name, _), [fifo, fair]) in VERBS.into_iter().zip(&mut times) {
        let (fifo, fair) = (at(fifo, 0.5), at(fair, 0.5));
        println!("{name:<16} {keys:>8} {fifo:>10.3} {fair:>10.3} {:>8.2}", fair / fifo);
    }
}

/// A quantile, in milliseconds.
fn at(times: &mut [f64], share: f64) -> f64 {
    times.sort_by(f64::total_cmp);
    times[((times.len() - 1) as f64 * share) as usize] * 1000.0
}

/// Positions of messages without requests: what is read of a request costs the same in any queue.
async fn positions(session: &mut PgConnection, depth: usize, keys: usize) {
    let made = format!(
        "select tidegate.queue_add('deep_{keys}', 'tx', high_water => 1000000000, fair_by => 'submitter');
         insert into pgmq.q_deep_{keys} (msg_id, vt, message, fair_key)
         overriding system value
         select n, '-infinity', jsonb_build_object('id', gen_random_uuid()), floor(power({keys} + 1, random()))::bigint
         from generate_series(1, {depth}) as n;
         select setval('pgmq.q_deep_{keys}_msg_id_seq', {depth});
         insert into tidegate.turn_deep_{keys} (key, tag, no, cost, head, waiting)
         select m.fair_key, 0, nextval('tidegate.last_turn_deep_{keys}'), 720720, min(m.msg_id), count(*)
         from pgmq.q_deep_{keys} as m
         group by m.fair_key"
    );
    sqlx::raw_sql(&made).execute(&mut *session).await.unwrap();
    sqlx::raw_sql(&format!("vacuum analyze pgmq.q_deep_{keys}, tidegate.turn_deep_{keys}"))
        .execute(&mut *session)
        .await
        .unwrap();
    for (name, sql) in [
        ("poll", format!("select count(*) from tidegate_internal.waiting_before('deep_{keys}', array[$1], 4000)")),
        (
            "submit",
            format!(
                "select cardinality(tidegate_internal.entry_turns('deep_{keys}', array[$1 % 100], clock_timestamp()))"
            ),
        ),
    ] {
        let mut times = Vec::new();
        for _ in 0..100 {
            let number = 1 + rand::random_range(0..i64::try_from(depth).unwrap());
            let begun = Instant::now();
            sqlx::query(&sql).bind(number).execute(&mut *session).await.unwrap();
            times.push(begun.elapsed().as_secs_f64());
        }
        println!("{name:<16} {keys:>8} {:>10.2} {:>10.2}", at(&mut times, 0.5), at(&mut times, 0.99));
    }
}
