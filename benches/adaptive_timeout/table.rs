//! The output of the benchmark: Markdown, to be pasted into the documentation.

use std::time::Duration;

use super::simulation::{
    estimator::{Estimator, Fixed, Ours, contestants, fixed},
    measured::{Measured, span},
    scenario::{self, Call, Scenario},
    server::{Abandoned, Run, run},
};

/// Timeouts at which the offered load is stated.
const TIMEOUTS: [Duration; 3] = [Duration::from_millis(15), Duration::from_millis(50), Duration::from_millis(100)];

/// The number of servers that would be busy if no call waited.
pub(crate) fn utilisation(scenario: &Scenario) {
    println!("### {}, {} servers\n", scenario.name, scenario.servers);
    println!("| phase | calls/s | calls | Pareto shape | load at 15 ms | at 50 ms | at 100 ms |");
    println!("|---|---|---|---|---|---|---|");
    for phase in &scenario.phases {
        let [short, middle, long] = TIMEOUTS.map(|timeout| load(scenario, phase.work(timeout)));
        println!(
            "| {} | {} | {} | {} | {short:.2} | {middle:.2} | {long:.2} |",
            phase.name, phase.rate, phase.calls, phase.shape
        );
    }
}

fn load(scenario: &Scenario, work: f64) -> f64 {
    work / f64::from(u32::try_from(scenario.servers).unwrap_or(u32::MAX))
}

/// A row for each estimator in each phase.
pub(crate) fn results(scenario: &Scenario, max: Duration, calls: &[Call], runs: &[(String, Run)]) {
    println!("\n{}, max {} ms:\n", scenario.name, max.as_millis());
    println!("| phase | timeout | failed | answers/s | mean | p99 | in flight at most | intervals normal, high load |");
    println!("|---|---|---|---|---|---|---|---|");
    for (number, phase) in scenario.phases.iter().enumerate() {
        let (from, to) = span(calls, number);
        for (place, (name, run)) in runs.iter().enumerate() {
            let mut intervals = String::new();
            if !run.intervals.is_empty() {
                let count = |high: bool| {
                    let ended = run.intervals.iter();
                    ended.filter(|(at, was_high)| (from..to).contains(at) && *was_high == high).count()
                };
                intervals = format!("{}, {}", count(false), count(true));
            }
            let measured = run.measured((from, to));
            println!("| {} | {} | {} | {intervals} |", phase.name, emphasised(place, name), row(&measured));
        }
    }
}

fn emphasised(place: usize, name: &str) -> String {
    if place == 0 { format!("**{name}**") } else { name.to_owned() }
}

fn row(measured: &Measured) -> String {
    format!(
        "{:.2} % | {:.0} | {:.1} ms | {:.1} ms | {}",
        measured.failure_rate * 100.0,
        measured.goodput,
        milliseconds(measured.mean),
        milliseconds(measured.p99),
        measured.most_in_flight
    )
}

pub(crate) fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

/// Compares numbers of servers.
pub(crate) fn servers(seed: u64, max: Duration) {
    println!("\n### Other numbers of servers\n");
    println!(
        "| scenario | servers | load at 15 ms | at 50 ms | ours, answers/s | best fixed | difference | in flight, ours | fixed {} ms |",
        max.as_millis()
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let surges = (10..=18).map(scenario::surge);
    let overloads = (1..=4).map(scenario::overload);
    for scenario in surges.chain(overloads) {
        let Some(number) = scenario.phases.iter().position(|phase| phase.overloads) else {
            continue;
        };
        let calls = scenario.calls(seed);
        let period = span(&calls, number);
        let run = |estimator: &mut dyn Estimator| run(&calls, scenario.servers, Abandoned::Dropped, estimator);
        let ours = run(&mut Ours::new(max));
        let fixed = fixed(max).map(|timeout| run(&mut Fixed(timeout)));
        let goodput = ours.goodput(period);
        let best = fixed.iter().map(|run| run.goodput(period)).fold(0.0, f64::max);
        let phase = &scenario.phases[number];
        println!(
            "| {} | {} | {:.2} | {:.2} | {goodput:.0} | {best:.0} | {:+.1} % | {:.1} | {:.1} |",
            phase.name,
            scenario.servers,
            load(&scenario, phase.work(TIMEOUTS[0])),
            load(&scenario, phase.work(TIMEOUTS[1])),
            (goodput / best - 1.0) * 100.0,
            ours.mean_in_flight(period),
            fixed[2].mean_in_flight(period),
        );
    }
}

/// A server that goes on with a call after its caller has left.
pub(crate) fn finished(scenario: &Scenario, seed: u64, max: Duration) {
    println!("\n### A server that finishes abandoned calls\n");
    println!("| phase | timeout | failed | answers/s | mean | p99 | in flight at most |");
    println!("|---|---|---|---|---|---|---|");
    let calls = scenario.calls(seed);
    for (place, (name, mut estimator)) in contestants(max).into_iter().enumerate() {
        let abandoned = Abandoned::Finished;
        let run = run(&calls, scenario.servers, abandoned, estimator.as_mut());
        for (number, phase) in scenario.phases.iter().enumerate() {
            if phase.overloads {
                let row = row(&run.measured(span(&calls, number)));
                println!("| {} | {} | {row} |", phase.name, emphasised(place, &name));
            }
        }
    }
}

/// Ours with each seed.
pub(crate) fn seeds(scenario: &Scenario, seeds: impl Iterator<Item = u64>, max: Duration) {
    println!("\n{}, max {} ms, ours:\n", scenario.name, max.as_millis());
    println!(
        "| seed | failed in A | in A again | answers/s in B | fixed {} ms | high load seen after | left after | high loads outside B |",
        max.as_millis()
    );
    println!("|---|---|---|---|---|---|---|---|");
    for seed in seeds {
        let calls = scenario.calls(seed);
        let run = |estimator: &mut dyn Estimator| run(&calls, scenario.servers, Abandoned::Dropped, estimator);
        let (ours, longest) = (run(&mut Ours::new(max)), run(&mut Fixed(max)));
        let [quiet, again] = [0, 2].map(|phase| ours.failure_rate(span(&calls, phase)) * 100.0);
        let (from, to) = span(&calls, 1);
        let high = &ours.high_load;
        let seen = high.iter().find(|(_, left)| *left > from);
        let left = high.iter().rfind(|(since, _)| *since < to);
        println!(
            "| {seed} | {:.2} % | {:.2} % | {:.0} | {:.0} | {:.2} s | {:.1} s | {} |",
            quiet,
            again,
            ours.goodput((from, to)),
            longest.goodput((from, to)),
            seen.map_or(f64::NAN, |(since, _)| since.saturating_sub(from).as_secs_f64()),
            left.map_or(f64::NAN, |(_, left)| left.saturating_sub(to).as_secs_f64()),
            high.iter().filter(|(since, _)| !(from..to).contains(since)).count(),
        );
    }
}
