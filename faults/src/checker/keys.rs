//! An idempotency key stands for one request at a time.

use std::collections::{BTreeMap, HashSet};

use super::{Check, lives::ENDS};
use crate::evidence::{Evidence, Life};

pub(super) fn check(evidence: &Evidence) -> Check {
    let mut check = Check::of("no idempotency key is lost: the same key is the same request");
    let keyed: HashSet<&str> = evidence
        .promises
        .iter()
        .filter(|promise| promise.keyed)
        .map(|promise| &*promise.mark)
        .collect();
    let mut by_mark = BTreeMap::<(&str, &str), Vec<(&uuid::Uuid, &Life)>>::new();
    for (id, life) in &evidence.lives {
        if let Some(mark) = life.mark.as_deref()
            && keyed.contains(mark)
        {
            by_mark
                .entry((&life.kind, mark))
                .or_default()
                .push((id, life));
        }
    }
    for ((_, mark), mut lives) in by_mark {
        check.examine();
        lives.sort_by_key(|(_, life)| life.events.first().map(|event| event.at_us));
        for pair in lives.windows(2) {
            let (_, first) = pair[0];
            let (again, second) = pair[1];
            // After a failure or a timeout, and only then, the key is free again.
            let ended = first.events.iter().find(|event| ENDS.contains(&&*event.to));
            let began = second.events.first().map(|event| event.at_us);
            let freed =
                ended.is_some_and(|ended| &*ended.to != "completed" && Some(ended.at_us) <= began);
            if !freed {
                check.violated(
                    *again,
                    format!(
                        "{mark} is a second request, though the first ({}) is {}",
                        pair[0].0, first.status
                    ),
                );
            }
        }
    }
    check
}
