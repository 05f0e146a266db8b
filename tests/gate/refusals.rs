//! Does a closed gate refuse new work, whole, and nothing else?

use crate::support::{
    TestDatabase,
    race::{Session, submit_many},
};

const NO_ROWS: [&str; 0] = [];

/// As an operator closes it; from then on refusals are as computed, without jitter.
async fn close(database: &TestDatabase, queue: &str) {
    database
        .execute(&format!(
            "update tidegate.gate set state = 'too_many_requests' where queue = '{queue}';
             update tidegate.setting set jitter = 0"
        ))
        .await;
}

async fn open(database: &TestDatabase) {
    database.execute("update tidegate.gate set state = 'accepting', forced = false").await;
}

/// Outcome and seconds of each request of a submission.
async fn outcome_of(database: &TestDatabase, call: &str) -> Vec<String> {
    Session::open(database)
        .await
        .texts(&format!(
            "select outcome, case when outcome = 'refused' then retry_after_seconds end, id is null, req_status is null,
               queue is null and queue_position is null
             from tidegate.{call}"
        ))
        .await
}

const REFUSED: &str = "refused 1 t t t";

async fn stored(database: &TestDatabase) -> i64 {
    database
        .number(
            "select (select count(*) from tidegate.request) + (select count(*) from tidegate.dedup)
               + (select count(*) from pgmq.q_tx) + (select count(*) from pgmq.q_readiness)",
        )
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_is_refused_when_the_gate_of_any_queue_it_will_pass_is_closed() {
    let database = TestDatabase::new().await;
    for (closed, refused, taken) in [
        ("tx", vec!["direct", "input_proof", "public_decrypt"], vec![]),
        ("readiness", vec!["public_decrypt", "user_decrypt"], vec!["direct", "input_proof"]),
    ] {
        open(&database).await;
        close(&database, closed).await;
        for kind in refused {
            let call = format!("submit('{kind}', '{{}}')");
            assert_eq!(outcome_of(&database, &call).await, [REFUSED], "{closed}: {kind}");
        }
        for kind in taken {
            let call = format!("submit('{kind}', '{{}}')");
            assert_eq!(outcome_of(&database, &call).await, ["accepted  f f f"], "{closed}: {kind}");
        }
    }
    open(&database).await;
    assert_eq!(outcome_of(&database, "submit('direct', '{}')").await, ["accepted  f f f"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_submission_leaves_nothing_behind() {
    let database = TestDatabase::new().await;
    close(&database, "tx").await;

    for call in [
        "submit('direct', '{}', 'k')",
        "submit('public_decrypt', '{}', 'k', not_before => now() + interval '1 hour')",
        "submit_batch('direct', '{1,2}', '{k,l}')",
        "submit_group('direct', '{1,2}', '{k,l}')",
    ] {
        for refused in outcome_of(&database, call).await {
            assert_eq!(refused, REFUSED, "{call}");
        }
    }

    assert_eq!(stored(&database).await, 0);
    // The key is free.
    open(&database).await;
    assert_eq!(outcome_of(&database, "submit('direct', '7', 'k')").await, ["accepted  f f f"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submission_that_a_full_queue_refuses_releases_its_keys() {
    let database = TestDatabase::unlimited().await;
    database
        .execute(
            "update tidegate.gate set high_water = 30, low_water = 15;
             insert into tidegate.kind (name, flow, tx_queue, processing_ms, tx_confirmation_ms, key_mode)
             values ('orders', 'direct', 'tx', 1, 1, 'proxy')",
        )
        .await;
    submit_many(&database, "direct", 30).await;

    let gate = "select state || ' ' || depth from tidegate.gate where name = 'tx'";
    let keys = "select coalesce(string_agg(key, ' ' order by key), '') from tidegate.dedup";
    for call in [
        "submit('direct', '{}', 'k')",
        "submit('orders', '{}')",
        "submit_batch('direct', '{1,2}', '{k,l}')",
        "submit_group('direct', '{1,2}', '{k,l}')",
    ] {
        // The state is open: the numbers refuse.
        open(&database).await;
        for refused in outcome_of(&database, call).await {
            assert!(refused.starts_with("refused "), "{call}: {refused}");
        }
        assert_eq!(database.text(keys).await.unwrap(), "", "{call}");
        assert_eq!(database.text(gate).await.unwrap(), "too_many_requests 30", "{call}");
    }

    database.execute("update tidegate.gate set high_water = 31 where name = 'tx'").await;
    open(&database).await;
    let group = "submit_group('direct', '{1,2,2}', '{k,l,l}')";
    let outcomes = outcome_of(&database, group).await;
    assert_eq!(outcomes[0], "accepted  f f f");
    assert!(outcomes[1..].iter().all(|o| o.starts_with("refused ")));
    assert_eq!(database.text(keys).await.unwrap(), "k");
    assert_eq!(database.text(gate).await.unwrap(), "too_many_requests 31");
}

#[tokio::test(flavor = "multi_thread")]
async fn work_already_promised_goes_in_at_a_closed_gate() {
    let database = TestDatabase::new().await;
    close(&database, "tx").await;

    assert_eq!(outcome_of(&database, "submit('direct', '{}', admission => 'accepted')").await, ["accepted  f f f"]);
    assert_eq!(
        outcome_of(&database, "submit_batch('public_decrypt', '{1,2}', admission => 'accepted')").await,
        ["accepted  f f f"; 2]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_is_answered_as_ever_at_a_closed_gate() {
    let database = TestDatabase::new().await;
    let replayed = "select string_agg(outcome || ' ' || id, ' ') from tidegate.";
    let first = database.value("select id from tidegate.submit('direct', '{\"a\": 1}', 'k')").await;
    close(&database, "tx").await;

    for call in ["submit('direct', '{\"a\": 1.0}', 'k')", "submit_group('direct', '{\"{\\\"a\\\": 1}\"}', '{k}')"] {
        assert_eq!(database.value(&format!("{replayed}{call}")).await, format!("replayed {first}"), "{call}");
    }
    assert_eq!(
        database
            .value(&format!(
                "{replayed}submit_batch('direct', array['{{\"a\":1}}', '{{\"a\":1}}']::jsonb[], '{{k,k}}')"
            ))
            .await,
        format!("replayed {first} replayed {first}")
    );
    // Another payload is told so; what failed without a send is new work.
    let mut session = Session::open(&database).await;
    let (code, _) = session.attempt("select tidegate.submit('direct', '2', 'k')").await.unwrap_err();
    assert_eq!(code, "TG004");
    database.execute(&format!("select tidegate.fail_internal(array['{first}'::uuid])")).await;
    // The queue is empty, so the gate has opened.
    close(&database, "tx").await;
    assert_eq!(outcome_of(&database, "submit('direct', '{\"a\": 1}', 'k')").await, [REFUSED]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_another_submitter_or_kind_is_no_replay() {
    let database = TestDatabase::new().await;
    database.execute("select tidegate.submit('direct', '{}', 'k', 'ann')").await;
    close(&database, "tx").await;

    for call in
        ["submit('direct', '{}', 'k')", "submit('direct', '{}', 'k', 'bob')", "submit('input_proof', '{}', 'k', 'ann')"]
    {
        assert_eq!(outcome_of(&database, call).await, [REFUSED], "{call}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_refused_whole_and_a_group_one_by_one() {
    let database = TestDatabase::new().await;
    database.execute("select tidegate.submit_batch('direct', '{1,2}', '{one,two}')").await;
    close(&database, "tx").await;
    let before = stored(&database).await;
    let requests = "('direct', '{1,3,2,4,4}', array['one', 'three', 'two', null, 'three'])";

    assert_eq!(outcome_of(&database, &format!("submit_batch{requests}")).await, [REFUSED; 5]);
    assert_eq!(
        outcome_of(&database, &format!("submit_group{requests}")).await,
        ["replayed  f f f", REFUSED, "replayed  f f f", REFUSED, REFUSED]
    );
    assert_eq!(stored(&database).await, before);

    open(&database).await;
    let requests = "('direct', '{1,3,2,4}', array['one', 'three', 'two', null])";
    assert_eq!(
        outcome_of(&database, &format!("submit_group{requests}")).await,
        ["replayed  f f f", "accepted  f f f", "replayed  f f f", "accepted  f f f"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_wait_is_the_time_until_the_low_water_mark() {
    let database = TestDatabase::new().await;
    submit_many(&database, "direct", 130).await;
    submit_many(&database, "public_decrypt", 40).await;
    let seconds = "select retry_after_seconds from tidegate.submit('public_decrypt', '{}')";
    database.execute("update tidegate.gate set low_water = 30, high_water = 1000 where queue = 'tx'").await;
    database.execute("update tidegate.gate set low_water = 10, high_water = 1000 where queue = 'readiness'").await;
    close(&database, "tx").await;
    // 100 above the mark, margin 0.2.
    for (setting, expected) in [
        ("queue set per_seconds = 10 where name = 'tx'", 12),
        ("queue set per_seconds = 7 where name = 'tx'", 18),
        ("queue set per_seconds = 0.3 where name = 'tx'", 300),
        ("queue set per_seconds = null where name = 'tx'", 1),
        ("setting set min_seconds = 5", 5),
        ("queue set per_seconds = 0 where name = 'tx'", 300),
        ("queue set per_seconds = 100, paused = true where name = 'tx'", 300),
        ("setting set max_seconds = 200", 200),
        ("queue set paused = false where name = 'tx'", 5),
        ("setting set safety_margin = 1", 5),
        ("queue set per_seconds = 25 where name = 'tx'", 8),
        ("gate set low_water = 129 where queue = 'tx'", 5),
        ("gate set low_water = 900 where queue = 'tx'", 5),
    ] {
        database.execute(&format!("update tidegate.{setting}")).await;
        assert_eq!(database.number(seconds).await, expected, "{setting}");
    }
    // Of two closed gates the longer wait: 30 checks above the mark, of a second each.
    close(&database, "readiness").await;
    for (concurrency, expected) in [(2, 30), (7, 9), (60, 5), (0, 200)] {
        database
            .execute(&format!("update tidegate.queue set max_concurrency = {concurrency} where name = 'readiness'"))
            .await;
        assert_eq!(database.number(seconds).await, expected, "C = {concurrency}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn held_messages_and_such_as_wait_their_time_count_as_depth() {
    let database = TestDatabase::unlimited().await;
    submit_many(&database, "direct", 130).await;
    database.execute("update tidegate.queue set per_seconds = 1 where name = 'tx';").await;
    database.execute("update tidegate.gate set low_water = 60, high_water = 1000 where queue = 'tx'").await;
    database.execute("update pgmq.q_tx set vt = clock_timestamp() + interval '1 hour' where msg_id < 50").await;
    database.execute("update tidegate.queue set per_seconds = null").await;
    database.claim_tx(20).await;
    database.execute("update tidegate.queue set per_seconds = 1 where name = 'tx'").await;
    close(&database, "tx").await;

    let seconds = "select retry_after_seconds from tidegate.submit('direct', '{}')";
    assert_eq!(database.number(seconds).await, 84);
    // Below the mark that claims start from, too.
    database.execute("select setval('tidegate.watermark_tx', 70)").await;
    assert_eq!(database.number(seconds).await, 84);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_very_deep_queue_is_not_counted_to_refuse() {
    let database = TestDatabase::deep().await;
    database.execute("select tidegate.survey_queue('tx')").await;
    database.execute("update tidegate.queue set per_seconds = 1000 where name = 'tx'").await;
    database.execute("update tidegate.gate set low_water = 1000, high_water = 2000 where queue = 'tx'").await;
    close(&database, "tx").await;
    // 39,000 / 1000 × 1.2.
    assert_eq!(database.number("select retry_after_seconds from tidegate.submit('direct', '{}')").await, 47);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_that_closes_during_a_submission_refuses_the_next() {
    let database = TestDatabase::new().await;
    let mut caller = Session::begin(&database).await;
    assert_eq!(caller.text("select outcome from tidegate.submit('direct', '{}', 'k')").await, "accepted");
    // The operator does not wait for callers, nor they for the operator.
    let mut operator = Session::begin(&database).await;
    operator
        .execute(
            "update tidegate.gate set state = 'too_many_requests';
             update tidegate.setting set jitter = 0",
        )
        .await;
    assert_eq!(outcome_of(&database, "submit('direct', '{}')").await, ["accepted  f f f"]);
    operator.commit().await;

    // What was accepted stays so; its key is not there yet for another session.
    assert_eq!(outcome_of(&database, "submit('direct', '{}', 'k')").await, [REFUSED]);
    caller.commit().await;
    assert_eq!(outcome_of(&database, "submit('direct', '{}', 'k')").await, ["replayed  f f f"]);
    let problems = database.violations().await;
    assert_eq!(problems, NO_ROWS);
}

#[tokio::test(flavor = "multi_thread")]
async fn misuse_is_reported_before_the_gate() {
    let database = TestDatabase::new().await;
    close(&database, "tx").await;
    let mut session = Session::open(&database).await;
    for (call, code) in [
        ("submit('nothing', '{}')", "TG002"),
        ("submit('direct', null)", "TG007"),
        ("submit('direct', '{}', admission => 'perhaps')", "TG007"),
        ("submit_group('direct', '{1,2}', '{k}')", "TG007"),
    ] {
        let (said, _) = session.attempt(&format!("select * from tidegate.{call}")).await.unwrap_err();
        assert_eq!(said, code, "{call}");
    }
    assert_eq!(outcome_of(&database, "submit_group('direct', '{}')").await, NO_ROWS);
}
