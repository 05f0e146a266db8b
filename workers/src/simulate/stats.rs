//! The counts of a simulated downstream.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

/// Declares the counters once: as atomics to count with, and as numbers to show.
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        /// The counters, while they count.
        #[derive(Debug, Default)]
        pub(super) struct Counters {
            $(pub(super) $name: Counter,)+
        }

        /// The counts of a simulated downstream since it started.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct Stats {
            $($(#[$doc])* pub $name: u64,)+
            /// The most sends, refused ones included, in any sliding second. Zero when nothing is remembered.
            pub max_sends_in_a_second: u64,
            /// The most checks, refused ones included, at any one time. Zero when nothing is remembered.
            pub max_checks_at_once: u64,
        }

        impl Counters {
            pub(super) fn read(&self) -> Stats {
                Stats {
                    $($name: self.$name.0.load(Ordering::Relaxed),)+
                    max_sends_in_a_second: 0,
                    max_checks_at_once: 0,
                }
            }
        }
    };
}

counters! {
    /// Readiness checks.
    checks,
    /// Checks answered with "not yet".
    checks_not_yet,
    /// Checks answered with "never".
    checks_failed,
    /// Checks beyond the concurrency limit, refused.
    concurrency_violations,
    /// Sends, of all outcomes.
    sends,
    /// Requests taken: effects, each request's once.
    taken,
    /// Sends of a request that was taken before; they have no further effect.
    duplicates,
    /// Sends refused permanently.
    rejected,
    /// Sends answered with a server error.
    send_errors,
    /// Sends never answered.
    dropped,
    /// Sends beyond the rate limit, refused.
    rate_violations,
    /// Receipts that were asked for.
    receipts_asked,
    /// Receipts that were found.
    receipts_found,
    /// Requests that will never be answered.
    silent,
    /// Responses, shares and verdicts that came due; a response within a receipt is none of them.
    responses,
    /// Responses that the relay took.
    responses_delivered,
    /// Of these, those that came before the relay had stored the receipt.
    responses_early,
    /// Of these, those that found their request ended.
    responses_late,
    /// Responses that were given up: refused by the relay, or not taken within a minute.
    responses_lost,
}

/// One counter.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}
