//! No quota is ever exceeded, and what has left its queues does not count.

use std::collections::BTreeMap;

use super::Check;
use crate::evidence::Evidence;

pub(super) fn check(evidence: &Evidence) -> Vec<Check> {
    let mut kept = Check::of("no quota is exceeded at any moment");
    // One finding for each quota: the worst moment.
    let mut worst = BTreeMap::new();
    for count in &evidence.quota_counts {
        kept.examine();
        if count.live > count.high_water {
            let most = worst.entry(&count.gate).or_insert(count);
            if count.live > most.live {
                *most = count;
            }
        }
    }
    for (gate, count) in worst {
        let at = chrono::DateTime::from_timestamp_micros(count.at_us).unwrap_or_default();
        kept.violated(None, format!("{gate}: {} of {} at {}", count.live, count.high_water, at.format("%H:%M:%S%.3f")));
    }

    let mut released = Check::of("a quota is free and open when all is at rest");
    for (gate, quota) in &evidence.quotas {
        released.examine();
        if quota.counted > 0 || quota.state != "accepting" {
            released.violated(None, format!("{gate} is {} and counts {} requests", quota.state, quota.counted));
        }
    }
    vec![kept, released]
}
