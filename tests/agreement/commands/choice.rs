//! How a few random numbers select a command that there is something to do with.

use proptest::prelude::*;

use super::{
    super::model::{KINDS, Model, SUBMITTERS},
    Check, Command, End, Order, Pick, Queue, Reply, Sent, Wait,
};

/// Some numbers that stand for a command, whatever there is to do.
#[derive(Debug, Clone)]
pub struct Choice {
    act: usize,
    which: usize,
    who: usize,
    how: usize,
    much: usize,
}

/// How often each act comes, of a hundred or so.
const ACTS: [(usize, &str); 28] = [
    (30, "go_on"),
    (9, "submit"),
    (8, "submit_again"),
    (4, "submit_batch"),
    (24, "claim"),
    (16, "settle"),
    (16, "report"),
    (3, "release"),
    (2, "extend"),
    (10, "respond"),
    (2, "cancel"),
    (1, "fail_tx"),
    (1, "fail_internal"),
    (2, "time_out"),
    (10, "lapse"),
    (6, "comes_due"),
    (3, "pass"),
    (3, "sweep"),
    (2, "sweep_inbox"),
    (2, "pass_window"),
    (1, "expire_keys"),
    (3, "recover"),
    (1, "gates_evaluate"),
    (1, "force_gate"),
    (1, "remove_stray_messages"),
    (1, "purge"),
    (1, "lose_message"),
    (1, "duplicate"),
];

pub fn choices() -> impl Strategy<Value = Vec<Choice>> {
    let all = ACTS.iter().map(|(often, _)| often).sum();
    let one = (0..all, 0..64_usize, 0..64_usize, 0..64_usize, 0..64_usize)
        .prop_map(|(act, which, who, how, much)| Choice { act, which, who, how, much });
    prop::collection::vec(one, 10..=30)
}

/// The queue in which there is something to do, if that is one and not both.
fn one_of(queues: &[Queue], otherwise: Queue) -> Queue {
    match queues {
        [only] => *only,
        _ => otherwise,
    }
}

impl Choice {
    fn act(&self) -> &'static str {
        let mut before = 0;
        for (often, act) in ACTS {
            before += often;
            if self.act < before {
                return act;
            }
        }
        unreachable!()
    }

    fn queue(&self) -> Queue {
        [Queue::Readiness, Queue::Tx][self.much % 2]
    }

    fn wait(&self) -> Wait {
        [Wait::None, Wait::AsThePolicySays, Wait::TooLong, Wait::None][self.much % 4]
    }

    /// One or two leases that were given out once: mostly such as are held still.
    fn picks(&self, model: &Model, queue: Queue) -> Option<Vec<Pick>> {
        let count = model.leases[queue as usize].len();
        if count == 0 {
            return None;
        }
        let held = model.still_held(queue);
        let pick = |number: usize| Pick {
            back: if number.is_multiple_of(4) || held.is_empty() {
                (number / 4) % count
            } else {
                held[(number / 4) % held.len()]
            },
            is_forged: number == 63,
        };
        let mut picks = vec![pick(self.which)];
        if self.who.is_multiple_of(3) && pick(self.who).back != picks[0].back {
            picks.push(pick(self.who));
        }
        Some(picks)
    }

    /// The command that it stands for now, if there is something to do it with.
    pub fn command(&self, model: &Model) -> Option<Command> {
        let count = model.requests.len();
        // Young requests more often than old ones.
        let request = (count > 0).then(|| {
            let back = self.which % count;
            count - 1 - if self.which < 48 { back.min(self.which % 6) } else { back }
        });
        let queue = self.queue();
        let worker = self.who % 2;
        Some(match self.act() {
            "go_on" => self.next(model)?,
            "submit" => Command::Submit(Order {
                kind: self.which % KINDS.len(),
                submitter: self.who % SUBMITTERS.len(),
                key: [None, Some(0), Some(1)][self.how % 3],
                payload: u8::from(self.much.is_multiple_of(8)),
                enforced: self.how < 56,
            }),
            "submit_again" => {
                let orders = model.keyed();
                let order = orders.get(self.which % orders.len().max(1))?;
                Command::Submit(Order {
                    payload: if self.much.is_multiple_of(8) { 1 - order.payload } else { order.payload },
                    enforced: self.how < 48,
                    ..order.clone()
                })
            }
            "submit_batch" => Command::SubmitBatch { kind: self.which % KINDS.len(), count: 2 + self.how % 2 },
            "claim" => {
                Command::Claim { worker, queue: one_of(&model.where_something_waits(), queue), batch: 1 + self.how % 3 }
            }
            "settle" => Command::Settle {
                worker,
                check: match self.how % 16 {
                    0..11 => Check::Passed,
                    11 => Check::Failed,
                    12..14 => Check::Snooze { wait: self.wait(), code: None },
                    _ => Check::Snooze {
                        wait: self.wait(),
                        code: Some(["timeout", "odd", "http_503", "http_404"][self.how / 16 % 4]),
                    },
                },
                picks: self.picks(model, Queue::Readiness)?,
            },
            "report" => Command::Report {
                worker,
                sent: match self.how % 8 {
                    0..4 => Sent::Receipt { reference: self.how < 40, answered: self.much < 16 },
                    4 => Sent::Rejected,
                    _ => Sent::Retry {
                        wait: self.wait(),
                        code: ["timeout", "http_503", "http_404", "odd", "http_429", "timeout"][self.how / 8 % 6],
                        left: [None, Some(true), Some(false)][self.much % 3],
                    },
                },
                picks: self.picks(model, Queue::Tx)?,
            },
            "release" => Command::Release { worker, queue, picks: self.picks(model, queue)? },
            "extend" => Command::Extend { worker, queue, picks: self.picks(model, queue)? },
            "respond" => {
                let sent = model.sent();
                let request = if self.who.is_multiple_of(4) || sent.is_empty() {
                    request?
                } else {
                    sent[self.which % sent.len()]
                };
                // One in five is no response: the receipt is taken back.
                if self.much >= 52 {
                    return Some(Command::End { end: End::FailReceipt, request });
                }
                match self.much % 4 {
                    3 => Command::RespondMany(self.replies(model, request)),
                    _ => Command::Respond(self.reply(model, request, self.who.is_multiple_of(3))),
                }
            }
            "cancel" => Command::Cancel { request: request? },
            "fail_tx" => Command::End { end: End::FailTx, request: request? },
            "fail_internal" => Command::End { end: End::FailInternal, request: request? },
            "time_out" => Command::End { end: End::TimeOut, request: request? },
            "lapse" => Command::Lapse { queue: one_of(&model.where_something_is_held(), queue) },
            "comes_due" => Command::ComesDue { queue: one_of(&model.where_something_is_put_off(), queue) },
            "pass" => {
                Command::Pass { end: [End::Readiness, End::Deadline, End::Response][self.how % 3], request: request? }
            }
            "sweep" => Command::Sweep { end: [End::Readiness, End::Deadline, End::Response][self.how % 3] },
            "sweep_inbox" => Command::SweepInbox,
            "pass_window" => Command::PassWindow { submitter: self.who % SUBMITTERS.len() },
            "expire_keys" => Command::ExpireKeys,
            "recover" => Command::Recover { all: self.how.is_multiple_of(4), force: self.who.is_multiple_of(2) },
            "gates_evaluate" => Command::LookAtGates,
            "force_gate" => Command::ForceGate { queue, closed: [None, Some(true), Some(false), None][self.how % 4] },
            "remove_stray_messages" => Command::RemoveStrays { queue },
            "purge" => Command::Purge { queue },
            "lose_message" => Command::LoseMessage { request: request? },
            "duplicate" => Command::Duplicate { queue, request: request? },
            other => unreachable!("{other}"),
        })
    }

    /// What brings some request nearer to its end.
    fn next(&self, model: &Model) -> Option<Command> {
        let worker = self.who % 2;
        let pick = |back| vec![Pick { back, is_forged: false }];
        let waiting = model.where_something_waits().into_iter();
        let checked = model.still_held(Queue::Readiness).into_iter();
        let sent = model.still_held(Queue::Tx).into_iter();
        let claims = waiting.map(|queue| Command::Claim { worker, queue, batch: 1 + self.how % 3 });
        let settles = checked.map(|back| Command::Settle { worker, check: Check::Passed, picks: pick(back) });
        let reports = sent.map(|back| Command::Report {
            worker,
            sent: Sent::Receipt { reference: true, answered: false },
            picks: pick(back),
        });
        let responses = model
            .awaiting()
            .into_iter()
            .map(|request| Command::Respond(self.reply(model, request, self.who.is_multiple_of(2))));
        let mut all: Vec<_> = claims.chain(settles).chain(reports).chain(responses).collect();
        (!all.is_empty()).then(|| all.swap_remove(self.which % all.len()))
    }

    /// A response, which mostly fits the request.
    fn reply(&self, model: &Model, request: usize, by_reference: bool) -> Reply {
        let kind = model.kind(request);
        let odd = self.how == 63;
        let shares = kind == "user_decrypt" || (kind == "public_decrypt" && self.how < 16);
        Reply {
            request,
            by_reference,
            part: (shares != odd).then_some(self.much % 3),
            accept: (kind == "input_proof").then_some(self.how < 40),
        }
    }

    /// Up to five responses, the first of them to this request, some of the others too.
    fn replies(&self, model: &Model, request: usize) -> Vec<Reply> {
        let also = (1..1 + self.how % 5).map(|place| {
            let other = Self { how: (self.how * 5 + place * 23) % 64, much: self.much + place, ..self.clone() };
            let to =
                if (self.which + place).is_multiple_of(2) { request } else { (request + place) % model.requests.len() };
            other.reply(model, to, (self.who + place).is_multiple_of(3))
        });
        std::iter::once(self.reply(model, request, self.who.is_multiple_of(3))).chain(also).collect()
    }
}
