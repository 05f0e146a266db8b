//! Does a key in a batch or a group stand for one request, and leave nothing when the batch is refused?

use crate::support::{TestDatabase, sql::run};

#[tokio::test(flavor = "multi_thread")]
async fn a_key_twice_in_a_batch_is_one_request_accepted_once() {
    let database = TestDatabase::unlimited().await;
    let told = database
        .column(
            "select s.outcome || ' ' || dense_rank() over (order by s.id) from tidegate.submit_batch('direct',
               array['1', '1', '2', '1', '2']::jsonb[], array['a', 'a', 'b', null, 'b']) with ordinality
               as s(id, outcome, req_status, queue, queue_position, retry_after_seconds, place) order by place",
        )
        .await;
    assert_eq!(told, ["accepted 1", "replayed 1", "accepted 2", "accepted 3", "replayed 2"]);
    assert_eq!(database.number("select count(*) from tidegate.request").await, 3);

    let refusal = database
        .refused("select * from tidegate.submit_batch('direct', array['1', '2']::jsonb[], array['c', 'c'])")
        .await;
    assert_eq!(refusal.code, "TG004");
    assert_eq!(
        database
            .column(
                "select s.outcome from tidegate.submit_batch('direct', array['2', '9']::jsonb[], array['b', 'd']) as s"
            )
            .await,
        ["replayed", "accepted"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_group_each_submitter_has_keys_of_its_own() {
    let database = TestDatabase::unlimited().await;
    let outcomes = |requests: &str| format!("select s.outcome from tidegate.submit_group('direct', {requests}) as s");
    let several = outcomes("'{1,2,1,3}', '{k,k,k,k}', '{ann,bob,ann,null}'");
    assert_eq!(database.column(&several).await, ["accepted", "accepted", "replayed", "accepted"]);
    assert_eq!(database.column(&several).await, ["replayed"; 4]);
    let owned =
        "select string_agg(coalesce(submitter, '-') || (payload #>> '{}'), ' ' order by id) from tidegate.request";
    assert_eq!(database.text(owned).await.unwrap(), "ann1 bob2 -3");
    for (requests, code) in [
        ("'{2,2}', '{k,k}', '{ann,bob}'", "TG004"),
        ("'{1,2}', '{l,l}', '{eve,eve}'", "TG004"),
        ("'{1,2}', '{l,l}', '{eve}'", "TG007"),
    ] {
        assert_eq!(database.refused(&outcomes(requests)).await.code, code, "{requests}");
    }

    // A key that an open transaction has just used.
    let mut first = database.session().await;
    run(&mut first, "begin; select tidegate.submit('direct', '1', 'n', 'ann')").await;
    let both = outcomes("'{1,2}', '{n,o}', '{ann,bob}', key_patience_ms => 20");
    assert_eq!(database.refused(&both).await.code, "55P03");
    let other = outcomes("'{1,2}', '{n,o}', '{eve,bob}', key_patience_ms => 20");
    assert_eq!(database.column(&other).await, ["accepted", "accepted"]);
    run(&mut first, "commit").await;
    assert_eq!(database.column(&both).await, ["replayed", "replayed"]);

    // Also where there is room for one of two.
    database
        .execute("update tidegate.gate set high_water = (select count(*) from pgmq.q_tx) + 2, low_water = 0 where queue = 'tx'")
        .await;
    run(&mut first, "begin; select tidegate.submit('direct', '1', 'p', 'ann')").await;
    let both = outcomes("'{1,2}', '{p,q}', '{ann,bob}', key_patience_ms => 20");
    assert_eq!(database.refused(&both).await.code, "55P03");
    run(&mut first, "commit").await;
    assert_eq!(database.column(&both).await, ["replayed", "accepted"]);
    database.execute("select tidegate.gate_force('tx', 'accepting')").await;

    // A submitter whose quota is locked would keep the others waiting.
    database.execute("select tidegate.quota_set(submitter => 'ann', high_water => 10, low_water => 5)").await;
    let refused = database.refused(&outcomes("'{1,2}', null, '{ann,bob}'")).await;
    assert_eq!(refused.code, "TG007");
    assert_eq!(database.column(&outcomes("'{1,2}', null, '{ann,ann}'")).await, ["accepted", "accepted"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_batch_leaves_no_key() {
    let database = TestDatabase::unlimited().await;
    let batch = |payloads: &str| {
        format!("select string_agg(outcome, ' ') from tidegate.submit_batch_once('direct', '{payloads}', 'b')")
    };
    assert_eq!(database.value(&batch("{1,2}")).await, "accepted accepted");
    // The key has expired, and maintenance has not removed it yet.
    database.answer_all().await;
    database
        .execute(
            "update tidegate.dedup set first_seen = first_seen - interval '1 year', expires_at = expires_at - interval '1 year';
             select tidegate.gate_force('tx', 'too_many_requests')",
        )
        .await;
    assert_eq!(database.value(&batch("{1,2}")).await, "refused refused");
    database.execute("select tidegate.gate_force('tx', 'accepting')").await;
    assert_eq!(database.value(&batch("{3}")).await, "accepted");
}
