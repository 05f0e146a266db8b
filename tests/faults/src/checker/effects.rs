//! Effects happen exactly once where that is promised.

use super::Check;
use crate::evidence::Evidence;

pub(super) fn check(evidence: &Evidence) -> Vec<Check> {
    let mut check = Check::of("an exactly_once request has one effect if it has its receipt, or else none");
    for (id, life) in &evidence.lives {
        let effects = evidence.effects.get(id).copied().unwrap_or_default();
        if !evidence.exactly_once.contains(&*life.kind) {
            if effects > 0 {
                check.violated(*id, format!("{effects} effects of a {} request", life.kind));
            }
            continue;
        }
        check.examine();
        // The effect is written with the receipt, whose response may still fail to come.
        let has_receipt = life.events.iter().any(|event| {
            event.from.as_deref() == Some("tx_in_flight") && matches!(&*event.to, "receipt_received" | "completed")
        });
        if effects != u32::from(has_receipt) {
            let receipt = if has_receipt { "a" } else { "no" };
            check.violated(*id, format!("it is {} with {receipt} receipt and has {effects} effects", life.status));
        }
    }
    for id in evidence.effects.keys() {
        if !evidence.lives.contains_key(id) {
            check.violated(*id, "an effect of a request that is not there");
        }
    }
    vec![check]
}
