//! What many ended requests change, and what their removal costs the fleet.
//!
//! Verbs: a call of each, in a database with `ENDED` ended and `LIVE` live requests and in one with only `WAITING` that wait, in
//! turns. Views, a page of the list and `tidegate doctor`: in the larger one. Removal: `EXPIRED` ended requests pass their retention
//! beside a full load of two sessions that submit and two that claim and settle. `MINUTES`: the same load again with a retention of
//! a minute, with the size of the tables at each tenth of that time.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "a benchmark stops at the first thing that is wrong"
)]

mod support;

use std::{
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use sqlx::{Connection, Executor, PgConnection};
use support::{BATCH, Bench, number};
use tidegate::internals::maintenance;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Calls of a verb in a round, and rounds in turns.
const CALLS: usize = 100;
const ROUNDS: usize = 5;
/// Where submissions pause until claims have caught up.
const DEEPEST: i64 = 50_000;

const SUBMIT: &str = "select id from tidegate.submit('direct', '{}')";
const CLAIM: &str = "select array_agg(lease)::text from tidegate.claim_tx('tx', 'bench', $1, interval '10 minutes')";
/// With the response, so that the request has ended.
const SETTLE: &str = "
    select count(*)
    from (select $1::text::tidegate.lease[] as leases) as c
    cross join lateral tidegate.settle(
      c.leases, '{receipt}', responses => array_fill('{\"ok\": true}'::jsonb, array[cardinality(c.leases)])
    ) as s";
const POLL: &str = "select queue_position from tidegate.request_outlook($1)";

fn main() {
    support::run(measure());
}

async fn measure() {
    let location = support::location().await;
    let (ended, live) = (number("ENDED", 1_000_000), number("LIVE", 20_000));
    let waiting = number("WAITING", 20_000);
    let small = Bench::with_suffix(&location, "_small").await;
    let bench = Bench::new(&location).await;
    small.submit(waiting).await;
    let begun = Instant::now();
    bench.insert_ended(ended).await;
    bench.submit(live).await;
    for bench in [&small, &bench] {
        let mut session = patient(bench).await;
        for sql in ["vacuum analyze", "select tidegate.recover_counts()", "checkpoint"] {
            session.execute(sql).await.unwrap();
        }
    }
    println!("{ended} ended and {live} live requests, made in {:.0} s", begun.elapsed().as_secs_f64());

    verbs(&small, &bench).await;
    small.drop().await;
    reads(&bench).await;
    doctor(&bench.url);

    let load = Load::start(&bench).await;
    println!(
        "\n{:<44} {:>10} {:>9} {:>9} {:>9}",
        "claims of 500 beside full load", "requests/s", "p50 ms", "p99 ms", "worst ms"
    );
    load.measure("nothing is removed", Duration::from_secs(number("SECONDS", 30) as u64)).await;
    removal(&bench, &load, ended).await;
    let minutes = number("MINUTES", 0);
    if minutes > 0 {
        retention_of_a_minute(&bench, &load, minutes).await;
    }
    load.end().await;
    bench.drop().await;
}

/// A session without a limit for statements.
async fn patient(bench: &Bench) -> PgConnection {
    let mut session = PgConnection::connect(&bench.url).await.unwrap();
    session.execute("set statement_timeout = 0").await.unwrap();
    session
}

/// The milliseconds of calls.
#[derive(Default)]
struct Times(Vec<f64>);

impl Times {
    fn record(&mut self, begun: Instant) {
        self.0.push(begun.elapsed().as_secs_f64() * 1000.0);
    }

    /// The time that this share of the calls did not exceed.
    fn at(&mut self, share: f64) -> f64 {
        self.0.sort_by(f64::total_cmp);
        self.0[((self.0.len() - 1) as f64 * share).round() as usize]
    }
}

/// Submits, claims and settles one and a hundred, and polls, a round in each database after the other.
async fn verbs(small: &Bench, large: &Bench) {
    const VERBS: [&str; 6] = ["submit", "poll", "claim of 1", "settle of 1", "claim of 100", "settle of 100"];
    let mut sessions = [patient(small).await, patient(large).await];
    let mut times: [[Times; 6]; 2] = Default::default();
    // The first round is not counted: it plans.
    for round in 0..=ROUNDS {
        for (session, times) in sessions.iter_mut().zip(&mut times) {
            one_round(session, times).await;
            if round == 0 {
                *times = Default::default();
            }
        }
    }
    println!(
        "\n{:<14} {:>14} {:>14} {:>8} {:>14} {:>14}",
        "verb", "small, p50 ms", "large, p50 ms", "ratio", "small, p99", "large, p99"
    );
    let [small, large] = &mut times;
    for ((verb, small), large) in VERBS.iter().zip(small).zip(large) {
        println!(
            "{verb:<14} {:>14.3} {:>14.3} {:>8.2} {:>14.3} {:>14.3}",
            small.at(0.5),
            large.at(0.5),
            large.at(0.5) / small.at(0.5),
            small.at(0.99),
            large.at(0.99)
        );
    }
}

async fn one_round(session: &mut PgConnection, times: &mut [Times; 6]) {
    let [submit, poll, claim_one, settle_one, claim_many, settle_many] = times;
    for _ in 0..CALLS {
        let begun = Instant::now();
        let id: Uuid = sqlx::query_scalar(SUBMIT).fetch_one(&mut *session).await.unwrap();
        submit.record(begun);
        let begun = Instant::now();
        let _: Option<i64> = sqlx::query_scalar(POLL).bind(id).fetch_one(&mut *session).await.unwrap();
        poll.record(begun);
        claim_and_settle(session, 1, claim_one, settle_one).await;
    }
    for _ in 0..CALLS / 5 {
        claim_and_settle(session, 100, claim_many, settle_many).await;
    }
}

async fn claim_and_settle(session: &mut PgConnection, count: usize, claim: &mut Times, settle: &mut Times) {
    let begun = Instant::now();
    let count = i32::try_from(count).unwrap();
    let leases: String = sqlx::query_scalar(CLAIM).bind(count).fetch_one(&mut *session).await.unwrap();
    claim.record(begun);
    let begun = Instant::now();
    let settled: i64 = sqlx::query_scalar(SETTLE).bind(leases).fetch_one(&mut *session).await.unwrap();
    settle.record(begun);
    assert_eq!(settled, i64::from(count));
}

/// A thousand rows of every view but the search for violations, which reads everything, and the first page of a list: the slowest
/// first.
async fn reads(bench: &Bench) {
    let mut session = patient(bench).await;
    let views: Vec<String> = sqlx::query_scalar(
        "select format('select count(*) from (select * from tidegate.%I limit 1000) as v', viewname)
         from pg_views where schemaname = 'tidegate' and viewname <> 'invariant_violation'",
    )
    .fetch_all(&mut session)
    .await
    .unwrap();
    let list = "select count(*) from tidegate.list_requests(page => 50)".to_owned();
    let mut all = Vec::new();
    for sql in views.into_iter().chain([list]) {
        let mut times = Times::default();
        for _ in 0..4 {
            let begun = Instant::now();
            session.execute(&*sql).await.unwrap();
            times.record(begun);
        }
        // But for the first, which plans.
        times.0.remove(0);
        all.push((times.at(0.5), sql));
    }
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    println!("\n{} views and a list; the slowest, ms:", all.len() - 1);
    for (ms, sql) in all.iter().filter(|(ms, sql)| *ms > 20.0 || sql.contains("list_requests")) {
        println!("{ms:>9.1}  {sql}");
    }
}

fn doctor(url: &str) {
    let begun = Instant::now();
    let found = Command::new(env!("CARGO_BIN_EXE_tidegate")).arg("doctor").env("DATABASE_URL", url).output().unwrap();
    println!("\ntidegate doctor: {:.1} s, exit {:?}", begun.elapsed().as_secs_f64(), found.status.code());
    if !found.status.success() {
        println!("{}", String::from_utf8_lossy(&found.stdout));
    }
}

/// Ended requests of the last 30 days, one after the other, pass their retention until `EXPIRED` are gone.
async fn removal(bench: &Bench, load: &Load, ended: usize) {
    let expired = number("EXPIRED", ended / 10);
    let days = 30.0 * (1.0 - expired as f64 / ended as f64);
    let mut session = patient(bench).await;
    let oldest = "select count(*) from tidegate.request where (kind, id) < ('direct', tidegate.uuid_v7_floor(now() - $1 * interval '1 day'))
                  and kind >= ''";
    bench.store.config_set("direct.retention", &format!("{days} days")).await.unwrap();
    let begun = Instant::now();
    let mut slices = 0;
    loop {
        slices += 1;
        load.measure(&format!("requests are removed, {slices}"), Duration::from_secs(30)).await;
        let left: i64 = sqlx::query_scalar(oldest).bind(days).fetch_one(&mut session).await.unwrap();
        if left < 1000 {
            break;
        }
    }
    println!("{expired} were removed in {:.0} s", begun.elapsed().as_secs_f64());
    bench.store.config_set("direct.retention", "none").await.unwrap();
}

/// Whether the tables keep their size when every request goes a minute after its end.
async fn retention_of_a_minute(bench: &Bench, load: &Load, minutes: usize) {
    let mut session = patient(bench).await;
    for (name, value) in
        [("direct.tx.span_reorder", "0 s"), ("direct.tx.dedup_window", "1 minute"), ("direct.retention", "1 minute")]
    {
        bench.store.config_set(name, value).await.unwrap();
    }
    // While keys from before a shorter window may stand, requests stay, too: here there are none.
    session.execute("delete from tidegate.config_change where column_name = 'dedup_window'").await.unwrap();
    println!("\na retention of a minute");
    for slice in 1..=10 {
        load.measure(&format!("minute {}", slice * minutes / 10), Duration::from_secs(minutes as u64 * 6)).await;
        let sizes = "select string_agg(format('%s %s MB', name, size / 1000000), ', ') from (
             select c.relname as name, pg_total_relation_size(c.oid) as size from pg_class as c
             where c.relkind = 'r' and c.relnamespace in ('tidegate'::regnamespace, 'pgmq'::regnamespace)
             order by size desc limit 6
           ) as s";
        let sizes: String = sqlx::query_scalar(sizes).fetch_one(&mut session).await.unwrap();
        let ended: i64 = sqlx::query_scalar(
            "select coalesce(sum(requests), 0)::bigint from tidegate.request_overview where req_status = 'completed'",
        )
        .fetch_one(&mut session)
        .await
        .unwrap();
        println!("  {ended} ended; {sizes}");
    }
}

/// Sessions that submit, claim and settle as fast as they can, and the maintenance of as many processes.
struct Load {
    stop: CancellationToken,
    claims: Arc<Mutex<Times>>,
    settled: Arc<AtomicI64>,
    tasks: Vec<JoinHandle<()>>,
}

impl Load {
    async fn start(bench: &Bench) -> Self {
        let stop = CancellationToken::new();
        let claims = Arc::default();
        let settled = Arc::new(AtomicI64::new(0));
        let depth = Arc::new(AtomicI64::new(0));
        let mut tasks = Vec::new();
        for _ in 0..2 {
            // Every node and every worker maintains.
            for _ in 0..2 {
                tasks.push(tokio::spawn(maintenance::run(bench.store.clone(), stop.clone())));
            }
            tasks.push(submitter(patient(bench).await, stop.clone(), Arc::clone(&depth)));
            tasks.push(claimer(
                patient(bench).await,
                stop.clone(),
                Arc::clone(&depth),
                Arc::clone(&claims),
                Arc::clone(&settled),
            ));
        }
        Self { stop, claims, settled, tasks }
    }

    async fn measure(&self, what: &str, time: Duration) {
        *self.claims.lock().unwrap() = Times::default();
        self.settled.store(0, Ordering::Relaxed);
        tokio::time::sleep(time).await;
        let mut claims = std::mem::take(&mut *self.claims.lock().unwrap());
        let per_second = self.settled.load(Ordering::Relaxed) as f64 / time.as_secs_f64();
        println!(
            "{what:<44} {per_second:>10.0} {:>9.1} {:>9.1} {:>9.1}",
            claims.at(0.5),
            claims.at(0.99),
            claims.at(1.0)
        );
    }

    async fn end(self) {
        self.stop.cancel();
        for task in self.tasks {
            task.await.unwrap();
        }
    }
}

fn submitter(mut session: PgConnection, stop: CancellationToken, depth: Arc<AtomicI64>) -> JoinHandle<()> {
    let submit = "select count(*) from tidegate.submit_batch('direct', array_fill('{}'::jsonb, array[$1]), admission => 'accepted')";
    tokio::spawn(async move {
        while !stop.is_cancelled() {
            if depth.load(Ordering::Relaxed) > DEEPEST {
                tokio::time::sleep(Duration::from_millis(5)).await;
                continue;
            }
            let batch = i32::try_from(BATCH).unwrap();
            let sent: i64 = sqlx::query_scalar(submit).bind(batch).fetch_one(&mut session).await.unwrap();
            depth.fetch_add(sent, Ordering::Relaxed);
        }
    })
}

fn claimer(
    mut session: PgConnection,
    stop: CancellationToken,
    depth: Arc<AtomicI64>,
    claims: Arc<Mutex<Times>>,
    settled: Arc<AtomicI64>,
) -> JoinHandle<()> {
    tokio::spawn(async move {
        while !stop.is_cancelled() {
            let begun = Instant::now();
            let batch = i32::try_from(BATCH).unwrap();
            let leases: Option<String> = sqlx::query_scalar(CLAIM).bind(batch).fetch_one(&mut session).await.unwrap();
            claims.lock().unwrap().record(begun);
            let Some(leases) = leases else { continue };
            let done: i64 = sqlx::query_scalar(SETTLE).bind(leases).fetch_one(&mut session).await.unwrap();
            depth.fetch_sub(done, Ordering::Relaxed);
            settled.fetch_add(done, Ordering::Relaxed);
        }
    })
}
