//! Code that the benchmarks share: a fresh database, submissions, settings from the environment.
#![allow(dead_code, reason = "each benchmark uses its own part")]

use sqlx::PgPool;
use tidegate::internals::{
    database::{self, PoolSettings},
    schema,
    store::{Admission, Store},
};
use tidegate_cli::{
    database_location::{DatabaseLocation, KEEPER_COMMAND},
    embedded_postgres,
};

/// Requests in one submission.
pub const BATCH: usize = 500;
/// Ended requests that one statement inserts.
const ENDED_BATCH: usize = 500_000;

/// Runs the benchmark or, if the arguments ask for it, the keeper of its private PostgreSQL.
pub fn run(measure: impl Future<Output = ()>) {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|command| command == KEEPER_COMMAND) {
        let directory = arguments.next().expect("the directory of the server");
        embedded_postgres::keep(directory.as_ref()).unwrap();
    } else {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        runtime.unwrap().block_on(measure);
    }
}

/// A number from the environment.
pub fn number(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// The PostgreSQL of `DATABASE_URL`, else a private one.
pub async fn location() -> DatabaseLocation {
    DatabaseLocation::find(std::env::var("DATABASE_URL").ok()).await.unwrap()
}

/// A fresh database; dropped at the end.
pub struct Bench {
    admin: PgPool,
    name: String,
    pub url: String,
    pub pool: PgPool,
    pub store: Store,
}

impl Bench {
    /// A fresh database whose gates never close, because they are not measured.
    pub async fn new(location: &DatabaseLocation) -> Self {
        Self::with_suffix(location, "").await
    }

    /// One of several databases at the same time, named by `suffix`.
    pub async fn with_suffix(location: &DatabaseLocation, suffix: &str) -> Self {
        let name = format!("tidegate_bench_{}{suffix}", std::process::id());
        let admin = database::connect(&location.url, &PoolSettings::default()).await.unwrap();
        for sql in [format!("drop database if exists {name} with (force)"), format!("create database {name}")] {
            sqlx::query(&sql).execute(&admin).await.unwrap();
        }
        let (server, _) = location.url.rsplit_once('/').unwrap();
        let url = format!("{server}/{name}");
        schema::migrate(&url).await.unwrap();
        let pool = database::connect(&url, &PoolSettings::default()).await.unwrap();
        let store = Store::new(pool.clone());
        store.initialise(Some("relayer"), None).await.unwrap();
        store.config_set("tx.per_seconds", "none").await.unwrap();
        // Marks out of reach; with those of `init`, each settle of a drain would count the depth.
        for gate in ["readiness", "tx"] {
            store.config_set(&format!("{gate}.high_water"), "1000000000").await.unwrap();
        }
        sqlx::query("checkpoint").execute(&pool).await.unwrap();
        Self { admin, name, url, pool, store }
    }

    pub async fn submit(&self, requests: usize) {
        let payload = format!("{{\"to\":\"{}\"}}", "x".repeat(91));
        let payload = payload.parse().unwrap();
        let payloads = vec![payload; BATCH];
        let half = requests / BATCH / 2;
        let submit = async |batches| {
            for _ in 0..batches {
                self.store.submit_batch("direct", &payloads, None, None, Admission::Accepted, None).await.unwrap();
            }
        };
        tokio::join!(submit(half), submit(requests / BATCH - half));
    }

    /// Inserts completed requests of the last 30 days, one after the other, without triggers.
    pub async fn insert_ended(&self, count: usize) {
        let mut session = self.pool.acquire().await.unwrap();
        for from in (0..count).step_by(ENDED_BATCH) {
            let to = count.min(from + ENDED_BATCH);
            let sql = format!(
                "begin;
                 set local session_replication_role = replica;
                 set local statement_timeout = 0;
                 insert into tidegate.request (
                   id, kind, flow, req_status, previous_status, transition_no, cause, tx_attempt, submitted_at, deadline_at,
                   processing_at, tx_in_flight_at, finished_at, payload, response
                 )
                 select
                   tidegate_internal.uuid_v7(at), 'direct', 'direct', 'completed', 'tx_in_flight', 3, 'receipt', 1, at,
                   at + interval '1 hour', at, at, at, '{{\"to\": \"receiver\"}}', '{{}}'
                 from (
                   select clock_timestamp() - interval '30 days' + n * (interval '30 days' / {count}) as at
                   from generate_series({from}, {to} - 1) as n
                 ) as o;
                 insert into tidegate.request_count_delta (kind, req_status, delta)
                 values ('direct', 'completed', {to} - {from});
                 commit"
            );
            sqlx::raw_sql(&sql).execute(&mut *session).await.unwrap();
        }
    }

    pub async fn drop(self) {
        self.pool.close().await;
        sqlx::query(&format!("drop database {} with (force)", self.name)).execute(&self.admin).await.unwrap();
    }
}
