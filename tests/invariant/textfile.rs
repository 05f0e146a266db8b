//! Does `doctor --textfile` write what it has found for Prometheus' textfile collector?

use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt, path::Path};

use super::doctor::{interrupted, lived_in};
use crate::{
    cli::commands::{err, out, run},
    support::TestDatabase,
};

const ENDED: &str = "tidegate_doctor_ended_timestamp_seconds";

/// The samples of a text in Prometheus' format.
fn samples(text: &str) -> BTreeMap<&str, i64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (sample, value) = line.rsplit_once(' ').unwrap();
            (sample, value.parse().unwrap())
        })
        .collect()
}

fn violations(invariant: &str) -> String {
    format!("tidegate_doctor_violations{{invariant=\"{invariant}\"}}")
}

async fn now(database: &TestDatabase) -> i64 {
    database.number("floor(extract(epoch from clock_timestamp()))").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sound_database_has_a_zero_for_each_invariant_and_the_time_of_the_run() {
    let (database, mut session) = lived_in().await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("doctor.prom");
    let before = now(&database).await;
    let doctor = run(&database.url, &["doctor", "--textfile", path.to_str().unwrap()]).await;
    assert_eq!(doctor.status.code(), Some(0), "{}{}", out(&doctor), err(&doctor));

    let text = fs::read_to_string(&path).unwrap();
    let mut found = samples(&text);
    let ended = found.remove(ENDED).unwrap();
    assert!((before..=now(&database).await).contains(&ended), "{ended}");
    let invariants = session.texts("select name from tidegate.invariant order by name").await;
    let expected: Vec<_> = invariants.iter().map(|name| violations(name)).collect();
    assert!(expected.len() > 50);
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.iter().collect::<Vec<_>>());
    assert!(found.values().all(|count| *count == 0), "{text}");

    // Nothing else is left, and the collector, another user, may read it where it may read others.
    let other = directory.path().join("other");
    fs::write(&other, "").unwrap();
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o644;
    assert_eq!(mode(&path), mode(&other));
}

#[tokio::test(flavor = "multi_thread")]
async fn violations_are_counted_and_a_reader_of_the_file_never_sees_half_of_it() {
    let (database, mut session) = lived_in().await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("doctor.prom");
    fs::write(&path, "old").unwrap();
    let reader = fs::File::open(&path).unwrap();
    session.execute("insert into pgmq.q_tx (vt, message) values ('-infinity', '[]'), ('-infinity', '[]')").await;
    let doctor = run(&database.url, &["doctor", "--textfile", path.to_str().unwrap()]).await;
    assert_eq!(doctor.status.code(), Some(3), "{}{}", out(&doctor), err(&doctor));

    let text = fs::read_to_string(&path).unwrap();
    let found = samples(&text);
    assert_eq!(found[violations("message_without_request").as_str()], 2, "{text}");
    assert_eq!(found[violations("live_request_without_message").as_str()], 0, "{text}");
    assert_eq!(std::io::read_to_string(reader).unwrap(), "old");

    // An invariant that was not examined has no count, which would be one of nothing.
    let doctor = interrupted(&database, &["doctor", "--textfile", path.to_str().unwrap()]).await;
    assert_eq!(doctor.status.code(), Some(3), "{}{}", out(&doctor), err(&doctor));
    let text = fs::read_to_string(&path).unwrap();
    let found = samples(&text);
    assert_eq!(found[violations("message_without_request").as_str()], 2, "{text}");
    assert!(!found.contains_key(violations("live_request_without_message").as_str()), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_could_not_check_leaves_the_file_and_its_time() {
    let (database, _session) = lived_in().await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("doctor.prom");
    fs::write(&path, "old").unwrap();
    let textfile = ["doctor", "--textfile", path.to_str().unwrap(), "--time-limit", "1ms"];

    let hurried = run(&database.url, &textfile).await;
    assert_eq!(hurried.status.code(), Some(1), "{}", out(&hurried));
    database.cut().await;
    let cut = run(&database.url, &textfile).await;
    assert_eq!(cut.status.code(), Some(1), "{}", out(&cut));
    assert_eq!(fs::read_to_string(&path).unwrap(), "old");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_cannot_be_written_is_an_error_after_the_findings() {
    let (database, _session) = lived_in().await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("missing/doctor.prom");
    let doctor = run(&database.url, &["doctor", "--textfile", path.to_str().unwrap()]).await;
    assert_eq!(doctor.status.code(), Some(1));
    assert!(out(&doctor).contains("invariants hold"), "{}", out(&doctor));
    let expected = format!("cannot write the metrics to {}: ", path.display());
    assert!(err(&doctor).contains(&expected), "{}", err(&doctor));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_maintenance_page_lists_its_metrics() {
    let (database, _session) = lived_in().await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("doctor.prom");
    run(&database.url, &["doctor", "--textfile", path.to_str().unwrap()]).await;
    let text = fs::read_to_string(&path).unwrap();
    let written: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("# HELP ")).collect();

    let page = include_str!("../../docs/maintenance.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `tidegate_doctor_"));
    let listed: Vec<_> = rows
        .map(|row| {
            let (name, row) = row.split_once("` | gauge | ").unwrap();
            let (_labels, help) = row.trim_end_matches(" |").split_once(" | ").unwrap();
            format!("tidegate_doctor_{name} {help}")
        })
        .collect();
    assert_eq!(written, listed);
}
