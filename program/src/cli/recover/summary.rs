//! The results of a run of `tidegate recover`, or of its dry run.

use std::collections::BTreeSet;

use serde::Serialize;
use tidegate::internals::{recovery::Recovered, store::RequestCount};
use uuid::Uuid;

use crate::cli::table::{print_first, table};

#[derive(Debug, Default, Serialize)]
pub(super) struct Summary {
    #[serde(flatten)]
    pub(super) done: Recovered,
    /// Requests whose leases outlasted the wait for them.
    pub(super) still_leased: i64,
    pub(super) before: Vec<RequestCount>,
    pub(super) after: Vec<RequestCount>,
}

impl Summary {
    pub(super) fn print(&self) {
        let done = &self.done;
        let would = if done.dry_run { "would be " } else { "" };
        outln!("{} live requests examined", done.examined);
        if self.still_leased > 0 {
            outln!("{} still under a lease after the wait, left alone", self.still_leased);
        }
        for queue in &done.storages {
            outln!("queue {queue} without its table, its counters or free numbers, {would}made");
        }
        for (count, result) in done.figures() {
            outln!("{count} {}", result.replace("{}", would));
        }
        for wrong in &done.counts {
            let (kind, status) = (&wrong.kind, &wrong.status);
            let (counted, requests) = (wrong.counted, wrong.requests);
            outln!("{kind} {status}: counted {counted}, there are {requests}, {would}corrected");
        }
        print_first(done.ids.iter().map(Uuid::to_string));
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
