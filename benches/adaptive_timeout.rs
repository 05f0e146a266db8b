//! The quality of learned timeouts: ours compared with fixed ones, plain RFC 6298 and a percentile, on a simulated server that is
//! overloaded for a time.
//!
//! Time is simulated: it runs for seconds, with the same figures every time for a `SEED`. It draws `docs/adaptive-timeout.svg`, and
//! fails if an assertion about ours does not hold.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "a benchmark stops at the first thing that is wrong"
)]

#[path = "adaptive_timeout/chart.rs"]
mod chart;
#[path = "../tests/timeout/simulation/mod.rs"]
mod simulation;
#[path = "adaptive_timeout/table.rs"]
mod table;

use std::{env, fs, path::Path, process::ExitCode};

use self::simulation::{
    LONGEST, checks,
    estimator::{Ours, contestants},
    scenario::{self, Scenario},
    server::{Abandoned, run},
};

/// The number of seeds for which all assertions have to hold.
const SEEDS: u64 = 8;

fn main() -> ExitCode {
    let seed = env::var("SEED").ok().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or(1);
    println!("Seed {seed}.");
    let scenarios = [scenario::surge(scenario::SERVERS), scenario::overload(scenario::FEW_SERVERS)];
    for scenario in &scenarios {
        println!();
        table::utilisation(scenario);
        let calls = scenario.calls(seed);
        for max in LONGEST {
            let runs: Vec<_> = contestants(max)
                .into_iter()
                .map(|(name, mut estimator)| {
                    let run = run(&calls, scenario.servers, Abandoned::Dropped, estimator.as_mut());
                    (name, run)
                })
                .collect();
            table::results(scenario, max, &calls, &runs);
            if scenario.phases.len() > 1 && max == LONGEST[0] {
                let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/adaptive-timeout.svg");
                fs::write(file, chart::draw(scenario, max, &calls, &runs)).unwrap();
            }
        }
    }
    table::servers(seed, LONGEST[0]);
    table::finished(&scenarios[0], seed, LONGEST[0]);
    println!("\n### Other seeds");
    for max in LONGEST {
        table::seeds(&scenarios[0], seed..seed + SEEDS, max);
    }

    let broken: Vec<_> = (seed..seed + SEEDS).flat_map(|seed| broken(&scenarios, seed)).collect();
    println!();
    if broken.is_empty() {
        println!("All assertions hold for the seeds {seed} to {}.", seed + SEEDS - 1);
        return ExitCode::SUCCESS;
    }
    for what in broken {
        println!("Does not hold: {what}");
    }
    ExitCode::FAILURE
}

fn broken(scenarios: &[Scenario], seed: u64) -> Vec<String> {
    let mut broken = Vec::new();
    for scenario in scenarios {
        for max in LONGEST {
            broken.extend(checks::broken(scenario, seed, max, &mut Ours::new(max)));
        }
    }
    broken
}
