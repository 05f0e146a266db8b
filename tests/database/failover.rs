//! Do programs whose URL names several hosts find the primary, and go on with a standby that takes over?

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{MetadataExt, chown},
    path::Path,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;
use sqlx::{Connection, PgConnection};
use tidegate::internals::{database, schema, store::Store};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio_util::sync::CancellationToken;

use super::private_cluster::Cluster;
use crate::{
    cli::commands::{err, out, run, serve},
    support::{eventually, patient, sql},
    worker::lives::{Running, all_stages, options},
};

const DATABASE: &str = "failover";

/// The longest time without an accepted submission, the promotion included: a statement that waits for a primary that
/// is cut off ends after 20 seconds.
const GAP_MAX: Duration = Duration::from_secs(25);

/// A primary, and a standby that has everything that the primary has acknowledged.
struct Pair {
    primary: Cluster,
    standby: Cluster,
}

impl Pair {
    async fn start() -> Self {
        let primary = Cluster::start().await;
        primary.execute(&[&format!("create database {DATABASE}")]).await;
        let directory = Cluster::directory();
        let data = directory.path().join("data");
        copy(&primary, &data).await;
        let owner = fs::metadata(primary.data()).unwrap();
        give(&data, owner.uid(), owner.gid());
        let standby = Cluster::start_in(directory).await;
        primary.execute(&["alter system set synchronous_standby_names = '*'", "select pg_reload_conf()"]).await;
        eventually("the standby is synchronous", || async {
            let mut session = primary.session().await;
            let synchronous = "select exists (select from pg_stat_replication where sync_state = 'sync')";
            sqlx::query_scalar(synchronous).fetch_one(&mut session).await.unwrap()
        })
        .await;
        Self { primary, standby }
    }

    /// The URL of both, the standby first.
    fn url(&self) -> String {
        let [standby, primary] = [&self.standby, &self.primary].map(|cluster| {
            let url = cluster.url(DATABASE);
            let (_, host) = url.split_once('@').unwrap();
            host.split_once('/').unwrap().0.to_owned()
        });
        format!("postgres://tidegate@{standby},{primary}/{DATABASE}?target_session_attrs=read-write")
    }

    async fn promote(&self) {
        let mut session = self.standby.session().await;
        assert_eq!(sql::value(&mut session, "select pg_promote()").await, "t");
    }
}

/// Copies a primary that goes on, as the start of its standby. Not every server comes with `pg_basebackup`.
async fn copy(primary: &Cluster, data: &Path) {
    let mut session = primary.session().await;
    let [start, stop] = if sql::is_15_or_newer(&session) {
        ["pg_backup_start('standby', true)", "pg_backup_stop(false)"]
    } else {
        ["pg_start_backup('standby', true, false)", "pg_stop_backup(false, false)"]
    };
    // The log that the standby has not received is kept for it.
    let slot = "select pg_create_physical_replication_slot('standby', true)";
    sql::value(&mut session, slot).await;
    sql::value(&mut session, &format!("select {start}")).await;
    copy_folder(&primary.data(), data);
    let label = sql::value(&mut session, &format!("select labelfile from {stop}")).await;
    fs::write(data.join("backup_label"), label).unwrap();
    fs::write(data.join("standby.signal"), "").unwrap();
    let settings = format!("\nprimary_conninfo = '{}'\nprimary_slot_name = 'standby'\n", primary.url("postgres"));
    let file = data.join("postgresql.auto.conf");
    fs::write(&file, fs::read_to_string(&file).unwrap() + &settings).unwrap();
}

/// Copies a folder of a server without what belongs to its process, and without its log.
fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    fs::set_permissions(to, fs::metadata(from).unwrap().permissions()).unwrap();
    let without = ["pg_wal", "pg_replslot", "pg_stat_tmp"].iter().any(|name| from.ends_with(name));
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() && (!without || name == "archive_status") {
            copy_folder(&path, &to.join(name));
        } else if path.is_file() && !without && !name.to_string_lossy().starts_with("postmaster.") {
            // One that is dropped meanwhile is not missed.
            match fs::copy(&path, to.join(name)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => panic!("{path:?}: {error}"),
                _ => {}
            }
        }
    }
}

fn give(path: &Path, user: u32, group: u32) {
    chown(path, Some(user), Some(group)).unwrap();
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            give(&entry.unwrap().path(), user, group);
        }
    }
}

/// The processes of a server that answer nothing and close nothing, as if its machine were cut off. They are killed with
/// the value.
struct Frozen(Vec<Pid>);

impl Frozen {
    fn new(cluster: &Cluster) -> Self {
        let postmaster = cluster.server().postmaster_pid().unwrap();
        let mut frozen = Self(Vec::new());
        // Stopped first, it makes no others.
        frozen.stop(postmaster);
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1));
            if parent == Some(&postmaster.to_string()) {
                frozen.stop(entry.file_name().to_str().unwrap().parse().unwrap());
            }
        }
        frozen
    }

    fn stop(&mut self, process: u32) {
        let process = Pid::from_raw(process.cast_signed());
        kill(process, Signal::SIGSTOP).unwrap();
        self.0.push(process);
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        for &process in &self.0 {
            let _ = kill(process, Signal::SIGKILL);
        }
    }
}

/// Submits under one key after the other, each until it is accepted.
#[derive(Default)]
struct Caller {
    /// The ids that were acknowledged, by key.
    accepted: Mutex<BTreeMap<u32, String>>,
    /// The longest pause between two of them, and when the last one came.
    gap: Mutex<(Duration, Option<Instant>)>,
}

impl Caller {
    async fn run(self: Arc<Self>, api: String, stop: CancellationToken) {
        let client = reqwest::Client::new();
        for key in 0.. {
            while !stop.is_cancelled() {
                let posting =
                    client.post(format!("{api}/v1/direct")).header("idempotency-key", format!("\"{key}\"")).json(&key);
                if let Ok(answer) = posting.send().await
                    && answer.status().is_success()
                    && let Ok(body) = answer.json::<Value>().await
                {
                    self.accept(key, body["job_id"].as_str().unwrap().to_owned());
                    break;
                }
                tokio::task::yield_now().await;
            }
            if stop.is_cancelled() {
                return;
            }
        }
    }

    fn accept(&self, key: u32, id: String) {
        self.accepted.lock().unwrap().insert(key, id);
        let mut gap = self.gap.lock().unwrap();
        let now = Instant::now();
        let pause = gap.1.map_or(Duration::ZERO, |last| now - last);
        *gap = (gap.0.max(pause), Some(now));
    }

    fn accepted(&self) -> usize {
        self.accepted.lock().unwrap().len()
    }
}

/// Sessions that listen, of a node and a worker.
/// A listener that has been quiet for ten seconds tests its connection with `select 1`.
const LISTENING: &str = "select count(*) from pg_stat_activity where query like 'LISTEN%' or query = 'select 1'";

async fn number(url: &str, sql: &str) -> i64 {
    let mut session = PgConnection::connect(url).await.unwrap();
    sqlx::query_scalar(sql).fetch_one(&mut session).await.unwrap()
}

/// Runs a node, a worker and a caller, loses the primary, and promotes the standby.
async fn fail_over(lose: impl AsyncFnOnce(&Cluster) -> Option<Frozen>) {
    let pair = Pair::start().await;
    let url = pair.url();
    for words in [
        &["migrate"][..],
        &["init", "--example", "relayer"],
        &["config", "set", "tx.per_seconds", "none"],
        &["gate", "set", "tx", "--high", "1000000", "--low", "500000"],
    ] {
        let ran = run(&url, words).await;
        assert!(ran.status.success(), "{words:?}: {}", err(&ran));
    }
    let (mut node, api) = serve(&url, &[]).await;
    let mut log = BufReader::new(node.stderr.take().unwrap()).lines();
    let store = Store::new(database::connect(&url, &patient()).await.unwrap());
    // Pools that follow the first one, also below one that is not used.
    let unused = store.with_own_pool(1);
    let below = unused.with_own_pool(1);
    below.check_ready().await.unwrap();
    // On a pool of its own, as in `tidegate-worker`.
    let worker = Running::start(&store.with_own_pool(7), all_stages(), options());
    let (caller, stop) = (Arc::new(Caller::default()), CancellationToken::new());
    let calling = tokio::spawn(Arc::clone(&caller).run(api.clone(), stop.clone()));
    let primary = pair.primary.url(DATABASE);
    eventually("both listen", || async { number(&primary, LISTENING).await == 2 }).await;
    eventually("requests are accepted", || async { caller.accepted() > 100 }).await;

    let frozen = lose(&pair.primary).await;
    let before = caller.accepted();
    pair.promote().await;

    eventually("requests are accepted again", || async { caller.accepted() > before + 100 }).await;
    let gap = caller.gap.lock().unwrap().0;
    eprintln!("the longest gap between two accepted submissions: {gap:?}");
    assert!(gap < GAP_MAX, "{gap:?}");
    eventually("the pools lead to the new primary", || async {
        let leads_there = |store: &Store| {
            let options = store.pool().connect_options();
            let socket = options.get_socket();
            socket.is_some_and(|socket| socket.starts_with(pair.standby.path()))
        };
        below.check_ready().await.is_ok() && [&unused, &below].into_iter().all(leads_there)
    })
    .await;
    let standby = pair.standby.url(DATABASE);
    eventually("both listen at the new primary", || async { number(&standby, LISTENING).await == 2 }).await;
    stop.cancel();
    calling.await.unwrap();
    // Without `recover`: the worker claims again what was in flight, once the lease has run out.
    eventually("every request is completed", || async {
        number(&standby, "select count(*) from tidegate.request where req_status <> 'completed'").await == 0
    })
    .await;
    for words in [&["migrate", "--dry-run"][..], &["recover"], &["status"]] {
        let ran = run(&url, words).await;
        assert!(ran.status.success(), "{words:?}: {}{}", out(&ran), err(&ran));
    }
    worker.stop().await;

    let mut session = PgConnection::connect(&standby).await.unwrap();
    let stored = sql::column(&mut session, "select id::text from tidegate.request").await;
    let lost = |id: &&String| !stored.contains(id);
    assert_eq!(caller.accepted.lock().unwrap().values().filter(lost).count(), 0);
    node.kill().await.unwrap();
    let mut lines = Vec::new();
    while let Some(line) = log.next_line().await.unwrap() {
        lines.push(line);
    }
    let changes = lines.iter().filter(|line| line.contains("another server has become the primary"));
    // One for the statements, and one for the listener.
    assert_eq!(changes.count(), 2, "{lines:#?}");
    drop(frozen);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_programs_go_on_with_the_standby_of_a_primary_that_was_killed() {
    fail_over(async |primary| {
        let server = Arc::clone(primary.server());
        tokio::task::spawn_blocking(move || server.kill()).await.unwrap().unwrap();
        None
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_programs_go_on_with_the_standby_of_a_primary_that_answers_nothing_any_more() {
    fail_over(async |primary| Some(Frozen::new(primary))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_primary_a_program_names_every_server_and_why_it_is_none() {
    let pair = Pair::start().await;
    let server = Arc::clone(pair.primary.server());
    tokio::task::spawn_blocking(move || server.kill()).await.unwrap().unwrap();

    for words in [&["status"][..], &["migrate"], &["serve", "--listen", "127.0.0.1:0"]] {
        let refused = run(&pair.url(), words).await;

        assert_eq!(refused.status.code(), Some(1), "{words:?}");
        for part in [
            "no server of the URL takes writes",
            "it is a standby, or read-only",
            pair.primary.path().to_str().unwrap(),
        ] {
            assert!(err(&refused).contains(part), "{words:?}: {}", err(&refused));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_counter_that_a_promotion_has_emptied_delays_no_answer_and_is_made_again() {
    let pair = Pair::start().await;
    let primary = pair.primary.url(DATABASE);
    schema::migrate(&primary).await.unwrap();
    let mut session = PgConnection::connect(&primary).await.unwrap();
    sql::run(&mut session, "select tidegate.initialise('relayer', null)").await;
    let replay = "select outcome from tidegate.submit('direct', '1', 'a')";
    assert_eq!(sql::value(&mut session, replay).await, "accepted");
    assert_eq!(sql::value(&mut session, replay).await, "replayed");
    let standby = pair.standby.url(DATABASE);

    pair.promote().await;

    let mut session = PgConnection::connect(&standby).await.unwrap();
    let count = "select nextval('tidegate.replays_direct')";
    if !sql::is_15_or_newer(&session) {
        // The counters of 14 are logged: a standby has them.
        sql::run(&mut session, count).await;
        return;
    }
    let error = sql::refused(&mut session, count).await;
    assert_eq!(error.code, "XX000", "{error:?}");
    let counted = "select replays from tidegate.replay_counts() where kind = 'direct'";
    // A transaction that has tried to count keeps the counter until it ends.
    let mut holder = PgConnection::connect(&standby).await.unwrap();
    sql::run(&mut holder, "begin").await;
    assert_eq!(sql::value(&mut holder, replay).await, "replayed");
    for (held, expected) in [(true, "0"), (false, "1")] {
        if !held {
            sql::run(&mut holder, "commit").await;
        }
        sql::run(&mut session, "select tidegate.fold_counts()").await;
        assert_eq!(sql::value(&mut session, replay).await, "replayed");
        assert_eq!(sql::value(&mut session, counted).await, expected);
    }
}
