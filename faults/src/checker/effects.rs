//! Effects happen exactly once where that is promised.

use super::Check;
use crate::evidence::Evidence;

pub(super) fn check(evidence: &Evidence) -> Vec<Check> {
    let mut check =
        Check::of("an exactly_once request has one effect if it is completed, or else none");
    for (id, life) in &evidence.lives {
        let effects = evidence.effects.get(id).copied().unwrap_or_default();
        if !evidence.exactly_once.contains(&*life.kind) {
            if effects > 0 {
                check.violated(*id, format!("{effects} effects of a {} request", life.kind));
            }
            continue;
        }
        check.examine();
        if effects != u32::from(&*life.status == "completed") {
            check.violated(
                *id,
                format!("it is {} and has {effects} effects", life.status),
            );
        }
    }
    for id in evidence.effects.keys() {
        if !evidence.lives.contains_key(id) {
            check.violated(*id, "an effect of a request that is not there");
        }
    }
    vec![check]
}
