//! Which request does a key stand for after a redrive, or after its caller has submitted again?

use tidegate::request::RequestId;

use super::{REDRIVE, failed, redriven_as};
use crate::{
    cli::commands::run,
    support::{
        TestDatabase, campaign,
        race::{Session, against, sound},
    },
};

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
