//! `tidegate demo`: real processes on their own database, and a report of what they do.

mod callers;
mod fleet;
mod picture;
mod story;
mod verdict;

use std::{process::ExitCode, time::Duration};

use anyhow::Context;
use clap::Args;
use tidegate::internals::{
    database::{self, PoolSettings},
    schema,
    store::Store,
};
use tokio::time::Instant;

use self::{
    callers::Callers,
    fleet::Fleet,
    picture::Picture,
    story::{GATE, Story},
};
use super::GlobalArgs;
use crate::logs::print_err;

/// D of the demo: a few hundred requests take well under a minute.
const RATE: u32 = 22;

/// C of the demo.
const CONCURRENCY: u32 = 10;

/// Nominal times that match the simulated downstream, in place of the starter set's.
const SETTINGS: [(&str, &str); 5] = [
    ("readiness_check_seconds", "0.3"),
    ("public_decrypt_processing_seconds", "1"),
    ("user_decrypt_processing_seconds", "1.2"),
    ("input_proof_processing_seconds", "1"),
    ("direct_processing_seconds", "0.2"),
];

#[derive(Debug, Args)]
pub(super) struct Demo {
    /// Requests to submit
    #[arg(long, default_value_t = 400, value_parser = clap::value_parser!(u32).range(40..=5000))]
    requests: u32,
    /// Keep the demo's database
    #[arg(long)]
    keep: bool,
    /// Keep the fleet and its pages up after the report, until Ctrl-C
    #[arg(long)]
    stay: bool,
}

impl Demo {
    pub(super) async fn run(self, global: GlobalArgs) -> anyhow::Result<ExitCode> {
        let location = global.database.locate().await?;
        let name = format!("tidegate_demo_{}", std::process::id());
        let url = database::with_database(&location.url, &name)?;
        let one_connection = PoolSettings { connections_max: 1, ..PoolSettings::default() };
        let admin = database::connect(&location.url, &one_connection).await?;
        sqlx::query(&format!("create database {name}"))
            .execute(&admin)
            .await
            .context("the demo cannot create its own database")?;

        let outcome = self.on(&url).await;

        let drop = format!("drop database {name} with (force)");
        if self.keep {
            let kept = match location.is_embedded() {
                true => format!("psql '{url}'"),
                // The URL may have a password.
                false => format!("{name}, on the server of the database URL"),
            };
            outln!("database kept: {kept}");
        } else if let Err(error) = sqlx::query(&drop).execute(&admin).await {
            print_err(format_args!("the demo's database {name} could not be dropped: {error}"));
        }
        outcome
    }

    async fn on(&self, url: &str) -> anyhow::Result<ExitCode> {
        let (high_water, low_water) = callers::marks(self.requests);
        outln!(
            "Setting up: schema, starter set, {RATE} sends per second, {CONCURRENCY} checks at once;\n\
             the gate of queue {GATE} closes at {high_water} requests and opens at {low_water}"
        );
        schema::migrate(url).await?;
        let store = Store::new(database::connect(url, &PoolSettings::default()).await?);
        store.initialise(Some("relayer"), None).await?;
        let limits = [
            ("tx.per_seconds".to_owned(), RATE),
            ("readiness.max_concurrency".to_owned(), CONCURRENCY),
            (format!("{GATE}.low_water"), low_water),
            (format!("{GATE}.high_water"), high_water),
        ];
        for (name, value) in limits {
            store.config_set(&name, &value.to_string()).await?;
        }
        for (name, value) in SETTINGS {
            store.config_set(name, value).await?;
        }

        outln!("Starting: 1 API node, 1 simulated downstream, 3 workers");
        let mut fleet = Fleet::start(url, RATE, CONCURRENCY).await?;
        let pages = format!("{}/ui", fleet.api);
        outln!("Its pages for operators: {pages}");
        outln!(
            "Submitting {} requests of four kinds, the last {} at once; each caller obeys Retry-After\n",
            self.requests,
            self.requests - callers::one_by_one(self.requests)
        );
        let callers = Callers::start(&fleet.api, self.requests);
        let verdict = match self.watch(&store, &callers, &mut fleet).await {
            Ok(story) => verdict::reach(&store, &callers, &fleet, story).await,
            Err(error) => Err(error),
        };
        if let (Ok(verdict), true) = (&verdict, self.stay) {
            outln!("{verdict}\nThe pages stay at {pages} until Ctrl-C");
            tokio::signal::ctrl_c().await?;
        }
        fleet.stop().await;
        let verdict = verdict?;
        if !self.stay {
            outln!("{verdict}");
        }
        Ok(ExitCode::from(u8::from(!verdict.holds())))
    }

    /// Draws until every caller has its answer and the gate is open; meanwhile one worker is killed and one is stopped.
    /// Returns the flips of the gate.
    async fn watch(&self, store: &Store, callers: &Callers, fleet: &mut Fleet) -> anyhow::Result<Story> {
        let mut picture = Picture::new();
        let mut story = Story::default();
        let deadline = Instant::now() + Duration::from_secs(60 + u64::from(self.requests / RATE) * 2);
        let (mut killed, mut stopped) = (false, false);
        loop {
            let answered = callers.answered();
            if !killed && answered * 2 >= self.requests {
                killed = true;
                picture.event(&fleet.kill_worker().await?);
            }
            if !stopped && answered * 4 >= self.requests * 3 {
                stopped = true;
                picture.event(&fleet.stop_worker().await?);
            }
            fleet.check_alive()?;
            for flip in story.go_on(store).await? {
                picture.event(&flip);
            }
            picture.draw(store, callers).await?;
            if callers.all_answered() && !story.is_closed() {
                return Ok(story);
            }
            anyhow::ensure!(
                Instant::now() < deadline,
                "the demo does not end: {answered} of {} answered, the gate {}",
                self.requests,
                if story.is_closed() { "closed" } else { "open" }
            );
            tokio::time::sleep(picture.period()).await;
        }
    }
}
