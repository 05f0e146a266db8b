//! Programs work through PgBouncer, or log the settings that it needs. Skipped without a `pgbouncer`.

use std::{net::TcpListener, os::unix::fs::PermissionsExt, process::Stdio, time::Duration};

use sqlx::postgres::PgConnectOptions;
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

use crate::{
    cli::commands::{err, out, run, serve},
    support::{TestDatabase, eventually},
};

/// A PgBouncer in front of a database. It ends with the value.
struct Pooler {
    _process: Child,
    _directory: TempDir,
    url: String,
}

impl Pooler {
    /// `None` where there is no PgBouncer.
    async fn start(database: &TestDatabase, pool_mode: &str) -> Option<Self> {
        let program = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer", "/usr/local/bin/pgbouncer"]
            .into_iter()
            .find(|path| std::path::Path::new(path).exists());
        let Some(program) = program else {
            eprintln!("there is no pgbouncer: nothing is tried");
            return None;
        };
        let server: PgConnectOptions = database.url.parse().unwrap();
        let host = server.get_socket().map_or_else(|| server.get_host().to_owned(), |path| path.display().to_string());
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let directory = tempfile::Builder::new().permissions(PermissionsExt::from_mode(0o755)).tempdir().unwrap();
        let settings = directory.path().join("pgbouncer.ini");
        std::fs::write(
            &settings,
            format!(
                "[databases]\n{name} = host={host} port={server_port} user={user}\n\
                 [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
                 auth_type = any\npool_mode = {pool_mode}\n",
                name = database.name,
                server_port = server.get_port(),
                user = server.get_username(),
            ),
        )
        .unwrap();
        std::fs::set_permissions(&settings, PermissionsExt::from_mode(0o644)).unwrap();
        let mut command = Command::new(program);
        if nix::unistd::geteuid().is_root() {
            // Only the account of the tests' server reaches its socket.
            let account = match nix::unistd::User::from_name("postgres") {
                Ok(Some(_)) => "postgres",
                _ => "nobody",
            };
            command.args(["-u", account]);
        }
        let process = command
            .arg(&settings)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        eventually("it listens", || async { tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok() }).await;
        Some(Self {
            _process: process,
            _directory: directory,
            url: format!("postgres://{}@127.0.0.1:{port}/{}?sslmode=disable", server.get_username(), database.name),
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_that_takes_no_settings_is_worked_through_with_one_warning() {
    let database = TestDatabase::new().await;
    let Some(pooler) = Pooler::start(&database, "session").await else {
        return;
    };
    for words in [&["submit", "direct"][..], &["status"], &["doctor"]] {
        let ran = run(&pooler.url, words).await;
        assert_eq!(ran.status.code(), Some(0), "{words:?}: {}", err(&ran));
        assert_eq!(err(&ran).matches("takes no settings").count(), 1, "{words:?}: {}", err(&ran));
        assert!(err(&ran).contains("default_transaction_isolation"), "{}", err(&ran));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn through_a_transaction_pooler_a_program_works_or_names_the_setting_that_is_missing() {
    let database = TestDatabase::new().await;
    let Some(pooler) = Pooler::start(&database, "transaction").await else {
        return;
    };
    for round in 0..4 {
        let ran = run(&pooler.url, &["status"]).await;
        assert!(
            ran.status.success() || err(&ran).contains("max_prepared_statements"),
            "{round}: {}{}",
            out(&ran),
            err(&ran)
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_listen_is_not_its_own_a_node_polls_and_says_so_once() {
    for (pool_mode, warnings) in [("transaction", 1), ("session", 0)] {
        let database = TestDatabase::new().await;
        let Some(pooler) = Pooler::start(&database, pool_mode).await else {
            return;
        };
        let (mut node, url) = serve(&database.url, &["--listen-database-url", &pooler.url]).await;
        let url = url + "/v1/direct";
        let mut log = BufReader::new(node.stderr.take().unwrap()).lines();
        let mut lines = Vec::new();
        if warnings == 1 {
            while !lines.iter().any(|line: &String| line.contains("LISTEN")) {
                let line = tokio::time::timeout(Duration::from_secs(60), log.next_line()).await;
                lines.push(line.expect("a line of the log").unwrap().unwrap());
            }
        } else {
            // What it listens to once the channel of its own has reached it.
            eventually("it listens", || async {
                database
                    .number(
                        "select count(*) from pg_stat_activity
                         where datname = current_database() and query like 'LISTEN%tidegate_gate%'",
                    )
                    .await
                    == 1
            })
            .await;
        }
        let waited = reqwest::Client::new().post(&url).header("prefer", "wait=1").json(&1).send().await.unwrap();
        assert_eq!(waited.status(), 202);
        node.kill().await.unwrap();
        while let Some(line) = log.next_line().await.unwrap() {
            lines.push(line);
        }
        let of_listening = lines.iter().filter(|line| line.contains("LISTEN")).count();
        assert_eq!(of_listening, warnings, "{pool_mode}: {lines:#?}");
    }
}
