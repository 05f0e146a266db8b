//! The same commands, given to the database.

use std::fmt::{Display, Write};

use sqlx::{Executor, PgConnection, Row, postgres::PgRow};
use tokio::runtime::Runtime;
use uuid::Uuid;

use super::{
    commands::{Check, Command, End, Pick, Queue, Reply, Sent, Wait},
    model::{ATTEMPTS, Answer, CONCURRENCY, HIGH_WATER, KINDS, LOW_WATER, SUBMITTERS, THRESHOLD},
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

    fn leases(&self, queue: Queue, picks: &[Pick]) -> String {
        let all = &self.leases[queue as usize];
        let mut leases = String::new();
        for pick in picks {
            let (_, mut lease) = all[all.len() - 1 - pick.back].clone();
            if pick.is_forged {
                let [queue, token, id] = lease.split(',').collect::<Vec<_>>()[..] else {
                    panic!("{lease} is no lease");
                };
                let token: i64 = token.parse().unwrap();
                lease = format!("{queue},{},{id}", token.wrapping_add(1));
            }
            if !leases.is_empty() {
                leases.push(',');
            }
            write!(leases, "'{lease}'").unwrap();
        }
        format!("array[{leases}]::tidegate.lease[]")
    }

    /// How long leases last, a second longer with each command, to identify the command.
    fn lease_for(&self) -> String {
        format!("'10 minutes {} seconds'", self.commands)
    }

    fn id(&self, request: usize) -> String {
        format!("'{}'::uuid", self.ids[request])
    }

    fn reference(&self, request: impl Display) -> String {
        format!("'reference {} {request}'", self.sequence)
    }

    /// Its id, reference, part and verdict, as SQL.
    fn addressed(&self, reply: Reply) -> (String, String, String, String) {
        let null = || "null".to_owned();
        (
            if reply.by_reference { null() } else { self.id(reply.request) },
            if reply.by_reference { self.reference(reply.request) } else { null() },
            reply.part.map_or_else(null, |part| format!("'part {part}'")),
            reply.accept.map_or_else(null, |accept| accept.to_string()),
        )
    }

    fn sql(&self, command: &Command) -> String {
        match command {
            Command::Submit(order) => format!(
                "select s.id, s.outcome from tidegate.submit('{}', '{{\"n\": {}}}', {}, '{}', '{}') as s",
                KINDS[order.kind],
                order.payload,
                order.key.map_or("null".to_owned(), |key| format!("'{} key-{key}'", self.sequence)),
                SUBMITTERS[order.submitter],
                if order.enforced { "enforce" } else { "accepted" },
            ),
            Command::SubmitBatch { kind, count } => format!(
                "select s.id, s.outcome from tidegate.submit_batch('{}', array_fill('{{}}'::jsonb, array[{count}])) as s",
                KINDS[*kind]
            ),
            Command::Claim { worker, queue, batch } => {
                let queue = queue.name();
                format!(
                    "select c.id, c.attempt, c.lease::text
                     from tidegate.claim_{queue}('{queue}', 'worker {worker}', {batch}, {}) as c",
                    self.lease_for()
                )
            }
            Command::Settle { check, picks, .. } => match check {
                Check::Passed => self.settle(Queue::Readiness, picks, "passed", ""),
                Check::Failed => self.settle(Queue::Readiness, picks, "rejected", ""),
                Check::Snooze { wait, code } => {
                    let outcome = if code.is_some() { "retry" } else { "snoozed" };
                    let more = format!(", errors => {}, after => {}", errors(*code, picks), after(*wait, picks));
                    self.settle(Queue::Readiness, picks, outcome, &more)
                }
            },
            Command::Report { sent, picks, .. } => match sent {
                Sent::Receipt { reference, answered } => {
                    let more = self.receipt(*reference, *answered, picks);
                    self.settle(Queue::Tx, picks, "receipt", &more)
                }
                Sent::Rejected => {
                    self.settle(Queue::Tx, picks, "rejected", &format!(", errors => {}", errors(Some("no"), picks)))
                }
                Sent::Retry { wait, code, left } => {
                    let left = left.map_or("null".to_owned(), |left| left.to_string());
                    let more = format!(
                        ", errors => {}, after => {}, may_have_left => array_fill({left}::boolean, array[{}])",
                        errors(Some(code), picks),
                        after(*wait, picks),
                        picks.len()
                    );
                    self.settle(Queue::Tx, picks, "retry", &more)
                }
            },
            Command::Release { queue, picks, .. } => self.settle(*queue, picks, "released", ""),
            Command::Extend { queue, picks, .. } => format!(
                "select count(*)::text from tidegate.extend({}, {})",
                self.leases(*queue, picks),
                self.lease_for()
            ),
            Command::Respond(reply) => {
                let (id, reference, part, accept) = self.addressed(*reply);
                format!(
                    "select r.outcome, r.request_id, r.req_status
                     from tidegate.respond('{{}}', {id}, {reference}, {part}, {accept}) as r"
                )
            }
            Command::RespondMany(replies) => {
                let replies: Vec<_> = replies.iter().map(|reply| self.addressed(*reply)).collect();
                let ids: Vec<_> = replies.iter().map(|(id, ..)| id.as_str()).collect();
                let references: Vec<_> = replies.iter().map(|(_, reference, ..)| reference.as_str()).collect();
                let parts: Vec<_> = replies.iter().map(|(_, _, part, _)| part.as_str()).collect();
                let accepts: Vec<_> = replies.iter().map(|(_, _, _, accept)| accept.as_str()).collect();
                format!(
                    "select r.outcome, r.request_id, r.req_status
                     from tidegate.respond_many(array_fill('{{}}'::jsonb, array[{}]), array[{}]::uuid[],
                       array[{}]::text[], array[{}]::text[], array[{}]::boolean[]) as r",
                    replies.len(),
                    ids.join(", "),
                    references.join(", "),
                    parts.join(", "),
                    accepts.join(", "),
                )
            }
            Command::Cancel { request } => {
                format!("select * from tidegate.cancel({})", self.id(*request))
            }
            Command::End { end: End::FailReceipt, request } => {
                format!("select {0}, 'failure' where tidegate.fail_receipt({0}, null)", self.id(*request))
            }
            Command::End { end, request } => format!(
                "select e.id, e.req_status from tidegate.{}(array[{}]) as e",
                match end {
                    End::FailTx => "fail_tx",
                    End::FailInternal => "fail_internal",
                    _ => "time_out",
                },
                self.id(*request)
            ),
            Command::Sweep { end } => {
                let duty = match end {
                    End::Readiness => "expire_by_readiness",
                    End::Deadline => "expire_by_deadline",
                    _ => "expire_responses",
                };
                format!("select expired::text from tidegate.{duty}()")
            }
            Command::SweepInbox => "select tidegate.sweep_inbox()::text".to_owned(),
            Command::ExpireKeys => "select expired::text from tidegate.expire_keys()".to_owned(),
            Command::LookAtGates => "select tidegate.gates_evaluate()::text".to_owned(),
            Command::RemoveStrays { queue } => {
                format!("select removed::text from tidegate.remove_stray_messages('{}')", queue.name())
            }
            Command::Recover { all, force } => format!(
                "select reset, ended, rebuilt, renumbered from tidegate.recover(reset_all => {all}, force => {force})"
            ),
            Command::ForceGate { queue, closed } => {
                let state = match closed {
                    None => "null",
                    Some(true) => "'too_many_requests'",
                    Some(false) => "'accepting'",
                };
                format!("select tidegate.gate_force('{}', {state})::text", queue.name())
            }
            meddling => self.meddle(meddling),
        }
    }

    /// What is done to the tables by hand, or by time.
    fn meddle(&self, command: &Command) -> String {
        let past = "now() - interval '1 millisecond'";
        match command {
            // In the order of the commands that gave or prolonged them; of one command, in the order of their claims and parts.
            // That is long ago, where no claim looks any more.
            Command::Lapse { queue } => format!(
                "with lapsed as (
                   update tidegate.claim
                   set until = 'epoch'::timestamptz + lease_ms * interval '1 second' + (claimed_at - now())
                     + part * interval '1 microsecond'
                   where queue = '{0}' and until > now()
                 )
                 select from setval('tidegate.lease_watermark_{0}', 1) as reaped where reaped = 0",
                queue.name()
            ),
            Command::ComesDue { queue } => format!("update pgmq.q_{} set vt = {past} where vt > {past}", queue.name()),
            Command::Pass { end, request } => {
                let id = self.id(*request);
                match end {
                    End::Readiness => format!(
                        "update tidegate.request set readiness_deadline_at = {past}
                         where id = {id} and readiness_deadline_at > {past}"
                    ),
                    End::Deadline => format!(
                        "update tidegate.request set deadline_at = {past} where id = {id} and deadline_at > {past}"
                    ),
                    _ => format!("update tidegate.awaiting_response set due_at = {past} where request_id = {id}"),
                }
            }
            Command::PassWindow { submitter } => format!(
                "update tidegate.dedup set first_seen = {past} - dedup_window, expires_at = {past}
                 where scope like '%:{}' and expires_at > {past}",
                SUBMITTERS[*submitter]
            ),
            Command::Purge { queue } => format!("delete from pgmq.q_{}", queue.name()),
            Command::LoseMessage { request } => {
                let delete = |queue| {
                    format!(
                        "delete from pgmq.q_{queue} as m using tidegate.request as r
                         where r.id = {} and r.queue = '{queue}' and m.msg_id = r.msg_id",
                        self.id(*request)
                    )
                };
                format!(
                    "{}; {}; delete from tidegate.claim as c using tidegate.request as r where r.id = {} and c.token = r.lease",
                    delete("readiness"),
                    delete("tx"),
                    self.id(*request)
                )
            }
            Command::Duplicate { queue, request } => format!(
                "insert into pgmq.q_{} (vt, message) values ('-infinity', jsonb_build_object('id', {}))",
                queue.name(),
                self.id(*request)
            ),
            other => unreachable!("{other:?}"),
        }
    }

    /// A settle of these leases, all with this outcome.
    fn settle(&self, queue: Queue, picks: &[Pick], outcome: &str, more: &str) -> String {
        format!(
            "select s.id, s.req_status from tidegate.settle({}, '{{{outcome}}}'{more}) as s",
            self.leases(queue, picks)
        )
    }

    /// References and responses of receipts, as arguments of a settle.
    fn receipt(&self, reference: bool, answered: bool, picks: &[Pick]) -> String {
        let all = &self.leases[Queue::Tx as usize];
        let references: Vec<_> = picks
            .iter()
            .map(|pick| {
                let (request, _) = &all[all.len() - 1 - pick.back];
                if reference { self.reference(request) } else { "null".to_owned() }
            })
            .collect();
        let responses =
            if answered { format!("array_fill('{{}}'::jsonb, array[{}])", picks.len()) } else { "null".to_owned() };
        format!(", refs => array[{}]::text[], responses => {responses}", references.join(", "))
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

/// As many of the same error as there are leases.
fn errors(code: Option<&str>, picks: &[Pick]) -> String {
    let error = code.map_or("null".to_owned(), |code| format!("'{{\"code\": \"{code}\", \"message\": \"so\"}}'"));
    format!("array_fill({error}::jsonb, array[{}])", picks.len())
}

fn after(wait: Wait, picks: &[Pick]) -> String {
    let interval = match wait {
        Wait::None => "'0'",
        Wait::AsThePolicySays => "null",
        Wait::TooLong => "'2 hours'",
    };
    format!("array_fill({interval}::interval, array[{}])", picks.len())
}
