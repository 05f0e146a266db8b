//! Do the keys that a kind makes of its payloads find every duplicate, and nothing else?

mod buckets;

use crate::support::{
    TestDatabase,
    race::Session,
    sql::{is_15_or_newer, refused, run, value},
};

/// A database with a kind `orders` that makes its keys so, and a kind `parcels` that makes them alike.
async fn with_keys(columns: &str) -> TestDatabase {
    let database = TestDatabase::unlimited().await;
    database
        .execute(&format!(
            "insert into tidegate.kind (name, flow, tx_queue, processing_ms, tx_confirmation_ms)
             values ('orders', 'direct', 'tx', 1, 1), ('parcels', 'direct', 'tx', 1, 1);
             update tidegate.kind set {columns} where name in ('orders', 'parcels')"
        ))
        .await;
    database
}

const NATURAL: &str = "key_mode = 'natural', key_paths = '{order.id,op}'";
const PROXY: &str = "key_mode = 'proxy'";
const BUCKETS: &str = "key_mode = 'proxy', key_bucket = '10 minutes'";
const NATURAL_BUCKETS: &str = "key_mode = 'natural', key_paths = '{order.id,op}', key_bucket = '10 minutes'";

/// Submits without a key; the outcome and the id.
async fn submit(database: &TestDatabase, arguments: &str) -> (String, String) {
    let told = database.value(&format!("select outcome || ' ' || id from tidegate.submit({arguments})")).await;
    let (outcome, id) = told.split_once(' ').unwrap();
    (outcome.to_owned(), id.to_owned())
}

async fn requests(database: &TestDatabase) -> i64 {
    database.number("select count(*) from tidegate.request").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_natural_key_is_the_kind_the_submitter_and_the_values_at_its_paths() {
    let database = with_keys(NATURAL).await;
    let ask = "'orders', '{\"order\": {\"id\": 1}, \"op\": \"pay\", \"note\": [1]}'";
    let (_, id) = submit(&database, ask).await;
    for same in [ask, "'orders', '{\"note\": [1.0], \"op\": \"pay\", \"order\": {\"id\": 10e-1}}'"] {
        assert_eq!(submit(&database, same).await, ("replayed".to_owned(), id.clone()));
    }
    for other in [
        "'orders', '{\"order\": {\"id\": 2}, \"op\": \"pay\"}'",
        "'orders', '{\"order\": {\"id\": \"1\"}, \"op\": \"pay\"}'",
        "'orders', '{\"order\": {\"id\": 1}, \"op\": \"refund\"}'",
        "'orders', '{\"order\": {\"id\": \"pay\"}, \"op\": 1}'",
        "'orders', '{\"order\": {\"id\": [1, 2]}, \"op\": 1}'",
        "'orders', '{\"order\": {\"id\": [2, 1]}, \"op\": 1}'",
        "'orders', '{\"order\": {\"id\": 1}, \"op\": \"pay\"}', submitter => 'ann'",
        "'parcels', '{\"order\": {\"id\": 1}, \"op\": \"pay\"}'",
    ] {
        assert_eq!(submit(&database, other).await.0, "accepted", "{other}");
    }

    let refusal = database
        .refused("select tidegate.submit('orders', '{\"order\": {\"id\": 1}, \"op\": \"pay\", \"note\": [2]}')")
        .await;
    assert_eq!(refusal.code, "TG004");
    assert!(refusal.message.contains(&id), "{refusal:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payload_without_a_value_of_its_natural_key_is_refused_by_path_and_kind() {
    let database = with_keys(NATURAL).await;
    for (payload, path) in [
        ("{\"op\": 1}", "order.id"),
        ("{\"order\": {}, \"op\": 1}", "order.id"),
        ("{\"order\": {\"id\": null}, \"op\": 1}", "order.id"),
        ("{\"order\": [{\"id\": 1}], \"op\": 1}", "order.id"),
        ("{\"order\": \"id\", \"op\": 1}", "order.id"),
        ("{\"order.id\": 1, \"op\": 1}", "order.id"),
        ("{\"order\": {\"id\": 1}}", "op"),
        ("[]", "order.id"),
        ("7", "order.id"),
        ("null", "order.id"),
    ] {
        let refusal = database.refused(&format!("select tidegate.submit('orders', '{payload}')")).await;
        assert_eq!(refusal.code, "TG007", "{payload}");
        let words = [path, "\"orders\""];
        assert!(words.iter().all(|word| refusal.message.contains(word)), "{payload}: {refusal:?}");
        // With a key of its own it needs none.
        let keyed = format!("'orders', '{payload}', md5('{payload}')");
        assert_eq!(submit(&database, &keyed).await.0, "accepted");
    }
    let refusal = database
        .refused("select tidegate.submit_batch('orders', array['{\"order\": {\"id\": 1}, \"op\": 1}', '{}']::jsonb[])")
        .await;
    assert!(refusal.message.contains("at place 2"), "{refusal:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_requires_a_key_refuses_a_request_without_one_in_every_way() {
    let database = with_keys("key_mode = 'required'").await;
    for gate in ["accepting", "too_many_requests"] {
        database.execute(&format!("select tidegate.gate_force('tx', '{gate}')")).await;
        for (call, place) in [
            ("submit('orders', '1')", ""),
            ("submit('orders', '1', admission => 'accepted')", ""),
            ("submit('orders', '1', not_before => now() + interval '1 hour')", ""),
            ("submit_with_callback('orders', '1', null)", ""),
            ("submit_group('orders', '{1}')", ""),
            ("submit_group('orders', '{1,2}', array['k', null])", " at place 2"),
            ("submit_batch('orders', '{1}')", ""),
            ("submit_batch('orders', '{1,2}')", " at place 1"),
            ("submit_batch('orders', '{1,2,3}', array['k', null, null])", " at place 2"),
        ] {
            let refusal = database.refused(&format!("select * from tidegate.{call}")).await;
            assert_eq!(refusal.code, "TG012", "{call}");
            let expected = format!("kind \"orders\" requires an idempotency key, and the request{place} has none");
            assert!(refusal.message.starts_with(&expected), "{call}: {refusal:?}");
        }
    }
    assert_eq!(requests(&database).await, 0);
    assert_eq!(database.number("select count(*) from tidegate.dedup").await, 0);

    // With keys they are requests like any other.
    database.execute("select tidegate.gate_force('tx', null)").await;
    let (outcome, first) = submit(&database, "'orders', '1', 'k'").await;
    assert_eq!(outcome, "accepted");
    assert_eq!(submit(&database, "'orders', '1', 'k'").await, ("replayed".to_owned(), first));
    assert_eq!(submit(&database, "'orders', '1', 'k2'").await.0, "accepted");
    for outcome in ["accepted accepted", "replayed replayed"] {
        let batch = "select string_agg(outcome, ' ') from tidegate.submit_batch_once('orders', '{1,1}', 'b')";
        assert_eq!(database.value(batch).await, outcome);
    }
    assert_eq!(database.refused("select tidegate.submit('orders', '1', '')").await.code, "TG007");
    // Another kind is not concerned.
    database.execute("update tidegate.kind set key_mode = 'caller' where name = 'parcels'").await;
    assert_eq!(submit(&database, "'parcels', '1'").await.0, "accepted");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_key_is_the_whole_payload_and_its_submitter() {
    for columns in [PROXY, BUCKETS] {
        let database = with_keys(&format!("{columns}, set_paths = '{{tags}}'")).await;
        let ask = "'orders', '{\"a\": 1, \"list\": [1, 2], \"tags\": [\"x\", \"y\"]}'";
        let (_, id) = submit(&database, ask).await;
        for same in [ask, "'orders', '{\"tags\": [\"y\", \"x\"], \"list\": [1.0, 2], \"a\": 1e0}'"] {
            assert_eq!(submit(&database, same).await, ("replayed".to_owned(), id.clone()));
        }
        for other in [
            "'orders', '{\"a\": 1, \"list\": [2, 1], \"tags\": [\"x\", \"y\"]}'",
            "'orders', '{\"a\": 1, \"list\": [1, 2], \"tags\": [\"x\", \"y\", \"y\"]}'",
            "'orders', '{\"a\": 1, \"list\": [1, 2], \"tags\": [\"x\", \"y\"]}', submitter => 'ann'",
            "'parcels', '{\"a\": 1, \"list\": [1, 2], \"tags\": [\"x\", \"y\"]}'",
        ] {
            assert_eq!(submit(&database, other).await.0, "accepted", "{other}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_order_of_a_set_makes_no_difference_to_callers_keys_and_natural_keys_either() {
    let database =
        with_keys("key_mode = 'natural', key_paths = '{order.items}', set_paths = '{order.items,tags}'").await;
    let (_, id) = submit(&database, "'orders', '{\"order\": {\"items\": [1, 2]}, \"tags\": [3, 4]}'").await;
    assert_eq!(
        submit(&database, "'orders', '{\"tags\": [4, 3], \"order\": {\"items\": [2, 1]}}'").await,
        ("replayed".to_owned(), id)
    );

    let (_, id) = submit(&database, "'orders', '{\"tags\": [3, 4]}', 'k'").await;
    assert_eq!(submit(&database, "'orders', '{\"tags\": [4, 3]}', 'k'").await, ("replayed".to_owned(), id));
    for outcome in ["accepted", "replayed"] {
        assert_eq!(
            database
                .column(&format!(
                    "select outcome from tidegate.submit_batch_once('orders', array['{{\"tags\": {}}}']::jsonb[], 'b')",
                    if outcome == "accepted" { "[1, 2]" } else { "[2, 1]" }
                ))
                .await,
            [outcome]
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_callers_key_wins_and_never_meets_a_made_one() {
    for columns in [NATURAL, PROXY, BUCKETS, NATURAL_BUCKETS] {
        let database = with_keys(columns).await;
        let payload = "'{\"order\": {\"id\": 1}, \"op\": 1}'";
        let (_, made) = submit(&database, &format!("'orders', {payload}")).await;
        for key in ["a", "b"] {
            let keyed = format!("'orders', {payload}, '{key}'");
            assert_eq!(submit(&database, &keyed).await.0, "accepted");
        }
        assert_eq!(submit(&database, &format!("'orders', {payload}")).await, ("replayed".to_owned(), made.clone()));

        // Whatever a caller makes of what is stored, as key or as submitter.
        let stored = database
            .column("select unnest(array[scope, key, scope || ':' || key, substr(scope, strpos(scope, ':') + 1)]) from tidegate.dedup where scope like '% %'")
            .await;
        assert_eq!(stored.len(), 4);
        for key in &stored {
            for submitter in ["", &stored[0], &stored[3]] {
                let submitter = if submitter.is_empty() { "null".to_owned() } else { format!("'{submitter}'") };
                let keyed = format!("'orders', {payload}, '{key}', {submitter}");
                assert_eq!(submit(&database, &keyed).await.0, "accepted", "{keyed}");
                assert_eq!(submit(&database, &keyed).await.0, "replayed", "{keyed}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_derived_key_is_free_again_after_a_failure_or_timeout_and_stands_for_the_result() {
    for columns in [NATURAL, PROXY, BUCKETS, NATURAL_BUCKETS] {
        let database = with_keys(columns).await;
        database
            .execute("update tidegate.kind set flow = 'decrypt', readiness_queue = 'readiness', readiness_ms = 1 where name = 'parcels'")
            .await;
        let ask = "'parcels', '{\"order\": {\"id\": 1}, \"op\": 1}'";
        let mut before = Vec::new();
        for end in [
            "select tidegate.cancel('{id}')",
            "select tidegate.time_out(array['{id}'::uuid])",
            "select tidegate.fail_internal(array['{id}'::uuid])",
        ] {
            let (outcome, id) = submit(&database, ask).await;
            assert_eq!(outcome, "accepted", "{columns}");
            assert!(!before.contains(&id));
            assert_eq!(submit(&database, ask).await, ("replayed".to_owned(), id.clone()));
            database.execute(&end.replace("{id}", &id)).await;
            before.push(id);
        }

        let ask = ask.replace("parcels", "orders");
        let (_, id) = submit(&database, &ask).await;
        let mut session = Session::open(&database).await;
        let held = session.claim("tx", 1).await;
        session
            .texts(&crate::support::race::settle(
                "settle_receipt",
                &held,
                "array['r'], array['{\"done\": true}'::jsonb]",
            ))
            .await;
        database.execute("select tidegate.respond('{\"done\": true}', reference => 'r')").await;
        assert_eq!(
            database
                .value(&format!(
                    "select row(s.outcome, s.id = '{id}', s.req_status)::text from tidegate.submit({ask}) as s"
                ))
                .await,
            "(replayed,t,completed)"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn duplicates_within_a_batch_are_one_request_and_keys_of_both_sorts_go_together() {
    for columns in [NATURAL, PROXY, BUCKETS, NATURAL_BUCKETS] {
        let database = with_keys(columns).await;
        let one = "{\"order\": {\"id\": 1}, \"op\": 1}";
        let two = "{\"order\": {\"id\": 2}, \"op\": 1}";
        let batch = format!(
            "select s.outcome || ' ' || dense_rank() over (order by s.id) from tidegate.submit_batch('orders',
               array['{one}', '{two}', '{one}', '{one}', '{two}', '{one}']::jsonb[], array[null, 'k', null, 'k2', null, 'k2'])
               with ordinality as s(id, outcome, req_status, queue, queue_position, retry_after_seconds, place) order by place"
        );
        assert_eq!(
            database.column(&batch).await,
            ["accepted 1", "accepted 2", "replayed 1", "accepted 3", "accepted 4", "replayed 3"],
            "{columns}"
        );
        let again = database.column(&batch).await;
        assert!(again.iter().all(|told| told.starts_with("replayed")), "{again:?}");
        assert_eq!(requests(&database).await, 4);
    }

    let database = with_keys(NATURAL).await;
    let refusal = database
        .refused(
            "select tidegate.submit_batch('orders', array['{\"order\": {\"id\": 1}, \"op\": 1}',
               '{\"order\": {\"id\": 1}, \"op\": 1, \"more\": 1}']::jsonb[])",
        )
        .await;
    assert_eq!(refusal.code, "TG004");
    assert!(refusal.message.contains("places 1 and 2"), "{refusal:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_a_closed_gate_duplicates_are_answered_and_new_ones_refused() {
    for columns in [NATURAL, PROXY, BUCKETS, NATURAL_BUCKETS] {
        let database = with_keys(columns).await;
        let known = "{\"order\": {\"id\": 1}, \"op\": 1}";
        let new = "{\"order\": {\"id\": 2}, \"op\": 1}";
        submit(&database, &format!("'orders', '{known}'")).await;
        database.execute("select tidegate.gate_force('tx', 'too_many_requests')").await;

        for (call, told) in [
            (format!("submit('orders', '{known}')"), "replayed"),
            (format!("submit('orders', '{new}')"), "refused"),
            (format!("submit_batch('orders', array['{known}', '{known}']::jsonb[])"), "replayed replayed"),
            (format!("submit_batch('orders', array['{known}', '{new}']::jsonb[])"), "refused refused"),
            (
                format!("submit_group('orders', array['{new}', '{known}', '{new}']::jsonb[])"),
                "refused replayed refused",
            ),
            (format!("submit_with_callback('orders', '{known}', null)"), "replayed"),
        ] {
            let outcomes = database.column(&format!("select outcome from tidegate.{call}")).await;
            assert_eq!(outcomes.join(" "), told, "{columns}: {call}");
        }
        // With room for one more, a key that comes twice needs room once.
        database
            .execute(
                "select tidegate.gate_force('tx', null); update tidegate.gate set high_water = 2, low_water = 1 where queue = 'tx'",
            )
            .await;
        assert_eq!(
            database
                .column(&format!(
                    "select outcome from tidegate.submit_group('orders',
                       array['{new}', '{new}', '{known}', '{{\"order\": {{\"id\": 3}}, \"op\": 1}}']::jsonb[])"
                ))
                .await,
            ["accepted", "replayed", "replayed", "refused"],
            "{columns}"
        );
        assert_eq!(requests(&database).await, 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_duplicate_of_a_derived_key_writes_nothing_waits_for_no_lock_and_takes_no_transaction_id() {
    for columns in [NATURAL, PROXY, BUCKETS, NATURAL_BUCKETS] {
        let database = with_keys(columns).await;
        let payload = "'{\"order\": {\"id\": 1}, \"op\": 1}'";
        submit(&database, &format!("'orders', {payload}")).await;
        // Everything that a first arrival would wait for.
        let mut holder = database.session().await;
        run(
            &mut holder,
            "select pg_advisory_lock(hashtextextended('tidegate.dedup', 0) + stripe) from generate_series(0, 255) as stripe;
             begin; select * from tidegate.dedup for update",
        )
        .await;
        let mut session = database.session().await;
        for _ in 0..20 {
            run(&mut session, "begin").await;
            for call in [
                format!("submit('orders', {payload})"),
                format!("submit_batch('orders', array_fill({payload}::jsonb, array[3]))"),
                format!("submit_group('orders', array_fill({payload}::jsonb, array[3]))"),
            ] {
                let told = format!("select string_agg(distinct outcome, ' ') from tidegate.{call}");
                assert_eq!(value(&mut session, &told).await, "replayed", "{columns}");
            }
            if is_15_or_newer(&session) {
                assert_eq!(value(&mut session, "select pg_current_xact_id_if_assigned()").await, "");
            }
            let sum = "select coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0) from pg_stat_xact_user_tables";
            assert_eq!(value(&mut session, sum).await, "0", "{columns}");
            run(&mut session, "commit").await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_kinds_of_the_example_make_no_keys() {
    let database = TestDatabase::unlimited().await;
    assert_eq!(database.value("select string_agg(distinct key_mode, ' ') from tidegate.kind").await, "caller");
    for kind in crate::support::actors::KINDS {
        for _ in 0..2 {
            assert_eq!(submit(&database, &format!("'{kind}', '{{}}'")).await.0, "accepted");
        }
    }
    assert_eq!(database.number("select count(*) from tidegate.dedup").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn above_read_committed_time_buckets_are_refused() {
    let database = with_keys(BUCKETS).await;
    let mut session = database.session().await;
    run(&mut session, "begin isolation level repeatable read; select 1").await;
    let refusal = refused(&mut session, "select tidegate.submit('orders', '{}', admission => 'accepted')").await;
    assert_eq!(refusal.code, "TG007");
    assert!(refusal.message.contains("READ COMMITTED"), "{refusal:?}");
}
