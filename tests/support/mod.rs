//! A database per test, cloned from a template that is named by a fingerprint of the SQL.
#![allow(dead_code, reason = "each test file uses its own part")]

pub mod actors;
pub mod at_rest;
pub mod invariants;
pub mod property;
pub mod race;
pub mod server;
pub mod sql;

use std::{
    ops::{Deref, DerefMut},
    sync::Mutex,
    time::Duration,
};

use serde_json::Value;
use server::{databases, templates::Template};
use sqlx::{Connection, Executor, PgConnection, PgPool};
use tidegate::{
    internals::{
        database::{self, PoolSettings},
        store::{Admission, SameKey, Store, Submission},
    },
    request::{JsonText, RequestId},
};
use uuid::Uuid;

/// A migrated database of one test's own; dropped with the value.
pub struct TestDatabase {
    pub name: String,
    pub url: String,
    pub pool: PgPool,
    pub store: Store,
    kept: Mutex<Vec<PgConnection>>,
}

impl TestDatabase {
    /// Migrated, with the starter set of `tidegate init`, exact answers and gates that are wide open.
    pub async fn new() -> Self {
        Self::copy_of(Template::Initialised).await
    }

    /// As [`TestDatabase::new`], with no rate limit and no concurrency limit.
    pub async fn unlimited() -> Self {
        Self::copy_of(Template::Unlimited).await
    }

    /// The same, with short policies: five sends in two minutes, forty checks in ten.
    pub async fn with_short_policies(self) -> Self {
        self.execute(
            "update tidegate.policy
             set attempts = 5, base_ms = 500, factor = 2, cap_ms = 30000, jitter_ms = 250, timeout_ms = 10000,
               deadline_ms = 120000, margin_ms = 1000
             where stage = 'tx';
             update tidegate.policy
             set attempts = 40, base_ms = 500, factor = 1.5, cap_ms = 10000, jitter_ms = 250, timeout_ms = 5000,
               deadline_ms = 600000, margin_ms = 1000
             where stage = 'readiness';
             update tidegate.policy_change set at = at - interval '1 minute';
             update tidegate.policy_in_force set since = since - interval '1 minute'",
        )
        .await;
        self
    }

    /// As [`TestDatabase::unlimited`], with [`server::templates::DEEP`] requests of kind `direct`.
    pub async fn deep() -> Self {
        Self::copy_of(Template::Deep).await
    }

    /// As [`TestDatabase::unlimited`], with 200,000 requests, of which most have ended.
    pub async fn large() -> Self {
        Self::copy_of(Template::Large).await
    }

    /// The same with 10,000 requests.
    pub async fn middling() -> Self {
        Self::copy_of(Template::Middling).await
    }

    /// Migrated, with the queues and kinds of the example, made by hand and without limits and times.
    pub async fn uninitialised() -> Self {
        Self::copy_of(Template::Migrated).await
    }

    /// Not even migrated.
    pub async fn empty() -> Self {
        Self::copy_of(Template::Empty).await
    }

    async fn copy_of(template: Template) -> Self {
        let name = databases::create(template).await;
        let url = server::url(&name);
        let settings = PoolSettings { connections_max: 20, ..patient() };
        let pool = database::connect_lazily(&url, &settings).unwrap();
        Self { name, url, store: Store::new(pool.clone()), pool, kept: Mutex::default() }
    }

    /// Empty, in an encoding that holds few characters.
    pub async fn in_latin1() -> Self {
        Self::copy_of(Template::Latin1).await
    }

    /// A session for statements that leave nothing behind in it. It is kept for the next ones: a new session has to make
    /// every plan.
    pub async fn connection(&self) -> Kept<'_> {
        loop {
            let kept = self.kept.lock().unwrap().pop();
            let Some(mut connection) = kept else { break };
            if connection.ping().await.is_ok() {
                return Kept::new(connection, &self.kept);
            }
        }
        let mut connection = self.pool.acquire().await.unwrap().detach();
        // Stages of many rows take as long as the machine needs.
        connection.execute("set statement_timeout = '2 min'").await.unwrap();
        Kept::new(connection, &self.kept)
    }

    /// Keeps a session that has left nothing behind in it for [`connection`](Self::connection).
    pub fn keep(&self, connection: PgConnection) {
        self.kept.lock().unwrap().push(connection);
    }

    /// Every violation of an invariant at this moment.
    pub async fn violations(&self) -> Vec<String> {
        invariants::violations(&mut *self.connection().await).await
    }

    /// Another session, outside the pool.
    pub async fn session(&self) -> PgConnection {
        PgConnection::connect(&self.url).await.unwrap()
    }

    /// A session of the superuser, for what is not the owner's to do.
    pub async fn superuser_session(&self) -> PgConnection {
        PgConnection::connect(&server::superuser_url(&self.name)).await.unwrap()
    }

    /// Runs SQL while no trigger fires, which is not the owner's to do: before PostgreSQL 15 it cannot be granted.
    pub async fn past_triggers(&self, sql: &str) {
        let sql = format!("set session_replication_role = replica; {sql}");
        sqlx::raw_sql(&sql)
            .execute(&mut self.superuser_session().await)
            .await
            .unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    /// Sessions that begin from now on find a deadlock after 50 ms.
    pub async fn find_deadlocks_soon(&self) {
        let sql = format!("alter database {} set deadlock_timeout = '50ms'", self.name);
        sqlx::raw_sql(&sql).execute(&mut server::admin().await).await.unwrap();
    }

    /// Ends all connections to it and refuses new ones, as if it were down.
    pub async fn cut(&self) {
        let mut admin = server::admin().await;
        let name = &self.name;
        sqlx::raw_sql(&format!("alter database {name} allow_connections false")).execute(&mut admin).await.unwrap();
        let terminated = "select count(pg_terminate_backend(pid)) from pg_stat_activity where datname = $1";
        eventually("every session has ended", || async {
            let mut admin = server::admin().await;
            let sessions: i64 = sqlx::query_scalar(terminated).bind(name).fetch_one(&mut admin).await.unwrap();
            sessions == 0
        })
        .await;
    }

    /// It takes connections again after a [`cut`](Self::cut).
    pub async fn restore(&self) {
        let sql = format!("alter database {} allow_connections true", self.name);
        sqlx::raw_sql(&sql).execute(&mut server::admin().await).await.unwrap();
    }

    /// Runs SQL that must succeed; several statements are fine.
    pub async fn execute(&self, sql: &str) {
        sqlx::raw_sql(sql)
            .execute(&mut *self.connection().await)
            .await
            .unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    /// Stops the clock that Tidegate reads; from then on a test moves it, by updates of `public.test_clock`.
    pub async fn stop_clock(&self) {
        self.execute(
            "create table public.test_clock as select clock_timestamp() as at;
             create or replace function tidegate.clock()
               returns timestamptz
               language sql
               volatile
               parallel safe
             return (select c.at from public.test_clock as c)",
        )
        .await;
    }

    /// The single value of a query, as text; `None` for null or no row.
    pub async fn text(&self, sql: &str) -> Option<String> {
        sqlx::query_scalar::<_, Option<String>>(&format!("select (({sql}))::text"))
            .fetch_one(&mut *self.connection().await)
            .await
            .unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// The single number of a query.
    pub async fn number(&self, sql: &str) -> i64 {
        sqlx::query_scalar::<_, i64>(&format!("select ({sql})::bigint"))
            .fetch_one(&mut *self.connection().await)
            .await
            .unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// Submits a request that must be accepted.
    pub async fn submit(&self, kind: &str) -> RequestId {
        let (outcome, id): (String, Option<Uuid>) = sqlx::query_as("select outcome, id from tidegate.submit($1, '{}')")
            .bind(kind)
            .fetch_one(&mut *self.connection().await)
            .await
            .unwrap();
        assert_eq!(outcome, "accepted", "{kind}");
        RequestId(id.unwrap())
    }

    /// A request's status, as its word.
    pub async fn status(&self, id: RequestId) -> String {
        self.text(&format!("select req_status from tidegate.request where id = '{id}'")).await.unwrap()
    }

    /// The causes of a request's transitions, in order.
    pub async fn causes(&self, id: RequestId) -> Vec<String> {
        sqlx::query_scalar("select cause from tidegate.request_event where request_id = $1 order by transition_no")
            .bind(id.0)
            .fetch_all(&mut *self.connection().await)
            .await
            .unwrap()
    }
}

/// A session out of [`TestDatabase::connection`], which gets it back.
pub struct Kept<'a> {
    connection: Option<PgConnection>,
    home: &'a Mutex<Vec<PgConnection>>,
}

impl<'a> Kept<'a> {
    fn new(connection: PgConnection, home: &'a Mutex<Vec<PgConnection>>) -> Self {
        Self { connection: Some(connection), home }
    }
}

impl Kept<'_> {
    /// The session, which the caller [keeps](TestDatabase::keep) when it is done.
    pub fn take(mut self) -> PgConnection {
        self.connection.take().unwrap()
    }
}

impl Deref for Kept<'_> {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        self.connection.as_ref().unwrap()
    }
}

impl DerefMut for Kept<'_> {
    fn deref_mut(&mut self) -> &mut PgConnection {
        self.connection.as_mut().unwrap()
    }
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        self.home.lock().unwrap().extend(self.connection.take());
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        databases::drop_later(std::mem::take(&mut self.name));
    }
}

/// A submission with a payload and nothing else.
pub fn submission(kind: &str, payload: &Value) -> Submission {
    Submission {
        kind: kind.to_owned(),
        payload: raw(payload),
        idempotency_key: None,
        same_key: SameKey::Compare,
        submitter: None,
        admission: Admission::Enforce,
        not_before: None,
        traceparent: None,
        callback_url: None,
    }
}

/// The size of a campaign: short by default, long with `TIDEGATE_TESTS=long` (`make test-long`).
pub fn campaign<T>(short: T, long: T) -> T {
    match std::env::var("TIDEGATE_TESTS").as_deref() {
        Ok("long") => long,
        Ok("" | "short") | Err(_) => short,
        Ok(other) => panic!("TIDEGATE_TESTS is short or long, not {other}"),
    }
}

/// JSON as text.
pub fn raw(value: &Value) -> JsonText {
    JsonText::of(value).unwrap()
}

/// Waits until a condition holds, checking it every few milliseconds; panics after half a minute.
pub async fn eventually<F, Fut>(what: &str, holds: F)
where
    F: FnMut() -> Fut,
    Fut: Future<Output = bool>,
{
    eventually_within(Duration::from_secs(30), what, holds).await;
}

/// The same with another limit, such as for a condition that waits for the transactions of other tests.
pub async fn eventually_within<F, Fut>(limit: Duration, what: &str, mut holds: F)
where
    F: FnMut() -> Fut,
    Fut: Future<Output = bool>,
{
    let deadline = tokio::time::Instant::now() + limit;
    while !holds().await {
        assert!(tokio::time::Instant::now() < deadline, "never came true: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The settings of a pool that gets its sessions on a busy machine, too.
pub fn patient() -> PoolSettings {
    PoolSettings { acquire_timeout: Duration::from_secs(30), ..PoolSettings::default() }
}

/// Lets the processor go for a moment, as a loop that only reads has to: the scheduler hands the processor back and forth
/// between such a loop and its database session, and every other process of the machine can wait for seconds.
pub async fn rest() {
    tokio::time::sleep(Duration::from_millis(3)).await;
}

/// Waits until `sessions` sessions of the database wait for a lock: each is held at its critical point.
pub async fn until_blocked(database: &TestDatabase, sessions: i64) {
    eventually("sessions wait for a lock", || async {
        database
            .number(
                "select count(*) from pg_stat_activity
                 where datname = current_database() and wait_event_type = 'Lock'",
            )
            .await
            >= sessions
    })
    .await;
}
