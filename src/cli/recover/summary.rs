//! What a run of `tidegate recover` has done, or would do.

use serde::Serialize;
use uuid::Uuid;

use crate::{
    cli::table::table,
    store::{RequestCount, WrongCount},
};

/// How many ids are shown to a person.
const IDS_SHOWN: usize = 20;

#[derive(Debug, Default, Serialize)]
pub(super) struct Summary {
    /// Its record; none for a dry run, which leaves none.
    pub(super) run: Option<i64>,
    pub(super) dry_run: bool,
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
    /// Whether anything had to be put right. A gate that flips is everyday life.
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
        for queue in &self.storages {
            outln!("queue {queue} without its table, its counters or free numbers, {would}made");
        }
        for (count, what) in [
            (self.expired, "past their deadline, {}ended"),
            (self.dated, "without a deadline, {}given one"),
            (self.reset, "lost in flight, {}reset to processing"),
            (self.ended, "lost in flight, {}ended as outcome_unknown (at_most_once)"),
            (self.rebuilt, "without a message, {}rebuilt"),
            (self.renumbered, "of these {}renumbered"),
            (self.counted, "not counted at their caps, {}counted"),
            (self.strays_removed, "messages without a live request, {}removed"),
            (self.responses, "early responses, {}applied"),
            (self.gates, "gates past their mark, {}closed or opened"),
        ] {
            if count > 0 {
                outln!("{count} {}", what.replace("{}", would));
            }
        }
        for count in &self.counts {
            outln!(
                "{} {}: counted {}, there are {}, {would}corrected",
                count.kind,
                count.status,
                count.counted,
                count.requests
            );
        }
        for id in self.ids.iter().take(IDS_SHOWN) {
            outln!("  {id}");
        }
        if self.ids.len() > IDS_SHOWN {
            outln!("  … and {} more (--json lists them all)", self.ids.len() - IDS_SHOWN);
        }
        self.print_counts();
    }

    /// How many requests are where, before and after.
    fn print_counts(&self) {
        let mut keys: Vec<_> = self
            .before
            .iter()
            .chain(&self.after)
            .map(|count| (count.kind.clone(), count.status.clone()))
            .collect();
        keys.sort();
        keys.dedup();
        let count_of = |counts: &[RequestCount], key: &(String, String)| {
            counts
                .iter()
                .find(|count| (&count.kind, &count.status) == (&key.0, &key.1))
                .map_or(0, |count| count.requests)
                .to_string()
        };
        let rows = keys.iter().map(|key| {
            [
                key.0.clone(),
                key.1.clone(),
                count_of(&self.before, key),
                count_of(&self.after, key),
            ]
        });
        outln!("\n{}", table(["kind", "status", "before", "after"], rows));
    }
}
