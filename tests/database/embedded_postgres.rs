//! The private Postgres server: starting, sharing, crashing and stopping it.
//!
//! A few tests need a second process. They start this test program again with a variable that names
//! a directory, which turns [`keeper_process`] or [`user_process`] from a test without content into
//! a keeper or a user of the server in it.

use std::{
    env,
    ffi::OsString,
    fs,
    io::{self, BufRead, BufReader, Read},
    os::unix::{
        fs::{MetadataExt, PermissionsExt},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;
use tidegate_cli::embedded_postgres::{BinarySearch, EmbeddedPostgres, EmbeddedPostgresError, Options, keep};

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
fn a_killed_server_is_started_again() {
    let directory = open_directory();
    let server = start(directory.path());
    ask(&server, "postgres", "CREATE TABLE kept AS SELECT 7 AS n");
    let killed = server.kill().expect("a kill");
    assert!(killed.is_some());
    assert_eq!(server.postmaster_pid(), None);
    assert!(directory.path().join("data/postmaster.pid").exists());

    let second = start(directory.path());
    assert!(second.postmaster_pid().is_some());
    assert_ne!(second.postmaster_pid(), killed);
    assert_eq!(ask(&server, "postgres", "SELECT n FROM kept"), "7");

    server.kill().expect("a second kill");
    server.restart().expect("a restart after a crash");
    assert_eq!(ask(&second, "postgres", "SELECT n FROM kept"), "7");
    let before = server.postmaster_pid();
    server.restart().expect("a restart of a running server");
    assert_ne!(server.postmaster_pid(), before);
}

#[test]
fn a_session_that_outlives_its_server_delays_the_next_start() {
    let directory = open_directory();
    let server = start(directory.path());
    // A loop that never waits for anything does not notice that its server is gone.
    let busy = "DO $$ DECLARE stop timestamptz := clock_timestamp() + interval '1.5 s'; \
                BEGIN WHILE clock_timestamp() < stop LOOP END LOOP; END $$";
    let began = Instant::now();
    let mut session = psql(&server, "postgres", busy).stderr(Stdio::null()).spawn().expect("psql");
    wait_for("the session to be busy", || {
        let count = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'DO %' AND state = 'active'";
        ask(&server, "postgres", count) == "1"
    });
    server.kill().expect("a kill");
    server.restart().expect("a restart");
    assert!(began.elapsed() >= Duration::from_millis(1500));
    assert_eq!(ask(&server, "postgres", "SELECT 1"), "1");
    session.wait().expect("an end of psql");
}

#[test]
fn a_pid_file_that_names_a_foreign_process_is_survived() {
    let directory = open_directory();
    start(directory.path()).stop().expect("a clean stop");
    let data = directory.path().join("data");
    // As the same user the server runs as: PostgreSQL ignores processes of others by itself.
    let owner = fs::metadata(&data).expect("the cluster");
    let mut foreign = Command::new("sleep");
    foreign.arg("600").current_dir("/");
    if owner.uid() != fs::metadata("/proc/self").map_or(owner.uid(), |own| own.uid()) {
        foreign.uid(owner.uid()).gid(owner.gid());
    }
    let mut foreign = foreign.spawn().expect("a foreign process");
    let pid_file = data.join("postmaster.pid");
    for content in [
        format!("{}\n{}\n1700000000\n5432\n/nowhere\n\n", foreign.id(), data.display()),
        foreign.id().to_string(),
        String::new(),
    ] {
        fs::write(&pid_file, &content).expect("a pid file");
        fs::write(directory.path().join("run/.s.PGSQL.5432.lock"), &content).expect("a lock file");
        let server = start(directory.path());
        let pid = server.postmaster_pid().expect("a running server");
        assert_ne!(pid, foreign.id());
        assert_eq!(ask(&server, "postgres", "SELECT 1"), "1");
        server.stop().expect("a clean stop");
        let still_there = foreign.try_wait().expect("a state").is_none();
        assert!(still_there, "the foreign process was stopped");
    }
    foreign.kill().expect("an end of the foreign process");
    foreign.wait().expect("an end of the foreign process");
}

#[test]
fn a_half_made_cluster_is_made_anew() {
    let directory = open_directory();
    let unfinished = directory.path().join("data.tmp-1");
    fs::create_dir_all(unfinished.join("base")).expect("a half-made cluster");
    fs::write(unfinished.join("PG_VERSION"), "15\n").expect("a half-made cluster");
    fs::create_dir(directory.path().join("data")).expect("an empty directory");
    let server = start(directory.path());
    assert_eq!(ask(&server, "postgres", "SELECT 1"), "1");
    assert!(!unfinished.exists());
}

#[test]
fn a_directory_of_something_else_is_left_alone() {
    let directory = open_directory();
    let file = directory.path().join("data/precious");
    fs::create_dir(directory.path().join("data")).expect("a directory");
    fs::write(&file, "mine").expect("a file");
    let error = EmbeddedPostgres::start(&options(directory.path())).expect_err("a refusal");
    assert!(matches!(error, EmbeddedPostgresError::UnusableDirectory { .. }), "{error}");
    assert_eq!(fs::read_to_string(&file).expect("the file"), "mine");
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
fn a_directory_closed_to_the_server_is_named() {
    let directory = open_directory();
    if fs::metadata(directory.path()).expect("a directory").uid() != 0 {
        // The server runs as this user, to whom nothing here is closed.
        return;
    }
    let closed = directory.path().join("closed");
    fs::create_dir(&closed).expect("a directory");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).expect("its mode");
    let error = EmbeddedPostgres::start(&options(&closed.join("inside"))).expect_err("a refusal");
    let message = error.to_string();
    assert!(message.contains("TIDEGATE_POSTGRES_DIR"), "{message}");
    assert!(message.contains(&format!("may not enter {}, ", closed.display())), "{message}");
}

#[test]
fn a_machine_without_postgres_is_told_what_to_install() {
    let nowhere = BinarySearch::default().find(None).expect_err("nothing to find");
    let empty = open_directory();
    let misled = BinarySearch { configured: Some(empty.path().to_owned()), ..BinarySearch::from_environment() };
    let misled = misled.find(None).expect_err("nothing to find");
    assert!(matches!(misled, EmbeddedPostgresError::ConfiguredBinariesMissing { .. }));
    for message in [nowhere.to_string(), misled.to_string()] {
        for hint in [
            "apt-get install postgresql",
            "brew install postgresql@17",
            "docker compose up",
            "DATABASE_URL",
            "TIDEGATE_POSTGRES_BIN",
        ] {
            assert!(message.contains(hint), "{hint} is missing from: {message}");
        }
    }
}

#[test]
fn programs_of_another_version_are_refused() {
    let search = BinarySearch::from_environment();
    search.find(None).expect("PostgreSQL");
    let error = search.find(Some(9)).expect_err("nothing that old");
    assert!(error.to_string().contains("no PostgreSQL 9"), "{error}");
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
