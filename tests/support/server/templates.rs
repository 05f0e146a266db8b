//! The templates of the databases: each is made once a day and copied for every test.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::LazyLock,
};

use sqlx::{Connection, PgConnection};
use tidegate::internals::schema;
use tokio::sync::OnceCell;

use super::{super::eventually, admin, grant_roles, lock, make_owner, owned, owner, superuser_url, url};

/// The templates of new databases. Each is made once a day, so that the times in it are never old.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Template {
    /// Nothing: not even migrated.
    Empty,
    /// Nothing, in the encoding LATIN1.
    Latin1,
    /// Migrated, with the queues and kinds of the example, made by hand and without limits and times.
    Migrated,
    /// With the starter set of `tidegate init`, exact answers and gates that are wide open.
    Initialised,
    /// [`Template::Initialised`] without a rate limit and a concurrency limit.
    Unlimited,
    /// [`Template::Unlimited`] with [`DEEP`] requests of kind `direct`: enough for several chunks of 16384 numbers, and
    /// for what a queue without a survey may hold.
    Deep,
    /// [`Template::Large`] with 10,000 requests, so that a plan which reads all of them may seem good.
    Middling,
    /// [`Template::Unlimited`] with 200,000 requests: most have ended, some await a response, 1,000 of each flow wait in
    /// the queues. Its tables are vacuumed and analysed.
    Large,
}

/// How many requests wait in [`Template::Deep`].
pub const DEEP: i32 = 40_000;

const MADE_BY_HAND: &[&str] = &[
    "insert into tidegate.queue (name, stage) values ('readiness', 'readiness'), ('tx', 'tx')",
    "insert into tidegate.kind (name, flow, readiness_queue, tx_queue, response_threshold) values
       ('public_decrypt', 'decrypt', 'readiness', 'tx', 1),
       ('user_decrypt', 'decrypt', 'readiness', 'tx', 3),
       ('input_proof', 'proof', null, 'tx', 1),
       ('direct', 'direct', null, 'tx', 1)",
];

/// Tests of gates set their marks, and tests of the configuration's history find no inserts in it.
const INITIALISED: &[&str] = &[
    "select tidegate.initialise('relayer')",
    "update tidegate.gate set high_water = 1000000, low_water = 500000",
    "delete from tidegate.config_change where operation = 'insert'",
];

const UNLIMITED: &[&str] = &["update tidegate.queue set per_seconds = null, max_concurrency = null"];

const NOT_DUE_FOR_DAYS: &str = "update tidegate.kind set deadline = '10 days', readiness_timeout = '10 days'";

const DUE_AS_USUAL: &str = "update tidegate.kind set deadline = default, readiness_timeout = default";

const TEN_THOUSAND: &str = "select count(*) from tidegate.submit_batch('direct', array_fill('{}'::jsonb, array[10000]), admission => 'accepted')";

const MADE_DEEP: &[&str] = &[NOT_DUE_FOR_DAYS, TEN_THOUSAND, TEN_THOUSAND, TEN_THOUSAND, TEN_THOUSAND, DUE_AS_USUAL];

/// Requests that have ended or await a response, and so many of each flow in the queues; vacuumed and analysed.
macro_rules! with_requests {
    ($requests:literal, $waiting:literal) => {
        &[
    NOT_DUE_FOR_DAYS,
    concat!("set session_replication_role = replica;
     insert into tidegate.request (id, kind, flow, req_status, transition_no, cause, deadline_at, readiness_deadline_at,
       processing_at, receipt_received_at, finished_at, payload, response)
     select
       tidegate_internal.uuid_v7(clock_timestamp() - interval '2 hours' + n * interval '20 milliseconds'),
       case n % 2 when 0 then 'direct' else 'public_decrypt' end,
       (case n % 2 when 0 then 'direct' else 'decrypt' end)::tidegate.flow,
       (case when n % 10 = 0 then 'receipt_received' else 'completed' end)::tidegate.request_status, 4, 'receipt',
       clock_timestamp() + interval '2 days' + n * interval '1 second',
       case when n % 2 = 1 then clock_timestamp() + interval '2 days' + n * interval '1 second' end,
       clock_timestamp(), clock_timestamp(), case when n % 10 <> 0 then clock_timestamp() end, '{}', '{}'
     from generate_series(1, ", $requests, ") as n;
     insert into tidegate.awaiting_response (request_id, due_at)
     select id, clock_timestamp() + interval '2 days' from tidegate.request where req_status = 'receipt_received'
     on conflict do nothing;
     insert into tidegate.dedup (scope, key, fingerprint, request_id, first_seen, expires_at, dedup_window)
     select 'direct', id::text, '', id, now(), now() + interval '2 days', '2 days'
     from tidegate.request where req_status = 'receipt_received'
     on conflict do nothing;
     insert into tidegate.webhook_delivery (request_id, id, url, host_port, state, finished_at)
     select id, id, '', '', 'delivered', clock_timestamp()
     from tidegate.request where req_status = 'receipt_received'
     on conflict do nothing;
     set session_replication_role = origin"),
    concat!("select count(*)
     from unnest(array['direct', 'public_decrypt']) as k(name),
       lateral tidegate.submit_batch(k.name, array_fill('{}'::jsonb, array[", $waiting, "]), admission => 'accepted')"),
    DUE_AS_USUAL,
    "vacuum analyze tidegate.request",
    "vacuum analyze tidegate.awaiting_response",
    "vacuum analyze tidegate.dedup",
    "vacuum analyze tidegate.webhook_delivery",
    "vacuum analyze pgmq.q_tx",
    "vacuum analyze pgmq.q_readiness",
        ]
    };
}

const MADE_MIDDLING: &[&str] = with_requests!("10000", "1000");

/// So few that a plan which reads all of them is the cheapest.
const FEW: &[&str] = with_requests!("20", "200");

const MADE_LARGE: &[&str] = with_requests!("200000", "1000");

impl Template {
    /// The statements that make it from a migrated database.
    fn statements(self) -> Vec<&'static str> {
        let parts: &[&[&str]] = match self {
            Self::Empty | Self::Latin1 => &[],
            Self::Migrated => &[MADE_BY_HAND],
            Self::Initialised => &[INITIALISED],
            Self::Unlimited => &[INITIALISED, UNLIMITED],
            Self::Deep => &[INITIALISED, UNLIMITED, MADE_DEEP],
            Self::Middling => &[INITIALISED, UNLIMITED, MADE_MIDDLING],
            Self::Large => &[INITIALISED, UNLIMITED, MADE_LARGE],
        };
        parts.concat()
    }

    /// The name of the template database: it identifies the schema, the statements and the day.
    pub(super) fn name(self) -> String {
        static SCHEMA: LazyLock<String> = LazyLock::new(|| {
            let today = chrono::Utc::now().format("%Y%m%d");
            let owner = owner().map_or("", |_| "_plain");
            format!("{today}_{}{owner}", &schema::fingerprint()[..16])
        });
        if matches!(self, Self::Empty | Self::Latin1) {
            return "template0".to_owned();
        }
        let mut statements = DefaultHasher::new();
        self.statements().hash(&mut statements);
        format!("tidegate_template_{}_{:08x}", *SCHEMA, statements.finish() >> 32)
    }

    /// Makes its content in a fresh database.
    async fn fill(self, database: &str) {
        schema::migrate(&url(database)).await.unwrap();
        let mut session = PgConnection::connect(&superuser_url(database)).await.unwrap();
        for sql in self.statements() {
            sqlx::raw_sql(sql).execute(&mut session).await.unwrap();
        }
        session.close().await.unwrap();
    }

    /// Makes the template unless it is there: under another name first, so that a killed run leaves no half-made one.
    async fn ensure(self) {
        let name = self.name();
        let mut admin = admin().await;
        make_owner(&mut admin).await;
        lock(&mut admin, "template").await;
        if exists(&mut admin, &name).await {
            grant_roles(&mut admin).await;
            return;
        }
        let draft = format!("{name}_draft");
        for sql in [
            format!("drop database if exists {draft} with (force)"),
            format!("create database {draft} template template0 {}", owned()),
        ] {
            sqlx::raw_sql(&sql).execute(&mut admin).await.unwrap();
        }
        self.fill(&draft).await;
        grant_roles(&mut admin).await;
        // A backend may take a moment to leave; a database in use cannot be renamed.
        eventually("the draft is renamed", || {
            let sql = format!("alter database {draft} rename to {name}");
            async move {
                let mut admin = self::admin().await;
                sqlx::raw_sql(&sql).execute(&mut admin).await.is_ok()
            }
        })
        .await;
    }

    /// [`Template::ensure`], once in this process.
    pub(super) async fn ensure_once(self) {
        const TEMPLATES: usize = Template::Large as usize + 1;
        static ENSURED: [OnceCell<()>; TEMPLATES] = [const { OnceCell::const_new() }; TEMPLATES];
        if !matches!(self, Self::Empty | Self::Latin1) {
            let ensured = &ENSURED[self as usize];
            ensured.get_or_init(|| self.ensure()).await;
        }
    }
}

/// Adds a few requests, or those of [`Template::Middling`], without statistics of them.
pub async fn add_requests(session: &mut PgConnection, many: bool) {
    for sql in if many { MADE_MIDDLING } else { FEW } {
        if !sql.starts_with("vacuum") {
            sqlx::raw_sql(sql).execute(&mut *session).await.unwrap();
        }
    }
}

async fn exists(admin: &mut PgConnection, database: &str) -> bool {
    sqlx::query_scalar("select exists (select from pg_database where datname = $1)")
        .bind(database)
        .fetch_one(admin)
        .await
        .unwrap()
}
