//! What breaks each invariant, by subject.

mod configuration;
mod gates;
mod queues;
mod requests;

/// The name of an invariant, what breaks it, and others that it breaks besides.
type Seed = (&'static str, &'static str, &'static [&'static str]);

pub(super) const SEEDS: [&[Seed]; 4] = [queues::QUEUES, gates::GATES, requests::REQUESTS, configuration::CONFIGURATION];
