//! The evidence of a run: the tables, the downstream's log, the callers' ledger, and the times of disturbances.
//!
//! Read with plain queries and nothing of the engine's functions or views.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    io::BufRead,
    path::Path,
    sync::Arc,
};

use anyhow::Context;
use futures_util::TryStreamExt;
use serde::Deserialize;
use sqlx::{PgConnection, Row};
use uuid::Uuid;

use crate::{
    journal::Disturbance,
    ledger::{Cancel, Promise, Resolution, Told},
    receiver::Arrival,
    scene::{Limited, Quota},
};

/// A word that occurs many times.
pub type Word = Arc<str>;

/// One transition, as the history has it.
#[derive(Debug, Clone)]
pub struct Event {
    /// Which of its request it is, from 1.
    pub number: i32,
    /// The status before; none for the first.
    pub from: Option<Word>,
    /// The status after.
    pub to: Word,
    /// Why.
    pub cause: Word,
    /// The worker that claimed the request last.
    pub worker: Option<Word>,
    /// When, in microseconds of Unix time.
    pub at_us: i64,
}

/// One request, as its row and its history have it.
#[derive(Debug, Clone)]
pub struct Life {
    /// Its kind.
    pub kind: Word,
    /// Its flow.
    pub flow: Word,
    /// Its status.
    pub status: Word,
    /// How many transitions its row has counted.
    pub transition_no: i32,
    /// The mark in its payload.
    pub mark: Option<Box<str>>,
    /// Whether its payload is poison.
    pub poison: bool,
    /// The code of its error.
    pub error: Option<Word>,
    /// The submitter's name.
    pub submitter: Option<Word>,
    /// Whether it or its kind names a URL for its end.
    pub calls_back: bool,
    /// How many of its sends certainly did not leave, and use no attempt of its policy.
    pub unsent: i32,
    /// The request that it repeats: it is sent under the id of that one.
    pub send_id: Option<Uuid>,
    /// Whether it was executed, if it has ended: `no`, `yes` or `unknown`.
    pub executed: Word,
    /// Since when that is known, in microseconds of Unix time.
    pub known_us: Option<i64>,
    /// When it ended, in microseconds of Unix time.
    pub finished_us: Option<i64>,
    /// When it was deleted, if it was.
    pub removed_us: Option<i64>,
    /// Whether its history was dropped with that of its day.
    pub is_dropped: bool,
    /// Its transitions, in order.
    pub events: Vec<Event>,
}

impl Life {
    /// When it began, if its history is there.
    #[must_use]
    pub fn began_us(&self) -> Option<i64> {
        self.events.first().map(|event| event.at_us)
    }
}

/// The day of an id, which is a UUID of version 7, as the partitions of the history name it.
#[must_use]
pub fn day_of(id: Uuid) -> String {
    let ms = i64::try_from(id.as_u128() >> 80).unwrap_or_default();
    let at = chrono::DateTime::from_timestamp_millis(ms).unwrap_or_default();
    at.format("%Y_%m_%d").to_string()
}

/// One line of the downstream's log.
#[derive(Debug, Clone)]
pub struct Seen {
    /// On the downstream's monotonic clock, in microseconds.
    pub us: u64,
    /// In microseconds of Unix time.
    pub at_us: i64,
    /// Which request.
    pub id: Option<Uuid>,
    /// Its kind.
    pub kind: Word,
    /// The event: `check`, `ready`, `send`, `taken`, `delivered` and others.
    pub event: Word,
    /// The mark in the payload that was taken.
    pub key: Option<Box<str>>,
}

/// When this machine stalled, and for how long, in microseconds.
#[derive(Debug, Clone, Copy)]
pub struct Stall {
    /// When it was noticed.
    pub at_us: i64,
    /// How long it took.
    pub length_us: i64,
}

/// How many requests of a quota were in queues at a moment.
#[derive(Debug, Clone)]
pub struct QuotaCount {
    /// The name of its gate.
    pub gate: String,
    /// When they were counted, in microseconds of Unix time.
    pub at_us: i64,
    /// How many there were.
    pub live: i64,
    /// How many there may be.
    pub high_water: i64,
}

impl QuotaCount {
    /// A count of this quota.
    #[must_use]
    pub fn of(quota: &Quota, at_us: i64, live: i64) -> Self {
        Self { gate: quota.gate.to_owned(), at_us, live, high_water: quota.high_water.into() }
    }
}

/// A delivery of a webhook, as the outbox has it.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// Its id.
    pub id: Uuid,
    /// `pending`, `delivered` or `failed`.
    pub state: Word,
    /// How many attempts were begun.
    pub attempt: i32,
    /// Whether it tells of a resolution: it has taken the place of an earlier delivery.
    pub is_of_resolution: bool,
}

/// A secret that signs webhooks, with the seconds of Unix time in which it does.
#[derive(Debug, Clone)]
pub struct Secret {
    /// The secret.
    pub secret: String,
    /// From when on.
    pub from_second: i64,
    /// Until when.
    pub to_second: i64,
}

/// The rule of a breaker.
#[derive(Debug, Clone, Copy)]
pub struct BreakerRule {
    /// How long it stays open, in microseconds.
    pub open_us: i64,
    /// How many probes it lets through when it is half open.
    pub probes: usize,
    /// When a probe that was not settled counts as lost, in microseconds after its claim.
    pub lost_us: i64,
}

/// A change of a breaker.
#[derive(Debug, Clone)]
pub struct Flip {
    /// Whose breaker.
    pub kind: Word,
    /// Which of its changes this is.
    pub epoch: i64,
    /// `closed`, `open` or `half_open` from here on.
    pub state: Word,
    /// When, in microseconds of Unix time.
    pub at_us: i64,
}

/// The figures of a policy of sends, as the engine computes them.
#[derive(Debug, Clone)]
pub struct PolicyFigures {
    /// How many attempts a request has.
    pub attempts: u32,
    /// How long one may take, in microseconds.
    pub timeout_us: i64,
    /// How long all may take, with the backoffs: `W_retry`, in microseconds.
    pub w_retry_us: i64,
    /// No attempt is due later than this after the first, in microseconds.
    pub budget_us: i64,
    /// The share of calls that failed.
    pub p_drop: f64,
    /// The probability that a request succeeds.
    pub p_ok: f64,
    /// How many attempts a request has on average.
    pub expected_attempts: f64,
}

/// What the measured requests are compared with.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Their policy.
    pub policy: PolicyFigures,
}

/// A quota at the end.
#[derive(Debug, Clone)]
pub struct QuotaAtRest {
    /// The state of its gate.
    pub state: String,
    /// How many requests it counts.
    pub counted: i64,
}

/// Everything the checker looks at.
#[derive(Debug, Default)]
pub struct Evidence {
    /// All requests.
    pub lives: HashMap<Uuid, Life>,
    /// Events of requests that do not exist.
    pub orphans: Vec<Uuid>,
    /// Messages that are left, by queue.
    pub messages: BTreeMap<String, i64>,
    /// Requests that an idempotency key stands for.
    pub keyed: HashSet<Uuid>,
    /// The deliveries of webhooks, by the request whose end they tell.
    pub deliveries: HashMap<Uuid, Delivery>,
    /// The secrets that have signed webhooks.
    pub secrets: Vec<Secret>,
    /// The receiver's log.
    pub arrivals: Vec<Arrival>,
    /// Redriven requests, each with its copy.
    pub redriven: HashMap<Uuid, Uuid>,
    /// Those of them that no operator has redriven: their callers have submitted them again.
    pub resubmitted: HashSet<Uuid>,
    /// Those of them that were redriven although they were, or may have been, executed.
    pub may_repeat: HashSet<Uuid>,
    /// Kinds whose keys are free after what may have been executed: their sends may be repeated.
    pub repeatable: HashSet<String>,
    /// When the tables were read, in microseconds of Unix time.
    pub read_us: i64,
    /// The days whose history has a partition.
    pub days: HashSet<String>,
    /// Days from before the run that had one at its beginning.
    pub old_days: Vec<String>,
    /// How long a request of a kind is kept after its end, in microseconds, where that is shorter than a run.
    pub retentions_us: HashMap<String, i64>,
    /// How long a key of a kind stands for its request, where that is shorter than a run.
    pub windows_us: HashMap<String, i64>,
    /// How many effects each request had.
    pub effects: HashMap<Uuid, u32>,
    /// Kinds whose effects happen exactly once.
    pub exactly_once: HashSet<String>,
    /// Kinds whose sends leave once or not at all.
    pub at_most_once: HashSet<String>,
    /// Kinds whose slow sends are made again: how many more calls one may have, and how many there may be for each call.
    pub hedging: HashMap<String, (usize, f64)>,
    /// Kinds whose sends have a breaker.
    pub breakers: HashMap<String, BreakerRule>,
    /// The changes of breakers of sends, in the order in which they were stored.
    pub flips: Vec<Flip>,
    /// What the retries of the kind that is measured are compared with.
    pub measured: Option<Measured>,
    /// Kinds that carry an outage of half their deadline, and that half, in microseconds.
    pub carried_us: HashMap<String, i64>,
    /// How many shares complete a request, by kind, where that is more than one.
    pub thresholds: HashMap<String, usize>,
    /// The downstream's log.
    pub downstream: Vec<Seen>,
    /// The promises to callers.
    pub promises: Vec<Promise>,
    /// Later answers to callers.
    pub told: Vec<Told>,
    /// Cancels that were answered.
    pub cancels: Vec<Cancel>,
    /// What operators said of unresolved requests.
    pub resolutions: Vec<Resolution>,
    /// The rate limits.
    pub limits: Vec<Limited>,
    /// C.
    pub checks_at_once: usize,
    /// Counts of the requests of quotas.
    pub quota_counts: Vec<QuotaCount>,
    /// The quotas at the end, by the names of their gates.
    pub quotas: BTreeMap<String, QuotaAtRest>,
    /// The injected faults.
    pub disturbances: Vec<Disturbance>,
    /// When the machine stood still.
    pub stalls: Vec<Stall>,
    /// Other errors.
    pub wrong: Vec<String>,
}

/// Gives equal words one home.
#[derive(Default)]
struct Words(HashSet<Word>);

impl Words {
    fn of(&mut self, text: &str) -> Word {
        if let Some(known) = self.0.get(text) {
            return known.clone();
        }
        let word: Word = text.into();
        self.0.insert(word.clone());
        word
    }
}

impl Evidence {
    /// The id under which the downstream knows a request: its own, or that of the request that it repeats.
    #[must_use]
    pub fn send_id(&self, id: Uuid) -> Uuid {
        self.lives.get(&id).and_then(|life| life.send_id).unwrap_or(id)
    }

    /// The requests that repeat others, by the id that they are sent under.
    #[must_use]
    pub fn repeats(&self) -> HashMap<Uuid, Vec<&Life>> {
        let mut repeats = HashMap::<_, Vec<_>>::new();
        for life in self.lives.values() {
            if let Some(id) = life.send_id {
                repeats.entry(id).or_default().push(life);
            }
        }
        repeats
    }

    /// Adds the tables, in one snapshot.
    ///
    /// # Errors
    ///
    /// When the database cannot be read.
    pub async fn read_database(&mut self, session: &mut PgConnection) -> anyhow::Result<()> {
        let mut words = Words::default();
        sqlx::raw_sql("begin isolation level repeatable read, read only").execute(&mut *session).await?;
        let now = "select (extract(epoch from clock_timestamp()) * 1000000)::bigint";
        self.read_us = sqlx::query_scalar(now).fetch_one(&mut *session).await?;
        let days: Vec<String> = sqlx::query_scalar(
            "select substr(c.relname, 14)
             from pg_inherits as i
             join pg_class as c on c.oid = i.inhrelid
             where i.inhparent = 'tidegate.stored_event'::regclass",
        )
        .fetch_all(&mut *session)
        .await?;
        self.days.extend(days);
        let sql = "select r.id, r.kind, r.send_id, r.flow::text as flow, req_status::text as status, transition_no, tx_unsent,
                     coalesce(r.callback_url, k.callback_url) is not null as calls_back,
                     payload ->> 'mark' as mark, payload ? 'poison' as poison, error ->> 'code' as error, submitter,
                     case
                       when r.req_status = 'completed' then 'yes'
                       else coalesce(o.executed, case when r.tx_attempt > r.tx_unsent then 'unknown' else 'no' end)
                     end as executed,
                     (extract(epoch from coalesce(o.at, finished_at)) * 1000000)::bigint as known_us,
                     (extract(epoch from finished_at) * 1000000)::bigint as finished_us,
                     (extract(epoch from removed_at) * 1000000)::bigint as removed_us
                   from (select r.*, null as removed_at from tidegate.request as r union all table public.removed) as r
                   left join tidegate.kind as k on k.name = r.kind
                   left join (table tidegate.outcome union all table public.removed_outcome) as o on o.request_id = r.id";
        let mut rows = sqlx::query(sql).fetch(&mut *session);
        while let Some(row) = rows.try_next().await? {
            let id = row.get("id");
            let removed_us: Option<i64> = row.get("removed_us");
            let life = Life {
                kind: words.of(row.get("kind")),
                flow: words.of(row.get("flow")),
                status: words.of(row.get("status")),
                transition_no: row.get("transition_no"),
                mark: row.get::<Option<&str>, _>("mark").map(Into::into),
                poison: row.get("poison"),
                error: row.get::<Option<&str>, _>("error").map(|error| words.of(error)),
                submitter: row.get::<Option<&str>, _>("submitter").map(|name| words.of(name)),
                calls_back: row.get("calls_back"),
                unsent: row.get("tx_unsent"),
                send_id: row.get("send_id"),
                executed: words.of(row.get("executed")),
                known_us: row.get("known_us"),
                finished_us: row.get("finished_us"),
                removed_us,
                is_dropped: removed_us.is_some() && !self.days.contains(&day_of(id)),
                events: Vec::new(),
            };
            if self.lives.insert(id, life).is_some() {
                self.wrong.push(format!("{id} was deleted, and is there"));
            }
        }
        drop(rows);
        let sql = "select request_id, transition_no, from_status::text as old, to_status::text as new, cause, worker,
                     (extract(epoch from at) * 1000000)::bigint as at_us
                   from tidegate.request_event";
        let mut rows = sqlx::query(sql).fetch(&mut *session);
        while let Some(row) = rows.try_next().await? {
            let id = row.get("request_id");
            let event = Event {
                number: row.get("transition_no"),
                from: row.get::<Option<&str>, _>("old").map(|old| words.of(old)),
                to: words.of(row.get("new")),
                cause: words.of(row.get("cause")),
                worker: row.get::<Option<&str>, _>("worker").map(|name| words.of(name)),
                at_us: row.get("at_us"),
            };
            match self.lives.get_mut(&id) {
                Some(life) => life.events.push(event),
                None => self.orphans.push(id),
            }
        }
        drop(rows);
        for life in self.lives.values_mut() {
            life.events.sort_by_key(|event| event.number);
        }

        let queues: Vec<String> =
            sqlx::query_scalar("select name from tidegate.queue order by 1").fetch_all(&mut *session).await?;
        for queue in queues {
            let count = format!(
                "select (select count(*) from pgmq.\"q_{queue}\")
                   + (select count(*) from tidegate.leased_request where queue = '{queue}')"
            );
            let left = sqlx::query_scalar(&count).fetch_one(&mut *session).await?;
            self.messages.insert(queue, left);
        }
        let deliveries = "select request_id, id, state, attempt, event from tidegate.webhook_delivery";
        for row in sqlx::query(deliveries).fetch_all(&mut *session).await? {
            let delivery = Delivery {
                id: row.get("id"),
                state: words.of(row.get("state")),
                attempt: row.get("attempt"),
                is_of_resolution: row.get::<&str, _>("event") == "request.resolved",
            };
            self.deliveries.insert(row.get("request_id"), delivery);
        }
        let secrets = "select secret, floor(extract(epoch from created_at))::bigint as from_second,
                         ceil(extract(epoch from expires_at))::bigint as to_second
                       from tidegate.webhook_secret";
        for row in sqlx::query(secrets).fetch_all(&mut *session).await? {
            self.secrets.push(Secret {
                secret: row.get("secret"),
                from_second: row.get("from_second"),
                to_second: row.get::<Option<i64>, _>("to_second").unwrap_or(i64::MAX),
            });
        }
        let flips = "select kind, epoch, state, (extract(epoch from at) * 1000000)::bigint as at_us
                     from tidegate.breaker_event
                     where stage = 'tx'
                     order by kind, epoch";
        for row in sqlx::query(flips).fetch_all(&mut *session).await? {
            self.flips.push(Flip {
                kind: words.of(row.get("kind")),
                epoch: row.get("epoch"),
                state: words.of(row.get("state")),
                at_us: row.get("at_us"),
            });
        }
        let redriven = "select request_id, redriven_as, on_behalf_of is null from tidegate.redrive";
        let redriven: Vec<(Uuid, Uuid, bool)> = sqlx::query_as(redriven).fetch_all(&mut *session).await?;
        for (id, copy, by_caller) in redriven {
            self.redriven.insert(id, copy);
            if by_caller {
                self.resubmitted.insert(id);
            }
        }
        let may_repeat: Vec<Uuid> =
            sqlx::query_scalar("select request_id from public.repeated").fetch_all(&mut *session).await?;
        self.may_repeat.extend(may_repeat);
        let repeatable: Vec<String> =
            sqlx::query_scalar("select name from tidegate.kind where key_after_unknown = 'free'")
                .fetch_all(&mut *session)
                .await?;
        self.repeatable.extend(repeatable);
        let quotas = sqlx::query(
            "select g.name, g.state, (select count(*) from tidegate.quota_usage as u where u.gate = g.name) as counted
             from tidegate.gate as g
             where g.queue is null",
        );
        for row in quotas.fetch_all(&mut *session).await? {
            let quota = QuotaAtRest { state: row.get("state"), counted: row.get("counted") };
            self.quotas.insert(row.get("name"), quota);
        }
        let keyed: Vec<Uuid> =
            sqlx::query_scalar("select request_id from tidegate.dedup where expires_at > clock_timestamp()")
                .fetch_all(&mut *session)
                .await?;
        self.keyed.extend(keyed);
        let effects: Vec<(Uuid, i64)> = sqlx::query_as("select request_id, count(*) from public.booking group by 1")
            .fetch_all(&mut *session)
            .await?;
        for (id, count) in effects {
            self.effects.insert(id, u32::try_from(count)?);
        }
        sqlx::raw_sql("rollback").execute(session).await?;
        Ok(())
    }

    /// Adds the log of the receiver of webhooks.
    ///
    /// # Errors
    ///
    /// When the log cannot be read.
    pub fn read_receiver(&mut self, log: &Path) -> anyhow::Result<()> {
        let file = std::fs::File::open(log).with_context(|| log.display().to_string())?;
        for line in std::io::BufReader::new(file).lines() {
            let line = line?;
            let arrival = serde_json::from_str(&line).with_context(|| line.clone())?;
            self.arrivals.push(arrival);
        }
        Ok(())
    }

    /// Adds the downstream's log.
    ///
    /// # Errors
    ///
    /// When the log cannot be read.
    pub fn read_downstream(&mut self, log: &Path) -> anyhow::Result<()> {
        #[derive(Deserialize)]
        struct Line<'a> {
            #[serde(borrow)]
            at: &'a str,
            us: u64,
            request_id: Option<Uuid>,
            kind: &'a str,
            event: &'a str,
            key: Option<&'a str>,
        }
        let mut words = Words::default();
        let file = std::fs::File::open(log).with_context(|| log.display().to_string())?;
        for line in std::io::BufReader::new(file).lines() {
            let line = line?;
            let line: Line<'_> = serde_json::from_str(&line).with_context(|| line.clone())?;
            let at: chrono::DateTime<chrono::Utc> = line.at.parse()?;
            self.downstream.push(Seen {
                us: line.us,
                at_us: at.timestamp_micros(),
                id: line.request_id,
                kind: words.of(line.kind),
                event: words.of(line.event),
                key: line.key.map(Into::into),
            });
        }
        // Lines of several threads may have been written in another order than they were timed.
        self.downstream.sort_by_key(|seen| seen.us);
        Ok(())
    }
}
