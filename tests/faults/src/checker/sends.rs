//! The sends in the downstream's log, compared with the database.

use std::collections::HashMap;

use uuid::Uuid;

use super::{
    Check,
    limits::{is_held_back, stalled_us},
};
use crate::evidence::{Evidence, Life, Seen};

/// How long after its request has left flight a send may still arrive, in microseconds.
const WAY_US: i64 = 3_000_000;

pub(super) fn check(evidence: &Evidence) -> Vec<Check> {
    let mut seen = HashMap::<Uuid, Vec<&Seen>>::new();
    for line in &evidence.downstream {
        if let Some(id) = line.id {
            seen.entry(id).or_default().push(line);
        }
    }
    let repeats = evidence.repeats();
    let mut claimed = Check::of("each send was claimed before it left");
    let mut once = Check::of("what may leave once only left once at most");
    let mut known = Check::of("every send belongs to a submitted request");
    let mut done = Check::of("what has a receipt was taken by the downstream once, and not rejected");
    let mut twice = Check::of("the downstream has taken nothing twice");
    let of = |lines: &[&Seen], event: &str| -> Vec<i64> {
        let lines = lines.iter().filter(|line| &*line.event == event);
        lines.map(|line| line.at_us).collect()
    };
    for (id, lines) in &seen {
        let mut sends = of(lines, "send");
        sends.sort_unstable();
        known.examine();
        let Some(life) = evidence.lives.get(id) else {
            known.violated(*id, format!("{} sends of a request that is not there", sends.len()));
            continue;
        };
        if let Some(other) = lines.iter().find(|line| &*line.event == "send" && line.kind != life.kind) {
            known.violated(*id, format!("sent as {}, and it is {}", other.kind, life.kind));
        }
        // What repeats it is sent under its id.
        let mut lives = vec![life];
        lives.extend(repeats.get(id).into_iter().flatten());
        if !sends.is_empty() {
            claimed.examine();
        }
        let mut claims: Vec<_> = lives
            .iter()
            .flat_map(|life| &life.events)
            .filter(|event| &*event.cause == "claimed")
            .map(|event| event.at_us)
            .collect();
        claims.sort_unstable();
        // A slow call may be made again under its claim.
        let calls = 1 + evidence.hedging.get(&*life.kind).map_or(0, |(max, _)| *max);
        if sends.len() > claims.len() * calls {
            claimed.violated(*id, format!("{} sends and {} claims", sends.len(), claims.len()));
        } else if let Some(number) = (0..sends.len()).find(|number| sends[*number] < claims[*number / calls]) {
            claimed.violated(*id, format!("send {} left before its claim", number + 1));
        } else if let Some(number) = unclaimed(evidence, &lives, &sends, calls) {
            claimed.violated(*id, format!("send {} left when no claim was open for it", number + 1));
        }
        if evidence.at_most_once.contains(&*life.kind) {
            once.examine();
            if sends.len() > lives.len() {
                once.violated(*id, format!("it was sent {} times", sends.len()));
            }
        }
    }
    for (id, life) in &evidence.lives {
        let lines = seen.get(&evidence.send_id(*id)).map_or(&[][..], Vec::as_slice);
        let taken = of(lines, "taken").len();
        twice.examine();
        if taken > 1 {
            twice.violated(*id, format!("it was taken {taken} times"));
        }
        let has_receipt = life.events.iter().any(|event| &*event.cause == "receipt");
        if &*life.status != "completed" && !has_receipt {
            continue;
        }
        done.examine();
        if taken == 0 {
            done.violated(*id, "it was never taken");
        } else if !of(lines, "rejected").is_empty() {
            done.violated(*id, "the downstream rejected it");
        }
    }
    vec![known, claimed, once, done, twice]
}

/// The first send that has no claim of its own: one that was not answered for yet when it arrived, or only just.
///
/// Both in the order of time, each send takes the first claim that was open then and has not had all its `calls`: no
/// other choice leaves more.
fn unclaimed(evidence: &Evidence, lives: &[&Life], sends: &[i64], calls: usize) -> Option<usize> {
    let of_life = |life: &&'_ Life| {
        let claimed = life.events.iter().enumerate();
        let claimed = claimed.filter(|(_, event)| &*event.cause == "claimed");
        let spans = claimed.map(|(place, event)| {
            let over = life.events.get(place + 1).map(|next| next.at_us);
            (event.at_us, over.unwrap_or(i64::MAX))
        });
        spans.collect::<Vec<_>>()
    };
    let claims = lives.iter().flat_map(of_life);
    let mut claims: Vec<_> = claims.flat_map(|span| std::iter::repeat_n(span, calls)).collect();
    claims.sort_unstable();
    sends.iter().position(|send| {
        let open = claims.iter().position(|(from, to)| {
            let late = WAY_US + stalled_us(evidence, *from, *send);
            from <= send && *send <= to.saturating_add(late)
        });
        match open {
            Some(place) => {
                claims.remove(place);
                false
            }
            None => {
                let events = lives.iter().filter_map(|life| life.events.first());
                let first = events.map(|event| event.at_us).min().unwrap_or(*send);
                !is_held_back(evidence, first, *send)
            }
        }
    })
}
