//! Accepted and refused submissions of a node, and polls, per second, in turns, and the node's statements.

use std::{net::SocketAddr, time::Duration};

use tidegate::internals::{
    api_key::{ApiKey, Scope},
    store::{GateHold, Store},
};
use tidegate_cli::database_location::DatabaseLocation;
use tokio::{
    process::Command,
    time::{Instant, sleep},
};

use super::{
    load::{self, Call, Connection, Load, Outcome},
    median,
    node::Node,
    support::{Bench, number},
    wire::{Counts, Wire},
};

/// What a round measures: how the gate is held, and what the callers do.
#[derive(Clone, Copy, PartialEq)]
enum Case {
    Open,
    OpenToMany,
    Closed,
    ClosedKeyed,
    Polls,
    PollsEnded,
}

const CASES: [Case; 6] = [Case::Open, Case::OpenToMany, Case::Closed, Case::ClosedKeyed, Case::Polls, Case::PollsEnded];

impl Case {
    const fn name(self) -> &'static str {
        match self {
            Self::Open => "open, all stored (202)",
            Self::OpenToMany => "the same, 64 API keys",
            Self::Closed => "closed (429)",
            Self::ClosedKeyed => "closed, each with a key (429)",
            Self::Polls => "polls, all waiting (202)",
            Self::PollsEnded => "polls, all ended (200)",
        }
    }

    /// Polls are a statement each, so the proxy that counts statements would hold them up.
    const fn is_counted(self) -> bool {
        !matches!(self, Self::Polls | Self::PollsEnded)
    }

    const fn hold(self) -> GateHold {
        match self {
            Self::Open | Self::OpenToMany | Self::Polls | Self::PollsEnded => GateHold::Open,
            Self::Closed | Self::ClosedKeyed => GateHold::Close,
        }
    }

    const fn status(self) -> u16 {
        match self {
            Self::Open | Self::OpenToMany | Self::Polls => 202,
            Self::Closed | Self::ClosedKeyed => 429,
            Self::PollsEnded => 200,
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
    let uncounted = Node::start(&bench.url).await;
    let address_in = |case: Case| match case.is_counted() {
        true => node.address,
        false => uncounted.address,
    };
    let time = Duration::from_secs(seconds.try_into().unwrap());
    let mut api_keys = Vec::new();
    for number in 0..64 {
        let key = ApiKey::generate().unwrap();
        let submitter = format!("submitter {number}");
        bench.store.key_create(&key, &submitter, &[Scope::Submit], Some(&submitter)).await.unwrap();
        api_keys.push(key.expose().to_owned());
    }
    let run = |address, case| {
        let load = Load {
            address,
            connections,
            seconds: time.as_secs_f64(),
            call: match case {
                Case::Open | Case::OpenToMany | Case::Closed => Call::Submit,
                Case::ClosedKeyed => Call::SubmitKeyed,
                Case::Polls => Call::Poll,
                Case::PollsEnded => Call::PollEnded,
            },
            api_keys: match case {
                Case::OpenToMany => api_keys.clone(),
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
        bare.push(run(nothing.address, Case::Open).await);
    }
    report("(a server that does nothing)", &bare, None);
    drop(nothing);

    // An unmeasured round fills caches and makes the node's connections.
    for case in CASES {
        hold_gate(&bench.store, address_in(case), &api_keys[0], case).await;
        run(address_in(case), case).await;
    }
    let mut outcomes = CASES.map(|_| Vec::new());
    let mut asked = CASES.map(|_| Counts::new());
    for _ in 0..rounds {
        for (place, case) in CASES.into_iter().enumerate() {
            hold_gate(&bench.store, address_in(case), &api_keys[0], case).await;
            wire.take();
            let outcome = run(address_in(case), case).await;
            add(&mut asked[place], wire.take());
            assert!(
                outcome.statuses.keys().all(|status| *status == case.status()),
                "{}: {:?}",
                case.name(),
                outcome.statuses
            );
            outcomes[place].push(outcome);
        }
    }
    hold_gate(&bench.store, node.address, &api_keys[0], Case::Closed).await;
    wire.take();
    let mut idle = Counts::new();
    let begun = Instant::now();
    while begun.elapsed() < time * rounds.try_into().unwrap() {
        sleep(Duration::from_millis(100)).await;
        add(&mut idle, wire.take());
    }

    let all_seconds = f64::from(u32::try_from(rounds * seconds).unwrap());
    for (place, case) in CASES.into_iter().enumerate() {
        let per_second = total(&asked[place]) / all_seconds;
        report(case.name(), &outcomes[place], case.is_counted().then_some(per_second));
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
    for (place, case) in CASES.into_iter().enumerate() {
        let statuses = outcomes[place].iter().flat_map(|one| &one.statuses);
        let answers: u64 = statuses.map(|(_, count)| count).sum();
        let asked = match case.is_counted() {
            true => format!("; asked in {all_seconds} s: {}", by_count(&asked[place])),
            false => String::new(),
        };
        println!("{}: {answers} answers, all {}{asked}", case.name(), case.status());
    }
    println!("no callers: asked in {all_seconds} s: {}", by_count(&idle));
    drop(node);
    bench.drop().await;
}

/// Holds the gate by hand, and waits until the node's copy shows it.
async fn hold_gate(store: &Store, node: SocketAddr, api_key: &str, case: Case) {
    store.gate_force("tx", case.hold()).await.unwrap();
    let mut connection = Connection::to(node, api_key.to_owned()).await;
    let mut right = 0;
    let begun = Instant::now();
    while right < 5 {
        let status = connection.submit(None).await;
        let is_right = (status == 202) == (case.hold() == GateHold::Open);
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

fn by_count(counts: &Counts) -> String {
    let mut counts: Vec<_> = counts.iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let each: Vec<_> = counts.iter().map(|(called, count)| format!("{called} {count}")).collect();
    each.join(", ")
}

fn report(what: &str, outcomes: &[Outcome], asked: Option<f64>) {
    let of = |figure: fn(&Outcome) -> f64| outcomes.iter().map(figure).collect::<Vec<_>>();
    let rounds: Vec<_> = of(|one| one.per_second).iter().map(|figure| format!("{figure:.0}")).collect();
    println!(
        "{what:<31} {:>10.0} {:>34} {:>6.2} ms {:>6.2} ms {:>12}",
        median(of(|one| one.per_second)),
        rounds.join(" "),
        median(of(|one| one.p50_ms)),
        median(of(|one| one.p99_ms)),
        asked.map_or(String::new(), |asked| format!("{asked:.2}"))
    );
}
