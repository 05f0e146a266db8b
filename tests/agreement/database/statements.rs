//! The SQL of each command.

use std::fmt::{Display, Write};

use super::{
    super::{
        commands::{Check, Command, End, Pick, Queue, Reply, Sent, Wait},
        model::{KINDS, SUBMITTERS},
    },
    Database,
};

impl Database {
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

    pub(super) fn sql(&self, command: &Command) -> String {
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
