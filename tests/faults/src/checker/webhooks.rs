//! Each end with a callback reaches its receiver, under one id, signed, and as it is in the database.

use std::collections::{BTreeSet, HashMap};

use base64::{Engine, engine::general_purpose::STANDARD};
use hmac::{Hmac, Mac};
use serde_json::Value;
use sha2::Sha256;
use uuid::Uuid;

use super::{Check, lives::ENDS};
use crate::{
    evidence::{Evidence, Life},
    receiver::{Answer, Arrival},
};

/// How long after its signature a delivery may arrive, in seconds: the lease of an attempt, and a frozen receiver.
const WAY: i64 = 60;

pub(super) fn check(evidence: &Evidence) -> Vec<Check> {
    let mut arrived = HashMap::<&str, Vec<&Arrival>>::new();
    for arrival in &evidence.arrivals {
        arrived.entry(&arrival.delivery).or_default().push(arrival);
    }
    let requests: HashMap<_, _> = evidence
        .deliveries
        .iter()
        .map(|(request, delivery)| (delivery.id.to_string(), (*request, delivery.attempt)))
        .collect();
    let mut reached = Check::of("each end with a callback reaches its receiver, and no other end");
    for (id, life) in &evidence.lives {
        if let Some(what) = unreached(evidence, &arrived, *id, life) {
            reached.violated(*id, what);
        }
        if life.calls_back {
            reached.examine();
        }
    }
    for promise in evidence.promises.iter().filter(|promise| promise.calls_back) {
        if evidence.lives.get(&promise.id).is_some_and(|life| !life.calls_back) {
            reached.violated(promise.id, "its submission named a URL, and it has none");
        }
    }

    let mut same = Check::of("every attempt of a delivery has its id, its body and a number of its own");
    let mut told = Check::of("a webhook tells the end that its request has");
    let mut signed = Check::of("each webhook is signed with a secret that was in force");
    for (delivery, attempts) in &arrived {
        same.examine();
        let Some((request, begun)) = requests.get(*delivery) else {
            // Retention deletes a delivery with its request, and that of a resolution takes its place.
            if !is_gone(evidence, attempts[0]) {
                same.violated(None, format!("{delivery} is the delivery of no request"));
            }
            if attempts.iter().any(|arrival| arrival.body != attempts[0].body) {
                same.violated(None, format!("{delivery} has attempts with different bodies"));
            }
            continue;
        };
        let numbers: BTreeSet<_> = attempts.iter().map(|arrival| &*arrival.attempt).collect();
        let is_begun = |number: &&str| number.parse().is_ok_and(|number: i32| (1..=*begun).contains(&number));
        if numbers.len() < attempts.len() || !numbers.iter().all(is_begun) {
            same.violated(
                *request,
                format!("{} attempts, numbered {numbers:?}, and {begun} were begun", attempts.len()),
            );
        } else if attempts.iter().any(|arrival| arrival.body != attempts[0].body) {
            same.violated(*request, "its attempts have different bodies");
        }
        told.examine();
        let life = evidence.lives.get(request);
        if let Some(what) = life.and_then(|life| differs(*request, delivery, life, attempts)) {
            told.violated(*request, what);
        }
        for arrival in attempts {
            signed.examine();
            if !is_signed(evidence, arrival) {
                signed.violated(*request, format!("attempt {} has {}", arrival.attempt, arrival.signature));
            }
        }
    }
    vec![reached, same, told, signed]
}

/// Why an end counts as not delivered, or as delivered though no callback was named.
fn unreached(evidence: &Evidence, arrived: &HashMap<&str, Vec<&Arrival>>, id: Uuid, life: &Life) -> Option<String> {
    if life.removed_us.is_some() || !ENDS.contains(&&*life.status) {
        return None;
    }
    let Some(delivery) = evidence.deliveries.get(&id) else {
        return life.calls_back.then(|| "it has no delivery".to_owned());
    };
    if !life.calls_back {
        return Some("it has a delivery, and no callback".to_owned());
    }
    let attempts = arrived.get(&*delivery.id.to_string());
    let answered = |answers: &[Answer]| {
        let mut attempts = attempts.into_iter().flatten();
        attempts.any(|arrival| answers.contains(&arrival.answer))
    };
    let holds = match &*delivery.state {
        "delivered" => answered(&[Answer::Accepted, Answer::Late]),
        // The suite gives each delivery more attempts than can fail.
        "failed" => answered(&[Answer::Gone]),
        _ => false,
    };
    (!holds).then(|| format!("its delivery is {}, and the receiver did not answer so", delivery.state))
}

fn is_gone(evidence: &Evidence, arrival: &Arrival) -> bool {
    let body: Value = serde_json::from_str(&arrival.body).unwrap_or_default();
    let Some(id) = body["job_id"].as_str().and_then(|id| id.parse().ok()) else {
        return false;
    };
    let is_removed = evidence.lives.get(&id).is_some_and(|life| life.removed_us.is_some());
    let replaced = evidence.deliveries.get(&id);
    is_removed || replaced.is_some_and(|delivery| delivery.is_of_resolution)
}

/// What a delivery tells that is not so.
fn differs(request: Uuid, delivery: &str, life: &Life, attempts: &[&Arrival]) -> Option<String> {
    let Ok(body) = serde_json::from_str::<Value>(&attempts[0].body) else {
        return Some("its body is no JSON".to_owned());
    };
    let expected = [
        ("job_id", request.to_string()),
        ("delivery_id", delivery.to_owned()),
        ("state", life.status.to_string()),
        ("kind", life.kind.replace('_', "-")),
    ];
    for (member, value) in expected {
        if body[member].as_str() != Some(&value) {
            return Some(format!("its {member} is {}, and not {value}", body[member]));
        }
    }
    let finished_us = body["finished_at"]
        .as_str()
        .and_then(|at| at.parse::<chrono::DateTime<chrono::Utc>>().ok())
        .map(|at| at.timestamp_micros());
    if finished_us.is_none() || finished_us != life.finished_us {
        return Some(format!("its finished_at is {}", body["finished_at"]));
    }
    let is_early = |arrival: &&&Arrival| Some(arrival.at_us) < finished_us;
    attempts.iter().find(is_early).map(|_| "it arrived before the end".to_owned())
}

/// Whether a signature is that of a secret that signed at its time, made shortly before it arrived.
fn is_signed(evidence: &Evidence, arrival: &Arrival) -> bool {
    let Ok(at) = arrival.second.parse::<i64>() else { return false };
    let tags: Vec<_> = arrival.signature.split(' ').filter_map(|part| part.strip_prefix("v1,")).collect();
    let arrived = arrival.at_us / 1_000_000;
    (arrived - WAY..=arrived + 1).contains(&at)
        && evidence
            .secrets
            .iter()
            .filter(|secret| secret.from_second <= at && at <= secret.to_second)
            .any(|secret| tag(&secret.secret, arrival).is_some_and(|tag| tags.contains(&&*tag)))
}

/// The signature by Standard Webhooks; none under a secret that is not base64.
fn tag(secret: &str, arrival: &Arrival) -> Option<String> {
    let key = STANDARD.decode(secret.strip_prefix("whsec_")?).ok()?;
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).ok()?;
    mac.update(format!("{}.{}.{}", arrival.delivery, arrival.second, arrival.body).as_bytes());
    Some(STANDARD.encode(mac.finalize().into_bytes()))
}
