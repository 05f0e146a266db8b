//! Does the private server start after a kill, beside an old session, with a foreign pid file, in a half-made cluster?

use std::{
    fs,
    os::unix::{fs::MetadataExt, process::CommandExt},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use super::{ask, open_directory, psql, start, wait_for};

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
