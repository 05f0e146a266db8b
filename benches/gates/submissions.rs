//! Submissions that a node takes against those that it refuses, in one run, in turns; and what it asks the database.

use std::{net::SocketAddr, time::Duration};

use tidegate::{
    api_key::{ApiKey, Scope},
    config::DatabaseLocation,
    store::{GateHold, Store},
};
use tokio::{
    process::Command,
    time::{Instant, sleep},
};

use super::{
    load::{self, Connection, Load, Outcome},
    median,
    node::Node,
    support::{Bench, number},
    wire::{Counts, Wire},
};

/// What the gate does in a round, and how callers come to it.
#[derive(Clone, Copy, PartialEq)]
enum Door {
    Open,
    OpenToMany,
    Closed,
    ClosedKeyed,
}

const DOORS: [Door; 4] = [Door::Open, Door::OpenToMany, Door::Closed, Door::ClosedKeyed];

impl Door {
    const fn name(self) -> &'static str {
        match self {
            Self::Open => "open, all stored (202)",
            Self::OpenToMany => "the same, 64 API keys",
            Self::Closed => "closed (429)",
            Self::ClosedKeyed => "closed, each with a key (429)",
        }
    }

    const fn hold(self) -> GateHold {
        match self {
            Self::Open | Self::OpenToMany => GateHold::Open,
            Self::Closed | Self::ClosedKeyed => GateHold::Close,
        }
    }

    const fn status(self) -> u16 {
        match self {
            Self::Open | Self::OpenToMany => 202,
            Self::Closed | Self::ClosedKeyed => 429,
        }
    }
}

pub(crate) async fn measure(location: &DatabaseLocation) {
    let rounds = number("ROUNDS", 5);
    let seconds = number("SECONDS", 3);
    let connections = number("CONNECTIONS", 64);
    let bench = Bench::new(location).await;
    let wire = Wire::to(&bench.url).await;
    let node = Node::start(&wire.url).await;
    let time = Duration::from_secs(seconds.try_into().unwrap());
    let mut api_keys = Vec::new();
    for number in 0..64 {
        let key = ApiKey::generate().unwrap();
        let submitter = format!("submitter {number}");
        bench
            .store
            .key_create(&key, &submitter, &[Scope::Submit], Some(&submitter))
            .await
            .unwrap();
        api_keys.push(key.expose().to_owned());
    }
    let put = |address, door| {
        let load = Load {
            address,
            connections,
            seconds: time.as_secs_f64(),
            keyed: door == Door::ClosedKeyed,
            api_keys: match door {
                Door::OpenToMany => api_keys.clone(),
                _ => api_keys[..1].to_vec(),
            },
        };
        async move { load.put().await }
    };

    println!(
        "\none node, {connections} connections, requests of 100 bytes, {rounds} rounds of {seconds} s in turns; medians"
    );
    println!(
        "{:<31} {:>10} {:>34} {:>9} {:>9} {:>12}",
        "the gate", "requests/s", "rounds", "p50", "p99", "statements/s"
    );
    let nothing = Node::listening({
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg(load::NOTHING_COMMAND);
        command
    })
    .await;
    let mut bare = Vec::new();
    for _ in 0..rounds.min(3) {
        bare.push(put(nothing.address, Door::Open).await);
    }
    report("(a server that does nothing)", &bare, None);
    drop(nothing);

    // Once for nothing: caches fill, the node makes its connections.
    for door in DOORS {
        turn(&bench.store, node.address, &api_keys[0], door).await;
        put(node.address, door).await;
    }
    let mut outcomes = DOORS.map(|_| Vec::new());
    let mut asked = DOORS.map(|_| Counts::new());
    for _ in 0..rounds {
        for (place, door) in DOORS.into_iter().enumerate() {
            turn(&bench.store, node.address, &api_keys[0], door).await;
            wire.take();
            let outcome = put(node.address, door).await;
            add(&mut asked[place], wire.take());
            assert!(
                outcome.statuses.keys().all(|status| *status == door.status()),
                "{}: {:?}",
                door.name(),
                outcome.statuses
            );
            outcomes[place].push(outcome);
        }
    }
    turn(&bench.store, node.address, &api_keys[0], Door::Closed).await;
    wire.take();
    let mut idle = Counts::new();
    let begun = Instant::now();
    while begun.elapsed() < time * rounds.try_into().unwrap() {
        sleep(Duration::from_millis(100)).await;
        add(&mut idle, wire.take());
    }

    let all_seconds = f64::from(u32::try_from(rounds * seconds).unwrap());
    for (place, door) in DOORS.into_iter().enumerate() {
        let per_second = total(&asked[place]) / all_seconds;
        report(door.name(), &outcomes[place], Some(per_second));
    }
    println!(
        "{:<31} {:>10} {:>34} {:>9} {:>9} {:>12.2}",
        "closed, no callers",
        "",
        "",
        "",
        "",
        total(&idle) / all_seconds
    );
    let middle = |outcomes: &[Outcome]| median(outcomes.iter().map(|one| one.per_second).collect());
    println!("closed / open: {:.1}", middle(&outcomes[2]) / middle(&outcomes[0]));
    for (place, door) in DOORS.into_iter().enumerate() {
        let statuses = outcomes[place].iter().flat_map(|one| &one.statuses);
        let answers: u64 = statuses.map(|(_, count)| count).sum();
        println!(
            "{}: {answers} answers, all {}; asked in {all_seconds} s: {}",
            door.name(),
            door.status(),
            told(&asked[place])
        );
    }
    println!("no callers: asked in {all_seconds} s: {}", told(&idle));
    drop(node);
    bench.drop().await;
}

/// Turns the gate by hand, and waits until the node has heard of it.
async fn turn(store: &Store, node: SocketAddr, api_key: &str, door: Door) {
    store.gate_force("tx", door.hold()).await.unwrap();
    let mut connection = Connection::to(node, api_key.to_owned()).await;
    let mut right = 0;
    let begun = Instant::now();
    while right < 5 {
        let status = connection.submit(None).await;
        let is_right = status == door.status();
        right = if is_right { right + 1 } else { 0 };
        assert!(begun.elapsed() < Duration::from_secs(30), "answers {status}");
        sleep(Duration::from_millis(100)).await;
    }
}

fn add(counts: &mut Counts, more: Counts) {
    for (called, count) in more {
        *counts.entry(called).or_default() += count;
    }
}

fn total(counts: &Counts) -> f64 {
    f64::from(u32::try_from(counts.values().sum::<u64>()).unwrap())
}

fn told(counts: &Counts) -> String {
    let mut counts: Vec<_> = counts.iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let each: Vec<_> = counts
        .iter()
        .map(|(called, count)| format!("{called} {count}"))
        .collect();
    each.join(", ")
}

fn report(what: &str, outcomes: &[Outcome], asked: Option<f64>) {
    let of = |figure: fn(&Outcome) -> f64| outcomes.iter().map(figure).collect::<Vec<_>>();
    let rounds: Vec<_> = of(|one| one.per_second)
        .iter()
        .map(|figure| format!("{figure:.0}"))
        .collect();
    println!(
        "{what:<31} {:>10.0} {:>34} {:>6.2} ms {:>6.2} ms {:>12}",
        median(of(|one| one.per_second)),
        rounds.join(" "),
        median(of(|one| one.p50_ms)),
        median(of(|one| one.p99_ms)),
        asked.map_or(String::new(), |asked| format!("{asked:.2}"))
    );
}
