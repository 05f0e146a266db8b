//! What the callers ask, when, and how much work each call is: the same for every estimator.

use std::time::Duration;

use rand::{SeedableRng, rngs::StdRng};
use rand_distr::{Distribution, Exp, Pareto};

/// The shortest service time there is, in seconds.
pub const SCALE: f64 = 0.005;

/// Servers of A→B→A: A keeps 0.42 of them busy, and B more than all, also with timeouts of 15 ms.
pub const SERVERS: usize = 12;

/// Servers of C, which keeps more than all of them busy with timeouts of 15 ms.
pub const FEW_SERVERS: usize = 2;

/// Calls at one rate, with one distribution of service times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Phase {
    pub name: &'static str,
    /// Calls per second, at random.
    pub rate: f64,
    pub calls: usize,
    /// Of the Pareto distribution of service times: the smaller, the longer its tail.
    pub shape: f64,
    /// Whether it is more than the server can bear.
    pub overloads: bool,
}

/// One phase after the other, on a server of its own.
#[derive(Debug, Clone)]
pub struct Scenario {
    pub name: &'static str,
    /// Calls that are worked on at once; the others wait.
    pub servers: usize,
    pub phases: Vec<Phase>,
}

/// A call that has not begun.
#[derive(Debug, Clone, Copy)]
pub struct Call {
    pub phase: usize,
    pub arrives: Duration,
    pub service: Duration,
}

const QUIET: Phase = Phase { name: "A", rate: 800.0, calls: 50_000, shape: 5.0, overloads: false };

const BUSY: Phase = Phase { name: "B", rate: 1500.0, calls: 30_000, shape: 1.5, overloads: true };

/// Load that comes and goes.
pub fn surge(servers: usize) -> Scenario {
    Scenario { name: "A→B→A", servers, phases: vec![QUIET, BUSY, Phase { name: "A again", ..QUIET }] }
}

/// Too much from the first call on.
pub fn overload(servers: usize) -> Scenario {
    Scenario {
        name: "C",
        servers,
        phases: vec![Phase { name: "C", rate: 300.0, calls: 30_000, shape: 1.5, overloads: true }],
    }
}

impl Scenario {
    /// Arrivals and service times.
    pub fn calls(&self, seed: u64) -> Vec<Call> {
        let mut random = StdRng::seed_from_u64(seed);
        let mut at = 0.0;
        let mut calls = Vec::new();
        for (phase, what) in self.phases.iter().enumerate() {
            let gap = Exp::new(what.rate).unwrap();
            let service = Pareto::new(SCALE, what.shape).unwrap();
            calls.extend((0..what.calls).map(|_| {
                at += gap.sample(&mut random);
                Call {
                    phase,
                    arrives: Duration::from_secs_f64(at),
                    service: Duration::from_secs_f64(service.sample(&mut random)),
                }
            }));
        }
        calls
    }
}

impl Phase {
    /// Servers that the calls keep busy which are not cut off before `timeout`: λ·E[min(X, T)].
    pub fn work(&self, timeout: Duration) -> f64 {
        let (shape, limit) = (self.shape, timeout.as_secs_f64());
        let beyond = (SCALE / limit).powf(shape - 1.0);
        self.rate * (SCALE + SCALE / (shape - 1.0) * (1.0 - beyond))
    }
}
