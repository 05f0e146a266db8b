//! Is a run in which no key was executed twice to be believed? With the old rule, under which any failure frees its key,
//! one of a minute finds such keys.

use std::time::Duration;

use tidegate_faults::{
    mutants::Mutant,
    options::Options,
    run::{self, directory_of},
};

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_are_executed_twice_are_found_within_a_minute() {
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_tidegate-faults"));
    let directory = tempfile::tempdir().unwrap();
    let report = run::run(Options {
        time: Duration::from_secs(60),
        seed: None,
        per_second: 60,
        measured: 0,
        pause: Duration::from_secs(2),
        response_timeout: Duration::from_secs(30),
        rest: Duration::from_secs(90),
        mutant: Some(Mutant::KeyFreedAtEnd),
        cluster: None,
        tools: None,
        pooler: None,
        failover: false,
        foreign: false,
        only: Vec::new(),
        directory: Some(directory.path().to_owned()),
        programs: Some(directory_of(program).unwrap()),
        beside: None,
        their_schema: false,
    })
    .await
    .unwrap();

    let found = report.verdict.of("no key is executed twice while it stands");
    assert!(!found.is_empty(), "{report}");
}
