//! The same commands, given to the database.

mod statements;

use sqlx::{Executor, PgConnection, Row, postgres::PgRow};
use tokio::runtime::Runtime;
use uuid::Uuid;

use super::{
    commands::{Command, End},
    model::{ATTEMPTS, Answer, CONCURRENCY, HIGH_WATER, LOW_WATER, THRESHOLD},
};
use crate::support::TestDatabase;

/// A session for each of two workers, for callers, for the downstream, and for operators, maintenance and time.
const SESSIONS: usize = 5;
const CALLERS: usize = 2;
const DOWNSTREAM: usize = 3;
const OPERATOR: usize = 4;

pub struct Database {
    sessions: Vec<PgConnection>,
    database: TestDatabase,
    runtime: Runtime,
    /// Distinguishes the keys and references of one sequence from those of others.
    sequence: usize,
    /// How many commands the sequence has had.
    commands: usize,
    ids: Vec<Uuid>,
    /// Of each queue: the request, and the lease as text.
    leases: [Vec<(String, String)>; 2],
}

impl Database {
    pub fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (database, sessions) = runtime.block_on(async {
            let database = TestDatabase::unlimited().await;
            database
                .execute(&format!(
                    "update tidegate.queue set max_concurrency = {CONCURRENCY} where name = 'readiness';
                     update tidegate.gate set high_water = {HIGH_WATER}, low_water = {LOW_WATER};
                     update tidegate.kind set response_threshold = {THRESHOLD} where name = 'user_decrypt';
                     update tidegate.policy set attempts = {ATTEMPTS}, base_ms = 300000, cap_ms = 300000, jitter_ms = 0, deadline_ms = 800000,
                       retry_on = '{{5xx,timeout,connect,throttled}}', respect_retry_after = true;
                     update tidegate.policy set base_ms = 0 where kind in ('user_decrypt', 'direct');
                     update tidegate.policy set semantics = 'at_most_once' where kind = 'input_proof' and stage = 'tx'"
                ))
                .await;
            let mut sessions = Vec::new();
            for _ in 0..SESSIONS {
                let mut session = database.session().await;
                session.execute("set jit = off").await.unwrap();
                sessions.push(session);
            }
            (database, sessions)
        });
        Self {
            sessions,
            database,
            runtime,
            sequence: 0,
            commands: 0,
            ids: Vec::new(),
            leases: [Vec::new(), Vec::new()],
        }
    }

    /// Applies SQL; several statements are fine.
    pub fn apply(&self, sql: &str) {
        self.runtime.block_on(self.database.execute(sql));
    }

    /// Ends what the last sequence has left, and begins the next.
    pub fn begin(&mut self) {
        let ids = ids(&self.ids);
        let sql = format!(
            "select tidegate.gate_force(g.name, null) from tidegate.gate as g;
             select count(*) from tidegate.fail_internal({ids});
             delete from pgmq.q_readiness;
             delete from pgmq.q_tx;
             delete from tidegate.claim;
             select tidegate.gates_evaluate();
             delete from tidegate.response_inbox;
             delete from tidegate.dedup"
        );
        self.runtime.block_on(self.sessions[OPERATOR].execute(sql.as_str())).unwrap();
        self.sequence += 1;
        self.commands = 0;
        self.ids.clear();
        self.leases = [Vec::new(), Vec::new()];
    }

    /// What it answers, with requests named by the order of their submission.
    pub fn perform(&mut self, command: &Command) -> Answer {
        self.commands += 1;
        let sql = self.sql(command);
        let session = match command {
            Command::Claim { worker, .. }
            | Command::Settle { worker, .. }
            | Command::Report { worker, .. }
            | Command::Release { worker, .. }
            | Command::Extend { worker, .. } => *worker,
            Command::Submit(_) | Command::SubmitBatch { .. } | Command::Cancel { .. } => CALLERS,
            Command::Respond(_) | Command::RespondMany(_) | Command::End { end: End::FailReceipt, .. } => DOWNSTREAM,
            _ => OPERATOR,
        };
        // Without preparation everything comes as text.
        let said = self.runtime.block_on(self.sessions[session].fetch_all(sql.as_str()));
        let rows = match said {
            Ok(rows) => rows,
            Err(sqlx::Error::Database(error)) => {
                return match error.code().as_deref() {
                    Some("TG004") => Err("TG004"),
                    Some("TG007") => Err("TG007"),
                    _ => panic!("{sql}: {error}"),
                };
            }
            Err(error) => panic!("{sql}: {error}"),
        };
        let mut answer: Vec<String> = rows.iter().map(|row| self.words(row)).collect();
        if let Command::Claim { queue, .. } = command {
            for row in &mut answer {
                let (said, lease) = row.rsplit_once(' ').unwrap();
                let (request, _) = said.split_once(' ').unwrap();
                self.leases[*queue as usize].push((request.to_owned(), lease.to_owned()));
                *row = said.to_owned();
            }
        }
        Ok(answer)
    }

    /// A row's values, without those that are null. A request that is not known yet is a new one.
    fn words(&mut self, row: &PgRow) -> String {
        let mut words = Vec::new();
        for column in 0..row.len() {
            let Some(text) = row.try_get_unchecked::<Option<String>, _>(column).unwrap() else {
                continue;
            };
            let Ok(id) = text.parse::<Uuid>() else {
                words.push(text);
                continue;
            };
            let known = self.ids.iter().position(|known| *known == id);
            let number = known.unwrap_or_else(|| {
                self.ids.push(id);
                self.ids.len() - 1
            });
            words.push(number.to_string());
        }
        words.join(" ")
    }

    /// The whole state, in the form of [`super::model::Model::describe`].
    pub fn describe(&mut self) -> String {
        let mut lines: Vec<String> = self
            .runtime
            .block_on(
                sqlx::query_scalar(include_str!("description.sql"))
                    .bind(&self.ids)
                    .bind(self.sequence.to_string())
                    .fetch_all(&mut self.sessions[OPERATOR]),
            )
            .unwrap();
        lines.sort();
        lines.join("\n")
    }

    /// What does not hold at the very end.
    pub fn violations(&self) -> Vec<String> {
        self.runtime.block_on(self.database.violations())
    }
}

fn ids(ids: &[Uuid]) -> String {
    let ids: Vec<_> = ids.iter().map(|id| format!("'{id}'")).collect();
    format!("array[{}]::uuid[]", ids.join(", "))
}
