//! Does `redrive` submit what has failed again, once, linked, and no faster than the gates allow?

use std::process::Stdio;

use serde_json::Value;
use tidegate::request::RequestId;

use crate::{
    cli::commands::{err, out, run, tidegate},
    support::{
        TestDatabase, campaign, eventually,
        race::{NOTHING, Session, against, receipt, sound, submit_many},
    },
};

const REDRIVE: &str = "select redriven, refused from tidegate.redrive()";

/// As many requests of a kind that have failed, in order.
async fn failed(database: &TestDatabase, kind: &str, count: i32) -> Vec<RequestId> {
    let ids = submit_many(database, kind, count).await;
    let list: Vec<_> = ids.iter().map(|id| format!("'{id}'")).collect();
    database.execute(&format!("select tidegate.fail_internal(array[{}]::uuid[])", list.join(", "))).await;
    ids
}

async fn redrive(database: &TestDatabase, arguments: &[&str]) -> (Option<i32>, Value) {
    let arguments = [&["redrive", "--json"], arguments].concat();
    let output = run(&database.url, &arguments).await;
    let summary = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}{}", out(&output), err(&output)));
    (output.status.code(), summary)
}

async fn redriven_as(session: &mut Session, id: RequestId) -> RequestId {
    session.text(&format!("select redriven_as from tidegate.redrive where request_id = '{id}'")).await.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_request_is_submitted_again_as_it_was_and_linked_both_ways() {
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;
    let old: RequestId = session
        .text(r#"select id from tidegate.submit('public_decrypt', '{"b": [1, 2.50], "a": "ä"}', submitter => 'ann')"#)
        .await
        .parse()
        .unwrap();
    database
        .execute(&format!(
            "select tidegate.webhook_host_add('hooks.example.com');
             select tidegate.set_callback('{old}', 'https://hooks.example.com/a');
             select tidegate.time_out(array['{old}']::uuid[])"
        ))
        .await;

    assert_eq!(session.texts(REDRIVE).await, ["1 0"]);

    let new = redriven_as(&mut session, old).await;
    assert_eq!(database.status(old).await, "timed_out");
    assert_eq!(database.status(new).await, "queued");
    assert_eq!(
        session
            .text(&format!(
                "select (n.kind, n.payload, n.submitter, n.callback_url) = (o.kind, o.payload, o.submitter, o.callback_url)
                 from tidegate.request as n, tidegate.request as o where n.id = '{new}' and o.id = '{old}'"
            ))
            .await,
        "t"
    );
    assert_eq!(database.causes(new).await, ["submitted"]);
    assert_eq!(
        session
            .texts("select request_id, req_status, code, redriven_as, redriven_status from tidegate.redrive_overview")
            .await,
        [format!("{old} timed_out readiness_timed_out {new} queued")]
    );
    for (id, reason) in [(old, "redriven"), (new, "redrive")] {
        assert_eq!(
            session.texts(&format!("select reason from tidegate.explain('{id}')")).await.last().unwrap(),
            reason
        );
    }
    let got = run(&database.url, &["get", "--json", &old.to_string()]).await;
    let got: Value = serde_json::from_slice(&got.stdout).unwrap();
    assert_eq!(got["redriven_as"], new.to_string());
    // Once is enough.
    assert_eq!(session.texts(REDRIVE).await, ["0 0"]);
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redriven_request_that_fails_too_may_be_redriven_in_its_turn() {
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;
    let first = failed(&database, "direct", 1).await[0];
    session.texts(REDRIVE).await;
    let second = redriven_as(&mut session, first).await;
    database.execute(&format!("select tidegate.fail_internal(array['{second}']::uuid[])")).await;

    assert_eq!(session.texts(REDRIVE).await, ["1 0"]);
    let third = redriven_as(&mut session, second).await;
    assert_eq!(redriven_as(&mut session, first).await, second);
    assert_eq!(database.status(third).await, "processing");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_cancelled_is_redriven_only_when_its_code_is_named_and_what_may_have_been_executed_never_by_its_code()
{
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;
    let unknown = RequestId(database.request_in("direct", "tx_in_flight").await);
    let cancelled = database.submit("direct").await;
    database
        .execute(&format!("select tidegate.cancel('{cancelled}'); select tidegate.fail_request('{unknown}', 'lost')"))
        .await;
    let plain = failed(&database, "direct", 1).await[0];
    let completed = database.request_in("direct", "completed").await;

    let (_, dry) = redrive(&database, &["--dry-run"]).await;
    assert_eq!(dry["redriven"], 1);
    assert_eq!(dry["requests"][0]["job_id"], plain.to_string());
    assert_eq!(session.texts(REDRIVE).await, ["1 0"]);
    let (_, named) = redrive(&database, &["--code", "internal_error"]).await;
    assert_eq!(named["redriven"], 0);
    let (_, named) = redrive(&database, &["--code", "cancelled"]).await;
    assert_eq!(named["requests"][0]["job_id"], cancelled.to_string());
    let (_, repeated) = redrive(&database, &["--may-repeat"]).await;
    assert_eq!(repeated["redriven"], 1);
    assert_eq!(repeated["requests"][0]["job_id"], unknown.to_string());
    assert_eq!(
        database.number(&format!("select count(*) from tidegate.redrive where request_id = '{completed}'")).await,
        0
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_have_been_executed_is_redriven_only_where_it_may_be_repeated() {
    let database = TestDatabase::unlimited().await;
    database.execute("update tidegate.kind set key_after_unknown = 'free' where name = 'input_proof'").await;
    // One that never left, one that was taken, one whose answer never came; and one of a kind that may be sent twice.
    let unsent = failed(&database, "direct", 1).await[0];
    let sent = RequestId(database.request_in("direct", "tx_in_flight").await);
    let taken = RequestId(database.request_in("direct", "receipt_received").await);
    let other = RequestId(database.request_in("input_proof", "tx_in_flight").await);
    database
        .execute("select tidegate.fail_internal(array(select id from tidegate.request where finished_at is null))")
        .await;
    let left = async |arguments: &[&str]| {
        let (_, dry) = redrive(&database, &[&["--dry-run"], arguments].concat()).await;
        let mut ids: Vec<_> = dry["requests"].as_array().unwrap().iter().map(|r| r["job_id"].clone()).collect();
        ids.sort_by_key(Value::to_string);
        ids
    };
    let sorted = |ids: &[RequestId]| {
        let mut ids: Vec<_> = ids.iter().map(|id| Value::from(id.to_string())).collect();
        ids.sort_by_key(Value::to_string);
        ids
    };

    assert_eq!(left(&[]).await, sorted(&[unsent, other]));
    assert_eq!(left(&["--code", "internal_error"]).await, sorted(&[unsent, other]));
    assert_eq!(left(&["--may-repeat"]).await, sorted(&[unsent, sent, taken, other]));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_cannot_be_submitted_any_more_says_why_and_keeps_none_from_its_turn() {
    for batch in ["1", "3", "100"] {
        let database = TestDatabase::unlimited().await;
        let mut session = Session::open(&database).await;
        database
            .execute("update tidegate.kind set key_mode = 'natural', key_paths = '{order}' where name = 'direct'")
            .await;
        // A caller's correction of the second, after the window of its key, failed, and it brought a key of their own for
        // the third.
        for (payload, key) in [
            (r#"{"order": 0}"#, "null"),
            (r#"{"order": 1, "v": 1}"#, "null"),
            (r#"{"order": 1, "v": 2}"#, "null"),
            (r#"{"v": 3}"#, "'mine'"),
            (r#"{"order": 4}"#, "null"),
        ] {
            session.texts("delete from tidegate.dedup").await;
            session.texts(&format!("select id from tidegate.submit('direct', '{payload}', {key})")).await;
            session
                .texts(
                    "select tidegate.fail_internal(array(select id from tidegate.request where finished_at is null))",
                )
                .await;
        }
        failed(&database, "input_proof", 1).await;

        let (code, summary) = redrive(&database, &["--batch", batch]).await;

        assert_eq!((code, &summary["redriven"]), (Some(3), &Value::from(4)), "batch {batch}");
        let reasons: Vec<_> =
            summary["unfit"].as_array().unwrap().iter().map(|unfit| unfit["reason"].as_str().unwrap()).collect();
        assert_eq!(reasons.len(), 2, "{reasons:?}");
        assert!(reasons[0].contains("with another payload"), "{reasons:?}");
        assert!(reasons[1].contains("has no \"order\""), "{reasons:?}");
        let said = run(&database.url, &["redrive"]).await;
        assert_eq!(said.status.code(), Some(3));
        assert!(out(&said).starts_with("0 submitted again\n2 cannot be submitted again:\n"), "{}", out(&said));
        sound(&database).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kinds_times_and_limits_narrow_it_and_a_dry_run_changes_nothing() {
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;
    let early = failed(&database, "direct", 3).await;
    failed(&database, "input_proof", 3).await;
    session
        .execute(&format!(
            "set session_replication_role = replica;
             update tidegate.request set finished_at = finished_at - interval '3 hours' where id = '{}'",
            early[0]
        ))
        .await;
    let state =
        "select concat_ws(' ', (select count(*) from tidegate.request), (select count(*) from tidegate.redrive),
        (select last_value from pgmq.q_tx_msg_id_seq), (select count(*) from tidegate.request_count_delta))";
    let before = session.text(state).await;

    let count = async |arguments: &[&str]| {
        let arguments = [&["--dry-run", "--batch", "2"], arguments].concat();
        let (code, summary) = redrive(&database, &arguments).await;
        assert_eq!(code, Some(0));
        summary["redriven"].as_i64().unwrap()
    };
    assert_eq!(count(&[]).await, 6);
    assert_eq!(count(&["--kind", "input-proof"]).await, 3);
    assert_eq!(count(&["--since", "2h"]).await, 5);
    assert_eq!(count(&["--since", "2026-01-01T00:00:00Z"]).await, 6);
    assert_eq!(count(&["--since", "2h", "--kind", "direct"]).await, 2);
    assert_eq!(count(&["--limit", "5"]).await, 5);
    assert_eq!(session.text(state).await, before);

    let (_, done) = redrive(&database, &["--limit", "3", "--batch", "2"]).await;
    assert_eq!(done["redriven"], 3);
    assert_eq!(done["requests"][0]["job_id"], early[0].to_string());
    for (arguments, code) in [
        (&["redrive", "--kind", "nope"][..], 1),
        (&["redrive", "--since", "yesterday"], 2),
        (&["redrive", "--limit", "0"], 2),
    ] {
        assert_eq!(run(&database.url, arguments).await.status.code(), Some(code), "{arguments:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_and_statuses_narrow_it_and_named_ones_may_have_been_cancelled() {
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;
    let cancelled = [database.submit("input_proof").await, database.submit("input_proof").await];
    for id in cancelled {
        database.store.cancel(id).await.unwrap();
    }
    let timed_out = database.request_in("public_decrypt", "timed_out").await;
    let failed = failed(&database, "input_proof", 1).await[0];
    let mut count = async |arguments: &str| {
        let sql = format!("select array_to_string(ids, ',') from tidegate.redrive(may_repeat => true, {arguments})");
        session.text(&sql).await
    };
    assert_eq!(count("dry_run => true, states => '{timed_out}'").await, timed_out.to_string());
    assert_eq!(count("dry_run => true, states => '{failure}'").await, failed.to_string());
    let named = format!("requests => array['{}', '{timed_out}']::uuid[]", cancelled[1]);
    assert_eq!(count(&format!("{named}, states => '{{failure}}'")).await, cancelled[1].to_string());
    assert_eq!(count(&named).await, timed_out.to_string());
    assert_eq!(count(&named).await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn kinds_and_submitters_that_alternate_all_get_their_turn_whatever_the_batch() {
    for batch in ["1", "2", "5", "100"] {
        let database = TestDatabase::unlimited().await;
        let mut session = Session::open(&database).await;
        for number in 0..12 {
            let (kind, submitter) = [("direct", "'ann'"), ("direct", "'bob'"), ("input_proof", "null")][number % 3];
            session
                .texts(&format!("select id from tidegate.submit('{kind}', '{number}', submitter => {submitter})"))
                .await;
        }
        database.execute("select tidegate.fail_internal(array(select id from tidegate.request))").await;

        let (code, summary) = redrive(&database, &["--batch", batch]).await;

        assert_eq!((code, summary["redriven"].as_i64()), (Some(0), Some(12)));
        assert_eq!(
            database
                .number(
                    "select count(*) from tidegate.redrive as v
                     join tidegate.request as o on o.id = v.request_id join tidegate.request as n on n.id = v.redriven_as
                     where (o.kind, o.payload) = (n.kind, n.payload) and o.submitter is not distinct from n.submitter",
                )
                .await,
            12,
            "batch {batch}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gates_let_in_what_they_have_room_for_and_say_when_to_come_back() {
    let database = TestDatabase::new().await;
    failed(&database, "direct", 40).await;
    database.execute("update tidegate.gate set high_water = 30, low_water = 15").await;

    let (code, summary) = redrive(&database, &["--batch", "25"]).await;

    assert_eq!(code, Some(3), "{summary:#}");
    assert_eq!(summary["redriven"], 30);
    assert_eq!(summary["refused"], 10);
    assert!(summary["retry_after_seconds"].as_i64() > Some(0));
    assert_eq!(database.number("select count(*) from pgmq.q_tx").await, 30);
    let (code, summary) = redrive(&database, &[]).await;
    assert_eq!((code, summary["redriven"].as_i64()), (Some(3), Some(0)));
    let said = run(&database.url, &["redrive"]).await;
    assert!(out(&said).contains("the gates refuse 10: run it again in"), "{}", out(&said));

    // Once there is room, the rest goes in.
    database
        .execute(
            "select tidegate.cancel(id) from tidegate.request where req_status = 'processing';
             select tidegate.gates_evaluate()",
        )
        .await;
    let (code, summary) = redrive(&database, &[]).await;
    assert_eq!((code, summary["redriven"].as_i64()), (Some(0), Some(10)));
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_cap_keeps_none_of_others_from_their_turn() {
    for batch in ["1", "4", "100"] {
        let database = TestDatabase::unlimited().await;
        let mut session = Session::open(&database).await;
        for number in 0..12 {
            let submitter = if number % 2 == 0 { "ann" } else { "bob" };
            session
                .texts(&format!("select id from tidegate.submit('direct', '{number}', submitter => '{submitter}')"))
                .await;
        }
        database
            .execute(
                "select tidegate.fail_internal(array(select id from tidegate.request));
                 select tidegate.quota_set(submitter => 'ann', high_water => 2)",
            )
            .await;

        let (code, summary) = redrive(&database, &["--batch", batch]).await;

        assert_eq!(code, Some(3), "batch {batch}");
        assert_eq!((&summary["redriven"], &summary["refused"]), (&Value::from(8), &Value::from(4)), "batch {batch}");
        assert!(summary["retry_after_seconds"].as_i64() > Some(0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_key_is_answered_with_the_redriven_request() {
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;
    let submit = "select id, outcome from tidegate.submit('direct', '{}', idempotency_key => 'k')";
    let submitted = session.text(submit).await;
    let old: RequestId = submitted.split(' ').next().unwrap().parse().unwrap();
    database.execute(&format!("select tidegate.fail_internal(array['{old}']::uuid[])")).await;
    session.texts(REDRIVE).await;
    let new = redriven_as(&mut session, old).await;

    assert_eq!(session.text(submit).await, format!("{new} replayed"));
    let (state, _) =
        session.attempt("select id from tidegate.submit('direct', '1', idempotency_key => 'k')").await.unwrap_err();
    assert_eq!(state, "TG004");
    database.execute(&format!("select tidegate.fail_internal(array['{new}']::uuid[])")).await;
    assert!(session.text(submit).await.ends_with(" accepted"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_stands_for_the_last_of_any_number_of_redrives_and_links_in_a_circle_end() {
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;
    let submit = "select id, outcome from tidegate.submit('direct', '{}', idempotency_key => 'k')";
    let submitted = session.text(submit).await;
    let old: RequestId = submitted.split(' ').next().unwrap().parse().unwrap();
    database.execute(&format!("select tidegate.fail_internal(array['{old}']::uuid[])")).await;
    // As so many redrives leave them, each of the one before.
    let redrives = campaign(1000, 2500);
    database
        .execute(&format!(
            "select tidegate.fail_internal(array_agg(s.id))
             from tidegate.submit_batch('direct', array_fill('{{}}'::jsonb, array[{}])) as s;
             insert into tidegate.redrive (request_id, redriven_as)
             select l.id, l.next
             from (
               select r.id, lead(r.id) over (order by r.id) as next from tidegate.request as r
             ) as l
             where l.next is not null;
             select tidegate.submit('direct', '{{}}');
             insert into tidegate.redrive (request_id, redriven_as)
             select o.id, n.id
             from (select id from tidegate.request where finished_at is not null order by id desc limit 1) as o,
               (select id from tidegate.request where finished_at is null) as n",
            redrives - 1
        ))
        .await;
    let live = session.text("select id from tidegate.request where finished_at is null").await;
    assert_eq!(database.number("select count(*) from tidegate.redrive").await, redrives);

    assert_eq!(session.text(submit).await, format!("{live} replayed"));

    // By hand.
    database
        .execute(&format!(
            "select tidegate.fail_internal(array['{live}']::uuid[]);
             insert into tidegate.redrive (request_id, redriven_as) values ('{live}', '{old}')"
        ))
        .await;
    assert!(session.text(submit).await.ends_with(" accepted"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_makes_keys_finds_what_was_submitted_since() {
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;
    database.execute("update tidegate.kind set key_mode = 'proxy' where name = 'direct'").await;
    let old = failed(&database, "direct", 1).await[0];
    database.execute("delete from tidegate.dedup").await;
    let since = database.submit("direct").await;

    assert_eq!(session.texts(REDRIVE).await, ["1 0"]);

    assert_eq!(redriven_as(&mut session, old).await, since);
    assert_eq!(database.number("select count(*) from tidegate.request").await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_its_caller_has_submitted_again_is_linked_and_left_alone() {
    for payload in ["1", "2"] {
        let database = TestDatabase::unlimited().await;
        let mut session = Session::open(&database).await;
        let submit = |payload| format!("select id from tidegate.submit('direct', '{payload}', 'k')");
        let old: RequestId = session.text(&submit("1")).await.parse().unwrap();
        database.execute(&format!("select tidegate.fail_internal(array['{old}']::uuid[])")).await;
        let again: RequestId = session.text(&submit(payload)).await.parse().unwrap();

        assert_eq!(session.texts(REDRIVE).await, ["0 0"]);
        assert_eq!(redriven_as(&mut session, old).await, again);
        database.execute(&format!("select tidegate.fail_internal(array['{again}']::uuid[])")).await;
        assert_eq!(session.texts(REDRIVE).await, ["1 0"]);
        let third = redriven_as(&mut session, again).await;
        assert_eq!(session.text(&submit(payload)).await, third.to_string());
        sound(&database).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_s_repeat_and_a_redrive_at_once_make_one_request() {
    let submit = "select outcome from tidegate.submit('direct', '{}', 'k')";
    for (first, second, expected) in [(submit, REDRIVE, "0 0"), (REDRIVE, submit, "replayed")] {
        for commits in [true, false] {
            let database = TestDatabase::unlimited().await;
            let mut session = Session::open(&database).await;
            session.texts(submit).await;
            database.execute("select tidegate.fail_internal(array(select id from tidegate.request))").await;
            session.execute("begin").await;
            session.texts(first).await;
            let answered = against(&database, &mut session, commits, second).await;
            let other = if second == submit { "accepted" } else { "1 0" };
            assert_eq!(answered, [if commits { expected } else { other }], "{second}");
            assert_eq!(database.number("select count(*) from tidegate.request").await, 2);
            sound(&database).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_repeat_leaves_the_key_with_what_it_stood_for() {
    for (kind, key) in [("key_mode = 'caller'", "array['k']"), ("key_mode = 'proxy'", "null")] {
        let database = TestDatabase::unlimited().await;
        let mut session = Session::open(&database).await;
        database.execute(&format!("update tidegate.kind set {kind} where name = 'direct'")).await;
        let batch = format!("select outcome from tidegate.submit_group('direct', array['1'::jsonb], {key})");
        assert_eq!(session.texts(&batch).await, ["accepted"]);
        let keys =
            "select scope || key || request_id || first_seen || expires_at || fingerprint::text from tidegate.dedup";
        let before = session.texts(keys).await;
        database
            .execute(
                "select tidegate.fail_internal(array(select id from tidegate.request));
                 select tidegate.quota_set(kind => 'direct', high_water => 1)",
            )
            .await;
        // The gate is open, and its last place is taken within the call.
        let fills = format!(
            "select outcome from tidegate.submit_group('direct', array['2', '1']::jsonb[], {})",
            if key == "null" { "null" } else { "array['l', 'k']" }
        );
        assert_eq!(session.texts(&fills).await, ["accepted", "refused"]);
        let after = session
            .texts(&format!(
                "{keys} where request_id::text = any(array(select id::text from tidegate.request where payload = '1'))"
            ))
            .await;
        assert_eq!(after.len(), 1, "{kind}");
        assert_eq!(after[0].get(..60), before[0].get(..60), "{kind}");
        assert_eq!(database.number("select count(*) from tidegate.redrive").await, 0);
        sound(&database).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_requires_keys_gets_one_for_each_request_that_is_redriven() {
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;
    let mut old = failed(&database, "direct", 3).await;
    database.execute("update tidegate.kind set key_mode = 'required' where name = 'direct'").await;
    let keyed = "select outcome || ' ' || id from tidegate.submit('direct', '{}', 'mine')";
    let told = session.text(keyed).await;
    old.push(told.strip_prefix("accepted ").unwrap().parse().unwrap());
    let fail = |id: RequestId| format!("select tidegate.fail_internal(array['{id}']::uuid[])");
    session.texts(&fail(old[3])).await;

    assert_eq!(session.texts(REDRIVE).await, ["4 0"]);
    // One fails again.
    let again = redriven_as(&mut session, old[0]).await;
    session.texts(&fail(again)).await;
    assert_eq!(session.texts(REDRIVE).await, ["1 0"]);
    old.push(again);

    let mut made = Vec::new();
    for id in old {
        let new = redriven_as(&mut session, id).await;
        made.push(format!("redrive {id} {new}"));
    }
    made.sort();
    let keys = "select key, request_id from tidegate.dedup where key like 'redrive %' order by key";
    assert_eq!(session.texts(keys).await, made);
    // The caller's key stands for the new request.
    let new = made.iter().find(|key| key.contains(told.strip_prefix("accepted ").unwrap()));
    let new = new.unwrap().rsplit(' ').next().unwrap();
    assert_eq!(session.text(keyed).await, format!("replayed {new}"));

    // Recovery needs no keys.
    session.texts("select pgmq.purge_queue('tx')").await;
    run(&database.url, &["recover"]).await;
    assert_eq!(database.number("select count(*) from pgmq.q_tx").await, 4);
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_at_once_submit_each_request_once() {
    let database = TestDatabase::unlimited().await;
    failed(&database, "direct", 60).await;
    receipt(&database, "direct", None).await;

    let arguments = ["--batch", "7"];
    let ((_, one), (_, other), (_, third)) =
        tokio::join!(redrive(&database, &arguments), redrive(&database, &arguments), redrive(&database, &arguments));

    let counts: Vec<_> = [one, other, third].iter().map(|summary| summary["redriven"].as_i64().unwrap()).collect();
    assert_eq!(counts.iter().sum::<i64>(), 60, "{counts:?}");
    assert_eq!(database.number("select count(*) from tidegate.request where req_status = 'processing'").await, 60);
    assert_eq!(database.number("select count(distinct redriven_as) from tidegate.redrive").await, 60);
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_dies_half_way_has_submitted_what_it_linked_and_no_more() {
    let database = TestDatabase::unlimited().await;
    failed(&database, "direct", 100).await;
    // It stops at the link of this one, with its new request made and not committed.
    let victim = database.text("select id from tidegate.request order by id offset 55 limit 1").await.unwrap();
    let mut other = Session::begin(&database).await;
    other
        .execute(&format!(
            "insert into tidegate.redrive (request_id, redriven_as) values ('{victim}', tidegate_internal.uuid_v7())"
        ))
        .await;
    let mut process = tidegate(&database.url).args(["redrive", "--batch", "10"]).stdout(Stdio::null()).spawn().unwrap();
    let waiting = "from pg_locks as l join pg_stat_activity as a on a.pid = l.pid and a.datname = current_database()
         where not l.granted and l.locktype = 'transactionid'";
    eventually("it waits for the other", || async {
        database.number(&format!("select count(*) {waiting}")).await == 1
    })
    .await;
    process.kill().await.unwrap();
    database.execute(&format!("select pg_terminate_backend(l.pid) {waiting}")).await;
    other.rollback().await;

    let linked = database.number("select count(*) from tidegate.redrive").await;
    assert_eq!(linked, 50);
    assert_eq!(database.number("select count(*) from tidegate.request where req_status = 'processing'").await, linked);
    let (_, rest) = redrive(&database, &[]).await;
    assert_eq!(rest["redriven"], 50);
    let mut session = Session::open(&database).await;
    assert_eq!(session.texts("select name, samples from tidegate.invariant_violation").await, NOTHING);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_link_goes_with_the_old_request_and_outlives_the_new_one() {
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;
    let old = failed(&database, "direct", 1).await[0];
    session.texts(REDRIVE).await;
    let new = redriven_as(&mut session, old).await;
    database
        .execute(&format!("select tidegate.cancel('{new}'); delete from tidegate.request where id = '{new}'"))
        .await;

    assert_eq!(session.texts(REDRIVE).await, ["0 0"]);
    database.execute(&format!("delete from tidegate.request where id = '{old}'")).await;
    assert_eq!(database.number("select count(*) from tidegate.redrive").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_reads_ten_thousand_requests_at_most_and_the_next_one_goes_on() {
    let database = TestDatabase::middling().await;
    let last = database.value("select id from tidegate.submit('direct', '{}')").await;
    database.execute(&format!("select from tidegate.fail_internal('{{{last}}}')")).await;

    let call = |after: &str| {
        format!("select redriven || ' ' || coalesce(next_after::text, 'all') from tidegate.redrive({after})")
    };
    let first = database.value(&call("")).await;
    let (redriven, next) = first.split_once(' ').unwrap();
    assert_eq!(redriven, "0");
    let second = database.value(&call(&format!("after => '{next}'"))).await;
    assert_eq!(second, "1 all");
}
