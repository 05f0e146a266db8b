//! The configuration of a run: kinds, queues, limits, and the downstream's behaviour.

mod history;

use std::time::Duration;

use sqlx::PgConnection;
use tidegate::internals::{
    database::{self, PoolSettings},
    schema,
    store::Store,
};

use crate::{measure, mutants::Mutant, options::Options, server::Server};

/// A kind of the run.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    /// Its name.
    pub name: &'static str,
    /// Its name in paths.
    pub path: &'static str,
    /// How often it is chosen.
    pub weight: u32,
    /// The semantics of its sends.
    pub semantics: Semantics,
    /// The queue that limits its rate.
    pub queue: &'static str,
}

/// The semantics of a kind's sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Semantics {
    /// They may be repeated.
    AtLeastOnce,
    /// They leave once, or not at all.
    AtMostOnce,
    /// They may be repeated, and have an effect in the database that happens once.
    ExactlyOnce,
}

/// All kinds of a run; those of the example come first.
pub const KINDS: [Kind; 15] = [
    kind("direct", "direct", 30, Semantics::AtLeastOnce, "tx"),
    kind("input_proof", "input-proof", 20, Semantics::AtLeastOnce, "tx"),
    kind("public_decrypt", "public-decrypt", 15, Semantics::AtLeastOnce, "tx"),
    kind("user_decrypt", "user-decrypt", 10, Semantics::AtLeastOnce, "tx"),
    kind("single_shot", "single-shot", 10, Semantics::AtMostOnce, "tx"),
    kind("booking", "booking", 15, Semantics::ExactlyOnce, "bookings"),
    kind(PATIENT, "patient", 10, Semantics::AtLeastOnce, "tx"),
    kind(RATIONED, "rationed", 8, Semantics::AtLeastOnce, "tx"),
    kind(FLEETING, "fleeting", 8, Semantics::AtLeastOnce, "tx"),
    kind("hedged", "hedged", 10, Semantics::AtLeastOnce, "tx"),
    kind("hedged_booking", "hedged-booking", 6, Semantics::ExactlyOnce, "bookings"),
    kind(GUARDED, "guarded", 10, Semantics::AtLeastOnce, "tx"),
    kind("hasty", "hasty", 4, Semantics::AtLeastOnce, "tx"),
    kind("unsure", "unsure", 4, Semantics::AtLeastOnce, "tx"),
    kind("solitary", "solitary", 4, Semantics::AtMostOnce, "tx"),
];

/// The kinds whose requests often end unresolved: how many attempts they have, what becomes of their keys then, and how
/// often the downstream loses their answers.
const LOSSY: [(&str, u32, &str, f64); 3] =
    [("hasty", 1, "window", 0.2), ("unsure", 2, "resolved", 0.5), ("solitary", 2, "window", 0.2)];

/// How long their sends may take.
const LOSSY_TIMEOUT: Duration = Duration::from_millis(300);

/// Whether the downstream loses many answers of a kind.
#[must_use]
pub fn is_lossy(kind: &Kind) -> bool {
    LOSSY.iter().any(|(name, ..)| *name == kind.name)
}

/// The other kinds that callers repeat and cancel all the time.
pub const REPEATED: [&str; 6] = ["direct", "input_proof", "public_decrypt", "single_shot", "booking", FLEETING];

/// The kinds whose slow sends are made again before they are answered.
pub const HEDGED: [&str; 2] = ["hedged", "hedged_booking"];

/// How many more calls may be made for one that is slow.
pub const HEDGE_MAX: usize = 2;

/// How many hedges there may be for each call of a kind.
pub const HEDGE_SHARE: f64 = 0.2;

/// The kind that has a breaker.
pub const GUARDED: &str = "guarded";

/// How long the breaker stays open.
pub const OPEN: Duration = Duration::from_secs(5);

/// How many probes a half-open breaker lets through.
pub const PROBES: usize = 2;

/// How long a send may take.
const TIMEOUT: Duration = Duration::from_secs(2);

/// When a probe that was not settled counts as lost: at the end of its lease and its call.
#[must_use]
pub fn probe_lasts() -> Duration {
    crate::fleet::LEASE + TIMEOUT
}

/// The kinds that the example does not have.
pub fn own_kinds() -> impl Iterator<Item = &'static Kind> {
    KINDS.iter().skip(4)
}

/// The names of a tx queue's kinds.
pub fn kinds_of(queue: &str) -> impl Iterator<Item = &'static str> {
    KINDS.iter().filter(move |kind| kind.queue == queue).map(|kind| kind.name)
}

/// The kind that has a quota.
pub const RATIONED: &str = "rationed";

/// The kind whose requests are deleted soon after their end.
pub const FLEETING: &str = "fleeting";

/// How long a `fleeting` request is kept after its end.
pub const RETENTION: Duration = Duration::from_secs(8);

/// How long a key of a `fleeting` request stands for it.
pub const WINDOW: Duration = Duration::from_secs(6);

/// The submitter that has a quota.
pub const TENANT: &str = "tenant";

/// A strict quota of a run.
#[derive(Debug, Clone, Copy)]
pub struct Quota {
    /// The name of its gate.
    pub gate: &'static str,
    /// At most so many of its requests are in queues at any moment.
    pub high_water: u32,
    /// It opens again at so many.
    pub low_water: u32,
}

/// The quotas of a run: larger than a batch, and too small for what is submitted in an outage.
pub const QUOTAS: [Quota; 2] = [quota("kind rationed", 45, 20), quota("submitter tenant", 45, 20)];

const fn quota(gate: &'static str, high_water: u32, low_water: u32) -> Quota {
    Quota { gate, high_water, low_water }
}

/// The kind whose policy is the one that a new kind comes with.
pub const PATIENT: &str = "patient";

/// The deadline of `patient` requests; their policy carries an outage of half of it.
pub const PATIENT_DEADLINE: Duration = Duration::from_secs(20);

const fn kind(name: &'static str, path: &'static str, weight: u32, semantics: Semantics, queue: &'static str) -> Kind {
    Kind { name, path, weight, semantics, queue }
}

/// A queue with a rate limit.
#[derive(Debug, Clone)]
pub struct Limited {
    /// Its name.
    pub queue: String,
    /// D.
    pub per_second: u32,
    /// How many sends may start at once.
    pub burst: u32,
    /// The kinds whose requests pass it.
    pub kinds: Vec<String>,
}

/// C of the readiness queue.
pub const CHECKS_AT_ONCE: u32 = 24;

/// How many shares complete a `user_decrypt`.
pub const THRESHOLD: usize = 3;

/// The limits of a run: room for half as much again as is submitted, so that what has piled up in an outage goes down.
#[must_use]
pub fn limits(options: &Options) -> Vec<Limited> {
    let of = |queue: &str, share: f64| Limited {
        queue: queue.to_owned(),
        per_second: ((f64::from(options.per_second) * share).ceil() as u32).max(10),
        burst: 1,
        kinds: kinds_of(queue).map(str::to_owned).collect(),
    };
    vec![of("tx", 1.6), of("bookings", 0.4)]
}

/// Brings the database to this version and sets the scene; returns the days of old requests that it has made.
///
/// # Errors
///
/// When the database refuses.
pub async fn set(server: &Server, options: &Options) -> anyhow::Result<Vec<String>> {
    let url = server.url(crate::server::DATABASE);
    schema::migrate(&url).await?;
    let pool = database::connect(&url, &PoolSettings::default()).await?;
    Store::new(pool.clone()).initialise(Some("relayer"), None).await?;
    let mut statements =
        "insert into tidegate.queue (name, stage, fair_by) values ('bookings', 'tx', 'kind');".to_owned();
    // The policy of `patient` stays as it comes.
    for kind in own_kinds().filter(|kind| kind.name != PATIENT) {
        statements += &format!(
            "insert into tidegate.kind (name, flow, tx_queue, processing_ms, tx_confirmation_ms)
             values ('{}', 'direct', '{}', 500, 100);",
            kind.name, kind.queue
        );
    }
    statements += &format!(
        "update tidegate.queue set max_concurrency = {CHECKS_AT_ONCE} where name = 'readiness';
         update tidegate.gate set high_water = 3000, low_water = 1500 where queue in ('readiness', 'tx');
         update tidegate.gate set high_water = 1000, low_water = 500 where queue = 'bookings';
         update tidegate.policy set attempts = 8, base_ms = 100, cap_ms = 2000, jitter_ms = 50, timeout_ms = {send}
         where stage = 'tx';
         update tidegate.policy set base_ms = 100, cap_ms = 2000, jitter_ms = 50, timeout_ms = 2000
         where stage = 'readiness';
         insert into tidegate.kind (name, flow, tx_queue, processing_ms, tx_confirmation_ms, deadline, readiness_timeout)
         values ('{PATIENT}', 'direct', 'tx', 500, 100, '{patient} seconds', '{patient} seconds');
         update tidegate.kind set response_timeout = interval '{timeout} seconds';
         update tidegate.policy set semantics = 'at_most_once' where kind in ('single_shot', 'solitary') and stage = 'tx';
         update tidegate.policy set semantics = 'exactly_once' where kind in ('booking', 'hedged_booking') and stage = 'tx';
         -- Nothing keeps an effect from being written twice but the engine.
         create table public.booking (
           request_id uuid not null, booked_at timestamptz not null default clock_timestamp()
         );",
        send = TIMEOUT.as_millis(),
        timeout = options.response_timeout.as_secs(),
        patient = PATIENT_DEADLINE.as_secs(),
    );
    statements += &retention();
    statements += &hedges_and_breakers();
    statements += &lossy();
    statements += REPEATED_BY_OPERATORS;
    statements += &measure::scene();
    for quota in QUOTAS {
        let (of, name) = quota.gate.split_once(' ').unwrap_or_default();
        statements += &format!(
            "select from tidegate.quota_set({of} => '{name}', high_water => {}, low_water => {});",
            quota.high_water, quota.low_water
        );
    }
    for limit in limits(options) {
        statements += &format!(
            "update tidegate.queue set per_seconds = {}, burst = {} where name = '{}';",
            limit.per_second, limit.burst, limit.queue
        );
    }
    statements += options.mutant.map_or("", Mutant::sql);
    sqlx::raw_sql(&statements).execute(&pool).await?;
    pool.close().await;
    let mut session: PgConnection = server.session().await?;
    // Crashes are many, and each replays the log since the last checkpoint.
    sqlx::raw_sql("alter system set checkpoint_timeout = '60s'").execute(&mut session).await?;
    sqlx::raw_sql("select pg_reload_conf()").execute(&mut session).await?;
    history::make(&mut session).await
}

/// A third of the calls are slower than a hedge waits; an outage of the downstream opens the breaker.
fn hedges_and_breakers() -> String {
    format!(
        "update tidegate.policy
         set hedge_safe = true, hedge_after_ms = 15, hedge_max = {HEDGE_MAX}, hedge_share = {HEDGE_SHARE}
         where kind in ('{}', '{}') and stage = 'tx';
         update tidegate.policy
         set breaker_error_rate = 0.5, breaker_samples_min = 6, breaker_window_ms = 3000, breaker_open_ms = {},
           breaker_probes = {PROBES}
         where kind = '{GUARDED}' and stage = 'tx';",
        HEDGED[0],
        HEDGED[1],
        OPEN.as_millis(),
    )
}

/// A witness that keeps what operators redrive although it may have been executed.
const REPEATED_BY_OPERATORS: &str = "
    create table public.repeated (request_id uuid not null);
    create function public.keep_repeated()
      returns trigger language plpgsql as $$
    begin
      insert into public.repeated (request_id) values (new.request_id);
      return null;
    end;
    $$;
    create trigger keep_repeated
      after insert on tidegate.redrive
      for each row when (current_setting('faults.may_repeat', true) = 'on') execute function public.keep_repeated();";

/// Few and short attempts.
fn lossy() -> String {
    let timeout = LOSSY_TIMEOUT.as_millis();
    let of = |(kind, attempts, key, _)| {
        format!(
            "update tidegate.policy set attempts = {attempts}, timeout_ms = {timeout} where kind = '{kind}' and stage = 'tx';
             update tidegate.kind set key_after_unknown = '{key}' where name = '{kind}';"
        )
    };
    LOSSY.map(of).concat()
}

/// The kinds whose ends are delivered to the receiver; callers name it for others, too.
const DELIVERED: [&str; 2] = ["input_proof", "public_decrypt"];

/// Allows the receiver's address, and has the ends of some kinds delivered there.
///
/// # Errors
///
/// When the database refuses.
pub async fn deliver(server: &Server, receiver: std::net::SocketAddr) -> anyhow::Result<()> {
    let mut statements = format!(
        "select from tidegate.webhook_host_add('{receiver}', allow_private => true);
         -- More attempts than any fault makes fail: no delivery is given up.
         update tidegate.webhook_policy
         set attempts = 100, base_ms = 100, factor = 2, cap_ms = 1500, timeout_ms = 1000, per_host = 16;"
    );
    for kind in DELIVERED {
        statements += &format!("select from tidegate.set_kind_callback('{kind}', 'http://{receiver}/{kind}');");
    }
    sqlx::raw_sql(&statements).execute(&mut server.session().await?).await?;
    Ok(())
}

/// A kind with a short retention, duties that run often, and a witness that keeps each request that is deleted, with its history.
fn retention() -> String {
    format!(
        "update tidegate.policy
         set dedup_window = '{window} seconds', span_reorder = '0 seconds'
         where kind = '{FLEETING}' and stage = 'tx';
         update tidegate.kind set retention = '{retention} seconds' where name = '{FLEETING}';
         -- While keys from before a shorter window may stand, requests stay, too: here there are none.
         delete from tidegate.config_change where row_key = '{FLEETING}.tx' and column_name = 'dedup_window';
         update tidegate.maintenance
         set period = '2 seconds'
         where duty in ('expire_keys', 'expire_requests', 'make_partitions', 'drop_partitions');
         create table public.removed (like tidegate.request, removed_at timestamptz not null);
         create table public.removed_outcome (like tidegate.outcome);
         create table public.removed_event (like tidegate.stored_event);
         create function public.keep_removed()
           returns trigger language plpgsql as $$
         begin
           insert into public.removed select old.*, clock_timestamp();
           insert into public.removed_outcome select o.* from tidegate.outcome as o where o.request_id = old.id;
           insert into public.removed_event select e.* from tidegate.request_event as e where e.request_id = old.id;
           return old;
         end;
         $$;
         create trigger keep_removed
           before delete on tidegate.request
           for each row when (old.kind not like 'passing%') execute function public.keep_removed();
         -- An application's table, which refers to requests.
         create table public.kept (request_id uuid references tidegate.request);",
        window = WINDOW.as_secs(),
        retention = RETENTION.as_secs(),
    )
}

/// How the downstream of a run is started, besides where it listens and answers.
#[must_use]
pub fn downstream(options: &Options) -> Vec<String> {
    let silent = if options.response_timeout.as_secs() > 60 { "0.001" } else { "0" };
    [
        "--readiness-latency",
        "uniform:5ms-60ms",
        "--send-latency",
        "lognormal:10ms,1.2",
        "--response-latency",
        "lognormal:150ms,0.5",
        "--not-yet-rate",
        "0.05",
        "--not-yet-after",
        "500ms",
        "--check-failure-rate",
        "0.005",
        "--send-error-rate",
        "0.02",
        "--drop-rate",
        "0.003",
        "--reject-rate",
        "0.01",
        "--verdict-reject-rate",
        "0.1",
        "--silent-rate",
        silent,
        "--repeat-reject-rate",
        "0.3",
        "--event-log-key",
        "mark",
    ]
    .map(str::to_owned)
    .into_iter()
    .chain(LOSSY.iter().flat_map(|(kind, .., lost)| ["--lossy".to_owned(), format!("{kind}={lost}")]))
    // Its deadline is short: an attempt that waits for it ends soon.
    .chain(["--absurd".to_owned(), format!("{PATIENT}=0.1")])
    .chain(own_kinds().flat_map(|kind| ["--kind".to_owned(), format!("{}:direct", kind.name)]))
    .collect()
}
