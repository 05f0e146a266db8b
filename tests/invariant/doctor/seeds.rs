//! What breaks each invariant, by subject.

mod configuration;
mod gates;
mod queues;
mod requests;
mod turns;

/// The name of an invariant, what breaks it, and others that it breaks besides.
type Seed = (&'static str, &'static str, &'static [&'static str]);

pub(super) const SEEDS: [&[Seed]; 5] =
    [queues::QUEUES, turns::TURNS, gates::GATES, requests::REQUESTS, configuration::CONFIGURATION];
