//! The arrivals of requests and their service times: the same for every mode.

use std::time::Duration;

use rand::{Rng, SeedableRng, rngs::StdRng};
use rand_distr::{Distribution, Exp, LogNormal};

/// The arrivals of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Load {
    /// 8 per second at random.
    Steady,
    /// 500 at once, every 90 s.
    Burst,
    /// 7 per second at random; the downstream stops for a minute.
    Stalled,
}

pub(crate) const LOADS: [Load; 3] = [Load::Steady, Load::Burst, Load::Stalled];

/// Start and end of the downstream's stall.
const STALL: (Duration, Duration) = (Duration::from_secs(150), Duration::from_secs(210));

/// Arrivals and service times of one load.
pub(crate) struct Schedule {
    /// Arrival of each request, from the beginning.
    pub(crate) arrivals: Vec<Duration>,
    /// Service time of each after its send, without stalls.
    pub(crate) services: Vec<Duration>,
    /// The downstream's stall.
    pub(crate) stall: Option<(Duration, Duration)>,
}

impl Load {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::Burst => "burst",
            Self::Stalled => "stalled",
        }
    }

    pub(crate) fn schedule(self, requests: usize) -> Schedule {
        let seed = std::env::var("SEED").ok().and_then(|text| text.parse().ok());
        let mut random = StdRng::seed_from_u64(seed.unwrap_or(1));
        let service = LogNormal::new(3.6_f64.ln(), 0.35).unwrap();
        let mut at = 0.0;
        let arrivals = (0..requests)
            .map(|place| {
                at = match self {
                    Self::Burst => {
                        let burst = u32::try_from(place / 500).unwrap();
                        90.0 * f64::from(burst) + random.random_range(0.0..0.05)
                    }
                    Self::Steady => at + Exp::new(8.0).unwrap().sample(&mut random),
                    Self::Stalled => at + Exp::new(7.0).unwrap().sample(&mut random),
                };
                Duration::from_secs_f64(at)
            })
            .collect();
        Schedule {
            arrivals,
            services: (0..requests).map(|_| Duration::from_secs_f64(service.sample(&mut random))).collect(),
            stall: (self == Self::Stalled).then_some(STALL),
        }
    }
}

impl Schedule {
    /// End of work that begins at `from` and takes `service`.
    pub(crate) fn done(&self, from: Duration, service: Duration) -> Duration {
        match self.stall {
            Some((stops, goes_on)) if from < stops && from + service > stops => from + service + (goes_on - stops),
            Some((stops, goes_on)) if (stops..goes_on).contains(&from) => goes_on + service,
            _ => from + service,
        }
    }
}
