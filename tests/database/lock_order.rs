//! Do all public functions take their locks in one order? Pairs run against each other (every pair with
//! `TIDEGATE_TESTS=long`), and all of them at once.

use std::sync::Arc;

use rand::{Rng, SeedableRng, rngs::StdRng, seq::SliceRandom};

use crate::support::{
    TestDatabase,
    actors::{ACTS, KINDS, Shared, accepted, add_bucketed, perform, settle_down},
    campaign,
    race::{NOTHING, Session, leases, submit_many},
    until_blocked,
};

async fn stage(limits: bool) -> (TestDatabase, Arc<Shared>) {
    let database = TestDatabase::new().await;
    database.find_deadlocks_soon().await;
    database
        .execute(
            "update tidegate.policy set dedup_window = '1 millisecond', span_reorder = '0', attempts = 50,
               timeout_ms = 1, timeout_mode = 'adaptive', base_ms = 5, factor = 1, cap_ms = 5, jitter_ms = 0;
             update tidegate.maintenance set period = '1 millisecond';
             update tidegate.kind set deadline = '2 seconds', readiness_timeout = '1 second', response_timeout = '500 milliseconds'",
        )
        .await;
    add_bucketed(&database).await;
    let limit = if limits {
        "per_seconds = 2000, burst = 50 where name = 'tx'"
    } else {
        "per_seconds = null where name = 'tx'"
    };
    database.execute(&format!("update tidegate.queue set {limit}")).await;
    let shared = Shared::default();
    (database, Arc::new(shared))
}

/// New requests, now and then with a jump of the numbers, so that claims raise the watermarks.
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
        let sql = format!("select id from tidegate.submit_batch('{kind}', array_fill('{{}}'::jsonb, array[4]))");
        let ids = session.texts(&sql).await;
        shared.ids.lock().unwrap().extend(accepted(&ids));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_pair_of_functions_runs_at_once_without_a_deadlock() {
    let (database, shared) = stage(true).await;
    let mut sessions = Vec::new();
    for _ in 0..4 {
        sessions.push(Session::open(&database).await);
    }
    let mut pairs: Vec<_> =
        (ACTS.iter().enumerate()).flat_map(|(at, one)| ACTS[at..].iter().map(move |two| (one, two))).collect();
    let seed = rand::rng().random::<u64>();
    println!("seed {seed}");
    pairs.shuffle(&mut StdRng::seed_from_u64(seed));
    pairs.truncate(campaign(20, usize::MAX));
    for (number, (one, two)) in (1_u64..).zip(pairs) {
        let mut random = StdRng::seed_from_u64(seed ^ number);
        if number % 3 == 1 {
            refill(&mut sessions[0], &shared, number % 12 == 1).await;
        }
        for act in ["claim_tx", "claim_readiness"] {
            perform(act, &mut sessions[0], &shared, &mut random).await;
        }
        let mut tasks = Vec::new();
        for (actor, mut session) in sessions.drain(..).enumerate() {
            let act = if actor % 2 == 0 { *one } else { *two };
            let shared = Arc::clone(&shared);
            let mut random = StdRng::seed_from_u64(random.random());
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
            assert_eq!(errors, NOTHING, "{one} against {two}, seed {seed}");
            sessions.push(session);
        }
    }
    settle_down(&database).await;
}

async fn all_at_once(limits: bool, losses: bool, gates_flip: bool) {
    let seed = rand::rng().random::<u32>();
    println!("seed {seed}");
    let (database, mut shared) = stage(limits).await;
    if gates_flip {
        Arc::get_mut(&mut shared).unwrap().gates_flip = true;
        database.execute("update tidegate.gate set high_water = 24, low_water = 16").await;
    }
    // Enough for a gate to close, whatever the actors draw: they may hold it by hand from the first round on.
    for _ in 0..if gates_flip { 4 } else { 1 } {
        refill(&mut Session::open(&database).await, &shared, false).await;
    }
    let mut tasks = Vec::new();
    for actor in 0..8_u64 {
        let mut session = Session::open(&database).await;
        let shared = Arc::clone(&shared);
        let mut random = StdRng::seed_from_u64(u64::from(seed) * 10 + actor);
        tasks.push(tokio::spawn(async move {
            let mut errors = Vec::new();
            for round in 0..campaign(if gates_flip { 60 } else { 40 }, 250) {
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
            database.execute(&format!("select tidegate.remove_stray_messages('{queue}', 100000)")).await;
        }
    }
    settle_down(&database).await;
    let ended = database.number("select count(*) from tidegate.request where finished_at is not null").await;
    assert!(ended > campaign(16, 100), "only {ended} requests came to their end");
    if gates_flip {
        let flips = database.number("select count(*) from tidegate.gate_event where cause like '%mark'").await;
        assert!(flips > campaign(0, 3), "only {flips} flips");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn everybody_at_once_keeps_every_invariant_and_never_deadlocks() {
    all_at_once(false, false, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everybody_at_once_with_limits_and_lost_messages_never_deadlocks() {
    all_at_once(true, true, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everybody_at_once_while_gates_close_and_open_never_deadlocks() {
    all_at_once(false, false, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everybody_at_once_with_limits_losses_and_gates_that_flip_never_deadlocks() {
    all_at_once(true, true, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_inbox_sweep_locks_no_request_that_is_in_a_queue() {
    let database = TestDatabase::unlimited().await;
    let ids = submit_many(&database, "direct", 3).await;
    let mut session = Session::open(&database).await;
    for id in &ids {
        session.texts(&format!("select outcome from tidegate.respond('1', id => '{id}')")).await;
    }
    let mut editor = Session::begin(&database).await;
    editor.execute(&format!("update tidegate.request set submitter = 'me' where id = '{}'", ids[1])).await;

    // Waiting here with the first request's row locked, it would meet a settle that goes the other way.
    let sweep = session.start("select tidegate.sweep_inbox()");
    assert_eq!(sweep.finish().await.1, ["0"]);
    editor.rollback().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_whose_keys_are_free_again_locks_their_earlier_requests_in_the_order_of_their_ids() {
    let database = TestDatabase::unlimited().await;
    let mut earlier = Vec::new();
    for key in ["b", "a"] {
        let id = format!("select id from tidegate.submit('direct', '{{}}', idempotency_key => '{key}')");
        earlier.push(database.value(&id).await);
    }
    for id in &earlier {
        database.execute(&format!("select tidegate.fail_request('{id}', 'of no use')")).await;
    }
    let lock = |id: &String| format!("select from tidegate.request where id = '{id}' for update");
    let mut other = Session::begin(&database).await;
    other.execute(&lock(&earlier[0])).await;
    let batch = Session::open(&database)
        .await
        .start("select outcome from tidegate.submit_batch('direct', array['{}', '{}']::jsonb[], array['a', 'b'])");
    batch.until_blocked_by(&database, &other).await;

    other.execute(&lock(&earlier[1])).await;
    other.commit().await;

    assert_eq!(batch.finish().await.1, ["accepted", "accepted"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_lost_message_comes_back_while_a_session_locks_the_rows_of_several_requests() {
    let database = TestDatabase::unlimited().await;
    let ids = submit_many(&database, "direct", 3).await;
    database.execute("delete from pgmq.q_tx; update tidegate.request set deadline_at = clock_timestamp()").await;

    // A claim could take the messages that recovery makes, and wait for rows that earlier sessions have locked.
    let mut recovery = Session::begin(&database).await;
    assert_eq!(recovery.text("select rebuilt from tidegate.recover(1)").await, "1");
    let mut sweep = Session::open(&database).await;
    let expire = "select expired from tidegate.expire_by_deadline()";
    assert_eq!(sweep.text(expire).await, "0", "recovery is at it");
    let operator = Session::open(&database).await.start(&format!("select id from tidegate.fail_tx('{{{}}}')", ids[2]));
    until_blocked(&database, 1).await;
    recovery.commit().await;
    assert_eq!(operator.finish().await.1, [ids[2].to_string()]);

    let mut sweep = Session::begin(&database).await;
    assert_eq!(sweep.text(expire).await, "2");
    let recovery = Session::open(&database).await.start("select reset + ended + rebuilt from tidegate.recover()");
    until_blocked(&database, 1).await;
    sweep.commit().await;
    assert_eq!(recovery.finish().await.1, ["0"]);
}

/// A session that holds a queue's drain lock must not wait for the lock of its watermark: a claim takes them in the
/// opposite order.
#[tokio::test(flavor = "multi_thread")]
async fn what_gives_back_and_removes_at_once_waits_for_the_watermark_before_it_drains() {
    let database = TestDatabase::unlimited().await;
    database
        .execute(
            "update tidegate.policy set base_ms = 0, jitter_ms = 0;
             update tidegate.policy set semantics = 'at_most_once' where kind = 'direct' and stage = 'tx'",
        )
        .await;
    let errors = r#"array['{"code": "connect"}', '{"code": "http_400"}']::jsonb[]"#;
    for (act, queue, kind) in [
        ("settle_snooze", "readiness", "public_decrypt"),
        ("settle_retry", "tx", "direct"),
        ("recover", "tx", "direct"),
    ] {
        let mut session = Session::open(&database).await;
        submit_many(&database, kind, 2).await;
        let held = session.claim(queue, 2).await;
        let at_once = "array_fill(interval '0', array[2])";
        let statement = match act {
            "settle_snooze" => {
                format!("select count(*) from tidegate_internal.settle_snooze({}, {at_once}, {errors})", leases(&held))
            }
            "settle_retry" => format!(
                "select count(*) from tidegate_internal.settle_retry({}, {errors}, {at_once}, array[false, true])",
                leases(&held)
            ),
            _ => {
                submit_many(&database, "direct", 1).await;
                session.execute("delete from pgmq.q_tx where true").await;
                "select rebuilt from tidegate.recover(reset_all => true, force => true)".to_owned()
            }
        };

        session.execute("update tidegate.gate set state = 'too_many_requests'").await;
        let mut other = Session::begin(&database).await;
        let key = |sort| format!("tidegate.queue_lock_key('{queue}', '{sort}')");
        other.execute(&format!("select pg_advisory_xact_lock({})", key("watermark"))).await;
        let running = session.start(&statement);
        until_blocked(&database, 1).await;
        let free = other.text(&format!("select pg_try_advisory_xact_lock({})", key("drain"))).await;
        assert_eq!(free, "t", "{act} drains first");
        other.rollback().await;
        running.finish().await;
    }
}
