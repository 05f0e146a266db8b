//! A synchronous standby takes over from a primary that dies under load: nothing that got 202 is lost.

use std::time::Duration;

use tidegate_faults::{
    options::Options,
    run::{self, directory_of},
};

#[tokio::test(flavor = "multi_thread")]
async fn a_promoted_standby_has_everything_that_got_202_and_the_fleet_goes_on_with_it() {
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_tidegate-faults"));
    let report = run::run(Options {
        time: Duration::from_secs(6),
        seed: None,
        measured: 0,
        per_second: 60,
        // Only the failover.
        pause: Duration::from_secs(3),
        response_timeout: Duration::from_secs(30),
        rest: Duration::from_secs(90),
        mutant: None,
        cluster: None,
        tools: None,
        pooler: None,
        failover: true,
        foreign: false,
        only: Vec::new(),
        directory: None,
        programs: Some(directory_of(program).unwrap()),
        beside: None,
        their_schema: false,
    })
    .await
    .unwrap();

    assert!(report.holds(), "{report}");
    assert!(report.injected.contains(&("failover", 1)), "{report}");
}
