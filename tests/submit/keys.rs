//! Does an idempotency key stand for one request, as long as it should and not longer?

mod batches;
mod concurrency;

use sqlx::PgConnection;

use crate::support::{
    TestDatabase,
    sql::{column, is_15_or_newer, run, table_text, value},
};

const NO_ROWS: [&str; 0] = [];

/// Submits and returns the outcome and the id.
async fn submit(database: &TestDatabase, arguments: &str) -> (String, String) {
    let told = database.value(&format!("select outcome || ' ' || id from tidegate.submit({arguments})")).await;
    let (outcome, id) = told.split_once(' ').unwrap();
    (outcome.to_owned(), id.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_used_again_with_the_same_payload_is_the_same_request_wherever_it_is_by_now() {
    let database = TestDatabase::unlimited().await;
    let ask = "'direct', '{\"a\": 1, \"b\": [1, 2]}', 'k'";
    let (outcome, id) = submit(&database, ask).await;
    assert_eq!(outcome, "accepted");

    for step in [
        "select",
        "create temporary table held as select lease from tidegate.claim_tx('tx', 'w', 1, '30 s')",
        "select tidegate_internal.settle_receipt(array(select lease from held), array['r'])",
        "select tidegate.respond('{\"done\": true}', reference => 'r')",
    ] {
        let mut session = database.session().await;
        run(&mut session, &step.replace("temporary ", "")).await;
        let told = value(
            &mut session,
            "select row(s.*)::text from tidegate.submit('direct', '{\"b\": [1.0, 2], \"a\": 1e0}', 'k') as s",
        )
        .await;
        let expected = value(
            &mut session,
            &format!("select row(id, 'replayed', req_status, queue, queue_position, retry_after_seconds)::text from tidegate.request_outlook('{id}')"),
        )
        .await;
        assert_eq!(told, expected, "{step}");
    }
    assert_eq!(database.number("select count(*) from tidegate.request").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn duplicates_count_whichever_function_they_come_by() {
    let database = TestDatabase::unlimited().await;
    database
        .execute(
            "insert into tidegate.webhook_host (host) values ('hooks.example.com');
             insert into tidegate.kind (name, flow, tx_queue, processing_ms, tx_confirmation_ms, key_mode, key_paths)
             values (repeat('k', 55), 'direct', 'tx', 1, 1, 'natural', '{id}')",
        )
        .await;
    let counted = "select string_agg(kind || ' ' || replays, ', ' order by kind) from tidegate.replay_counts()
                   where replays > 0";
    let made = "submit(repeat('k', 55), '{\"id\": 1}')";
    let calls = [
        ("submit('direct', '1', 'a')", 1),
        ("submit('direct', '1', 'b', admission => 'accepted')", 1),
        ("submit_with_callback('direct', '1', 'https://hooks.example.com/', 'c')", 1),
        ("submit_batch('direct', '{1,2,3}', '{d,e,null}')", 2),
        ("submit_batch_once('direct', '{1,2,3}', 'f')", 3),
        ("submit_group('direct', '{1}', '{g}')", 1),
        ("submit_group('direct', '{1,2,3}', '{h,null,i}')", 2),
        (made, 1),
    ];
    let call = |call: &str| format!("select count(*) from tidegate.{call}");
    for (first, _) in calls {
        database.execute(&call(first)).await;
    }
    assert_eq!(database.text(counted).await, None, "what is new is no duplicate");

    let mut duplicates = 0;
    for (again, count) in calls {
        let mut session = database.session().await;
        run(&mut session, "begin").await;
        run(&mut session, &call(again)).await;
        duplicates += count;
        let of_direct = duplicates - i64::from(again == made);
        let shown = value(&mut session, counted).await;
        assert_eq!(shown.split(',').next(), Some(&*format!("direct {of_direct}")), "{again}");
        // A duplicate writes nothing, but in a batch with new requests.
        if !again.contains("null") && is_15_or_newer(&session) {
            let xid = "select pg_current_xact_id_if_assigned() is null";
            assert_eq!(value(&mut session, xid).await, "t", "{again}");
        }
        run(&mut session, "commit").await;
    }
    let all = format!("direct 11, {} 1", "k".repeat(55));
    assert_eq!(database.value(counted).await, all);

    // A key twice in a batch; what is refused, by its key or by the gate, is no duplicate.
    database.execute(&call("submit_batch('direct', '{9,9}', '{twice,twice}')")).await;
    database.refused("select tidegate.submit('direct', '2', 'a')").await;
    database.execute("select tidegate.gate_force('tx', 'too_many_requests')").await;
    database.execute(&call("submit('direct', '1', 'new')")).await;
    database.execute(&call("submit_group('direct', '{1,2}', '{a,new}')")).await;
    // The one key is refused three times, and found twice.
    database.execute(&call("submit_group('direct', '{1,2,2,2}', '{a,same,same,same}')")).await;
    let all = all.replace("11", "14");
    assert_eq!(database.value(counted).await, all);
    // In a read-only transaction a duplicate is answered, and not counted.
    let mut session = database.session().await;
    run(&mut session, "begin read only").await;
    let answered = "select outcome from tidegate.submit('direct', '1', 'a', admission => 'accepted')";
    assert_eq!(value(&mut session, answered).await, "replayed");
    run(&mut session, "commit").await;
    assert_eq!(database.value(counted).await, all);

    let sampled =
        "select row(sum(submitted), sum(replayed))::text from tidegate.submission_sample where kind = 'direct'";
    for _ in 0..2 {
        database.execute("select tidegate.fold_counts()").await;
        // New: 1 + 1 + 1 + 3 + 3 + 1 + 3 and, again, those without a key in two batches, and one of two.
        assert_eq!(database.value(sampled).await, "(30,14)");
    }
    // The sequence begins anew after a crash.
    database
        .execute("alter sequence tidegate.replays_direct restart; select tidegate.submit('direct', '1', 'a')")
        .await;
    database.execute("select tidegate.fold_counts()").await;
    assert_eq!(database.value(sampled).await, "(31,15)");
    assert_eq!(
        database.value("select round(dup_drop_rate, 4) from tidegate.sli where kind = 'direct' and stage = 'tx'").await,
        "0.4839"
    );

    // A counter that is missing is made again, and a clock that was set back counts no replay twice.
    database
        .execute(
            "drop sequence tidegate.replays_direct; select tidegate.fold_counts();
             update tidegate.submission_sample set at = at + interval '1 hour' where kind = 'direct';
             select tidegate.submit('direct', '1', 'a')",
        )
        .await;
    for _ in 0..2 {
        database.execute("select tidegate.fold_counts()").await;
        assert_eq!(database.value(sampled).await, "(32,16)");
    }

    database.execute("delete from tidegate.kind where name = 'user_decrypt'").await;
    assert_eq!(database.text("to_regclass('tidegate.replays_user_decrypt')").await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_used_again_with_another_payload_is_refused_and_names_the_request() {
    let database = TestDatabase::unlimited().await;
    let (_, id) = submit(&database, "'direct', '{\"list\": [1, 2]}', 'k'").await;
    for other in [
        "{\"list\": [2, 1]}",
        "{\"list\": [1, 2], \"more\": null}",
        "{\"List\": [1, 2]}",
        "{\"list\": [\"1\", 2]}",
        "{}",
    ] {
        let refusal = database.refused(&format!("select * from tidegate.submit('direct', '{other}', 'k')")).await;
        assert_eq!(refusal.code, "TG004", "{other}");
        assert!(refusal.message.contains(&id) && refusal.message.contains("\"k\""), "{refusal:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_belongs_to_its_kind_and_its_submitter() {
    let database = TestDatabase::unlimited().await;
    for (place, arguments) in [
        "'direct', '1', 'k'",
        "'input_proof', '2', 'k'",
        "'direct', '3', 'k', 'me'",
        "'direct', '4', 'k', 'you'",
        "'direct', '5', 'K', 'you'",
        "'direct', '6', 'k ', 'you'",
        "'direct', '7', null",
        "'direct', '7', null",
    ]
    .iter()
    .enumerate()
    {
        assert_eq!(submit(&database, arguments).await.0, "accepted", "{place}: {arguments}");
    }
    assert_eq!(submit(&database, "'direct', '4', 'k', 'you'").await.0, "replayed");
    assert_eq!(submit(&database, "'direct', '8', repeat('é', 255)").await.0, "accepted");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_free_again_exactly_when_its_window_ends() {
    let database = TestDatabase::unlimited().await;
    database
        .execute("update tidegate.policy set dedup_window = '2 hours' where kind = 'direct' and stage = 'tx'")
        .await;
    let (_, first) = submit(&database, "'direct', '1', 'k'").await;
    assert_eq!(database.value("select expires_at - first_seen from tidegate.dedup").await, "02:00:00");

    database.answer_all().await;
    // Just inside: a minute before its end.
    database.execute("update tidegate.dedup set first_seen = first_seen - interval '119 minutes', expires_at = expires_at - interval '119 minutes'").await;
    assert_eq!(submit(&database, "'direct', '1', 'k'").await, ("replayed".to_owned(), first.clone()));
    // Just outside: its end was this instant, or a microsecond ago.
    database.execute("update tidegate.dedup set first_seen = now() - dedup_window, expires_at = now()").await;
    let (outcome, second) = submit(&database, "'direct', '2', 'k'").await;
    assert_eq!(outcome, "accepted");
    assert_ne!(first, second);
    assert_eq!(
        database.value("select row(count(*), max(request_id::text) = max(r.id::text), max(expires_at - first_seen))::text from tidegate.dedup, (select id from tidegate.request order by id desc limit 1) as r").await,
        "(1,t,02:00:00)"
    );
    // The function decides by the instant it is given: the end itself is outside.
    database.answer_all().await;
    for (offset, found) in [("- interval '1 microsecond'", "t"), ("", "f"), ("+ interval '1 microsecond'", "f")] {
        assert_eq!(
            database
                .value(&format!("select (tidegate_internal.dedup_find(d.scope, d.key, d.fingerprint, d.expires_at {offset})).request_id is not null from tidegate.dedup as d"))
                .await,
            found
        );
    }
}

/// Removes a request past all rules.
const LOST: &str = "update tidegate.request set req_status = 'completed'; delete from tidegate.request; \
                    delete from pgmq.q_readiness";

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_free_again_after_its_request_failed_timed_out_or_was_removed() {
    for (end, payload) in [
        ("select tidegate.cancel('{id}')", "1"),
        ("select tidegate.fail_internal(array['{id}'::uuid])", "2"),
        ("select tidegate.time_out(array['{id}'::uuid])", "1"),
        ("select tidegate.cancel('{id}'); delete from tidegate.request", "1"),
        ("select tidegate.time_out(array['{id}'::uuid]); delete from tidegate.request", "2"),
        (LOST, "1"),
    ] {
        let database = TestDatabase::unlimited().await;
        let (_, first) = submit(&database, "'public_decrypt', '1', 'k'").await;
        if end == LOST {
            database.past_triggers(end).await;
        } else {
            database.execute(&end.replace("{id}", &first)).await;
        }

        let (outcome, second) = submit(&database, &format!("'public_decrypt', '{payload}', 'k'")).await;

        assert_eq!(outcome, "accepted", "{end}");
        assert_ne!(first, second);
        assert_eq!(
            submit(&database, &format!("'public_decrypt', '{payload}', 'k'")).await,
            ("replayed".to_owned(), second)
        );
    }
}

/// What this session has written to each table; unknown on 14, whose statistics come late.
async fn written(session: &mut PgConnection) -> Vec<String> {
    if !is_15_or_newer(session) {
        return Vec::new();
    }
    let told = "select pg_stat_force_next_flush(); select pg_stat_clear_snapshot()";
    run(session, told).await;
    let written = "select relname || ' ' || n_tup_ins + n_tup_upd + n_tup_del + n_dead_tup
                   from pg_stat_user_tables where n_tup_ins + n_tup_upd + n_tup_del + n_dead_tup > 0 order by relname";
    column(session, written).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_duplicates_write_nothing_and_take_no_transaction_id() {
    let database = TestDatabase::unlimited().await;
    let mut session = database.session().await;
    let first = "select outcome from tidegate.submit('direct', '{\"a\": 1}', 'k')";
    assert_eq!(value(&mut session, first).await, "accepted");
    let sizes = "select sum(pg_table_size(oid)) from pg_class where relkind = 'r' and relnamespace in ('tidegate'::regnamespace, 'pgmq'::regnamespace)";
    let sequences = "select (select last_value from pgmq.q_tx_msg_id_seq)";
    let before = (
        written(&mut session).await,
        value(&mut session, sizes).await,
        value(&mut session, sequences).await,
        table_text(&mut session, "dedup").await,
    );

    for _ in 0..200 {
        run(&mut session, "begin").await;
        assert_eq!(
            value(&mut session, "select outcome from tidegate.submit('direct', '{\"a\": 1.0}', 'k')").await,
            "replayed"
        );
        assert_eq!(
            value(&mut session, "select bool_and(s.outcome = 'replayed') from tidegate.submit_batch('direct', array_fill('{\"a\": 1}'::jsonb, array[4]), array_fill('k'::text, array[4])) as s").await,
            "t"
        );
        if is_15_or_newer(&session) {
            assert_eq!(value(&mut session, "select txid_current_if_assigned()").await, "");
        }
        run(&mut session, "commit").await;
    }

    let after = (
        written(&mut session).await,
        value(&mut session, sizes).await,
        value(&mut session, sequences).await,
        table_text(&mut session, "dedup").await,
    );
    assert_eq!(before, after);
}
