//! Sessions held at their critical point: one does its work and leaves it uncommitted, another starts and waits.

use std::time::Duration;

use sqlx::{Connection, Executor, PgConnection, Row, ValueRef, postgres::PgRow};
use tidegate::request::RequestId;
use tokio::task::JoinHandle;
use uuid::Uuid;

use super::{TestDatabase, eventually, invariants::violations_within, rest};

/// A connection of one actor.
pub struct Session {
    connection: PgConnection,
    pub pid: i32,
}

/// The result of a statement: its rows as text, or its SQLSTATE with the message.
pub type Said = Result<Vec<String>, (String, String)>;

/// The reads of one statement.
#[derive(Debug)]
pub struct Reads {
    pub scans: i64,
    pub index_scans: i64,
    pub rows_by_index: i64,
    /// Functions in SQL that it has called and not put in place of the call: each statement parses and plans them anew. Known
    /// to a superuser with `track_functions = 'all'`.
    pub sql_functions: Vec<String>,
}

impl Session {
    pub async fn open(database: &TestDatabase) -> Self {
        Self::of(database.session().await).await
    }

    /// As the superuser.
    pub async fn open_as_superuser(database: &TestDatabase) -> Self {
        Self::of(database.superuser_session().await).await
    }

    async fn of(mut connection: PgConnection) -> Self {
        let pid = sqlx::query_scalar("select pg_backend_pid()").fetch_one(&mut connection).await.unwrap();
        Self { connection, pid }
    }

    /// A session with an open transaction.
    pub async fn begin(database: &TestDatabase) -> Self {
        let mut session = Self::open(database).await;
        session.execute("begin").await;
        session
    }

    /// Runs SQL that must succeed; several statements are fine.
    pub async fn execute(&mut self, sql: &str) {
        self.connection.execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    pub async fn commit(&mut self) {
        self.execute("commit").await;
    }

    pub async fn rollback(&mut self) {
        self.execute("rollback").await;
    }

    /// Each row's columns as text (null is empty), separated by blanks; or the SQLSTATE.
    pub async fn attempt(&mut self, sql: &str) -> Said {
        // Without preparation everything comes as text.
        match self.connection.fetch_all(sql).await {
            Ok(rows) => Ok(rows.iter().map(columns).collect()),
            Err(sqlx::Error::Database(error)) => {
                Err((error.code().unwrap_or_default().into_owned(), error.message().to_owned()))
            }
            Err(error) => panic!("{sql}: {error}"),
        }
    }

    /// The rows of a query that must succeed, as [`Session::attempt`] gives them.
    pub async fn texts(&mut self, sql: &str) -> Vec<String> {
        self.attempt(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"))
    }

    /// The single value of a query, as text.
    pub async fn text(&mut self, sql: &str) -> String {
        let mut rows = self.texts(sql).await;
        assert_eq!(rows.len(), 1, "{sql}: {rows:?}");
        rows.remove(0)
    }

    /// Every violation of an invariant, as this session's open transaction sees it.
    pub async fn violations(&mut self) -> Vec<String> {
        violations_within(&mut self.connection).await
    }

    /// The reads of a statement from the tables whose names match; it runs in its own transaction.
    ///
    /// Counted in this session alone: other sessions' statistics can arrive seconds after their work.
    pub async fn reads(&mut self, tables: &str, statement: &str) -> Reads {
        let so_far = format!(
            "select coalesce(sum(seq_scan), 0), coalesce(sum(idx_scan), 0), coalesce(sum(idx_tup_fetch), 0)
             from pg_stat_xact_user_tables where relname ~ '^({tables})$'"
        );
        let called = "select p.proname, f.calls
             from pg_stat_xact_user_functions as f
             join pg_proc as p on p.oid = f.funcid
             join pg_language as l on l.oid = p.prolang
             where f.schemaname ~ '^tidegate' and l.lanname = 'sql'";
        self.execute("begin").await;
        let (before, called_before) = (self.text(&so_far).await, self.texts(called).await);
        self.texts(statement).await;
        let (after, called_after) = (self.text(&so_far).await, self.texts(called).await);
        self.commit().await;
        let numbers = |text: &str| -> Vec<i64> { text.split(' ').map(|n| n.parse().unwrap()).collect() };
        let (before, after) = (numbers(&before), numbers(&after));
        Reads {
            scans: after[0] - before[0],
            index_scans: after[1] - before[1],
            rows_by_index: after[2] - before[2],
            sql_functions: called_after.into_iter().filter(|calls| !called_before.contains(calls)).collect(),
        }
    }

    /// Starts a statement in a task of its own.
    pub fn start(mut self, sql: &str) -> Running {
        let sql = sql.to_owned();
        Running {
            pid: self.pid,
            task: tokio::spawn(async move {
                let said = self.attempt(&sql).await;
                (self, said)
            }),
        }
    }

    /// Claims from a queue; the stage is that of the queue.
    pub async fn claim(&mut self, queue: &str, batch: i32) -> Vec<Held> {
        self.claim_for(queue, batch, "30 seconds").await
    }

    /// Claims under a lease of the given length.
    pub async fn claim_for(&mut self, queue: &str, batch: i32, lease_for: &str) -> Vec<Held> {
        let function = if queue.contains("readiness") { "claim_readiness" } else { "claim_tx" };
        let sql = format!(
            "select lease::text as lease, coalesce((select r.msg_id from tidegate.request as r where r.id = c.id), 0) as msg_id, id, attempt, attempts_max
             from tidegate.{function}('{queue}', 'worker-{}', {batch}, '{lease_for}') as c",
            self.pid
        );
        let claimed =
            sqlx::query(&sql).fetch_all(&mut self.connection).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        if claimed.is_empty() {
            rest().await;
        }
        claimed
            .iter()
            .map(|row| Held {
                lease: row.get("lease"),
                msg_id: row.get("msg_id"),
                id: RequestId(row.get::<Uuid, _>("id")),
                attempt: row.get("attempt"),
                attempts_max: row.get("attempts_max"),
            })
            .collect()
    }

    pub async fn close(self) {
        self.connection.close().await.unwrap();
    }
}

fn columns(row: &PgRow) -> String {
    let values = (0..row.len()).map(|column| {
        let value = row.try_get_raw(column).unwrap();
        if value.is_null() { "" } else { value.as_str().unwrap() }
    });
    values.collect::<Vec<_>>().join(" ")
}

/// A query that runs in a task, perhaps waiting for a lock.
pub struct Running {
    pid: i32,
    task: JoinHandle<(Session, Said)>,
}

impl Running {
    /// Whether it has answered.
    pub fn is_over(&self) -> bool {
        self.task.is_finished()
    }

    /// Waits until this query waits for `other`.
    pub async fn until_blocked_by(&self, database: &TestDatabase, other: &Session) {
        let sql = format!("select count(*) from unnest(pg_blocking_pids({})) as p where p = {}", self.pid, other.pid);
        eventually("one session waits for the other", || async {
            assert!(!self.task.is_finished(), "it finished without waiting");
            database.number(&sql).await > 0
        })
        .await;
    }

    /// Waits until this query waits for `other`, or has ended without.
    pub async fn until_blocked_or_done(&self, database: &TestDatabase, other: &Session) {
        let sql = format!("select count(*) from unnest(pg_blocking_pids({})) as p where p = {}", self.pid, other.pid);
        eventually("one session waits for the other or ends", || async {
            self.task.is_finished() || database.number(&sql).await > 0
        })
        .await;
    }

    /// Its result, and its session.
    pub async fn finish(self) -> (Session, Vec<String>) {
        let (session, said) = self.outcome().await;
        (session, said.unwrap_or_else(|error| panic!("{error:?}")))
    }

    /// Its result, which may be an error.
    pub async fn outcome(self) -> (Session, Said) {
        tokio::time::timeout(Duration::from_secs(20), self.task).await.expect("it waits where it should not").unwrap()
    }
}

/// A claimed request, as its holder has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The composite, as text.
    pub lease: String,
    pub msg_id: i64,
    pub id: RequestId,
    pub attempt: i32,
    pub attempts_max: i32,
}

/// `array[…]` of leases, for a settle.
pub fn leases<'a>(held: impl IntoIterator<Item = &'a Held>) -> String {
    let quoted: Vec<_> = held.into_iter().map(|held| format!("'{}'", held.lease)).collect();
    format!("array[{}]::tidegate.lease[]", quoted.join(", "))
}

/// A settle by its name, with the arguments after the leases: returns the ids that moved.
pub fn settle<'a>(name: &str, held: impl IntoIterator<Item = &'a Held>, more: &str) -> String {
    let comma = if more.is_empty() { "" } else { ", " };
    format!("select s.id from tidegate_internal.{name}({}{comma}{more}) as s order by s.id", leases(held))
}

/// Submits `count` requests of a kind in one batch; their ids, in order.
pub async fn submit_many(database: &TestDatabase, kind: &str, count: i32) -> Vec<RequestId> {
    sqlx::query_scalar::<_, Uuid>(
        "select id from tidegate.submit_batch($1, array_fill('{}'::jsonb, array[$2]), admission => 'accepted')",
    )
    .bind(kind)
    .bind(count)
    .fetch_all(&mut *database.connection().await)
    .await
    .unwrap()
    .into_iter()
    .map(RequestId)
    .collect()
}

/// Lets the leases of a queue run out: as if their time had passed.
pub async fn expire_leases(database: &TestDatabase, queue: &str) {
    database.execute(&format!("update tidegate.claim set until = clock_timestamp() where queue = '{queue}'")).await;
}

/// `causes` of a request, joined for one assertion.
pub async fn history(database: &TestDatabase, id: RequestId) -> String {
    database.causes(id).await.join(" ")
}

/// Takes one request to `receipt_received`, under a reference when one is given.
pub async fn receipt(database: &TestDatabase, kind: &str, reference: Option<&str>) -> RequestId {
    let id = database.submit(kind).await;
    let mut session = Session::of(database.connection().await.take()).await;
    if database.status(id).await == "queued" {
        let held = session.claim("readiness", 1).await;
        assert_eq!(held[0].id, id);
        session.texts(&settle("settle_passed", &held, "")).await;
    }
    let held = session.claim("tx", 1).await;
    assert_eq!(held[0].id, id);
    let refs = reference.map_or_else(String::new, |reference| format!("array['{reference}']"));
    session.texts(&settle("settle_receipt", &held, &refs)).await;
    database.keep(session.connection);
    id
}

/// No violation, no row.
/// How many requests are in the tx queue, under a lease or not.
pub const DEPTH: &str = "select (select count(*) from pgmq.q_tx)
                           + (select count(*) from tidegate.leased_request where queue = 'tx')";

pub const NOTHING: [String; 0] = [];

/// Stores the events that are only in the rows of requests, so that a test can change them.
pub const STORE_HISTORY: &str =
    "insert into tidegate.stored_event select * from tidegate.request_event on conflict do nothing";

/// Every invariant holds.
pub async fn sound(database: &TestDatabase) {
    assert_eq!(database.violations().await, NOTHING);
}

/// `first` has done its part; `sql` runs against it, waits, and goes on once `first` has ended its transaction.
pub async fn against(database: &TestDatabase, first: &mut Session, commits: bool, sql: &str) -> Vec<String> {
    let second = Session::open(database).await.start(sql);
    second.until_blocked_by(database, first).await;
    first.execute(if commits { "commit" } else { "rollback" }).await;
    second.finish().await.1
}

/// A `direct` request in flight, and its holder's lease.
pub async fn in_flight(database: &TestDatabase) -> (RequestId, Vec<Held>) {
    let id = database.submit("direct").await;
    let mut session = Session::of(database.connection().await.take()).await;
    let held = session.claim("tx", 1).await;
    database.keep(session.connection);
    (id, held)
}

/// The requests of a queue, under a lease or not, in order, with numbers.
pub async fn line(session: &mut Session, queue: &str) -> Vec<String> {
    session
        .texts(&format!(
            "select msg_id, message ->> 'id' from pgmq.q_{queue}
             union all
             select msg_id, id::text from tidegate.leased_request where queue = '{queue}'
             order by msg_id"
        ))
        .await
}

/// One request in every situation that `recover` distinguishes; ten of them live.
pub async fn a_bit_of_everything(database: &TestDatabase) -> Session {
    let mut session = Session::open(database).await;
    submit_many(database, "direct", 6).await;
    submit_many(database, "public_decrypt", 4).await;
    submit_many(database, "input_proof", 2).await;
    let held = session.claim("tx", 4).await;
    session.texts(&settle("settle_receipt", &held[..1], "")).await;
    session.texts(&settle("settle_rejected", &held[1..2], "null")).await;
    let checked = session.claim("readiness", 2).await;
    session.texts(&settle("settle_passed", &checked[..1], "")).await;
    session
}
