//! The databases of tests: threads of the test program make and drop them.

use std::{
    path::Path,
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

use sqlx::PgConnection;
use tokio::sync::{mpsc, oneshot};

use super::{admin, make_owner, owned, templates::Template};

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
