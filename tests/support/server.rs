//! The PostgreSQL server of the tests, and the databases on it.
//!
//! Tests run on `DATABASE_URL`, or else on a private cluster in memory that all test runs of this user share. Each test
//! gets databases of its own, copied from a template that is named by a fingerprint of its SQL. Dropped databases wait
//! for their sessions to end, so a thread of the test program drops them while the tests go on; what it has not dropped
//! when the program ends, the next test program does.

pub mod databases;
pub mod templates;

use std::{
    path::{Path, PathBuf},
    sync::OnceLock,
};

use sqlx::{Connection, PgConnection};
use tidegate_cli::embedded_postgres::{BinarySearch, EmbeddedPostgres, Options, major_version};

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

/// Makes the plain owner, if it is wanted and missing. It has what managed services give their users.
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
