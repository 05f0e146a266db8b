//! Raw SQL for tests: refused statements, leases as text, requests driven to a status.

use sqlx::{Executor, PgConnection, Row, postgres::PgDatabaseError};
use uuid::Uuid;

use super::TestDatabase;

/// Every status, in the order of the database's type.
pub const STATUSES: [&str; 7] =
    ["queued", "processing", "tx_in_flight", "receipt_received", "completed", "timed_out", "failure"];

/// Every flow, with a kind of the example that has it.
pub const FLOWS: [(&str, &str); 3] = [("decrypt", "public_decrypt"), ("proof", "input_proof"), ("direct", "direct")];

/// An error that the database raised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub code: String,
    pub message: String,
    pub hint: String,
    pub constraint: String,
}

impl Refusal {
    fn from(sql: &str, error: &sqlx::Error) -> Self {
        let database = error.as_database_error().unwrap_or_else(|| panic!("{sql}: {error}"));
        let hint = database.try_downcast_ref::<PgDatabaseError>().and_then(PgDatabaseError::hint);
        Self {
            code: database.code().unwrap_or_default().into_owned(),
            message: database.message().to_owned(),
            hint: hint.unwrap_or_default().to_owned(),
            constraint: database.constraint().unwrap_or_default().to_owned(),
        }
    }
}

/// A claimed request.
#[derive(Debug, Clone)]
pub struct Claim {
    pub id: Uuid,
    /// The lease, as SQL that makes it again.
    pub lease: String,
    pub msg_id: i64,
    pub attempt: i32,
}

/// Runs SQL that must succeed; several statements are fine.
pub async fn run(session: &mut PgConnection, sql: &str) {
    if let Err(error) = session.execute(sql).await {
        panic!("{sql}: {error}");
    }
}

/// Runs SQL that must be refused.
pub async fn refused(session: &mut PgConnection, sql: &str) -> Refusal {
    match session.execute(sql).await {
        Ok(_) => panic!("not refused: {sql}"),
        Err(error) => Refusal::from(sql, &error),
    }
}

/// The first column of each row, as text (an empty string for null).
pub async fn column(session: &mut PgConnection, sql: &str) -> Vec<String> {
    let rows = session.fetch_all(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    rows.iter().map(|row| row.try_get_unchecked::<Option<String>, _>(0).unwrap().unwrap_or_default()).collect()
}

/// The first column of the only row, as text (an empty string for null).
pub async fn value(session: &mut PgConnection, sql: &str) -> String {
    let mut rows = column(session, sql).await;
    assert_eq!(rows.len(), 1, "{sql} returns one row");
    rows.remove(0)
}

/// Is this PostgreSQL 15 or newer: are there unlogged sequences (those of 14 take a transaction id now and then), and can
/// a session tell its statistics at once?
pub fn is_15_or_newer(session: &PgConnection) -> bool {
    session.server_version_num().is_some_and(|version| version >= 150_000)
}

/// Claims with `function` (`claim_readiness` or `claim_tx`) from `queue`, for longer than any test takes.
pub async fn claim(session: &mut PgConnection, function: &str, queue: &str, worker: &str, batch: i32) -> Vec<Claim> {
    let sql = format!(
        "select c.id, (select r.msg_id from tidegate.request as r where r.id = c.id),
           format('row(%L, %s, %L)::tidegate.lease', (c.lease).queue, (c.lease).token, (c.lease).id), c.attempt
         from tidegate.{function}('{queue}', '{worker}', {batch}, interval '10 minutes') as c"
    );
    let rows: Vec<(Uuid, i64, String, i32)> =
        sqlx::query_as(&sql).fetch_all(session).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    rows.into_iter().map(|(id, msg_id, lease, attempt)| Claim { id, lease, msg_id, attempt }).collect()
}

/// An SQL array of leases.
pub fn leases(claims: &[Claim]) -> String {
    let leases: Vec<_> = claims.iter().map(|claim| claim.lease.as_str()).collect();
    format!("array[{}]::tidegate.lease[]", leases.join(", "))
}

/// All rows of the database about its requests, as text to compare: a part for each table, headed `== table`, a line
/// for each row.
pub async fn everything(session: &mut PgConnection) -> String {
    let messages = "(select 'readiness' as queue, * from pgmq.q_readiness union all select 'tx', * from pgmq.q_tx)";
    let mut parts = vec![part("messages", messages)];
    for table in [
        "request",
        "request_event",
        "awaiting_response",
        "response_inbox",
        "response_part",
        "request_reference",
        "dedup",
        "outcome",
        "queue_drain",
        "request_overview",
    ] {
        parts.push(part(table, &format!("tidegate.{table}")));
    }
    value(session, &format!("select {}", parts.join(" || "))).await
}

fn part(name: &str, rows: &str) -> String {
    format!(
        "(select E'\\n== {name}\\n' || coalesce(string_agg(t::text, E'\\n' order by t::text), '') from {rows} as t)"
    )
}

/// A table of schema `tidegate`, as text to compare.
pub async fn table_text(session: &mut PgConnection, table: &str) -> String {
    value(
        session,
        &format!(
            "select coalesce(jsonb_pretty(jsonb_agg(to_jsonb(t) order by to_jsonb(t)::text)), '') from tidegate.{table} as t"
        ),
    )
    .await
}

impl TestDatabase {
    /// Runs SQL that must be refused.
    pub async fn refused(&self, sql: &str) -> Refusal {
        refused(&mut *self.connection().await, sql).await
    }

    /// The first column of each row, as text (an empty string for null).
    pub async fn column(&self, sql: &str) -> Vec<String> {
        column(&mut *self.connection().await, sql).await
    }

    /// The first column of the only row, as text (an empty string for null).
    pub async fn value(&self, sql: &str) -> String {
        value(&mut *self.connection().await, sql).await
    }

    /// Claims up to `batch` from queue `tx`.
    pub async fn claim_tx(&self, batch: i32) -> Vec<Claim> {
        let mut session = self.connection().await;
        claim(&mut session, "claim_tx", "tx", "tester", batch).await
    }

    /// Claims up to `batch` from queue `readiness`.
    pub async fn claim_readiness(&self, batch: i32) -> Vec<Claim> {
        let mut session = self.connection().await;
        claim(&mut session, "claim_readiness", "readiness", "tester", batch).await
    }

    /// Lets every lease of a queue run out now.
    pub async fn run_out(&self, queue: &str) {
        self.execute(&format!(
            "update tidegate.claim set until = clock_timestamp()
             where queue = '{queue}' and until > clock_timestamp()"
        ))
        .await;
    }

    /// Submits a request and drives it to `status` by the public functions; nothing else may wait meanwhile.
    ///
    /// Failures are `internal_error`s, and timeouts `response_timed_out` (a decrypt's: `readiness_timed_out`).
    pub async fn request_in(&self, kind: &str, status: &str) -> Uuid {
        let id = self.submit(kind).await.0;
        if status == "failure" {
            self.execute(&format!("select tidegate.fail_internal(array['{id}']::uuid[])")).await;
        }
        let queued = self.status(tidegate::request::RequestId(id)).await == "queued";
        if queued && status == "timed_out" {
            self.execute(&format!("select tidegate.time_out(array['{id}']::uuid[])")).await;
        } else if queued && status != "queued" {
            let claims = self.claim_readiness(1).await;
            assert_eq!(claims[0].id, id);
            let passed = format!("select tidegate_internal.settle_passed({})", leases(&claims));
            self.execute(&passed).await;
        }
        if ["tx_in_flight", "receipt_received", "completed"].contains(&status) || (status == "timed_out" && !queued) {
            let claims = self.claim_tx(1).await;
            assert_eq!(claims[0].id, id);
            if status != "tx_in_flight" {
                let receipt =
                    format!("select tidegate_internal.settle_receipt({}, array['ref-{id}'])", leases(&claims));
                self.execute(&receipt).await;
            }
            if status == "completed" {
                let accept = if kind == "input_proof" { "true" } else { "null" };
                let respond = format!("select tidegate.respond('{{}}', id => '{id}', accept => {accept})");
                self.execute(&respond).await;
            } else if status == "timed_out" {
                self.execute(&format!("select tidegate.time_out(array['{id}']::uuid[])")).await;
            }
        }
        assert_eq!(self.status(tidegate::request::RequestId(id)).await, status);
        id
    }

    /// Answers all requests of flow `direct` that wait in `tx`.
    pub async fn answer_all(&self) {
        self.execute(
            "select tidegate_internal.settle_receipt(array[c.lease], responses => array['1'::jsonb])
             from tidegate.claim_tx('tx', 'w', 1000, '1 minute') as c",
        )
        .await;
    }

    /// A request in `receipt_received`, inserted without the queues.
    pub async fn request_in_no_queue(&self, kind: &str) -> String {
        let id = self.value("select tidegate_internal.uuid_v7()").await;
        self.execute(&format!(
            "insert into tidegate.request (id, kind, flow, req_status, processing_at, deadline_at, payload)
             select '{id}', name, flow, 'processing', now(), now() + interval '1 h', '{{}}' from tidegate.kind where name = '{kind}';
             update tidegate.request set req_status = 'tx_in_flight' where id = '{id}';
             update tidegate.request set req_status = 'receipt_received' where id = '{id}'"
        ))
        .await;
        id
    }
}
