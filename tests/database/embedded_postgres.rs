//! The private Postgres server: starting, sharing, crashing and stopping it.
//!
//! A few tests need a second process. They start this test program again with a variable that names
//! a directory, which turns [`keeper_process`] or [`user_process`] from a test without content into
//! a keeper or a user of the server in it.

mod crashes;
mod refusals;

use std::{
    env,
    ffi::OsString,
    fs,
    io::{self, BufRead, BufReader, Read},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;
use tidegate_cli::embedded_postgres::{EmbeddedPostgres, Options, keep};

use super::private_cluster::Cluster;

const KEEPER_DIRECTORY: &str = "TIDEGATE_TEST_KEEPER_DIRECTORY";
const USER_DIRECTORY: &str = "TIDEGATE_TEST_USER_DIRECTORY";

/// A directory the account Postgres runs as can enter, also when the tests run as root.
fn open_directory() -> TempDir {
    Cluster::directory()
}

fn options(directory: &Path) -> Options {
    Options { directory: directory.to_owned(), durable: false, keeper: None }
}

fn start(directory: &Path) -> EmbeddedPostgres {
    EmbeddedPostgres::start(&options(directory)).expect("a server")
}

fn psql(server: &EmbeddedPostgres, database: &str, statement: &str) -> Command {
    let beside = server.bin().join("psql");
    let mut command = Command::new(if beside.is_file() { beside } else { "psql".into() });
    command.args(["-X", "-A", "-t", "-q"]).arg(server.url(database)).args(["-c", statement]);
    command
}

fn ask(server: &EmbeddedPostgres, database: &str, statement: &str) -> String {
    let output = psql(server, database, statement).output().expect("psql");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn wait_for(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < deadline, "waited for {what} for too long");
        thread::sleep(Duration::from_millis(10));
    }
}

/// This test program, set to run only `test` of this module, with `variable` naming `directory`.
fn this_program(test: &str, variable: &str, directory: &Path) -> Vec<OsString> {
    let module = module_path!();
    let module = module.split_once("::").map_or("", |(_, module)| module);
    let mut assignment = OsString::from(variable);
    assignment.push("=");
    assignment.push(directory);
    vec![
        "/usr/bin/env".into(),
        assignment,
        env::current_exe().expect("a path").into(),
        "--exact".into(),
        format!("{module}::{test}").into(),
        "--nocapture".into(),
    ]
}

#[test]
fn keeper_process() {
    if let Some(directory) = env::var_os(KEEPER_DIRECTORY) {
        keep(Path::new(&directory)).expect("a kept server");
    }
}

#[test]
fn user_process() {
    if let Some(directory) = env::var_os(USER_DIRECTORY) {
        let server = start(Path::new(&directory));
        let pid = server.postmaster_pid().expect("a running server");
        println!("\nserver={pid}");
        io::stdin().read_to_end(&mut Vec::new()).expect("the end of the input");
    }
}

/// Another process that uses the server until its standard input is closed.
struct OtherUser {
    process: Child,
    output: BufReader<ChildStdout>,
}

impl OtherUser {
    fn spawn(directory: &Path) -> Self {
        let command = this_program("user_process", USER_DIRECTORY, directory);
        let mut process = Command::new(&command[0])
            .args(&command[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a second process");
        let output = BufReader::new(process.stdout.take().expect("its output"));
        Self { process, output }
    }

    /// Waits until it has started or joined the server, and returns the server's process id.
    fn server(&mut self) -> u32 {
        let mut line = String::new();
        while self.output.read_line(&mut line).expect("output") > 0 {
            if let Some(pid) = line.trim().strip_prefix("server=") {
                return pid.parse().expect("a number");
            }
            line.clear();
        }
        panic!("the second process has not started a server");
    }

    fn leave(mut self) {
        drop(self.process.stdin.take());
        self.output.read_to_end(&mut Vec::new()).expect("output");
        assert!(self.process.wait().expect("an end").success());
    }
}

#[test]
fn a_fresh_server_answers_and_is_gone_after_its_only_user() {
    let directory = open_directory();
    // The directory is made by the server, and its name has to be encoded in the URL.
    let server = start(&directory.path().join("new & ä%20@:?"));
    assert_eq!(ask(&server, "postgres", "SELECT current_user"), "tidegate");
    assert_eq!(ask(&server, "postgres", "SHOW fsync"), "off");
    assert_eq!(ask(&server, "postgres", "SHOW synchronous_commit"), "on");
    assert_eq!(ask(&server, "postgres", "SHOW listen_addresses"), "");
    assert_eq!(ask(&server, "postgres", "SHOW server_encoding"), "UTF8");
    assert_eq!(ask(&server, "postgres", "SHOW max_connections"), "1000");
    assert_eq!(ask(&server, "postgres", "SELECT upper('ä') || length('ä')"), "Ä1");
    let pid_file = server.directory().join("data/postmaster.pid");
    assert!(pid_file.exists());
    assert!(server.directory().join("log/postgres.log").exists());
    server.stop().expect("a clean stop");
    assert!(!pid_file.exists());
}

#[test]
fn data_survives_a_stop_and_a_durable_server_syncs() {
    let directory = open_directory();
    let server = start(directory.path());
    ask(&server, "postgres", "CREATE TABLE kept AS SELECT 7 AS n");
    drop(server);
    let server = EmbeddedPostgres::start(&Options { durable: true, ..options(directory.path()) }).expect("a server");
    assert_eq!(ask(&server, "postgres", "SELECT n FROM kept"), "7");
    assert_eq!(ask(&server, "postgres", "SHOW fsync"), "on");
    assert_eq!(ask(&server, "postgres", "SHOW full_page_writes"), "on");
    assert_eq!(ask(&server, "postgres", "SHOW autovacuum"), "on");
    assert_eq!(ask(&server, "postgres", "SHOW max_connections"), "200");
}

#[test]
fn a_second_start_shares_the_running_server() {
    let directory = open_directory();
    let first = start(directory.path());
    let second = start(directory.path());
    let pid = first.postmaster_pid();
    assert!(pid.is_some());
    assert_eq!(second.postmaster_pid(), pid);
    assert_eq!(second.url("x"), first.url("x"));
    first.stop().expect("an end of use");
    assert_eq!(second.postmaster_pid(), pid);
    assert_eq!(ask(&second, "postgres", "SELECT 1"), "1");
}

#[test]
fn many_who_start_at_once_get_one_server() {
    let directory = open_directory();
    let mut processes: Vec<OtherUser> = (0..2).map(|_| OtherUser::spawn(directory.path())).collect();
    let threads: Vec<_> = (0..2)
        .map(|_| {
            let path = directory.path().to_owned();
            thread::spawn(move || start(&path))
        })
        .collect();
    let servers: Vec<EmbeddedPostgres> = threads.into_iter().map(|thread| thread.join().expect("a server")).collect();
    let pid = servers[0].postmaster_pid().expect("a running server");
    assert_eq!(servers[1].postmaster_pid(), Some(pid));
    for process in &mut processes {
        assert_eq!(process.server(), pid);
    }
    drop(servers);
    let last = processes.pop().expect("a process");
    for process in processes {
        process.leave();
    }
    let pid_file = directory.path().join("data/postmaster.pid");
    assert!(pid_file.exists(), "a user of the server is left");
    last.leave();
    assert!(!pid_file.exists(), "the server has no user");
}

#[test]
fn a_path_that_is_long_or_holds_a_comma_gets_another_socket() {
    let directory = open_directory();
    for name in ["x".repeat(120), "one,two".to_owned()] {
        let server = start(&directory.path().join(name));
        let socket = ask(&server, "postgres", "SHOW unix_socket_directories");
        let socket = PathBuf::from(socket.trim_matches('"'));
        assert!(!socket.starts_with(directory.path()), "{}", socket.display());
        let mode = fs::metadata(&socket).expect("the socket directory").mode();
        assert_eq!(mode & 0o777, 0o700);
        server.restart().expect("a restart");
        assert_eq!(ask(&server, "postgres", "SELECT 1"), "1");
        server.stop().expect("a clean stop");
        assert!(!socket.exists());
    }
}

#[test]
fn a_database_is_made_once_however_many_ask() {
    let directory = open_directory();
    let server = start(directory.path());
    let name = "it's \"odd\"/ä?";
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| server.ensure_database(name).expect("a database"));
        }
    });
    server.ensure_database(name).expect("the same database");
    assert_eq!(ask(&server, name, "SELECT current_database()"), name);
}

#[test]
fn the_keeper_stops_the_server_after_its_last_user() {
    let directory = open_directory();
    let kept = Options {
        keeper: Some(this_program("keeper_process", KEEPER_DIRECTORY, directory.path())),
        ..options(directory.path())
    };
    let server = EmbeddedPostgres::start(&kept).expect("a server");
    let pid = server.postmaster_pid();
    drop(server);
    let server = EmbeddedPostgres::start(&kept).expect("a server");
    assert_eq!(server.postmaster_pid(), pid, "the server outlives its user for a while");
    let mut process = OtherUser::spawn(directory.path());
    assert_eq!(Some(process.server()), pid);
    drop(server);
    // A user that is killed does not keep the server alive, either.
    process.process.kill().expect("a kill");
    process.process.wait().expect("an end");
    let pid_file = directory.path().join("data/postmaster.pid");
    wait_for("the keeper to stop the server", || !pid_file.exists());

    let server = EmbeddedPostgres::start(&kept).expect("a server again");
    assert_ne!(server.postmaster_pid(), pid);
    assert_eq!(ask(&server, "postgres", "SELECT 1"), "1");
    server.stop().expect("a stop without waiting for the keeper");
    assert!(!pid_file.exists());
}
