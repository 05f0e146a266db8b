//! What left for the downstream, against what the database knows of it.

use std::collections::HashMap;

use uuid::Uuid;

use super::Check;
use crate::evidence::{Evidence, Seen};

pub(super) fn check(evidence: &Evidence) -> Vec<Check> {
    let mut seen = HashMap::<Uuid, Vec<&Seen>>::new();
    for line in &evidence.downstream {
        if let Some(id) = line.id {
            seen.entry(id).or_default().push(line);
        }
    }
    let mut claimed = Check::of("each send was claimed before it left");
    let mut once = Check::of("what may leave once only left once at most");
    let mut known = Check::of("nothing was sent that nobody submitted");
    let mut done = Check::of("what is completed was taken by the downstream, and not rejected");
    let of = |lines: &[&Seen], event: &str| -> Vec<i64> {
        let lines = lines.iter().filter(|line| &*line.event == event);
        lines.map(|line| line.at_us).collect()
    };
    for (id, lines) in &seen {
        let sends = of(lines, "send");
        known.examine();
        let Some(life) = evidence.lives.get(id) else {
            known.violated(
                *id,
                format!("{} sends of a request that is not there", sends.len()),
            );
            continue;
        };
        if !sends.is_empty() {
            claimed.examine();
        }
        let mut claims: Vec<_> = life
            .events
            .iter()
            .filter(|event| &*event.cause == "claimed")
            .map(|event| event.at_us)
            .collect();
        claims.sort_unstable();
        if sends.len() > claims.len() {
            claimed.violated(
                *id,
                format!("{} sends and {} claims", sends.len(), claims.len()),
            );
        } else if let Some(number) =
            (0..sends.len()).find(|number| sends[*number] < claims[*number])
        {
            claimed.violated(*id, format!("send {} left before its claim", number + 1));
        }
        if evidence.at_most_once.contains(&*life.kind) {
            once.examine();
            if sends.len() > 1 {
                once.violated(*id, format!("it was sent {} times", sends.len()));
            }
        }
    }
    for (id, life) in &evidence.lives {
        if &*life.status != "completed" {
            continue;
        }
        done.examine();
        let lines = seen.get(id).map_or(&[][..], Vec::as_slice);
        if of(lines, "taken").len() != 1 {
            done.violated(
                *id,
                format!("it was taken {} times", of(lines, "taken").len()),
            );
        } else if !of(lines, "rejected").is_empty() {
            done.violated(*id, "the downstream rejected it");
        }
    }
    vec![known, claimed, once, done]
}
