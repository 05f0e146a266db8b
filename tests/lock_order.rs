//! Do all public functions take their locks in one order? Every pair runs against each other, and all of them at once.

use std::sync::{Arc, Mutex};

use rand::{Rng, SeedableRng, rngs::StdRng, seq::SliceRandom};
use tidegate::request::RequestId;

use crate::support::{
    TestDatabase,
    invariants::violations,
    race::{Held, Session, leases, submit_many},
};

const NOTHING: [String; 0] = [];
const KINDS: [&str; 4] = ["public_decrypt", "user_decrypt", "input_proof", "direct"];

/// What the actors share: requests, and leases that may be stale.
#[derive(Default)]
struct Shared {
    ids: Mutex<Vec<RequestId>>,
    readiness: Mutex<Vec<Held>>,
    tx: Mutex<Vec<Held>>,
}

impl Shared {
    fn leases(&self, queue: &str) -> &Mutex<Vec<Held>> {
        if queue == "tx" {
            &self.tx
        } else {
            &self.readiness
        }
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

const ACTS: &[&str] = &[
    "claim_readiness",
    "claim_tx",
    "settle_passed",
    "settle_not_yet",
    "settle_failed",
    "settle_receipt",
    "settle_retry",
    "settle_rejected",
    "release_readiness",
    "release_tx",
    "extend",
    "cancel",
    "respond_by_id",
    "respond_by_reference",
    "expire_by_deadline",
    "expire_by_readiness",
    "expire_responses",
    "recover",
    "reset_all",
    "remove_strays",
    "rescan_queue",
    "sweep_inbox",
    "fail_tx",
    "fail_internal",
    "time_out",
    "submit",
    "submit_batch",
    "fold_counts",
    "maintain",
    "pause",
];

/// The statement of an act.
fn statement(act: &str, shared: &Shared, random: &mut StdRng) -> String {
    let queue = if random.random() { "tx" } else { "readiness" };
    let settle = |queue: &str, more: &str, random: &mut StdRng| {
        let held = shared.some_leases(queue, random);
        let more = more.replace("$n", &held.len().max(1).to_string());
        format!(
            "select count(*) from tidegate.{}({}{more})",
            act.split("_readiness")
                .next()
                .unwrap()
                .replace("release_tx", "release"),
            leases(&held)
        )
    };
    match act {
        "settle_passed" | "release_readiness" => settle("readiness", "", random),
        "settle_failed" => settle("readiness", ", null", random),
        "settle_not_yet" => settle("readiness", ", array_fill(interval '0', array[$n])", random),
        "release_tx" => settle("tx", "", random),
        "settle_rejected" => settle("tx", ", null", random),
        "settle_retry" => settle("tx", ", null, array_fill(interval '0', array[$n])", random),
        "settle_receipt" => settle(
            "tx",
            ", (select array_agg('ref-' || (random() * 9)::int) from generate_series(1, $n))",
            random,
        ),
        "extend" => settle(queue, ", '200 milliseconds'", random),
        "cancel" => format!(
            "select outcome from tidegate.cancel({})",
            shared.one_id(random)
        ),
        "respond_by_id" => {
            // Whatever fits the request's flow.
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
        "respond_by_reference" => format!(
            "select outcome from tidegate.respond('1', reference => 'ref-{}')",
            random.random_range(0..10)
        ),
        "recover" => "select examined from tidegate.recover()".to_owned(),
        "reset_all" => "select examined from tidegate.recover(reset_all => true)".to_owned(),
        "remove_strays" => format!("select removed from tidegate.remove_strays('{queue}')"),
        "rescan_queue" => format!("select tidegate.rescan_queue('{queue}')"),
        "fail_tx" | "fail_internal" | "time_out" => {
            format!(
                "select count(*) from tidegate.{act}({})",
                shared.some_ids(random)
            )
        }
        "submit" => format!(
            "select id from tidegate.submit('{}', '{{}}', idempotency_key => 'key-{}')",
            KINDS[random.random_range(0..4)],
            random.random_range(0..6)
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
        "maintain" => "call tidegate.maintain()".to_owned(),
        "pause" => format!(
            "select tidegate.pause({}, {})",
            ["null", "'tx'", "'readiness'"][random.random_range(0..3)],
            random.random_bool(0.3)
        ),
        "expire_by_deadline" | "expire_by_readiness" | "expire_responses" => {
            format!(
                "select expired from tidegate.{act}({})",
                random.random_range(1..20)
            )
        }
        _ => format!("select tidegate.{act}()"),
    }
}

/// Does one act; what it got goes to everybody. An error is one too many, but for a response that does not fit.
async fn perform(
    act: &str,
    session: &mut Session,
    shared: &Shared,
    random: &mut StdRng,
) -> Option<String> {
    if let Some(queue) = act.strip_prefix("claim_") {
        let held = session
            .claim_for(queue, random.random_range(1..10), "150 milliseconds")
            .await;
        shared.leases(queue).lock().unwrap().extend(held);
        return None;
    }
    let sql = statement(act, shared, random);
    match session.attempt(&sql).await {
        Ok(rows) if act.starts_with("submit") => {
            shared
                .ids
                .lock()
                .unwrap()
                .extend(rows.iter().map(|id| id.parse::<RequestId>().unwrap()));
            None
        }
        Err((state, message)) if state != "TG007" => Some(format!("{state} {message}: {sql}")),
        _ => None,
    }
}

async fn stage(limits: bool) -> (TestDatabase, Arc<Shared>) {
    let database = TestDatabase::new().await;
    database
        .execute(
            "do $$ begin execute format('alter database %I set deadlock_timeout = ''50ms''', current_database()); end $$;
             update tidegate.policy set dedup_window = '1 millisecond', span_reorder = '0', attempts = 50;
             update tidegate.maintenance set period = '1 millisecond';
             update tidegate.kind set deadline = '2 seconds', readiness_timeout = '1 second', response_timeout = '500 milliseconds'",
        )
        .await;
    let limit = if limits {
        "per_seconds = 2000, burst = 50 where name = 'tx'"
    } else {
        "per_seconds = null where name = 'tx'"
    };
    database
        .execute(&format!("update tidegate.queue set {limit}"))
        .await;
    let shared = Shared::default();
    (database, Arc::new(shared))
}

/// New requests, now and then with a jump of the numbers, so that claims raise the low-water marks.
async fn refill(session: &mut Session, shared: &Shared, jump: bool) {
    if jump {
        session
            .execute(
                "select setval('pgmq.q_tx_msg_id_seq', nextval('pgmq.q_tx_msg_id_seq') + 9000),
                   setval('pgmq.q_readiness_msg_id_seq', nextval('pgmq.q_readiness_msg_id_seq') + 9000)",
            )
            .await;
    }
    for kind in KINDS {
        let sql = format!(
            "select id from tidegate.submit_batch('{kind}', array_fill('{{}}'::jsonb, array[4]))"
        );
        let ids = session.texts(&sql).await;
        shared
            .ids
            .lock()
            .unwrap()
            .extend(ids.iter().map(|id| id.parse::<RequestId>().unwrap()));
    }
}

async fn settle_down(database: &TestDatabase) {
    database
        .execute("select tidegate.pause(paused => false)")
        .await;
    assert_eq!(violations(&database.pool).await, NOTHING);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_pair_of_functions_runs_at_once_without_a_deadlock() {
    let (database, shared) = stage(true).await;
    let mut sessions = Vec::new();
    for _ in 0..4 {
        sessions.push(Session::open(&database).await);
    }
    let mut number = 0;
    for (at, one) in ACTS.iter().enumerate() {
        for two in &ACTS[at..] {
            number += 1;
            let mut random = StdRng::seed_from_u64(number);
            if number % 3 == 0 {
                refill(&mut sessions[0], &shared, number % 12 == 0).await;
            }
            for act in ["claim_tx", "claim_readiness"] {
                perform(act, &mut sessions[0], &shared, &mut random).await;
            }
            let mut tasks = Vec::new();
            for (actor, mut session) in sessions.drain(..).enumerate() {
                let act = if actor % 2 == 0 { *one } else { *two };
                let shared = Arc::clone(&shared);
                let mut random = StdRng::seed_from_u64(number * 10 + actor as u64);
                tasks.push(tokio::spawn(async move {
                    let mut errors = Vec::new();
                    for _ in 0..3 {
                        errors.extend(perform(act, &mut session, &shared, &mut random).await);
                    }
                    (session, errors)
                }));
            }
            for task in tasks {
                let (session, errors) = task.await.unwrap();
                assert_eq!(errors, NOTHING, "{one} against {two}");
                sessions.push(session);
            }
        }
    }
    settle_down(&database).await;
}

async fn all_at_once(limits: bool, losses: bool) {
    let seed = rand::rng().random::<u32>();
    println!("seed {seed}");
    let (database, shared) = stage(limits).await;
    refill(&mut Session::open(&database).await, &shared, false).await;
    let mut tasks = Vec::new();
    for actor in 0..8_u64 {
        let mut session = Session::open(&database).await;
        let shared = Arc::clone(&shared);
        let mut random = StdRng::seed_from_u64(u64::from(seed) * 10 + actor);
        tasks.push(tokio::spawn(async move {
            let mut errors = Vec::new();
            for round in 0..250 {
                // Work that moves requests on is done more often than work that ends them.
                let act = match random.random_range(0..4) {
                    0 => ["claim_readiness", "claim_tx"][round % 2],
                    1 => ACTS[random.random_range(2..11)],
                    _ => ACTS[random.random_range(0..ACTS.len())],
                };
                errors.extend(perform(act, &mut session, &shared, &mut random).await);
                if round % 25 == 0 {
                    refill(&mut session, &shared, random.random()).await;
                }
                if losses && round % 10 == 0 {
                    session
                        .execute("delete from pgmq.q_tx where msg_id = (select msg_id from pgmq.q_tx limit 1 for update skip locked)")
                        .await;
                }
            }
            errors
        }));
    }
    for task in tasks {
        assert_eq!(task.await.unwrap(), NOTHING, "seed {seed}");
    }
    if losses {
        database.execute("select tidegate.recover(100000)").await;
        for queue in ["tx", "readiness"] {
            database
                .execute(&format!("select tidegate.remove_strays('{queue}', 100000)"))
                .await;
        }
    }
    settle_down(&database).await;
    let ended = database
        .number("select count(*) from tidegate.request where finished_at is not null")
        .await;
    assert!(ended > 100, "only {ended} requests came to their end");
}

#[tokio::test(flavor = "multi_thread")]
async fn everybody_at_once_keeps_every_invariant_and_never_deadlocks() {
    all_at_once(false, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everybody_at_once_with_limits_and_lost_messages_never_deadlocks() {
    all_at_once(true, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_inbox_sweep_locks_no_request_that_is_in_a_queue() {
    let database = TestDatabase::unlimited().await;
    let ids = submit_many(&database, "direct", 3).await;
    let mut session = Session::open(&database).await;
    for id in &ids {
        session
            .texts(&format!(
                "select outcome from tidegate.respond('1', id => '{id}')"
            ))
            .await;
    }
    let mut editor = Session::begin(&database).await;
    editor
        .execute(&format!(
            "update tidegate.request set submitter = 'me' where id = '{}'",
            ids[1]
        ))
        .await;

    // Waiting here with the first request's row locked, it would meet a settle that goes the other way.
    let sweep = session.start("select tidegate.sweep_inbox()");
    assert_eq!(sweep.finish().await.1, ["0"]);
    editor.rollback().await;
}
