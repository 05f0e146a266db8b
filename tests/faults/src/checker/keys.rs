//! An idempotency key stands for one request at a time, and goes on standing for it; without one, a submission is one
//! request.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{Check, lives::ENDS};
use crate::evidence::{Evidence, Life};

pub(super) fn check(evidence: &Evidence) -> Vec<Check> {
    let mut check = Check::of("no idempotency key is lost: the same key is the same request");
    let keyed: HashSet<&str> = evidence
        .promises
        .iter()
        .filter(|promise| promise.keyed)
        .map(|promise| &*promise.mark)
        .collect();
    let mut by_mark = BTreeMap::<(&str, &str), Vec<(&uuid::Uuid, &Life)>>::new();
    for promise in evidence.promises.iter().filter(|promise| promise.keyed) {
        // A failure or a timeout frees its key.
        if let Some(life) = evidence.lives.get(&promise.id)
            && &*life.status == "completed"
            && !evidence.keyed.contains(&promise.id)
        {
            check.violated(promise.id, format!("the key of {} stands for it no more", promise.mark));
        }
    }
    for (id, life) in &evidence.lives {
        if let Some(mark) = life.mark.as_deref()
            && keyed.contains(mark)
        {
            by_mark.entry((&life.kind, mark)).or_default().push((id, life));
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
            let freed = ended.is_some_and(|ended| &*ended.to != "completed" && Some(ended.at_us) <= began);
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
    vec![check, once(evidence)]
}

/// Who submits without a key and is promised a request has made one, and not another besides.
fn once(evidence: &Evidence) -> Check {
    let mut check = Check::of("one submission without a key makes one request");
    let mut made = HashMap::<&str, Vec<&uuid::Uuid>>::new();
    for (id, life) in &evidence.lives {
        if let Some(mark) = life.mark.as_deref() {
            made.entry(mark).or_default().push(id);
        }
    }
    for promise in evidence.promises.iter().filter(|promise| !promise.keyed) {
        check.examine();
        for other in made.get(&*promise.mark).into_iter().flatten() {
            if **other != promise.id {
                check.violated(
                    **other,
                    format!("{} was promised as {}, and is there again", promise.mark, promise.id),
                );
            }
        }
    }
    check
}
