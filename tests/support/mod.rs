//! A database per test, cloned from a template that is named by a fingerprint of the SQL.
#![allow(dead_code, reason = "each test file uses its own part")]

pub mod actors;
pub mod at_rest;
pub mod invariants;
pub mod property;
pub mod race;
pub mod sql;

use std::{
    path::PathBuf,
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, value::RawValue};
use sqlx::{Connection, PgConnection, PgPool};
use tidegate::{
    database::{self, PoolSettings},
    embedded_postgres::{EmbeddedPostgres, Options},
    request::RequestId,
    schema,
    store::{Admission, Store, Submission, Submitted},
};

/// A program that stops the server when nobody uses it any more: whichever of ours this test program was built with.
const KEEPER: &str = match (
    option_env!("CARGO_BIN_EXE_tidegate"),
    option_env!("CARGO_BIN_EXE_tidegate-worker"),
    option_env!("CARGO_BIN_EXE_tidegate-faults"),
) {
    (Some(program), _, _) | (None, Some(program), _) | (None, None, Some(program)) => program,
    (None, None, None) => "",
};

/// Where tests find PostgreSQL: `DATABASE_URL`, else a private cluster that all test runs of this user share.
enum Server {
    Given(String),
    Embedded(Box<EmbeddedPostgres>),
}

impl Server {
    fn get() -> &'static Self {
        static SERVER: OnceLock<Server> = OnceLock::new();
        SERVER.get_or_init(|| match std::env::var("DATABASE_URL") {
            Ok(url) if !url.is_empty() => Self::Given(url),
            _ => {
                let directory = test_cluster_directory();
                let keeper = [KEEPER, "embedded-postgres-keeper"]
                    .into_iter()
                    .map(Into::into)
                    .chain([directory.clone().into_os_string()])
                    .collect();
                let options = Options {
                    directory,
                    durable: false,
                    keeper: Some(keeper),
                };
                let server = EmbeddedPostgres::start(&options)
                    .unwrap_or_else(|error| panic!("tests need PostgreSQL: {error}"));
                Self::Embedded(Box::new(server))
            }
        })
    }

    fn url(&self, database: &str) -> String {
        match self {
            Self::Embedded(cluster) => cluster.url(database),
            Self::Given(url) => {
                let (server, query) = url.split_once('?').unwrap_or((url, ""));
                let scheme_end = server.find("://").map_or(0, |at| at + 3);
                let end = server[scheme_end..]
                    .find('/')
                    .map_or(server.len(), |at| scheme_end + at);
                let query = if query.is_empty() {
                    String::new()
                } else {
                    format!("?{query}")
                };
                format!("{}/{database}{query}", &server[..end])
            }
        }
    }
}

fn test_cluster_directory() -> PathBuf {
    std::env::temp_dir().join(format!("tidegate-tests-{}", nix::unistd::geteuid()))
}

/// A migrated database of one test's own; dropped with the value.
pub struct TestDatabase {
    pub name: String,
    pub url: String,
    pub pool: PgPool,
    pub store: Store,
}

impl TestDatabase {
    /// Migrated, with the starter set of `tidegate init`.
    pub async fn new() -> Self {
        let database = Self::uninitialised().await;
        database.store.initialise().await.unwrap();
        // What callers are told is exact: tests of jitter turn it on.
        database
            .execute(
                "update tidegate.setting set jitter = 0;
                 -- Wide open: tests of gates set their marks.
                 update tidegate.gate set high_water = 1000000, low_water = 500000",
            )
            .await;
        database
    }

    /// As [`TestDatabase::new`], with no rate limit and no concurrency limit.
    pub async fn unlimited() -> Self {
        let database = Self::new().await;
        database
            .execute("update tidegate.queue set per_seconds = null, max_concurrency = null")
            .await;
        database
    }

    /// Migrated, nothing else.
    pub async fn uninitialised() -> Self {
        Self::clone_of(&template().await).await
    }

    /// Not even migrated.
    pub async fn empty() -> Self {
        Self::clone_of("template1").await
    }

    async fn clone_of(template: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("tidegate_test_{}_{number}", std::process::id());
        let mut admin = admin().await;
        // Two sessions cannot copy `template1` at once; wait for the other.
        lock(&mut admin, "clone").await;
        sqlx::raw_sql(&format!("create database {name} template {template}"))
            .execute(&mut admin)
            .await
            .unwrap();
        admin.close().await.unwrap();

        let url = Server::get().url(&name);
        let settings = PoolSettings {
            connections_max: 20,
            acquire_timeout: Duration::from_secs(30),
            ..PoolSettings::default()
        };
        let pool = database::connect(&url, &settings).await.unwrap();
        Self {
            name,
            url,
            store: Store::new(pool.clone()),
            pool,
        }
    }

    /// Another session, outside the pool.
    pub async fn session(&self) -> PgConnection {
        PgConnection::connect(&self.url).await.unwrap()
    }

    /// From here on nobody is connected to it, and nobody can connect: as if it were away.
    pub async fn cut(&self) {
        let mut admin = admin().await;
        let name = &self.name;
        sqlx::raw_sql(&format!("alter database {name} allow_connections false"))
            .execute(&mut admin)
            .await
            .unwrap();
        let terminated =
            "select count(pg_terminate_backend(pid)) from pg_stat_activity where datname = $1";
        eventually("every session has ended", || async {
            let mut admin = self::admin().await;
            let sessions: i64 = sqlx::query_scalar(terminated)
                .bind(name)
                .fetch_one(&mut admin)
                .await
                .unwrap();
            sessions == 0
        })
        .await;
    }

    /// Runs SQL that must succeed; several statements are fine.
    pub async fn execute(&self, sql: &str) {
        sqlx::raw_sql(sql)
            .execute(&self.pool)
            .await
            .unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    /// The single value of a query, as text; `None` for null or no row.
    pub async fn text(&self, sql: &str) -> Option<String> {
        sqlx::query_scalar::<_, Option<String>>(&format!("select (({sql}))::text"))
            .fetch_one(&self.pool)
            .await
            .unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// The single number of a query.
    pub async fn number(&self, sql: &str) -> i64 {
        sqlx::query_scalar::<_, i64>(&format!("select ({sql})::bigint"))
            .fetch_one(&self.pool)
            .await
            .unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// Submits a request that must be accepted.
    pub async fn submit(&self, kind: &str) -> RequestId {
        let submitted = self
            .store
            .submit(&submission(kind, &serde_json::json!({})))
            .await;
        match submitted.unwrap() {
            Submitted::Accepted(ticket) => ticket.id,
            other => panic!("{other:?}"),
        }
    }

    /// A request's status, as its word.
    pub async fn status(&self, id: RequestId) -> String {
        self.text(&format!(
            "select req_status from tidegate.request where id = '{id}'"
        ))
        .await
        .unwrap()
    }

    /// The causes of a request's transitions, in order.
    pub async fn causes(&self, id: RequestId) -> Vec<String> {
        sqlx::query_scalar(
            "select cause from tidegate.request_event where request_id = $1 order by transition_no",
        )
        .bind(id.0)
        .fetch_all(&self.pool)
        .await
        .unwrap()
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        let name = self.name.clone();
        // A destructor cannot await, and the test's own runtime may be ending: a thread with a small one of its own.
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let mut admin = admin().await;
                let sql = format!("drop database if exists {name} with (force)");
                if let Err(error) = sqlx::raw_sql(&sql).execute(&mut admin).await {
                    eprintln!("{sql}: {error}");
                }
            });
        });
        let _ = dropped.join();
    }
}

/// A submission with a payload and nothing else.
pub fn submission(kind: &str, payload: &Value) -> Submission {
    Submission {
        kind: kind.to_owned(),
        payload: raw(payload),
        idempotency_key: None,
        submitter: None,
        admission: Admission::Enforce,
        not_before: None,
    }
}

/// JSON as text.
pub fn raw(value: &Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap()
}

/// Waits until a condition holds, asking again every few milliseconds; panics after half a minute.
pub async fn eventually<F, Fut>(what: &str, mut holds: F)
where
    F: FnMut() -> Fut,
    Fut: Future<Output = bool>,
{
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    while !holds().await {
        assert!(
            tokio::time::Instant::now() < deadline,
            "never came true: {what}"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
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

async fn admin() -> PgConnection {
    PgConnection::connect(&Server::get().url("postgres"))
        .await
        .unwrap()
}

async fn lock(session: &mut PgConnection, what: &str) {
    sqlx::query("select pg_advisory_lock(hashtext($1))")
        .bind(format!("tidegate tests: {what}"))
        .execute(session)
        .await
        .unwrap();
}

/// Makes the template if nobody has yet: under another name first, so that a killed run leaves no half-made one.
async fn template() -> String {
    static TEMPLATE: tokio::sync::OnceCell<String> = tokio::sync::OnceCell::const_new();
    TEMPLATE
        .get_or_init(|| async {
            let name = format!("tidegate_template_{}", &schema::fingerprint()[..16]);
            let mut admin = admin().await;
            lock(&mut admin, "template").await;
            let exists: bool =
                sqlx::query_scalar("select exists (select from pg_database where datname = $1)")
                    .bind(&name)
                    .fetch_one(&mut admin)
                    .await
                    .unwrap();
            if !exists {
                sweep(&mut admin).await;
                let draft = format!("{name}_draft");
                for sql in [
                    format!("drop database if exists {draft} with (force)"),
                    format!("create database {draft}"),
                ] {
                    sqlx::raw_sql(&sql).execute(&mut admin).await.unwrap();
                }
                schema::migrate(&Server::get().url(&draft)).await.unwrap();
                // The migrating session's backend may take a moment to leave; a database in use cannot be renamed.
                eventually("the draft is renamed", || {
                    let sql = format!("alter database {draft} rename to {name}");
                    async move {
                        let mut admin = self::admin().await;
                        sqlx::raw_sql(&sql).execute(&mut admin).await.is_ok()
                    }
                })
                .await;
            }
            name
        })
        .await
        .clone()
}

/// Drops templates that are a day old, and databases that killed runs have left behind. Younger templates may belong
/// to another checkout that is being tested at this moment.
async fn sweep(admin: &mut PgConnection) {
    let names: Vec<String> = sqlx::query_scalar(
        r"select datname::text from pg_database
          where datname like 'tidegate\_test\_%'
             or (datname like 'tidegate\_template\_%'
                 and (pg_stat_file('base/' || oid || '/PG_VERSION')).modification < now() - interval '1 day')",
    )
    .fetch_all(&mut *admin)
    .await
    .unwrap();
    for name in names {
        let pid = name
            .strip_prefix("tidegate_test_")
            .and_then(|rest| rest.split('_').next());
        let alive = pid.is_some_and(|pid| std::path::Path::new("/proc").join(pid).exists());
        if !alive {
            let _ = sqlx::raw_sql(&format!("drop database if exists {name}"))
                .execute(&mut *admin)
                .await;
        }
    }
}
