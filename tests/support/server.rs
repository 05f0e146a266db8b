//! The PostgreSQL server of the tests, and the databases on it.
//!
//! Tests run on `DATABASE_URL`, or else on a private cluster in memory that all test runs of this user share. Each test
//! gets databases of its own, copied from a template that is named by a fingerprint of its SQL. Dropped databases wait
//! for their sessions to end, so a thread of the test program drops them while the tests go on; what it has not dropped
//! when the program ends, the next test program does.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
    sync::{
        LazyLock, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

use sqlx::{Connection, PgConnection};
use tidegate::internals::schema;
use tidegate_cli::embedded_postgres::{BinarySearch, EmbeddedPostgres, Options, major_version};
use tokio::sync::{OnceCell, mpsc, oneshot};

use super::eventually;

/// The program that stops the server when no test uses it: the one of ours that this test program was built with.
pub const KEEPER: &str = match (
    option_env!("CARGO_BIN_EXE_tidegate"),
    option_env!("CARGO_BIN_EXE_tidegate-worker"),
    option_env!("CARGO_BIN_EXE_tidegate-faults"),
    option_env!("CARGO_BIN_EXE_tidegate-fhevm"),
) {
    (Some(program), ..) | (None, Some(program), ..) | (None, None, Some(program), _) | (.., Some(program)) => program,
    (None, None, None, None) => "",
};

/// The free memory below which the cluster goes to disk, in bytes. A run of all tests takes about a third of it.
const MEMORY: u64 = 3 << 30;

/// Where tests find PostgreSQL.
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
                let directory = cluster_directory();
                let keeper = [KEEPER, "embedded-postgres-keeper"]
                    .into_iter()
                    .map(Into::into)
                    .chain([directory.clone().into_os_string()])
                    .collect();
                let options = Options { directory, durable: false, keeper: Some(keeper) };
                let server =
                    EmbeddedPostgres::start(&options).unwrap_or_else(|error| panic!("tests need PostgreSQL: {error}"));
                Self::Embedded(Box::new(server))
            }
        })
    }

    fn url(&self, database: &str) -> String {
        match self {
            Self::Embedded(cluster) => cluster.url(database),
            Self::Given(url) => {
                let mut url = reqwest::Url::parse(url).expect("DATABASE_URL is a URL");
                url.set_path(database);
                url.into()
            }
        }
    }
}

/// The directory of the private cluster: in memory where there is a memory file system with room. Each version of
/// PostgreSQL has one of its own, as none can read another's.
fn cluster_directory() -> PathBuf {
    let bin =
        BinarySearch::from_environment().find(None).unwrap_or_else(|error| panic!("tests need PostgreSQL: {error}"));
    let version = major_version(&bin).expect("a version, as it was found by that");
    let name = format!("tidegate-tests-{}-{version}", nix::unistd::geteuid());
    let memory = Path::new("/dev/shm").join(&name);
    let roomy = || {
        nix::sys::statvfs::statvfs("/dev/shm")
            .is_ok_and(|found| found.blocks_available() * found.fragment_size() >= MEMORY)
    };
    // A cluster that is there already is full of this user's own test databases.
    if memory.exists() || roomy() { memory } else { std::env::temp_dir().join(name) }
}

/// The role that owns the databases with `TIDEGATE_TEST_OWNER=plain`: no superuser, but one that may make roles, because
/// the group roles are missing at first.
const PLAIN_OWNER: &str = "tidegate_tests_owner";

/// The owner of the databases, unless a superuser is.
fn owner() -> Option<&'static str> {
    match std::env::var("TIDEGATE_TEST_OWNER").as_deref() {
        Ok("plain") => Some(PLAIN_OWNER),
        Ok("" | "superuser") | Err(_) => None,
        Ok(other) => panic!("TIDEGATE_TEST_OWNER is superuser or plain, not {other}"),
    }
}

/// The URL of a database on the server, for its owner.
pub fn url(database: &str) -> String {
    let mut url = reqwest::Url::parse(&superuser_url(database)).expect("a URL");
    if let Some(owner) = owner() {
        url.set_username(owner).expect("a URL with a host");
    }
    url.into()
}

/// The URL of a database on the server, for the superuser who has made it.
pub fn superuser_url(database: &str) -> String {
    Server::get().url(database)
}

/// A session in the database `postgres`.
pub async fn admin() -> PgConnection {
    PgConnection::connect(&superuser_url("postgres")).await.unwrap()
}

/// The templates of new databases. Each is made once a day, so that the times in it are never old.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Template {
    /// Nothing: not even migrated.
    Empty,
    /// Nothing, in the encoding LATIN1.
    Latin1,
    /// Migrated, with the queues and kinds of the example, made by hand and without limits and times.
    Migrated,
    /// With the starter set of `tidegate init`, exact answers and gates that are wide open.
    Initialised,
    /// [`Template::Initialised`] without a rate limit and a concurrency limit.
    Unlimited,
    /// [`Template::Unlimited`] with [`DEEP`] requests of kind `direct`: enough for several chunks of 16384 numbers, and
    /// for what a queue without a survey may hold.
    Deep,
    /// [`Template::Large`] with 10,000 requests, so that a plan which reads all of them may seem good.
    Middling,
    /// [`Template::Unlimited`] with 200,000 requests: most have ended, some await a response, 1,000 of each flow wait in
    /// the queues. Its tables are vacuumed and analysed.
    Large,
}

/// How many requests wait in [`Template::Deep`].
pub const DEEP: i32 = 40_000;

const MADE_BY_HAND: &[&str] = &[
    "insert into tidegate.queue (name, stage) values ('readiness', 'readiness'), ('tx', 'tx')",
    "insert into tidegate.kind (name, flow, readiness_queue, tx_queue, response_threshold) values
       ('public_decrypt', 'decrypt', 'readiness', 'tx', 1),
       ('user_decrypt', 'decrypt', 'readiness', 'tx', 3),
       ('input_proof', 'proof', null, 'tx', 1),
       ('direct', 'direct', null, 'tx', 1)",
];

/// Tests of gates set their marks, and tests of the configuration's history find no inserts in it.
const INITIALISED: &[&str] = &[
    "select tidegate.initialise('relayer')",
    "update tidegate.gate set high_water = 1000000, low_water = 500000",
    "delete from tidegate.config_change where operation = 'insert'",
];

const UNLIMITED: &[&str] = &["update tidegate.queue set per_seconds = null, max_concurrency = null"];

const NOT_DUE_FOR_DAYS: &str = "update tidegate.kind set deadline = '10 days', readiness_timeout = '10 days'";

const DUE_AS_USUAL: &str = "update tidegate.kind set deadline = default, readiness_timeout = default";

const TEN_THOUSAND: &str = "select count(*) from tidegate.submit_batch('direct', array_fill('{}'::jsonb, array[10000]), admission => 'accepted')";

const MADE_DEEP: &[&str] = &[NOT_DUE_FOR_DAYS, TEN_THOUSAND, TEN_THOUSAND, TEN_THOUSAND, TEN_THOUSAND, DUE_AS_USUAL];

/// Requests that have ended or await a response, and so many of each flow in the queues; vacuumed and analysed.
macro_rules! with_requests {
    ($requests:literal, $waiting:literal) => {
        &[
    NOT_DUE_FOR_DAYS,
    concat!("set session_replication_role = replica;
     insert into tidegate.request (id, kind, flow, req_status, transition_no, cause, deadline_at, readiness_deadline_at,
       processing_at, receipt_received_at, finished_at, payload, response)
     select
       tidegate_internal.uuid_v7(clock_timestamp() - interval '2 hours' + n * interval '20 milliseconds'),
       case n % 2 when 0 then 'direct' else 'public_decrypt' end,
       (case n % 2 when 0 then 'direct' else 'decrypt' end)::tidegate.flow,
       (case when n % 10 = 0 then 'receipt_received' else 'completed' end)::tidegate.request_status, 4, 'receipt',
       clock_timestamp() + interval '2 days' + n * interval '1 second',
       case when n % 2 = 1 then clock_timestamp() + interval '2 days' + n * interval '1 second' end,
       clock_timestamp(), clock_timestamp(), case when n % 10 <> 0 then clock_timestamp() end, '{}', '{}'
     from generate_series(1, ", $requests, ") as n;
     insert into tidegate.awaiting_response (request_id, due_at)
     select id, clock_timestamp() + interval '2 days' from tidegate.request where req_status = 'receipt_received'
     on conflict do nothing;
     insert into tidegate.dedup (scope, key, fingerprint, request_id, first_seen, expires_at, dedup_window)
     select 'direct', id::text, '', id, now(), now() + interval '2 days', '2 days'
     from tidegate.request where req_status = 'receipt_received'
     on conflict do nothing;
     insert into tidegate.webhook_delivery (request_id, id, url, host_port, state, finished_at)
     select id, id, '', '', 'delivered', clock_timestamp()
     from tidegate.request where req_status = 'receipt_received'
     on conflict do nothing;
     set session_replication_role = origin"),
    concat!("select count(*)
     from unnest(array['direct', 'public_decrypt']) as k(name),
       lateral tidegate.submit_batch(k.name, array_fill('{}'::jsonb, array[", $waiting, "]), admission => 'accepted')"),
    DUE_AS_USUAL,
    "vacuum analyze tidegate.request",
    "vacuum analyze tidegate.awaiting_response",
    "vacuum analyze tidegate.dedup",
    "vacuum analyze tidegate.webhook_delivery",
    "vacuum analyze pgmq.q_tx",
    "vacuum analyze pgmq.q_readiness",
        ]
    };
}

const MADE_MIDDLING: &[&str] = with_requests!("10000", "1000");

/// So few that a plan which reads all of them is the cheapest.
const FEW: &[&str] = with_requests!("20", "200");

const MADE_LARGE: &[&str] = with_requests!("200000", "1000");

impl Template {
    /// The statements that make it from a migrated database.
    fn statements(self) -> Vec<&'static str> {
        let parts: &[&[&str]] = match self {
            Self::Empty | Self::Latin1 => &[],
            Self::Migrated => &[MADE_BY_HAND],
            Self::Initialised => &[INITIALISED],
            Self::Unlimited => &[INITIALISED, UNLIMITED],
            Self::Deep => &[INITIALISED, UNLIMITED, MADE_DEEP],
            Self::Middling => &[INITIALISED, UNLIMITED, MADE_MIDDLING],
            Self::Large => &[INITIALISED, UNLIMITED, MADE_LARGE],
        };
        parts.concat()
    }

    /// The name of the template database: it identifies the schema, the statements and the day.
    fn name(self) -> String {
        static SCHEMA: LazyLock<String> = LazyLock::new(|| {
            let today = chrono::Utc::now().format("%Y%m%d");
            let owner = owner().map_or("", |_| "_plain");
            format!("{today}_{}{owner}", &schema::fingerprint()[..16])
        });
        if matches!(self, Self::Empty | Self::Latin1) {
            return "template0".to_owned();
        }
        let mut statements = DefaultHasher::new();
        self.statements().hash(&mut statements);
        format!("tidegate_template_{}_{:08x}", *SCHEMA, statements.finish() >> 32)
    }

    /// Makes its content in a fresh database.
    async fn fill(self, database: &str) {
        schema::migrate(&url(database)).await.unwrap();
        let mut session = PgConnection::connect(&superuser_url(database)).await.unwrap();
        for sql in self.statements() {
            sqlx::raw_sql(sql).execute(&mut session).await.unwrap();
        }
        session.close().await.unwrap();
    }

    /// Makes the template unless it is there: under another name first, so that a killed run leaves no half-made one.
    async fn ensure(self) {
        let name = self.name();
        let mut admin = admin().await;
        make_owner(&mut admin).await;
        lock(&mut admin, "template").await;
        if exists(&mut admin, &name).await {
            grant_roles(&mut admin).await;
            return;
        }
        let draft = format!("{name}_draft");
        for sql in [
            format!("drop database if exists {draft} with (force)"),
            format!("create database {draft} template template0 {}", owned()),
        ] {
            sqlx::raw_sql(&sql).execute(&mut admin).await.unwrap();
        }
        self.fill(&draft).await;
        grant_roles(&mut admin).await;
        // A backend may take a moment to leave; a database in use cannot be renamed.
        eventually("the draft is renamed", || {
            let sql = format!("alter database {draft} rename to {name}");
            async move {
                let mut admin = self::admin().await;
                sqlx::raw_sql(&sql).execute(&mut admin).await.is_ok()
            }
        })
        .await;
    }

    /// [`Template::ensure`], once in this process.
    async fn ensure_once(self) {
        const TEMPLATES: usize = Template::Large as usize + 1;
        static ENSURED: [OnceCell<()>; TEMPLATES] = [const { OnceCell::const_new() }; TEMPLATES];
        if !matches!(self, Self::Empty | Self::Latin1) {
            let ensured = &ENSURED[self as usize];
            ensured.get_or_init(|| self.ensure()).await;
        }
    }
}

/// Adds a few requests, or those of [`Template::Middling`], without statistics of them.
pub async fn add_requests(session: &mut PgConnection, many: bool) {
    for sql in if many { MADE_MIDDLING } else { FEW } {
        if !sql.starts_with("vacuum") {
            sqlx::raw_sql(sql).execute(&mut *session).await.unwrap();
        }
    }
}

async fn exists(admin: &mut PgConnection, database: &str) -> bool {
    sqlx::query_scalar("select exists (select from pg_database where datname = $1)")
        .bind(database)
        .fetch_one(admin)
        .await
        .unwrap()
}

/// Makes the plain owner, if it is wanted and missing. It may switch triggers off, as tests of what then happens do, and
/// has what managed services give their users.
async fn make_owner(admin: &mut PgConnection) {
    let Some(owner) = owner() else { return };
    let create = format!(
        "do $$ begin
           create role {owner} login createrole;
         exception when duplicate_object or unique_violation then null;
         end $$"
    );
    lock(admin, "owner").await;
    for sql in [
        &create,
        &format!("grant set on parameter session_replication_role, deadlock_timeout to {owner}"),
        // So that `doctor` sees sessions of other users.
        &format!("grant pg_monitor to {owner}"),
        "select pg_advisory_unlock_all()",
    ] {
        sqlx::raw_sql(sql).execute(&mut *admin).await.unwrap();
    }
}

/// Lets the plain owner take the group roles, as tests do. From PostgreSQL 16 on, who has made a role is a member without
/// these options, and another grant leaves them as they are.
async fn grant_roles(admin: &mut PgConnection) {
    if let Some(owner) = owner() {
        let with = "select case when current_setting('server_version_num')::integer >= 160000
            then 'with inherit true, set true' else '' end";
        let with: String = sqlx::query_scalar(with).fetch_one(&mut *admin).await.unwrap();
        let roles = "tidegate_reader, tidegate_api, tidegate_node, tidegate_worker, tidegate_admin";
        let grant = format!("grant {roles} to {owner} {with}");
        sqlx::raw_sql(&grant).execute(admin).await.unwrap();
    }
}

/// The clause of `create database` that names its owner.
fn owned() -> String {
    owner().map(|owner| format!("owner {owner}")).unwrap_or_default()
}

/// Waits for a lock that lasts as long as the session.
async fn lock(session: &mut PgConnection, what: &str) {
    sqlx::query("select pg_advisory_lock(hashtext($1))")
        .bind(format!("tidegate tests: {what}"))
        .execute(session)
        .await
        .unwrap();
}

/// Makes a database of this process's own; its name.
pub async fn create(template: Template) -> String {
    static CREATOR: OnceLock<mpsc::UnboundedSender<Order>> = OnceLock::new();
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let process = std::process::id();
    // The thread has the test's name, which helps to read `pg_stat_activity`.
    let thread = std::thread::current();
    let test = thread.name().unwrap_or_default().replace([':', '-'], "_");
    let name = format!("tidegate_test_{process}_{number}_{test:.36}");
    template.ensure_once().await;
    let creator = CREATOR.get_or_init(|| in_a_thread(create_databases));
    let (made, is_made) = oneshot::channel();
    let order = Order { template, name: name.clone(), made };
    creator.send(order).expect("the thread that makes databases");
    is_made.await.expect("a database for the test");
    name
}

/// A database to be made.
struct Order {
    template: Template,
    name: String,
    made: oneshot::Sender<()>,
}

/// Makes databases in one session, which outlives the runtimes of the tests.
#[tokio::main(flavor = "current_thread")]
async fn create_databases(mut orders: mpsc::UnboundedReceiver<Order>) {
    let mut admin = admin().await;
    make_owner(&mut admin).await;
    // Copied file by file, a database takes no space in the log, and comes with the cache of its catalog.
    let by_file = match admin.server_version_num() {
        Some(version) if version >= 150_000 => "strategy file_copy",
        _ => "",
    };
    while let Some(Order { template, name, made }) = orders.recv().await {
        let source = template.name();
        let how = match template {
            Template::Latin1 => "encoding 'LATIN1' locale 'C'",
            _ => by_file,
        };
        sqlx::raw_sql(&format!("create database {name} template {source} {how} {}", owned()))
            .execute(&mut admin)
            .await
            .unwrap();
        // The test may have been given up.
        let _ = made.send(());
    }
}

/// Runs `work` in a thread of its own; what is sent to it.
fn in_a_thread<T: Send + 'static>(work: fn(mpsc::UnboundedReceiver<T>)) -> mpsc::UnboundedSender<T> {
    let (sender, receiver) = mpsc::unbounded_channel();
    std::thread::spawn(move || work(receiver));
    sender
}

/// Drops a database, soon.
pub fn drop_later(name: String) {
    static DROPPER: OnceLock<mpsc::UnboundedSender<String>> = OnceLock::new();
    let dropper = DROPPER.get_or_init(|| in_a_thread(drop_databases));
    // Without a dropper the next test program drops it.
    let _ = dropper.send(name);
}

/// Drops databases that killed test programs have left, and then those that it receives.
#[tokio::main(flavor = "current_thread")]
async fn drop_databases(mut names: mpsc::UnboundedReceiver<String>) {
    let mut admin = admin().await;
    for name in left_behind(&mut admin).await {
        drop_database(&mut admin, &name).await;
    }
    // Each database that comes and goes leaves rows in the catalogs of the cluster, which lives in memory for days.
    for catalog in ["pg_shdepend", "pg_database", "pg_db_role_setting"] {
        let _ = sqlx::raw_sql(&format!("vacuum pg_catalog.{catalog}")).execute(&mut admin).await;
    }
    while let Some(name) = names.recv().await {
        drop_database(&mut admin, &name).await;
    }
}

async fn drop_database(admin: &mut PgConnection, name: &str) {
    let sql = format!("drop database if exists {name} with (force)");
    if let Err(error) = sqlx::raw_sql(&sql).execute(admin).await {
        eprintln!("{sql}: {error}");
    }
}

/// Databases of test programs that have ended, and templates that are a day old. Younger templates may belong to another
/// checkout that is being tested at this moment.
async fn left_behind(admin: &mut PgConnection) -> Vec<String> {
    let names: Vec<String> = sqlx::query_scalar(
        r"select datname::text from pg_database
          where datname like 'tidegate\_test\_%'
             or (datname like 'tidegate\_template\_%'
                 and (pg_stat_file('base/' || oid || '/PG_VERSION')).modification < now() - interval '1 day')",
    )
    .fetch_all(admin)
    .await
    .unwrap();
    let ended = |name: &String| {
        let pid = name.strip_prefix("tidegate_test_").and_then(|rest| rest.split('_').next());
        !pid.is_some_and(|pid| Path::new("/proc").join(pid).exists())
    };
    names.into_iter().filter(ended).collect()
}
