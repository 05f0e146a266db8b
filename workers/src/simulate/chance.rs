//! Probabilities, and the seeded generators that draw them.

use std::{
    str::FromStr,
    sync::atomic::{AtomicU64, Ordering},
};

use rand::{Rng, SeedableRng, rngs::SmallRng};

use crate::{ParseError, kinds::kind_name};

/// A probability: written as a number from 0 to 1, or as a percentage such as `5%`.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct Chance(f64);

impl Chance {
    /// As a number from 0 to 1.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0
    }

    /// Whether it happens this time.
    pub fn happens(self, rng: &mut impl Rng) -> bool {
        self.0 > 0.0 && rng.random::<f64>() < self.0
    }
}

impl FromStr for Chance {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let (number, unit) = match text.strip_suffix('%') {
            Some(percent) => (percent, 100.0),
            None => (text, 1.0),
        };
        let probability = number.trim().parse().map(|number: f64| number / unit);
        let probability = probability.ok().filter(|number| (0.0..=1.0).contains(number));
        probability.map(Self).ok_or_else(|| {
            let forms = "write a number from 0 to 1, such as 0.05, or a percentage, such as 5%";
            ParseError(format!("\"{text}\" is not a probability: {forms}"))
        })
    }
}

/// How often the answers of a kind are lost: written `KIND=CHANCE`.
#[derive(Debug, Clone, PartialEq)]
pub struct Lossy {
    /// The kind, in snake case.
    pub kind: String,
    /// How often.
    pub chance: Chance,
}

impl FromStr for Lossy {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let form = || ParseError(format!("\"{text}\" is not KIND=CHANCE, such as swap=5%"));
        let (kind, chance) = text.split_once('=').ok_or_else(form)?;
        Ok(Self { kind: kind_name(kind)?, chance: chance.parse()? })
    }
}

/// A seeded source of generators that tasks share without a lock.
///
/// Each roll is a new generator, so the n-th roll of a seed is always the same.
#[derive(Debug)]
pub(super) struct Dice(AtomicU64);

impl Dice {
    pub(super) const fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    pub(super) fn roll(&self) -> SmallRng {
        SmallRng::seed_from_u64(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chance_is_a_number_or_a_percentage() {
        for (text, probability) in [("0", 0.0), ("0.25", 0.25), ("25%", 0.25), ("1", 1.0)] {
            assert_eq!(text.parse(), Ok(Chance(probability)), "{text}");
        }
        let refused = ["", "%", "1.1", "-0.1", "101%", "often", "NaN"];
        crate::testing::assert_refused::<Chance>(&refused.map(|text| (text, "such as 5%")));
    }

    #[test]
    fn a_lossy_kind_has_a_chance() {
        let lossy = Lossy { kind: "swap".to_owned(), chance: Chance(0.5) };
        assert_eq!("swap=50%".parse(), Ok(lossy));
        crate::testing::assert_refused::<Lossy>(&[
            ("swap", "such as swap=5%"),
            ("Swap=1", "lower snake case"),
            ("swap=2", "such as 5%"),
        ]);
    }

    #[test]
    fn the_same_seed_rolls_the_same_numbers() {
        let numbers = |seed| {
            let dice = Dice::new(seed);
            (0..1000).map(|_| dice.roll().random()).collect::<Vec<f64>>()
        };
        assert_eq!(numbers(7), numbers(7));
        assert_ne!(numbers(7), numbers(8));
        let quarter: Chance = "25%".parse().unwrap();
        let dice = Dice::new(7);
        let often = (0..10_000).filter(|_| quarter.happens(&mut dice.roll())).count();
        assert!((2_300..2_700).contains(&often), "{often} of 10000");
    }
}
