//! Does everything that was promised hold while everything breaks? For some seconds here; `make faults` asks for longer.

use std::time::Duration;

use crate::support::campaign;

use tidegate_faults::{
    measure,
    options::Options,
    run::{self, directory_of},
};

#[tokio::test(flavor = "multi_thread")]
async fn every_promise_holds_while_everything_breaks() {
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_tidegate-faults"));
    let report = run::run(Options {
        time: Duration::from_secs(campaign(6, 20)),
        seed: None,
        per_second: 60,
        measured: campaign(1200, 3000),
        pause: Duration::from_millis(700),
        response_timeout: Duration::from_secs(30),
        rest: Duration::from_secs(90),
        mutant: None,
        cluster: None,
        tools: None,
        pooler: None,
        failover: false,
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
    // A bound without the backoffs would not have held.
    let (retries, policy) = report.retries.as_ref().unwrap();
    assert!(retries.longest_us > i64::from(policy.attempts) * policy.timeout_us, "{report}");
    // Those of the measurement do not count.
    let injected = report.injected.iter().filter(|(sort, _)| *sort != measure::PARTITIONED);
    let injected: u64 = injected.map(|(_, count)| count).sum();
    let requests = report.requests.iter().filter(|(kind, ..)| kind != measure::KIND);
    let requests: u64 = requests.map(|(_, _, count)| count).sum();
    assert!(injected >= campaign(4, 15) && requests >= campaign(60, 200), "{report}");
}
