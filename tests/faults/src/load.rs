//! Callers of every sort: over HTTP and by SQL, one by one and in batches, with keys and without, and some that poll.

mod asking;
mod http;
mod nonsense;
mod operator;
mod repeating;
mod sql;

use std::{
    collections::VecDeque,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, atomic::AtomicU64},
    time::Duration,
};

use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};
use sqlx::{
    PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use tokio::{sync::Semaphore, task::JoinSet, time::sleep};
use tokio_util::sync::CancellationToken;

pub use self::{http::storm, nonsense::nonsense};
use crate::{
    fleet::Fleet,
    journal::{Journal, now_us},
    ledger::Ledger,
    options::Options,
    scene,
};

/// How many callers submit at once.
const SUBMITTERS: u64 = 24;

/// How many callers poll requests.
const ASKERS: u64 = 3;

/// How many callers repeat a submission under its key, whatever became of it; half of them obey its answers.
const REPEATERS: u64 = 16;

/// How many submissions are remembered, to be repeated under their key.
const REMEMBERED: usize = 3_000;

/// For how long the callers may submit at once what they could not submit before, in seconds.
const PATIENCE: u32 = 10;

/// The state that all callers share.
pub struct Load {
    /// Where API nodes listen.
    pub nodes: Vec<SocketAddr>,
    /// Where callers that name a URL have ends delivered.
    callback: String,
    /// The callers' own record.
    pub ledger: Ledger,
    /// The program of operators.
    tidegate: PathBuf,
    /// What operators read to find what was executed.
    downstream_log: PathBuf,
    /// The database, as callers reach it.
    database_url: String,
    client: reqwest::Client,
    pool: PgPool,
    journal: Arc<Journal>,
    /// Submissions that may begin; filled at the rate of the run.
    pace: Semaphore,
    serial: AtomicU64,
    keyed: Mutex<VecDeque<Submission>>,
    stop: CancellationToken,
    /// No caller waits for an answer any longer.
    give_up: CancellationToken,
}

/// Something to submit: a request, or a batch of them.
#[derive(Debug, Clone)]
pub struct Submission {
    kind: scene::Kind,
    /// None: each payload has a mark of its own, and is not submitted again.
    key: Option<String>,
    payloads: Vec<Value>,
    is_batch: bool,
    /// None: either, and perhaps the other one when it is repeated under its key.
    way: Option<Way>,
    /// Whether its end is to be delivered to the receiver, whatever its kind.
    calls_back: bool,
    submitter: Option<&'static str>,
}

/// How a submission is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Http,
    Sql,
}

impl Submission {
    /// The mark of the payload with this number, by which the checker recognises it.
    fn mark(&self, number: usize) -> String {
        self.payloads[number]["mark"].as_str().unwrap_or_default().to_owned()
    }

    /// Whether its caller takes a refusal as an answer. Quotas refuse during every outage: callers that waited for them
    /// would submit nothing else meanwhile.
    fn is_optional(&self) -> bool {
        self.kind.name == scene::RATIONED || self.submitter.is_some()
    }
}

impl Load {
    /// Callers of this fleet; they begin with [`Load::start`].
    ///
    /// # Errors
    ///
    /// When there can be no HTTP client.
    pub fn new(fleet: &Fleet, journal: Arc<Journal>) -> anyhow::Result<Arc<Self>> {
        let options = PgConnectOptions::new()
            .host("127.0.0.1")
            .port(fleet.callers.address.port())
            .username("tidegate")
            .database(crate::server::DATABASE)
            .ssl_mode(sqlx::postgres::PgSslMode::Disable)
            .application_name("caller");
        Ok(Arc::new(Self {
            nodes: fleet.addresses.clone(),
            callback: format!("http://{}/own", fleet.receiver_address),
            ledger: Ledger::default(),
            tidegate: fleet.programs.tidegate.clone(),
            downstream_log: fleet.downstream_log.clone(),
            database_url: format!(
                "postgres://tidegate@{}/{}?sslmode=disable",
                fleet.callers.address,
                crate::server::DATABASE
            ),
            client: reqwest::Client::builder()
                .no_proxy()
                .connect_timeout(Duration::from_secs(1))
                .timeout(Duration::from_secs(15))
                .build()?,
            pool: PgPoolOptions::new()
                .max_connections(8)
                .acquire_timeout(Duration::from_secs(3))
                .connect_lazy_with(options),
            journal,
            pace: Semaphore::new(0),
            serial: AtomicU64::new(0),
            keyed: Mutex::default(),
            stop: CancellationToken::new(),
            give_up: CancellationToken::new(),
        }))
    }

    /// Starts the callers.
    pub fn start(self: &Arc<Self>, options: &Options, seed: u64) -> JoinSet<()> {
        let mut callers = JoinSet::new();
        callers.spawn(Arc::clone(self).fill(options.per_second));
        for number in 0..SUBMITTERS {
            let random = StdRng::seed_from_u64(seed ^ (number << 8));
            callers.spawn(Arc::clone(self).submit(random));
        }
        for number in 0..ASKERS {
            let random = StdRng::seed_from_u64(seed ^ (number << 16));
            callers.spawn(Arc::clone(self).ask(random));
        }
        for number in 0..REPEATERS {
            let random = StdRng::seed_from_u64(seed ^ (number << 24));
            callers.spawn(Arc::clone(self).repeat(number % 2 == 0, random));
        }
        let random = StdRng::seed_from_u64(seed ^ (1 << 32));
        callers.spawn(Arc::clone(self).resolve(random));
        callers
    }

    /// No new submissions. Those without a certain answer are repeated for `grace`, where a key makes that safe.
    pub async fn finish(&self, mut callers: JoinSet<()>, grace: Duration) {
        self.stop.cancel();
        self.pace.close();
        let all = async { while callers.join_next().await.is_some() {} };
        if tokio::time::timeout(grace, all).await.is_err() {
            self.give_up.cancel();
            while callers.join_next().await.is_some() {}
        }
    }

    async fn fill(self: Arc<Self>, per_second: u32) {
        let mut tick = tokio::time::interval(Duration::from_millis(100));
        let mut owed = 0.0;
        while !self.stop.is_cancelled() {
            tick.tick().await;
            owed += f64::from(per_second) / 10.0;
            let room = ((per_second * PATIENCE) as usize).saturating_sub(self.pace.available_permits());
            let whole = (owed as usize).min(room);
            owed -= owed.floor();
            self.pace.add_permits(whole);
        }
    }

    /// Waits for the turn of `count` requests; false when the run is over.
    async fn turn(&self, count: usize) -> bool {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        match self.pace.acquire_many(count).await {
            Ok(permits) => {
                permits.forget();
                true
            }
            Err(_) => false,
        }
    }

    async fn submit(self: Arc<Self>, mut random: StdRng) {
        while !self.stop.is_cancelled() {
            let submission = self.next(&mut random);
            let way = submission.way.unwrap_or_else(|| a_way(&mut random));
            if !self.turn(submission.payloads.len()).await {
                return;
            }
            // Some callers repeat it at once, within the window of its key however short that is.
            let times = if submission.key.is_some() && random.random_bool(0.05) { 2 } else { 1 };
            for _ in 0..times {
                match way {
                    Way::Sql => self.submit_by_sql(&submission, &mut random).await,
                    Way::Http => {
                        self.submit_over_http(&submission, &mut random).await;
                    }
                }
            }
            if submission.key.is_some() {
                self.remember(submission);
            }
        }
    }

    /// Keeps a submission, to be repeated under its key.
    fn remember(&self, submission: Submission) {
        let mut keyed = self.keyed.lock().unwrap_or_else(PoisonError::into_inner);
        keyed.push_back(submission);
        if keyed.len() > REMEMBERED {
            keyed.pop_front();
        }
    }

    /// A new submission, or an earlier one again.
    fn next(&self, random: &mut StdRng) -> Submission {
        if random.random_bool(0.08) {
            let keyed = self.keyed.lock().unwrap_or_else(PoisonError::into_inner);
            if !keyed.is_empty() {
                let again = keyed[random.random_range(0..keyed.len())].clone();
                drop(keyed);
                self.ledger.entries().repeated += 1;
                return again;
            }
        }
        let all: u32 = scene::KINDS.iter().map(|kind| kind.weight).sum();
        let mut left = random.random_range(0..all);
        let kind = scene::KINDS.iter().find(|kind| {
            let chosen = left < kind.weight;
            left = left.saturating_sub(kind.weight);
            chosen
        });
        let kind = *kind.unwrap_or(&scene::KINDS[0]);
        let is_batch = random.random_bool(0.45);
        let count = if is_batch { random.random_range(2..40) } else { 1 };
        self.submission(kind, count, is_batch, random.random_bool(0.6), random)
    }

    fn submission(
        &self,
        kind: scene::Kind,
        count: usize,
        is_batch: bool,
        keyed: bool,
        random: &mut impl Rng,
    ) -> Submission {
        let serial = self.serial.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let key = format!("key-{serial}");
        let payloads = (0..count)
            .map(|number| {
                let mut payload = json!({ "mark": format!("{key}/{number}") });
                if kind.semantics == scene::Semantics::ExactlyOnce && random.random_bool(0.003) {
                    payload["poison"] = Value::Bool(true);
                }
                payload
            })
            .collect();
        // Over HTTP a submitter has an API key. A batch has keys of another form each way.
        let submitter = random.random_bool(0.05).then_some(scene::TENANT);
        let calls_back = !is_batch && submitter.is_none() && random.random_bool(0.2);
        let way = match submitter {
            Some(_) => Some(Way::Sql),
            None if calls_back => Some(Way::Http),
            None => is_batch.then(|| a_way(random)),
        };
        Submission { kind, key: keyed.then_some(key), payloads, is_batch, way, calls_back, submitter }
    }

    /// Stores the promise for a submission.
    fn promised(&self, submission: &Submission, ids: &[uuid::Uuid], way: &'static str) {
        if ids.len() != submission.payloads.len() {
            self.journal.wrong(format!(
                "{} requests were submitted and {} promised: {submission:?}",
                submission.payloads.len(),
                ids.len()
            ));
        }
        let mut entries = self.ledger.entries();
        entries.promised_us.push(now_us());
        for (number, id) in ids.iter().enumerate().take(submission.payloads.len()) {
            entries.promises.push(crate::ledger::Promise {
                id: *id,
                kind: submission.kind.name,
                mark: submission.mark(number),
                keyed: submission.key.is_some(),
                calls_back: submission.calls_back,
                way,
            });
        }
    }

    /// Waits for the Retry-After; false when the load ends before.
    async fn wait(&self, time: Duration) -> bool {
        tokio::select! {
            () = self.give_up.cancelled() => false,
            () = sleep(time) => true,
        }
    }
}

fn a_way(random: &mut impl Rng) -> Way {
    if random.random_bool(0.35) { Way::Sql } else { Way::Http }
}
