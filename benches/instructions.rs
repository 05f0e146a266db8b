//! Do the functions cost as many instructions as their budget allows? It is the table in `docs/benchmarks.md`.
//!
//! Times differ between machines and between runs, instructions hardly. One backend runs each call some times in PostgreSQL's
//! single-user mode under callgrind, which also counts the cache lines that it loads into a cache of fixed size. What counts is the
//! lower quartile: now and then a call splits a page of an index or clears one of dead rows. A call that takes more than 0.5 % above
//! its budget fails; with `UPDATE=1` the table is written instead. `KEEP=1` keeps the accounts of callgrind, one file for each call.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "a benchmark stops at the first thing that is wrong"
)]

#[path = "instructions/budget.rs"]
mod budget;
#[path = "instructions/calls.rs"]
mod calls;

use std::{
    fmt::Write as _,
    fs::{self, File, Permissions},
    ops::Range,
    os::unix::{
        fs::{MetadataExt, PermissionsExt},
        process::CommandExt,
    },
    path::Path,
    process::{Command, ExitCode},
};

use budget::Cost;
use calls::{CALLS, Call, PREPARED};
use tidegate::{
    Kind, Tidegate,
    internals::{database, schema, store::Store},
};
use tidegate_cli::embedded_postgres::{EmbeddedPostgres, Options, major_version};

/// How often each call is made before it is measured: caches are warm then, and plans are kept.
const WARM: usize = 10;
/// How often it is measured.
const MEASURED: usize = 30;

/// A function of PostgreSQL that no other statement calls: callgrind begins a new account when it is entered.
const MARK: &str = "pg_postmaster_start_time";
/// How many accounts of nothing but a mark come first: each account has one.
const EMPTY: usize = 5;

#[tokio::main]
async fn main() -> ExitCode {
    let directory = tempfile::Builder::new().permissions(Permissions::from_mode(0o755)).tempdir().unwrap();
    let options = Options { directory: directory.path().join("cluster"), durable: false, keeper: None };
    let server = tokio::task::spawn_blocking(move || EmbeddedPostgres::start(&options)).await.unwrap().unwrap();
    server.ensure_database("tidegate").unwrap();
    fill(&server.url("tidegate")).await;
    let (postgres, data) = (server.bin().join("postgres"), server.directory().join("data"));
    let major = major_version(server.bin()).unwrap();
    tokio::task::spawn_blocking(|| server.stop()).await.unwrap().unwrap();

    let costs = count(&postgres, &data, directory.path());
    if std::env::var_os("KEEP").is_some() {
        println!("the accounts are in {}", directory.keep().join("counts").display());
    }
    if std::env::var_os("UPDATE").is_some() {
        budget::write(&costs);
        return ExitCode::SUCCESS;
    }
    budget::compare(&costs, major)
}

/// Makes a database with some requests.
async fn fill(url: &str) {
    schema::migrate(url).await.unwrap();
    let pool = database::connect(url, &database::PoolSettings::default()).await.unwrap();
    let store = Store::new(pool.clone());
    store.initialise(Some("relayer"), None).await.unwrap();
    let tidegate = Tidegate::from_pool(pool.clone());
    let far = 1_000_000_000;
    for kind in [
        Kind::direct("far").high_water(far).low_water(far - 1),
        Kind::direct("learning").high_water(far).low_water(far - 1),
        Kind::direct("near").high_water(2000).low_water(1000),
        Kind::direct("full"),
        Kind::direct("nothing"),
        Kind::decrypt("shared").threshold(3).high_water(far).low_water(far - 1),
    ] {
        tidegate.register(kind).await.unwrap();
    }
    for sql in calls::FILL {
        sqlx::query(sql).execute(&pool).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    pool.close().await;
}

/// What each call costs.
fn count(postgres: &Path, data: &Path, directory: &Path) -> Vec<(&'static Call, Cost)> {
    let script = directory.join("script.sql");
    fs::write(&script, script_of(CALLS)).unwrap();
    let counts = directory.join("counts");
    fs::create_dir(&counts).unwrap();
    let owner = fs::metadata(data).unwrap();
    std::os::unix::fs::chown(&counts, Some(owner.uid()), Some(owner.gid())).unwrap();

    let mut valgrind = Command::new("valgrind");
    valgrind
        .args(["-q", "--tool=callgrind", "--cache-sim=yes", "--I1=32768,8,64", "--D1=32768,8,64", "--LL=8388608,16,64"])
        .arg(format!("--dump-before={MARK}"))
        .arg(format!("--callgrind-out-file={}", counts.join("of").display()))
        .arg(postgres)
        .args(["--single", "-D"])
        .arg(data)
        .args(["-c", "fsync=off", "-c", "shared_buffers=64MB", "-c", "jit=off", "-c", "timezone=UTC", "tidegate"])
        .stdin(File::open(&script).unwrap());
    if nix::unistd::geteuid().is_root() {
        valgrind.uid(owner.uid()).gid(owner.gid());
    }
    let output = valgrind.output().expect("callgrind counts the instructions: install valgrind");
    let (said, complaints) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // With its statement, on the next line.
    let error: Vec<_> = complaints.lines().skip_while(|line| !line.contains("ERROR:")).take(2).collect();
    assert!(error.is_empty(), "{}", error.join("\n"));
    assert!(output.status.success(), "{complaints}");

    // What follows each mark: first the empty accounts; then, for each call, those that are measured and one that is not.
    let answers: Vec<_> = said.split(&format!("1: {MARK} = ")).skip(1).collect();
    assert_eq!(answers.len(), EMPTY + 1 + CALLS.len() * (MEASURED + 1), "{said}");
    // The account of what follows a mark ends with the next one; both count from one.
    let cost_after = |marks: Range<usize>| {
        Cost::lower_quartile(marks.map(|mark| Cost::read(&counts.join(format!("of.{}", mark + 1)))))
    };
    let nothing = cost_after(1..EMPTY + 1);
    let costs = CALLS.iter().enumerate().map(|(place, call)| {
        let first = EMPTY + 2 + place * (MEASURED + 1);
        for answer in &answers[first - 1..first - 1 + MEASURED] {
            assert!(answer.contains(call.says), "{} does not say {:?}:\n{answer}", call.name, call.says);
        }
        (call, cost_after(first..first + MEASURED) - nothing)
    });
    costs.collect()
}

/// Everything that the backend does: a line for each statement.
fn script_of(calls: &[Call]) -> String {
    let mut script = String::new();
    let mut add = |sql: &str| writeln!(script, "{}", sql.split_whitespace().collect::<Vec<_>>().join(" ")).unwrap();
    let mark = format!("select {MARK}()");
    PREPARED.iter().for_each(|sql| add(sql));
    (0..=EMPTY).for_each(|_| add(&mark));
    for call in calls {
        call.before.iter().for_each(|sql| add(sql));
        for n in 1..=WARM + MEASURED {
            if n > WARM {
                add(&mark);
            }
            add(&call.sql.replace("{n}", &n.to_string()));
        }
        add(&mark);
    }
    script
}
