//! Latencies: a fixed time, or one drawn from a distribution.

use std::{str::FromStr, time::Duration};

use rand::Rng;
use rand_distr::StandardNormal;

use crate::ParseError;

/// No draw is longer than this: a heavy tail must not keep a call for ever.
const LONGEST: Duration = Duration::from_secs(3600);

/// A distribution of latencies.
///
/// Written `constant:5ms` (or just `5ms`), `uniform:1ms-5ms`, or `lognormal:3.6s,0.35`, which is the median and the
/// standard deviation of the logarithm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Latency {
    /// Always the same.
    Constant(Duration),
    /// Anything between two times, equally likely.
    Uniform {
        /// The shortest.
        min: Duration,
        /// The longest.
        max: Duration,
    },
    /// Skewed to the right, as answers over a network are.
    LogNormal {
        /// Half of the draws are shorter.
        median: Duration,
        /// The standard deviation of the logarithm; 0 makes it constant.
        sigma: f64,
    },
}

impl Latency {
    /// Draws a latency; an hour at most.
    pub fn draw(&self, rng: &mut impl Rng) -> Duration {
        let drawn = match *self {
            Self::Constant(time) => time,
            Self::Uniform { min, max } => rng.random_range(min..=max),
            Self::LogNormal { median, sigma } => {
                let normal: f64 = rng.sample(StandardNormal);
                let seconds = median.as_secs_f64() * (sigma * normal).exp();
                Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST)
            }
        };
        drawn.min(LONGEST)
    }
}

impl FromStr for Latency {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let (name, rest) = text.split_once(':').unwrap_or(("constant", text));
        match name.trim() {
            "constant" => Ok(Self::Constant(duration(rest)?)),
            "uniform" => {
                let (min, max) = rest.split_once('-').ok_or_else(|| {
                    let form = "write the shortest and the longest time, as in uniform:1ms-5ms";
                    ParseError(format!("\"{rest}\" is not a range: {form}"))
                })?;
                let (min, max) = (duration(min)?, duration(max)?);
                if min > max {
                    let message = format!("the range {rest} runs backwards: write the shorter time first");
                    return Err(ParseError(message));
                }
                Ok(Self::Uniform { min, max })
            }
            "lognormal" => {
                let refusal = || {
                    let form = "write them as in lognormal:3.6s,0.35";
                    ParseError(format!("\"{rest}\" is not a median and a spread between 0 and 10: {form}"))
                };
                let (median, sigma) = rest.split_once(',').ok_or_else(refusal)?;
                let median = duration(median)?;
                match sigma.trim().parse() {
                    Ok(sigma @ 0.0..=10.0) => Ok(Self::LogNormal { median, sigma }),
                    _ => Err(refusal()),
                }
            }
            unknown => {
                let forms = "write constant:5ms, uniform:1ms-5ms or lognormal:3.6s,0.35";
                Err(ParseError(format!("there is no distribution \"{unknown}\": {forms}")))
            }
        }
    }
}

fn duration(text: &str) -> Result<Duration, ParseError> {
    let text = text.trim();
    humantime::parse_duration(text).map_err(|error| {
        let message = format!("\"{text}\" is not a duration ({error}): write it with its unit, such as 5ms or 3.6s");
        ParseError(message)
    })
}

/// Waits for `latency`; zero does not use the timer.
pub(super) async fn pass(latency: Duration) {
    if !latency.is_zero() {
        tokio::time::sleep(latency).await;
    }
}

#[cfg(test)]
mod tests {
    use rand::{SeedableRng, rngs::SmallRng};

    use super::*;

    const fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn every_distribution_is_read() {
        let lognormal = Latency::LogNormal { median: ms(3600), sigma: 0.35 };
        let cases = [
            ("0s", Latency::Constant(ms(0))),
            ("0", Latency::Constant(ms(0))),
            ("5ms", Latency::Constant(ms(5))),
            ("constant:5ms", Latency::Constant(ms(5))),
            ("constant:1.5s", Latency::Constant(ms(1500))),
            ("uniform:1ms-5ms", Latency::Uniform { min: ms(1), max: ms(5) }),
            ("uniform: 0s - 5ms", Latency::Uniform { min: ms(0), max: ms(5) }),
            ("lognormal:3.6s,0.35", lognormal),
        ];
        for (text, latency) in cases {
            assert_eq!(text.parse(), Ok(latency), "{text}");
        }
    }

    #[test]
    fn an_error_shows_how_to_write_a_latency() {
        crate::testing::assert_refused::<Latency>(&[
            ("poisson:5ms", "there is no distribution \"poisson\""),
            ("constant:5", "with its unit"),
            ("fast", "\"fast\" is not a duration"),
            ("uniform:5ms", "uniform:1ms-5ms"),
            ("uniform:5ms-1ms", "runs backwards"),
            ("lognormal:3.6s", "lognormal:3.6s,0.35"),
            ("lognormal:3.6s,wide", "between 0 and 10"),
            ("lognormal:3.6s,-1", "between 0 and 10"),
            ("lognormal:3.6s,NaN", "between 0 and 10"),
        ]);
    }

    #[test]
    fn draws_follow_the_distribution() {
        let mut rng = SmallRng::seed_from_u64(1);
        let uniform: Latency = "uniform:1ms-5ms".parse().unwrap();
        let lognormal: Latency = "lognormal:100ms,0.35".parse().unwrap();
        let mut below = 0;
        for _ in 0..10_000 {
            assert!((ms(1)..=ms(5)).contains(&uniform.draw(&mut rng)));
            below += u32::from(lognormal.draw(&mut rng) < ms(100));
        }
        assert!((4_700..5_300).contains(&below), "{below} of 10000 below the median");
        let wild: Latency = "lognormal:1h,10".parse().unwrap();
        assert!((0..1000).all(|_| wild.draw(&mut rng) <= LONGEST));
    }
}
