//! Does a key decide alone where it should, and do submitters share the keys of a kind that says so?

use serde_json::json;
use tidegate::{Kind, Submitted, Tidegate};

use crate::support::{
    TestDatabase,
    race::{Session, against, sound},
};

/// Every function that submits one request under a key, as the outcome and the id.
const CALLS: [&str; 4] = [
    "submit('direct', '$p', '$k', same_key => '$s')",
    "submit_group('direct', '{$p}', '{$k}', same_key => '$s')",
    "submit('direct', '$p', '$k', admission => 'accepted', same_key => '$s')",
    "submit_with_callback('direct', '$p', null, '$k', same_key => '$s')",
];

fn call(call: &str, payload: &str, key: &str, same_key: &str) -> String {
    let call = call.replace("$p", payload).replace("$k", key).replace("$s", same_key);
    format!("select s.outcome || ' ' || s.id from tidegate.{call} as s")
}

fn decided(payload: &str) -> String {
    call(CALLS[0], payload, "k", "replay")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_decides_replays_whatever_the_payload_and_one_that_does_not_compares() {
    let database = TestDatabase::unlimited().await;
    for (place, how) in CALLS.iter().enumerate() {
        for first in ["compare", "replay"] {
            let key = format!("{first}-{place}");
            let accepted = database.value(&call(how, "1", &key, first)).await;
            let id = accepted.strip_prefix("accepted ").unwrap();
            let replayed = format!("replayed {id}");
            assert_eq!(database.value(&call(how, "2", &key, "replay")).await, replayed, "{how}");
            assert_eq!(database.value(&call(how, "1", &key, "compare")).await, replayed, "{how}");
            let compared = call(how, "2", &key, "compare");
            if first == "compare" {
                assert_eq!(database.refused(&compared).await.code, "TG004", "{how}");
            } else {
                assert_eq!(database.value(&compared).await, replayed, "it stands for any payload");
            }
            let payload = format!("select payload from tidegate.request where id = '{id}'");
            assert_eq!(database.value(&payload).await, "1");
        }
        for wrong in ["", "Replay", "kind"] {
            let refusal = database.refused(&call(how, "1", "k", wrong)).await;
            assert_eq!(refusal.code, "TG007", "{how}");
            assert!(refusal.message.contains("same_key is 'compare' or 'replay'"), "{refusal:?}");
        }
        let null = call(how, "1", "k", "$s").replace("'$s'", "null");
        assert_eq!(database.refused(&null).await.code, "TG007");
    }
    // Without a key there is nothing to decide.
    let without = call(CALLS[0], "1", "$k", "replay").replace("'$k'", "null");
    for _ in 0..2 {
        assert!(database.value(&without).await.starts_with("accepted"));
    }
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_one_group_the_first_under_a_key_is_stored_and_a_derived_key_decides_as_well() {
    let database = TestDatabase::unlimited().await;
    let group =
        "select s.outcome from tidegate.submit_group('direct', '{1,2,3,4}', '{k,k,l,null}', same_key => 'replay') as s";
    assert_eq!(database.column(group).await, ["accepted", "replayed", "accepted", "accepted"]);
    assert_eq!(database.column(group).await, ["replayed", "replayed", "replayed", "accepted"]);
    let payloads = "select string_agg(payload::text, ' ' order by id) from tidegate.request";
    assert_eq!(database.value(payloads).await, "1 3 4 4");

    database.execute("update tidegate.kind set key_mode = 'natural', key_paths = '{id}' where name = 'direct'").await;
    let made = |payload: &str| {
        format!(
            "select outcome from tidegate.submit('direct', '{{\"id\": 1, \"n\": {payload}}}', same_key => 'replay')"
        )
    };
    assert_eq!(database.value(&made("1")).await, "accepted");
    assert_eq!(database.value(&made("2")).await, "replayed");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_a_request_that_is_live_or_was_or_may_have_been_executed_is_replayed_and_one_of_another_is_free() {
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;
    let mut last = session.text(&decided("0")).await.replace("accepted", "replayed");
    for (place, end) in [
        "tidegate_internal.settle_rejected(array[$l], null)",
        "tidegate_internal.settle_retry(array[$l], null, may_have_left => '{false}'); select tidegate.fail_request('$i', 'no more')",
        "tidegate_internal.settle_receipt(array[$l], array['r']); select tidegate.fail_receipt('$i', null)",
        "tidegate_internal.settle_receipt(array[$l], array['s']); select tidegate.respond('1', id => '$i')",
    ]
    .iter()
    .enumerate()
    {
        let held = session.claim("tx", 1).await;
        assert_eq!(session.text(&decided("7")).await, last, "in flight");
        let (lease, id) = (format!("'{}'::tidegate.lease", held[0].lease), held[0].id.to_string());
        session
            .execute(&format!("select {}", end.replace("$l", &lease).replace("$i", &id)))
            .await;
        let again = session.text(&decided(&place.to_string())).await;
        if end.contains("respond") {
            assert_eq!(again, last, "completed");
        } else {
            assert!(again.starts_with("accepted"), "{end}: {again}");
            last = again.replace("accepted", "replayed");
        }
    }
    // A replay is never refused, and a new request is.
    database.execute("select tidegate.gate_force('tx', 'too_many_requests')").await;
    assert_eq!(session.text(&decided("8")).await, last);
    // Its window has passed.
    database.execute("update tidegate.dedup set first_seen = now() - dedup_window, expires_at = now()").await;
    let refused = "select outcome from tidegate.submit('direct', '8', 'k', same_key => 'replay')";
    assert_eq!(session.text(refused).await, "refused");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_payloads_at_once_under_a_key_that_decides_one_is_stored() {
    for commits in [true, false] {
        let database = TestDatabase::unlimited().await;
        let mut first = Session::begin(&database).await;
        let accepted = first.text(&decided("1")).await;
        let second = against(&database, &mut first, commits, &decided("2")).await;
        if commits {
            assert_eq!(second, [accepted.replace("accepted", "replayed")]);
        } else {
            assert!(second[0].starts_with("accepted"), "{second:?}");
        }
        let payloads = "select string_agg(payload::text, ' ') from tidegate.request";
        assert_eq!(database.value(payloads).await, if commits { "1" } else { "2" });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn submitters_share_the_keys_of_a_kind_with_shared_keys_whichever_function_they_call() {
    let database = TestDatabase::unlimited().await;
    database.execute("update tidegate.kind set key_scope = 'kind' where name = 'direct'").await;
    for (call, first) in [
        ("submit('direct', '1', 'a', '$s')", 1),
        ("submit('direct', '1', 'b', '$s', admission => 'accepted')", 1),
        ("submit_batch('direct', '{1,2}', '{c,d}', '$s')", 2),
        ("submit_batch_once('direct', '{1,2}', 'e', '$s')", 2),
        ("submit_group('direct', '{1}', '{f}', '{$s}')", 1),
        ("submit_group('direct', '{1,2}', '{g,h}', '{$s,eve}')", 2),
        ("submit_with_callback('direct', '1', null, 'i', '$s')", 1),
    ] {
        let outcomes = |submitter: &str| {
            let call = call.replace("$s", submitter);
            format!("select s.outcome || ' ' || s.id from tidegate.{call} as s order by s.id")
        };
        let accepted = database.column(&outcomes("ann")).await;
        assert_eq!(accepted.iter().filter(|row| row.starts_with("accepted")).count(), first, "{call}");
        let replayed: Vec<_> = accepted.iter().map(|row| row.replace("accepted", "replayed")).collect();
        assert_eq!(database.column(&outcomes("bob")).await, replayed, "{call}");
        assert_eq!(database.column(&outcomes("joe")).await, replayed, "{call}");
    }
    // In one group, and a batch that is longer than the first one.
    let group = "select s.outcome from tidegate.submit_group('direct', '{1,1,1}', '{x,x,y}', '{ann,bob,null}') as s";
    assert_eq!(database.column(group).await, ["accepted", "replayed", "accepted"]);
    for (reused, code) in [
        ("submit('direct', '2', 'a', 'bob')", "TG004"),
        ("submit_batch_once('direct', '{1,2,3}', 'e', 'bob')", "TG004"),
        ("submit_batch_once('unknown', '{1}', 'e', 'bob')", "TG002"),
    ] {
        let sql = format!("select * from tidegate.{reused}");
        assert_eq!(database.refused(&sql).await.code, code, "{reused}");
    }
    let submitters = "select string_agg(distinct coalesce(submitter, '-'), ' ') from tidegate.request";
    assert_eq!(database.value(submitters).await, "- ann eve", "the first one's");
    assert_eq!(database.value("select count(distinct scope) from tidegate.dedup").await, "1");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shared_request_takes_room_of_its_first_submitters_quota_only() {
    let database = TestDatabase::unlimited().await;
    database
        .execute(
            "update tidegate.kind set key_scope = 'kind' where name = 'direct';
             select tidegate.quota_set(submitter => 'ann', high_water => 1, low_water => 0);
             select tidegate.quota_set(submitter => 'bob', high_water => 1, low_water => 0)",
        )
        .await;
    let submit = |key: &str, submitter: &str| {
        format!("select outcome from tidegate.submit('direct', '1', '{key}', '{submitter}')")
    };
    assert_eq!(database.value(&submit("k", "ann")).await, "accepted");
    assert_eq!(database.value(&submit("k", "bob")).await, "replayed");
    assert_eq!(database.value(&submit("l", "bob")).await, "accepted", "it has room for one");
    assert_eq!(database.value(&submit("m", "bob")).await, "refused");
    assert_eq!(database.value(&submit("k", "bob")).await, "replayed", "a replay needs no room");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_registers_shared_keys_and_submits_under_keys_that_decide() {
    let database = TestDatabase::unlimited().await;
    let tidegate = Tidegate::from_pool(database.pool.clone());
    tidegate.register(Kind::direct("payout").shared_keys()).await.unwrap();
    tidegate.register(Kind::direct("refund")).await.unwrap();
    let scopes = "select string_agg(name || ' ' || key_scope, ', ' order by name) from tidegate.kind
                  where name in ('payout', 'refund')";
    assert_eq!(database.value(scopes).await, "payout kind, refund submitter");
    let refused = database.refused("select tidegate.kind_add('bonus', 'direct', key_scope => 'all')").await;
    assert_eq!((&*refused.code, &*refused.constraint), ("TG007", "kind_key_scope_is_known"));

    let submit = |payload: i64, submitter: &'static str| {
        tidegate.submit("payout", &json!({ "n": payload })).key("k").key_decides().submitter(submitter)
    };
    let Submitted::Accepted(first) = submit(1, "ann").await.unwrap() else { panic!("it is new") };
    let Submitted::Replayed(replayed) = submit(2, "bob").await.unwrap() else { panic!("its key is known") };
    assert_eq!(replayed.id, first.id);
    let mut transaction = database.pool.begin().await.unwrap();
    let within = submit(3, "eve").within(&mut transaction).await.unwrap();
    assert!(matches!(within, Submitted::Replayed(ticket) if ticket.id == first.id));
}
