//! The results of a run of `tidegate recover`, or of its dry run.

use std::collections::BTreeSet;

use serde::Serialize;
use tidegate::internals::store::{RequestCount, WrongCount};
use uuid::Uuid;

use crate::cli::table::{print_first, table};

#[derive(Debug, Default, Serialize)]
pub(super) struct Summary {
    /// Its record; none for a dry run, which leaves none.
    pub(super) run: Option<i64>,
    pub(super) dry_run: bool,
    /// Requests whose leases outlasted the wait for them.
    pub(super) still_leased: i64,
    pub(super) examined: i64,
    pub(super) reset: i64,
    pub(super) ended: i64,
    pub(super) rebuilt: i64,
    pub(super) renumbered: i64,
    pub(super) counted: i64,
    pub(super) expired: i64,
    pub(super) dated: i64,
    pub(super) strays_removed: i64,
    pub(super) responses: i64,
    pub(super) gates: i64,
    pub(super) counts: Vec<WrongCount>,
    pub(super) storages: Vec<String>,
    pub(super) ids: Vec<Uuid>,
    pub(super) before: Vec<RequestCount>,
    pub(super) after: Vec<RequestCount>,
}

impl Summary {
    /// Whether anything had to be repaired. A gate that flips is normal.
    pub(super) fn is_anything_wrong(&self) -> bool {
        self.reset
            + self.ended
            + self.rebuilt
            + self.counted
            + self.expired
            + self.dated
            + self.strays_removed
            + self.responses
            > 0
            || !self.counts.is_empty()
            || !self.storages.is_empty()
    }

    pub(super) fn print(&self) {
        let would = if self.dry_run { "would be " } else { "" };
        outln!("{} live requests examined", self.examined);
        if self.still_leased > 0 {
            outln!("{} still under a lease after the wait, left alone", self.still_leased);
        }
        for queue in &self.storages {
            outln!("queue {queue} without its table, its counters or free numbers, {would}made");
        }
        for (count, result) in [
            (self.expired, "past their deadline, {}ended"),
            (self.dated, "without a deadline, {}given one"),
            (self.reset, "lost in flight, {}reset to processing"),
            (self.ended, "lost in flight, {}ended as outcome_unknown (at_most_once)"),
            (self.rebuilt, "without a message, {}rebuilt"),
            (self.renumbered, "of these {}renumbered"),
            (self.counted, "not counted at their quotas, {}counted"),
            (self.strays_removed, "messages without a live request, {}removed"),
            (self.responses, "early responses, {}applied"),
            (self.gates, "gates past their mark, {}closed or opened"),
        ] {
            if count > 0 {
                outln!("{count} {}", result.replace("{}", would));
            }
        }
        for wrong in &self.counts {
            let (kind, status) = (&wrong.kind, &wrong.status);
            let (counted, requests) = (wrong.counted, wrong.requests);
            outln!("{kind} {status}: counted {counted}, there are {requests}, {would}corrected");
        }
        print_first(self.ids.iter().map(Uuid::to_string));
        self.print_counts();
    }

    /// The requests by kind and status, before and after.
    fn print_counts(&self) {
        let counts = self.before.iter().chain(&self.after);
        let keys: BTreeSet<_> = counts.map(|count| (&count.kind, &count.status)).collect();
        let count_of = |counts: &[RequestCount], key: (&String, &String)| {
            let found = counts.iter().find(|count| (&count.kind, &count.status) == key);
            found.map_or(0, |count| count.requests).to_string()
        };
        let rows = keys.into_iter().map(|key| {
            let (kind, status) = (key.0.clone(), key.1.clone());
            [kind, status, count_of(&self.before, key), count_of(&self.after, key)]
        });
        outln!("\n{}", table("kind  status  before  after", rows));
    }
}
