//! One run: start, load, faults, rest, judgement.

use std::{
    collections::HashMap,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use sqlx::Connection;
use tidegate::internals::shutdown;
use tokio::{
    process::Command,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use crate::{
    beat::Beat,
    checker,
    evidence::{BreakerRule, Evidence, Measured, QuotaCount, Seen as Call, Stall},
    fleet::{Builds, Fleet},
    inject::Injector,
    journal::Journal,
    load::Load,
    measure,
    options::Options,
    pooler::Pooler,
    quotas::QuotaCounter,
    report::{Processes, Report},
    scene,
    server::{DATABASE, Server},
    standby,
};

/// A node that needs more than this while it is sent nonsense does not bound its memory, in KiB.
const NODE_MEMORY_MAX: u64 = 600 << 10;

/// Runs, and prints its progress and results.
///
/// # Errors
///
/// When the run itself cannot go on: a part that does not start, a disk that is full.
pub async fn run(options: Options) -> anyhow::Result<Report> {
    let stop = shutdown::on_signal()?;
    let builds = Builds::of(&options)?;
    let directory = match &options.directory {
        Some(directory) => {
            std::fs::create_dir_all(directory)?;
            directory.clone()
        }
        None => tempfile::Builder::new().prefix("tidegate-faults-").tempdir_in("/tmp")?.keep(),
    };
    // The account that PostgreSQL runs as has to reach its part.
    std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o755))?;
    let place = directory.join("postgres");
    let server = match (options.cluster, &options.tools) {
        (Some(replication), Some(tools)) => Server::start_cluster(tools, &place, replication).await?,
        _ => Server::start(&place, &builds.own().faults).await?,
    };
    let mut servers = vec![server];
    let outcome = within(&options, &builds, &mut servers, &directory, &stop).await;
    for server in servers {
        server.end().await?;
    }

    if let Ok(report) = &outcome {
        println!("{report}");
    }
    if outcome.as_ref().is_ok_and(Report::holds) && options.directory.is_none() {
        remove(&directory).await;
    } else {
        println!("Logs and databases are in {}", directory.display());
    }
    outcome
}

/// Removes a directory in which a keeper may be about to leave.
async fn remove(directory: &Path) {
    for _ in 0..50 {
        if std::fs::remove_dir_all(directory).is_ok() {
            return;
        }
        sleep(Duration::from_millis(100)).await;
    }
}

async fn within(
    options: &Options,
    builds: &Builds,
    servers: &mut Vec<Server>,
    directory: &Path,
    stop: &CancellationToken,
) -> anyhow::Result<Report> {
    let seed = options.seed.unwrap_or_else(rand::random);
    let journal = Arc::new(Journal::default());
    journal.say(&format!(
        "seed {seed}: faults for {}, {} requests a second, in {}",
        humantime::format_duration(options.time),
        options.per_second,
        directory.display()
    ));
    let server = servers[0].clone();
    let old_days = scene::set(&server, options).await?;
    if options.their_schema {
        downgrade(&builds.of_schema().tidegate, &server).await?;
    }
    let pooler = match &options.pooler {
        Some(program) => Some(Pooler::start(program, &directory.join("pooler"), &server).await?),
        None => None,
    };
    let upstream = pooler.as_ref().map_or_else(|| server.upstream(), |pooler| Ok(pooler.upstream()))?;
    let fleet = Arc::new(Fleet::start(builds, &server, &upstream, options, directory, seed).await?);
    scene::deliver(&server, fleet.receiver_address).await?;
    journal.say("the fleet is up");

    let beat = Beat::start();
    let logs = directory.join("logs");
    let (measured, measured_calls) = measure::measure(&fleet, &journal, &logs, options.measured, seed).await?;
    let load = Load::new(&fleet, journal.clone())?;
    let callers = load.start(options, seed);
    let quotas = QuotaCounter::start(fleet.clone());
    let watching = tokio::spawn(watch(fleet.clone(), load.clone(), journal.clone()));
    let standby = match options.failover {
        true => {
            let directory = directory.join("standby");
            let standby = standby::follow(&server, &directory, &builds.own().faults).await?;
            servers.push(standby.clone());
            journal.say("a synchronous standby follows");
            Some(standby)
        }
        false => None,
    };
    let injector = Injector::new(fleet.clone(), load.clone(), journal.clone(), standby);
    injector.run(options, seed, stop.clone()).await;
    journal.say("no more faults");
    fleet.heal().await?;
    load.finish(callers, Duration::from_secs(30)).await;
    journal.say("no more submissions");
    // Requests that are never answered end only then.
    let rest = options.rest + options.response_timeout;
    come_to_rest(&fleet, &journal, &old_days, rest).await?;
    let quota_counts = quotas.stop();
    for command in ["doctor", "recover"] {
        if let Some(found) = injector.tool(command).await? {
            journal.wrong(format!("at the end `tidegate {command}` found:\n{found}"));
        }
    }
    watching.abort();
    let mut node_memory = 0;
    for node in &fleet.nodes {
        node_memory = node_memory.max(node.most_memory().await);
    }
    if node_memory > NODE_MEMORY_MAX {
        journal.wrong(format!("a node has needed {} MiB", node_memory >> 10));
    }
    let mut given_up = 0;
    for unit in fleet.units() {
        given_up += unit.given_up().await;
    }
    fleet.stop(&journal).await?;

    let seen = Seen { measured, measured_calls, old_days, quota_counts, stalls: beat.stop() };
    let evidence = evidence(&fleet, &load, &journal, options, seen).await?;
    let verdict = checker::check(&evidence);
    Ok(Report::of(
        (seed, options.time),
        journal.counts().into_iter().collect(),
        load.ledger.entries().clone(),
        &journal.disturbances(),
        Processes { node_memory, given_up },
        &evidence,
        verdict,
    ))
}

/// Replaces the functions in the database by those of this program.
async fn downgrade(tidegate: &Path, server: &Server) -> anyhow::Result<()> {
    let mut command = Command::new(tidegate);
    command.args(["migrate", "--downgrade"]).env("DATABASE_URL", server.url(DATABASE));
    let status = command.status().await?;
    anyhow::ensure!(status.success(), "`{} migrate --downgrade` ended with {status}", tidegate.display());
    Ok(())
}

/// Restarts processes that have ended by themselves, and prints progress at intervals.
async fn watch(fleet: Arc<Fleet>, load: Arc<Load>, journal: Arc<Journal>) {
    let mut beats: u32 = 0;
    loop {
        fleet.look_after(&journal).await;
        sleep(Duration::from_millis(250)).await;
        beats += 1;
        if beats.is_multiple_of(120) {
            let (promises, put_off, unanswered) = {
                let entries = load.ledger.entries();
                (entries.promises.len(), entries.put_off, entries.unanswered)
            };
            journal.say(&format!(
                "{promises} promises so far, {put_off} times told to come later, {unanswered} requests without an answer"
            ));
        }
    }
}

/// What is to be done before all is at rest: live requests, webhooks, and what retention has to delete.
const LEFT: &str = "
    select
      (select count(*) from tidegate.request where req_status not in ('completed', 'timed_out', 'failure'))
      + (
        select count(*)
        from tidegate.request as r
        join tidegate.kind as k on k.name = r.kind
        where r.finished_at + k.retention < clock_timestamp() - interval '5 seconds'
      )
      + (select count(*) from tidegate.webhook_delivery where state = 'pending')
      + (
        select count(*)
        from unnest($1::text[]) as d(day)
        where to_regclass('tidegate.stored_event_' || d.day) is not null and not exists (
          select from tidegate.request as r
          where to_char(r.submitted_at at time zone 'UTC', 'YYYY_MM_DD') = d.day
        )
      )";

/// Waits until nothing is left to do, or nothing has been done for as long as `patience`.
async fn come_to_rest(fleet: &Fleet, journal: &Journal, old_days: &[String], patience: Duration) -> anyhow::Result<()> {
    let mut until = Instant::now() + patience;
    let mut least = i64::MAX;
    let mut session = fleet.server().session().await?;
    loop {
        let left: i64 = sqlx::query_scalar(LEFT).bind(old_days).fetch_one(&mut session).await?;
        if left == 0 {
            journal.say("every request has ended");
            return Ok(());
        }
        if left < least {
            least = left;
            until = Instant::now() + patience;
        } else if Instant::now() > until {
            journal.say(&format!("{left} things are not done"));
            return Ok(());
        }
        sleep(Duration::from_millis(500)).await;
    }
}

/// What was measured during the run.
struct Seen {
    measured: Option<Measured>,
    measured_calls: Vec<Call>,
    old_days: Vec<String>,
    quota_counts: Vec<QuotaCount>,
    stalls: Vec<Stall>,
}

async fn evidence(
    fleet: &Fleet,
    load: &Load,
    journal: &Journal,
    options: &Options,
    seen: Seen,
) -> anyhow::Result<Evidence> {
    let of = |semantics| {
        let kinds = scene::KINDS.iter().filter(move |kind| kind.semantics == semantics);
        kinds.map(|kind| kind.name.to_owned()).collect()
    };
    let entries = load.ledger.entries().clone();
    let of_fleeting = |time: Duration| -> anyhow::Result<HashMap<String, i64>> {
        Ok([(scene::FLEETING.to_owned(), i64::try_from(time.as_micros())?)].into())
    };
    let mut evidence = Evidence {
        measured: seen.measured,
        old_days: seen.old_days,
        hedging: scene::HEDGED.map(|kind| (kind.to_owned(), (scene::HEDGE_MAX, scene::HEDGE_SHARE))).into(),
        breakers: [(
            scene::GUARDED.to_owned(),
            BreakerRule {
                open_us: i64::try_from(scene::OPEN.as_micros())?,
                probes: scene::PROBES,
                lost_us: i64::try_from(scene::probe_lasts().as_micros())?,
            },
        )]
        .into(),
        retentions_us: of_fleeting(scene::RETENTION)?,
        windows_us: of_fleeting(scene::WINDOW)?,
        exactly_once: of(scene::Semantics::ExactlyOnce),
        at_most_once: of(scene::Semantics::AtMostOnce),
        carried_us: [(scene::PATIENT.to_owned(), i64::try_from(scene::PATIENT_DEADLINE.as_micros())? / 2)].into(),
        thresholds: [("user_decrypt".to_owned(), scene::THRESHOLD)].into(),
        promises: entries.promises,
        told: entries.told,
        cancels: entries.cancels,
        resolutions: entries.resolutions,
        limits: scene::limits(options),
        checks_at_once: scene::CHECKS_AT_ONCE as usize,
        disturbances: journal.disturbances(),
        quota_counts: seen.quota_counts,
        stalls: seen.stalls,
        wrong: journal.all_wrong(),
        ..Evidence::default()
    };
    let mut session = fleet.server().session().await?;
    evidence.read_database(&mut session).await?;
    session.close().await?;
    evidence.read_downstream(&fleet.downstream_log)?;
    evidence.downstream.extend(seen.measured_calls);
    evidence.read_receiver(&fleet.receiver_log)?;
    Ok(evidence)
}

/// Where the programs of this workspace are, given one of them.
///
/// # Errors
///
/// When it is in no directory.
pub fn directory_of(program: &Path) -> anyhow::Result<PathBuf> {
    Ok(program.parent().context("a program is nowhere")?.to_owned())
}
