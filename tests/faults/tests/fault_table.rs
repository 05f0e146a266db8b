//! Rows of the table of faults that want a scene of their own, one fault at a certain moment; `docs/reliability.md` tells
//! where the other rows are.

use std::{collections::BTreeMap, path::PathBuf, process::Stdio};

use serde_json::{Value, json};
use sqlx::{Connection, PgConnection, PgPool};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

use crate::support::{TestDatabase, eventually, until_blocked};

/// A program of the workspace.
fn program(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_BIN_EXE_tidegate-faults")).with_file_name(name);
    assert!(path.exists(), "build the workspace: {}", path.display());
    path
}

/// Starts a process that says where it listens; it is killed with the value.
async fn start(name: &str, arguments: &[&str], url: &str) -> (Child, String) {
    let mut child = Command::new(program(name))
        .args(arguments)
        .env("DATABASE_URL", url)
        .env("RUST_LOG", "error")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = said.next_line().await.unwrap().unwrap();
    // Read on, because a closed pipe would fail its next line.
    tokio::spawn(async move { while let Ok(Some(_)) = said.next_line().await {} });
    let address = line.split_whitespace().find(|word| word.starts_with("http://"));
    (child, address.unwrap().to_owned())
}

async fn node(database: &TestDatabase) -> (Child, String) {
    start("tidegate", &["serve", "--listen", "127.0.0.1:0"], &database.url).await
}

fn client() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().build().unwrap()
}

/// Submits a `direct` request under a key.
fn post(node: &str, key: &str) -> reqwest::RequestBuilder {
    client().post(format!("{node}/v1/direct")).header("Idempotency-Key", key).json(&json!({ "key": key }))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_killed_in_the_midst_of_a_submission_leaves_one_request_or_none_and_a_retry_finds_or_makes_it() {
    let database = TestDatabase::unlimited().await;
    // Killed while the database works on it; and when the database has it, but before the caller hears of it.
    for (key, is_stored) in [("early", false), ("late", true)] {
        let (mut doomed, address) = node(&database).await;
        let mut holder = database.session().await;
        let mut lock = holder.begin().await.unwrap();
        sqlx::raw_sql("lock table tidegate.request in share mode").execute(&mut *lock).await.unwrap();
        let call = tokio::spawn(post(&address, key).send());
        until_blocked(&database, 1).await;
        if is_stored {
            // The output is not read any more, and the database goes on all the same.
            stop(&doomed).await;
            lock.rollback().await.unwrap();
            let sql = format!("select count(*) from tidegate.request where payload ->> 'key' = '{key}'");
            eventually("it is stored", || async { database.number(&sql).await == 1 }).await;
            doomed.kill().await.unwrap();
        } else {
            doomed.kill().await.unwrap();
            lock.rollback().await.unwrap();
        }
        assert!(call.await.unwrap().is_err(), "{key}: there is no answer");

        let (_other, address) = node(&database).await;
        let answer = post(&address, key).send().await.unwrap();
        assert_eq!(answer.status(), 202, "{key}");
        let body: Value = answer.json().await.unwrap();
        let ids = database
            .text(&format!("select string_agg(id::text, ' ') from tidegate.request where payload ->> 'key' = '{key}'"))
            .await;
        assert_eq!(ids.as_deref(), body["job_id"].as_str(), "{key}");
    }
}

/// Stops a process; none of its threads runs any more when this returns.
async fn stop(child: &Child) {
    let pid = child.id().unwrap();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(i32::try_from(pid).unwrap()), nix::sys::signal::Signal::SIGSTOP)
        .unwrap();
    // The state is the letter behind the name, which is in parentheses.
    let is_stopped = |thread: std::io::Result<std::fs::DirEntry>| {
        let stat = std::fs::read_to_string(thread.unwrap().path().join("stat")).unwrap();
        stat.rsplit(')').next().unwrap().trim_start().starts_with('T')
    };
    eventually("every thread has stopped", || async {
        let mut threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        threads.all(is_stopped)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_takes_no_writes_gets_submissions_503_with_retry_after_and_stores_nothing() {
    let database = TestDatabase::unlimited().await;
    let (_node, address) = node(&database).await;
    let known = post(&address, "known").send().await.unwrap();
    let location = known.headers()["location"].to_str().unwrap().to_owned();

    let name = &database.name;
    let refuses = |code, message| {
        (
            format!(
                "create or replace function public.refuse() returns trigger language plpgsql as $$
                 begin raise exception using errcode = '{code}', message = '{message}'; end $$;
                 create trigger refuse before insert on tidegate.request execute function public.refuse()"
            ),
            "drop trigger refuse on tidegate.request".to_owned(),
        )
    };
    let causes = [
        // As on a standby.
        (
            format!("alter database {name} set default_transaction_read_only = on"),
            format!("alter database {name} reset default_transaction_read_only"),
        ),
        // As when its disk is full.
        refuses("53100", "could not extend file: No space left on device"),
        // As when its disk is broken.
        refuses("58030", "could not write to file: Input/output error"),
    ];
    for (number, (begin, end)) in causes.into_iter().enumerate() {
        let by_hand = async |sql: String| {
            let mut session = database.session().await;
            for statement in ["set default_transaction_read_only = off", &sql] {
                sqlx::raw_sql(statement).execute(&mut session).await.unwrap();
            }
            // Sessions that there are keep what they began with.
            sqlx::raw_sql(
                "select pg_terminate_backend(pid) from pg_stat_activity
                 where datname = current_database() and pid <> pg_backend_pid()",
            )
            .execute(&mut session)
            .await
            .unwrap();
        };
        by_hand(begin.clone()).await;
        eventually("submissions are deferred", || async {
            let answer = post(&address, "refused").send().await.unwrap();
            let wait = answer.headers().get("retry-after").cloned();
            assert_eq!(answer.status(), 503, "{begin}");
            assert!(wait.unwrap().to_str().unwrap().parse::<u64>().unwrap() >= 1);
            // Who only asks is answered, as soon as the node is connected again.
            let asked = client().get(format!("{address}{location}")).send().await;
            asked.unwrap().status() == 202
        })
        .await;

        by_hand(end).await;
        eventually("submissions are taken again", || async {
            let answer = post(&address, &format!("taken-{number}")).send().await.unwrap();
            answer.status() == 202
        })
        .await;
        let stored = "select count(*) from tidegate.request where payload ->> 'key' = 'refused'";
        let mut session = database.session().await;
        let stored: i64 = sqlx::query_scalar(stored).fetch_one(&mut session).await.unwrap();
        assert_eq!(stored, 0, "{begin}");
    }
}

/// A worker that looks for receipts before it sends again.
async fn worker(url: &str, downstream: &str) -> Child {
    let (worker, _) = start(
        "tidegate-worker",
        &[
            "http",
            "--queue",
            "tx",
            "--lease",
            "5s",
            "--metrics-listen",
            "127.0.0.1:0",
            "--answer",
            "envelope",
            "--send-url",
            &format!("{downstream}/send/{{kind}}"),
            "--receipt-url",
            &format!("{downstream}/receipt/{{kind}}/{{id}}"),
        ],
        url,
    )
    .await;
    worker
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_restored_from_an_older_backup_sends_nothing_a_second_time() {
    let database = TestDatabase::unlimited().await;
    database
        .execute(
            "insert into tidegate.kind (name, flow, tx_queue, processing_ms, tx_confirmation_ms)
             values ('single_shot', 'direct', 'tx', 100, 100);
             update tidegate.policy set semantics = 'at_most_once' where kind = 'single_shot'",
        )
        .await;
    for _ in 0..20 {
        database.submit("direct").await;
        database.submit("single_shot").await;
    }
    database.pool.close().await;
    let admin_url = database.url.replace(&database.name, "postgres");
    let backup = format!("{}_backup", database.name);
    let mut admin = PgConnection::connect(&admin_url).await.unwrap();
    eventually("the backup is made", || {
        // A database is copied only while no session is connected to it.
        let alone =
            format!("select pg_terminate_backend(pid) from pg_stat_activity where datname = '{}'", database.name);
        let sql = format!("create database {backup} template {}", database.name);
        let admin_url = admin_url.clone();
        async move {
            let mut admin = PgConnection::connect(&admin_url).await.unwrap();
            sqlx::raw_sql(&alone).execute(&mut admin).await.unwrap();
            sqlx::raw_sql(&sql).execute(&mut admin).await.is_ok()
        }
    })
    .await;

    // Everything is sent after the backup, and then the database is lost.
    let log = tempfile::NamedTempFile::new().unwrap();
    let path = log.path().to_str().unwrap();
    let (_downstream, downstream) = start(
        "tidegate-worker",
        &["downstream", "--listen", "127.0.0.1:0", "--kind", "single_shot:direct", "--event-log", path],
        &database.url,
    )
    .await;
    let lost = worker(&database.url, &downstream).await;
    all_ended(&PgPool::connect(&database.url).await.unwrap()).await;
    drop(lost);

    // The restore of docs/repair.md, with the backup, which is a copy and notices that.
    let backup_url = database.url.replace(&database.name, &backup);
    let restored = PgPool::connect(&backup_url).await.unwrap();
    for step in steps_after_a_restore() {
        sqlx::raw_sql(step).execute(&restored).await.unwrap();
    }
    let tidegate = async |command: &str| {
        let mut tidegate = Command::new(program("tidegate"));
        tidegate.arg(command).env("DATABASE_URL", &backup_url).output().await.unwrap()
    };
    let recovered = tidegate("recover").await;
    assert!(matches!(recovered.status.code(), Some(0 | 3)), "{recovered:?}");
    let _worker = worker(&backup_url, &downstream).await;
    let sent: i64 = sqlx::query_scalar("select count(*) from tidegate.request where req_status = 'tx_in_flight'")
        .fetch_one(&restored)
        .await
        .unwrap();
    assert_eq!(sent, 0);
    let adopted = tidegate("adopt").await;
    assert!(adopted.status.success(), "{adopted:?}");
    all_ended(&restored).await;

    let ends: Vec<(String, String, i64)> = sqlx::query_as(
        "select kind, coalesce(error ->> 'code', req_status::text), count(*) from tidegate.request group by 1, 2 order by 1",
    )
    .fetch_all(&restored)
    .await
    .unwrap();
    assert_eq!(
        ends,
        [
            ("direct".to_owned(), "completed".to_owned(), 20),
            ("single_shot".to_owned(), "outcome_unknown".to_owned(), 20)
        ]
    );
    let mut sends = BTreeMap::<String, u32>::new();
    for line in std::fs::read_to_string(path).unwrap().lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        if line["event"] == "send" {
            *sends.entry(line["request_id"].as_str().unwrap().to_owned()).or_default() += 1;
        }
    }
    assert_eq!(sends.len(), 40);
    assert!(sends.values().all(|sends| *sends == 1), "{sends:?}");
    restored.close().await;
    sqlx::raw_sql(&format!("drop database {backup} with (force)")).execute(&mut admin).await.unwrap();
}

/// The SQL of the steps of docs/repair.md.
fn steps_after_a_restore() -> [&'static str; 2] {
    let (_, page) = include_str!("../../../docs/repair.md").split_once("## Restore from a backup").unwrap();
    let (section, _) = page.split_once("\n## ").unwrap();
    let blocks = section.split("```sql").skip(1).map(|block| block.split("```").next().unwrap());
    blocks.collect::<Vec<_>>().try_into().unwrap()
}

async fn all_ended(pool: &PgPool) {
    eventually("every request has ended", || async {
        let left: i64 = sqlx::query_scalar(
            "select count(*) from tidegate.request where req_status not in ('completed', 'failure')",
        )
        .fetch_one(pool)
        .await
        .unwrap();
        left == 0
    })
    .await;
}
