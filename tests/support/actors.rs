//! Actors that do anything a public function allows, over requests and leases that they share.

use std::sync::Mutex;

use rand::{Rng, rngs::StdRng, seq::SliceRandom};
use tidegate::request::RequestId;

use super::{
    TestDatabase,
    race::{Held, Session, leases, sound},
};

/// The kinds of the example.
pub const KINDS: [&str; 4] = ["public_decrypt", "user_decrypt", "input_proof", "direct"];

/// A kind that makes its keys in time buckets.
const BUCKETED: &str = "bucketed";

/// Adds the kind to which `submit_keyless` submits. Its windows span a few buckets, and end all the time.
pub async fn add_bucketed(database: &TestDatabase) {
    database
        .execute(&format!(
            "insert into tidegate.kind (name, flow, tx_queue, processing_ms, tx_confirmation_ms, deadline, readiness_timeout,
               response_timeout, key_mode, key_bucket)
             values ('{BUCKETED}', 'direct', 'tx', 1, 1, '2 seconds', '1 second', '500 milliseconds', 'proxy', '20 milliseconds');
             update tidegate.policy set dedup_window = '50 milliseconds', span_reorder = '0' where kind = '{BUCKETED}'",
        ))
        .await;
}

/// The shared state of the actors: requests, and leases that may be stale.
#[derive(Default)]
pub struct Shared {
    pub ids: Mutex<Vec<RequestId>>,
    /// Whether marks are so low that gates close and open all the time, and submissions are refused.
    pub gates_flip: bool,
    readiness: Mutex<Vec<Held>>,
    tx: Mutex<Vec<Held>>,
}

impl Shared {
    fn leases(&self, queue: &str) -> &Mutex<Vec<Held>> {
        if queue == "tx" { &self.tx } else { &self.readiness }
    }

    /// Some leases of a queue, in any order.
    fn some_leases(&self, queue: &str, random: &mut StdRng) -> Vec<Held> {
        let mut all = self.leases(queue).lock().unwrap();
        all.shuffle(random);
        let count = random.random_range(0..=all.len().min(8));
        let taken = all[..count].to_vec();
        // Half of them stay, to be settled again.
        all.drain(..count / 2);
        all.truncate(60);
        taken
    }

    /// Some requests, in any order.
    fn some_ids(&self, random: &mut StdRng) -> String {
        let mut all = self.ids.lock().unwrap();
        all.shuffle(random);
        let count = random.random_range(0..=all.len().min(8));
        let ids: Vec<_> = all[..count].iter().map(|id| format!("'{id}'")).collect();
        all.truncate(80);
        format!("array[{}]::uuid[]", ids.join(", "))
    }

    fn one_id(&self, random: &mut StdRng) -> String {
        let all = self.ids.lock().unwrap();
        format!("'{}'", all[random.random_range(0..all.len())])
    }
}

/// Everything there is to do.
pub const ACTS: &[&str] = &[
    "claim_readiness",
    "claim_tx",
    "settle_passed",
    "settle_snooze",
    "settle_failed",
    "settle_receipt",
    "settle_retry",
    "settle_rejected",
    "release_readiness",
    "release_tx",
    "extend",
    "hold_leases",
    "cancel",
    "cancel_requests",
    "respond_by_id",
    "respond_by_reference",
    "respond_many",
    "fail_receipt",
    "expire_by_deadline",
    "expire_by_readiness",
    "expire_responses",
    "reserve_send",
    "recover",
    "reset_all",
    "recover_deadlines",
    "recover_responses",
    "recover_counts",
    "recover_gates",
    "remove_stray_messages",
    "rescan_queue",
    "sweep_inbox",
    "fail_tx",
    "fail_internal",
    "time_out",
    "submit",
    "submit_batch",
    "submit_batch_once",
    "submit_keyless",
    "fold_counts",
    "maintain",
    "pause",
    "config_set_many",
    "gate_force",
    "quota_set",
    "quota_remove",
    "quota_reconcile",
    "fold_timeouts",
];

/// Quotas, by the name and as `quota_set` makes them.
const QUOTAS: [(&str, &str); 3] = [
    ("kind direct", "kind => 'direct'"),
    ("kind public_decrypt", "kind => 'public_decrypt'"),
    ("submitter ann", "submitter => 'ann'"),
];

/// The statement of an act.
fn statement(act: &str, shared: &Shared, random: &mut StdRng) -> String {
    let queue = if random.random() { "tx" } else { "readiness" };
    let settle = |queue: &str, more: &str, random: &mut StdRng| {
        let held = shared.some_leases(queue, random);
        let more = more.replace("$n", &held.len().max(1).to_string());
        format!(
            "select count(*) from {}({}{more})",
            match act.split('_').next() {
                Some("release") => "tidegate_internal.settle_released".to_owned(),
                Some("settle") => format!("tidegate_internal.{act}"),
                _ => format!("tidegate.{act}"),
            },
            leases(&held)
        )
    };
    match act {
        "settle_passed" | "release_readiness" => settle("readiness", "", random),
        "settle_failed" => settle("readiness", ", null", random),
        "settle_snooze" => settle("readiness", ", array_fill(interval '0', array[$n])", random),
        "release_tx" => settle("tx", "", random),
        "hold_leases" => settle(queue, "", random),
        "settle_rejected" => settle("tx", ", null", random),
        "settle_retry" => settle("tx", ", null, array_fill(interval '0', array[$n])", random),
        "settle_receipt" => {
            settle("tx", ", (select array_agg('ref-' || (random() * 9)::int) from generate_series(1, $n))", random)
        }
        "extend" => settle(queue, ", '200 milliseconds'", random),
        "cancel" => format!("select outcome from tidegate.cancel({})", shared.one_id(random)),
        "cancel_requests" => format!(
            "select cancelled from tidegate.cancel_requests('{}', batch => {})",
            KINDS[random.random_range(0..4)],
            random.random_range(1..8)
        ),
        "respond_by_id" => {
            // Any response that fits the request's flow.
            format!(
                "select a.outcome from tidegate.request as r
                 cross join lateral tidegate.respond(
                   '1', id => r.id,
                   part => case when r.response_threshold > 1 then 'p' || (random() * 5)::int end,
                   accept => case when r.flow = 'proof' then random() < 0.5 end
                 ) as a
                 where r.id = {}",
                shared.one_id(random)
            )
        }
        "respond_by_reference" => {
            format!("select outcome from tidegate.respond('1', reference => 'ref-{}')", random.random_range(0..10))
        }
        "respond_many" => format!(
            "select count(*) from (
               select array_agg(one.id) as ids, array_agg(one.reference) as refs, array_agg(one.part) as parts,
                 array_agg(one.accept) as accepts
               from (
                 select r.id, null as reference,
                   case when r.response_threshold > 1 then 'p' || (random() * 5)::int end as part,
                   case when r.flow = 'proof' then random() < 0.5 end as accept
                 from tidegate.request as r where r.id = any({})
                 union all select null, 'ref-' || n, null, null from generate_series({}, 10, 4) as n
               ) as one
             ) as a
             cross join lateral tidegate.respond_many(
               array_fill('1'::jsonb, array[cardinality(a.ids)]), a.ids, a.refs, a.parts, a.accepts
             ) as responded",
            shared.some_ids(random),
            random.random_range(0..4)
        ),
        "fail_receipt" => format!("select tidegate.fail_receipt({}, null)", shared.one_id(random)),
        "reserve_send" => "select wait_ms from tidegate.reserve_send('tx')".to_owned(),
        "recover" => "select examined from tidegate.recover()".to_owned(),
        "reset_all" => "select examined from tidegate.recover(reset_all => true, force => true)".to_owned(),
        "recover_deadlines" => "select examined from tidegate.recover_deadlines()".to_owned(),
        "recover_responses" => "select applied from tidegate.recover_responses()".to_owned(),
        "recover_counts" => "select count(*) from tidegate.recover_counts()".to_owned(),
        "remove_stray_messages" => format!("select removed from tidegate.remove_stray_messages('{queue}')"),
        "rescan_queue" => format!("select tidegate.rescan_queue('{queue}')"),
        "fail_tx" | "fail_internal" | "time_out" => {
            format!("select count(*) from tidegate.{act}({})", shared.some_ids(random))
        }
        "submit" => format!(
            "select id from tidegate.submit('{}', '{{}}', idempotency_key => 'key-{}', submitter => {})",
            KINDS[random.random_range(0..4)],
            random.random_range(0..6),
            ["null", "'ann'", "'bob'"][random.random_range(0..3)]
        ),
        "submit_batch" => {
            let mut keys: Vec<_> = (0..6).map(|key| format!("'key-{key}'")).collect();
            keys.shuffle(random);
            format!(
                "select id from tidegate.submit_batch('{}', array_fill('{{}}'::jsonb, array[4]), array[{}])",
                KINDS[random.random_range(0..4)],
                keys[..4].join(", ")
            )
        }
        "submit_batch_once" => format!(
            "select id from tidegate.submit_batch_once('{}', array_fill('{{}}'::jsonb, array[3]), 'key-{}')",
            KINDS[random.random_range(0..4)],
            random.random_range(0..2)
        ),
        "submit_keyless" => {
            let mut payloads: Vec<_> = (0..6).map(|payload| format!("'{payload}'")).collect();
            payloads.shuffle(random);
            // Two of them have a caller's key, and may stand anywhere among the others.
            let mut keys = ["null", "null", "null", "null", "'key-1'", "'key-2'"];
            keys.shuffle(random);
            for (payload, key) in payloads.iter_mut().zip(keys) {
                if key != "null" {
                    "'{}'".clone_into(payload);
                }
            }
            payloads[5] = payloads[0].clone();
            keys[5] = keys[0];
            format!(
                "select id from tidegate.submit_batch('{BUCKETED}', array[{}]::jsonb[], array[{}]::text[])",
                payloads.join(", "),
                keys.join(", ")
            )
        }
        "maintain" => "call tidegate.maintain()".to_owned(),
        "pause" => format!(
            "select tidegate.pause({}, {})",
            ["null", "'tx'", "'readiness'"][random.random_range(0..3)],
            random.random_bool(0.3)
        ),
        "config_set_many" => format!(
            "select count(*) from tidegate.config_set_many('{{\"tx.paused\": false, \"readiness.paused\": false,
               \"max_seconds\": {0}, \"direct.tx.jitter_ms\": {0}, \"tx_confirmation_ms\": {0},
               \"response_backoff\": \"0s={0}\"}}')",
            random.random_range(200..400)
        ),
        "gate_force" => {
            let state = match random.random_range(0..10) {
                // A gate that is held flips no more.
                0 => "'accepting'",
                1 if shared.gates_flip => "'too_many_requests'",
                _ => "null",
            };
            format!("select tidegate.gate_force('{queue}', {state})")
        }
        "quota_set" => format!(
            "select tidegate.quota_set({}, high_water => {}, mode => '{}')",
            QUOTAS[random.random_range(0..3)].1,
            if shared.gates_flip { random.random_range(6..30) } else { 1_000_000 },
            ["strict", "soft"][random.random_range(0..2)]
        ),
        "quota_remove" => format!("select tidegate.quota_remove('{}')", QUOTAS[random.random_range(0..3)].0),
        "quota_reconcile" => format!("select tidegate.quota_reconcile({})", random.random_range(1..100)),
        "fold_timeouts" => format!(
            r#"select tidegate.fold_timeouts(
                 '{kind}', 'tx', coalesce((select e.version from tidegate.timeout_estimator as e where e.kind = '{kind}'), 0),
                 '{{"state": "normal", "srtt_ns": 1, "rttvar_ns": 1, "srto_ns": 1, "k_margin": 1, "timeout_ns": 1,
                   "failure_rate": 0, "load_rps": 1, "min_ns": 1, "min_before_ns": 1, "usual_ns": 1, "usual_before_ns": 1, "min_age": 1, "high_load_intervals": 0,
                   "high_load_rps": null, "interval_no": 1, "began_us": 1, "requests": 1, "responses": 1, "failures": 0, "late": 0, "sum_ns": 1}}',
                 '{{"sequence": 1, "requests": 1, "responses": 1, "failures": 0, "min_ns": 1, "mean_ns": 1, "deviation_ns": 1,
                   "load_rps": 1, "in_flight": 1}}',
                 'worker {}')"#,
            random.random_range(0..3),
            kind = KINDS[random.random_range(0..4)],
        ),
        "expire_by_deadline" | "expire_by_readiness" | "expire_responses" => {
            format!("select expired from tidegate.{act}({})", random.random_range(1..20))
        }
        _ => format!("select tidegate.{act}()"),
    }
}

/// Does one act; its result goes to all actors. An error is one too many, but for a response that does not fit.
pub async fn perform(act: &str, session: &mut Session, shared: &Shared, random: &mut StdRng) -> Option<String> {
    if let Some(queue) = act.strip_prefix("claim_") {
        // Some run out before anybody settles them, and others on no machine.
        let lease_for = ["150 milliseconds", "30 seconds"][random.random_range(0..2)];
        let held = session.claim_for(queue, random.random_range(1..10), lease_for).await;
        shared.leases(queue).lock().unwrap().extend(held);
        return None;
    }
    let sql = statement(act, shared, random);
    match session.attempt(&sql).await {
        Ok(rows) if act.starts_with("submit") => {
            shared.ids.lock().unwrap().extend(accepted(&rows));
            None
        }
        // A key whose request has just failed stands for a new one, for which there is no room.
        Err((state, _)) if state == "40001" && shared.gates_flip => None,
        Err((state, message)) if state != "TG007" => Some(format!("{state} {message}: {sql}")),
        _ => None,
    }
}

/// The ids in the results of submissions: a refused one has none.
pub fn accepted(rows: &[String]) -> impl Iterator<Item = RequestId> {
    rows.iter().filter(|id| !id.is_empty()).map(|id| id.parse().unwrap())
}

/// Brings the database to rest after the actors, and checks every invariant.
pub async fn settle_down(database: &TestDatabase) {
    database.execute("select tidegate.pause(paused => false)").await;
    // Through both queues: requests that were submitted while a quota was made.
    for _ in 0..3 {
        database.execute("select tidegate.quota_reconcile(100000)").await;
    }
    sound(database).await;
}
