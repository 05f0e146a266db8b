//! Does a quota let a kind, or a submitter, have so many requests in queues and no more, and count them right whatever
//! happens to them?

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use futures_util::future::join_all;

use crate::support::{
    TestDatabase, campaign, eventually,
    race::{NOTHING, Session, expire_leases, leases, settle, sound, submit_many},
    rest, server,
};

async fn stage(quotas: &[&str]) -> (TestDatabase, Session) {
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;
    for quota in quotas {
        assert_eq!(session.text(&format!("select tidegate.quota_set({quota})")).await, "t");
    }
    (database, session)
}

const DIRECT: &str = "kind => 'direct', high_water => 6, low_water => 3";
const ANN: &str = "submitter => 'ann', high_water => 4, low_water => 2";

async fn outcomes(session: &mut Session, call: &str) -> Vec<String> {
    session.texts(&format!("select outcome from tidegate.{call}")).await
}

fn batch(kind: &str, count: usize) -> String {
    format!("submit_batch('{kind}', array_fill('{{}}'::jsonb, array[{count}]))")
}

fn promised(kind: &str, count: usize) -> String {
    format!("submit_batch('{kind}', array_fill('{{}}'::jsonb, array[{count}]), admission => 'accepted')")
}

/// State, depth at the last flip, epoch.
async fn state(session: &mut Session, gate: &str) -> String {
    session
        .text(&format!("select state || ' ' || depth || ' ' || epoch from tidegate.gate where name = '{gate}'"))
        .await
}

/// How many a quota counts.
async fn counted(session: &mut Session, gate: &str) -> String {
    session.text(&format!("select depth from tidegate.gate_overview('{gate}')")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_closes_and_opens_at_its_marks_and_stops_its_kind_only() {
    let (database, mut session) = stage(&[DIRECT]).await;
    for _ in 0..6 {
        assert_eq!(outcomes(&mut session, "submit('direct', '{}')").await, ["accepted"]);
    }
    assert_eq!(state(&mut session, "kind direct").await, "too_many_requests 6 1");
    let held = session.claim("tx", 6).await;
    for count in [0, 2] {
        session.texts(&settle("settle_receipt", &held[..count], "")).await;
        assert_eq!(outcomes(&mut session, "submit('direct', '{}')").await, ["refused"]);
        assert_eq!(outcomes(&mut session, "submit('input_proof', '{}')").await, ["accepted"]);
    }
    session.texts(&settle("settle_receipt", &held[2..3], "")).await;
    assert_eq!(state(&mut session, "kind direct").await, "accepting 3 2");
    assert_eq!(outcomes(&mut session, &batch("direct", 3)).await, ["accepted"; 3]);
    assert_eq!(state(&mut session, "kind direct").await, "too_many_requests 6 3");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_counts_once_from_its_first_queue_to_its_receipt() {
    let (database, mut session) = stage(&["kind => 'public_decrypt', high_water => 9", ANN]).await;
    let quota = "kind public_decrypt";
    outcomes(&mut session, "submit('public_decrypt', '{}', submitter => 'ann')").await;
    assert_eq!(counted(&mut session, quota).await, "1");
    let checked = session.claim("readiness", 1).await;
    session.texts(&settle("settle_passed", &checked, "")).await;
    assert_eq!(counted(&mut session, quota).await, "1");
    let sent = session.claim("tx", 1).await;
    assert_eq!(counted(&mut session, "submitter ann").await, "1");
    session.texts(&settle("settle_receipt", &sent, "")).await;
    // It awaits its response, and is in no queue.
    assert_eq!(database.status(sent[0].id).await, "receipt_received");
    for gate in [quota, "submitter ann"] {
        assert_eq!(counted(&mut session, gate).await, "0");
    }
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_way_out_of_the_queues_is_counted() {
    let (database, mut session) = stage(&[
        "kind => 'direct', high_water => 100",
        "kind => 'user_decrypt', high_water => 100",
        "submitter => 'ann', high_water => 100",
    ])
    .await;
    let some = |kind: &str, status: &str| {
        format!(
            "array(select id from tidegate.request where kind = '{kind}' and req_status = '{status}' order by id limit 2)"
        )
    };
    let at_once = "update tidegate.kind set key_after_unknown = 'window'; update tidegate.policy set semantics = 'at_most_once', attempts = 1 where stage = 'tx'";
    for out in [
        format!("select tidegate.cancel(id) from unnest({}) as id", some("direct", "processing")),
        format!("select tidegate.fail_tx({})", some("direct", "processing")),
        format!("select tidegate.fail_internal({})", some("user_decrypt", "queued")),
        format!("select tidegate.time_out({})", some("user_decrypt", "queued")),
        format!(
            "update tidegate.request set deadline_at = clock_timestamp() where id = any({})",
            some("direct", "processing")
        ),
        "select tidegate.expire_by_deadline()".to_owned(),
        format!(
            "update tidegate.request set readiness_deadline_at = clock_timestamp() where id = any({})",
            some("user_decrypt", "queued")
        ),
        "select tidegate.expire_by_readiness()".to_owned(),
        // By hand; its message goes as a stray.
        format!("update tidegate.request set req_status = 'failure' where id = any({})", some("direct", "processing")),
        "select tidegate.remove_stray_messages('tx')".to_owned(),
    ] {
        session
            .texts(
                "select tidegate.submit_batch(k, array_fill('{}'::jsonb, array[3]), submitter => 'ann')
                 from unnest(array['direct', 'user_decrypt']) as k",
            )
            .await;
        session.texts(&out).await;
        sound_but_strays(&mut session, &out).await;
    }
    session.texts("select tidegate.remove_stray_messages('tx')").await;
    for name in ["settle_rejected", "settle_failed"] {
        let queue = if name == "settle_failed" { "readiness" } else { "tx" };
        let held = session.claim(queue, 2).await;
        session.texts(&settle(name, &held, "null")).await;
        sound_but_strays(&mut session, name).await;
    }
    // A last attempt that is retried, one whose worker vanished, and one with an unknown outcome.
    session.execute(at_once).await;
    let held = session.claim("tx", 2).await;
    session
        .texts(&format!(
            "select tidegate_internal.settle_retry({}, null, array_fill(interval '0', array[2]))",
            leases(&held)
        ))
        .await;
    sound_but_strays(&mut session, "attempts_exhausted").await;
    session.claim("tx", 2).await;
    expire_leases(&database, "tx").await;
    session.texts("select tidegate.recover()").await;
    sound_but_strays(&mut session, "outcome_unknown").await;
    let held = session.claim("tx", 1).await;
    assert_eq!(held.len(), 1);
    expire_leases(&database, "tx").await;
    session.claim("tx", 20).await;
    sound_but_strays(&mut session, "a claim that ends what it finds").await;
    assert!(
        database.number("select count(distinct cause) from tidegate.request where finished_at is not null").await >= 9
    );
    sound(&database).await;
}

/// Quotas count the requests in queues; messages of hand edits may be left.
async fn sound_but_strays(session: &mut Session, after: &str) {
    let difference = session
        .texts(
            "select m.gate || ' ' || count(*) from tidegate.quota_usage as m
             join tidegate.request as r on r.id = m.request_id
             where r.req_status not in ('queued', 'processing', 'tx_in_flight') group by m.gate
             union all
             select 'not counted ' || count(*) from tidegate.request as r
             where r.req_status in ('queued', 'processing', 'tx_in_flight')
               and (select count(*) from tidegate.quota_usage as m where m.request_id = r.id) <> 2
             having count(*) > 0",
        )
        .await;
    assert_eq!(difference, NOTHING, "{after}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tightest_of_several_gates_decides() {
    let (database, mut session) = stage(&[DIRECT, ANN]).await;
    session.execute("update tidegate.gate set high_water = 8, low_water = 7 where queue = 'tx'").await;
    let by_ann = "submit('direct', '{}', submitter => 'ann')";
    for _ in 0..4 {
        assert_eq!(outcomes(&mut session, by_ann).await, ["accepted"]);
    }
    assert_eq!(outcomes(&mut session, by_ann).await, ["refused"]);
    for _ in 0..2 {
        assert_eq!(outcomes(&mut session, "submit('direct', '{}')").await, ["accepted"]);
    }
    assert_eq!(outcomes(&mut session, "submit('direct', '{}')").await, ["refused"]);
    // Of a group, as many as all of them have room for.
    session
        .texts("select tidegate.cancel(id) from (select id from tidegate.request where submitter = 'ann' order by id limit 3) as a")
        .await;
    assert_eq!(state(&mut session, "kind direct").await, "accepting 3 2");
    assert_eq!(state(&mut session, "submitter ann").await, "accepting 2 2");
    assert_eq!(
        outcomes(
            &mut session,
            "submit_group('direct', array_fill('{}'::jsonb, array[6]), submitters => array_fill('ann'::text, array[6]))"
        )
        .await,
        ["accepted", "accepted", "accepted", "refused", "refused", "refused"]
    );
    assert_eq!(outcomes(&mut session, "submit('input_proof', '{}')").await, ["accepted"]);
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_goes_in_whole_or_not_at_all_and_replays_always() {
    let (database, mut session) = stage(&[DIRECT]).await;
    let (code, message) = session.attempt(&format!("select * from tidegate.{}", batch("direct", 7))).await.unwrap_err();
    assert_eq!(code, "TG011");
    assert!(message.contains("\"kind direct\""), "{message}");
    let keyed = "submit_batch('direct', '{1,2,3,4}', '{a,b,c,d}')";
    assert_eq!(outcomes(&mut session, keyed).await, ["accepted"; 4]);
    assert_eq!(outcomes(&mut session, &batch("direct", 3)).await, ["refused"; 3]);
    assert_eq!(state(&mut session, "kind direct").await, "accepting 0 0");
    assert_eq!(outcomes(&mut session, &batch("direct", 2)).await, ["accepted"; 2]);
    assert_eq!(outcomes(&mut session, keyed).await, ["replayed"; 4]);
    // What was promised goes in, and counts.
    assert_eq!(outcomes(&mut session, &promised("direct", 3)).await, ["accepted"; 3]);
    assert_eq!(counted(&mut session, "kind direct").await, "9");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_submitters_never_exceed_a_quota() {
    let (database, _) = stage(&[
        "kind => 'direct', high_water => 20, low_water => 10",
        "submitter => 'ann', high_water => 8, low_water => 4",
    ])
    .await;
    let done = Arc::new(AtomicBool::new(false));
    let submitters = (0..16).map(|number| {
        let done = Arc::clone(&done);
        let database = &database;
        async move {
            let mut session = Session::open(database).await;
            let submitter = if number % 2 == 0 { "'ann'" } else { "null" };
            let mut taken = 0;
            while !done.load(Ordering::Relaxed) {
                let call = if number % 4 < 3 {
                    format!("submit('direct', '{{}}', submitter => {submitter})")
                } else {
                    format!("submit_batch('direct', '{{1,2,3}}', submitter => {submitter})")
                };
                match session.attempt(&format!("select outcome from tidegate.{call}")).await {
                    Ok(said) => taken += said.iter().filter(|said| *said == "accepted").count(),
                    // On a slow machine some wait too long for their turn at the gate.
                    Err((code, _)) => assert_eq!(code, "55P03"),
                }
                rest().await;
            }
            taken
        }
    });
    let worker = async {
        let mut session = Session::open(&database).await;
        let mut served = 0;
        // However fast it is: after the first ones it serves only what is behind a closed quota, until quotas have closed
        // and opened several times.
        let flips = "select count(*) from tidegate.gate_event where gate in ('kind direct', 'submitter ann')";
        let closed = "select count(*) from tidegate.gate where queue is null and state = 'too_many_requests'";
        let unwatched = campaign(60, 200);
        while served < unwatched || session.text(flips).await.parse::<i32>().unwrap() < 5 {
            let may_serve = served < unwatched || session.text(closed).await != "0";
            for (limit, live) in [
                (20, "select count(*) from tidegate.request where req_status in ('processing', 'tx_in_flight')"),
                (
                    8,
                    "select count(*) from tidegate.request where req_status in ('processing', 'tx_in_flight') and submitter = 'ann'",
                ),
            ] {
                let depth: i32 = session.text(live).await.parse().unwrap();
                assert!(depth <= limit, "{depth} above {limit}");
            }
            if !may_serve {
                rest().await;
                continue;
            }
            let held = session.claim("tx", 2).await;
            served += held.len();
            session.texts(&format!("select id from tidegate_internal.settle_rejected({}, null)", leases(&held))).await;
        }
        done.store(true, Ordering::Relaxed);
        served
    };
    let (taken, served) = tokio::join!(join_all(submitters), worker);
    assert!(taken.iter().sum::<usize>() >= served);
    // Two are served at a time, and some perhaps before the submission that closes a gate has committed: then it opens
    // below its mark.
    assert_eq!(
        database
            .column(
                "select e.gate || ' ' || e.state || ' ' || e.depth
                 from tidegate.gate_event as e join tidegate.gate as g on g.name = e.gate
                 where case e.state when 'accepting' then e.depth > g.low_water else e.depth <> g.high_water end"
            )
            .await,
        NOTHING
    );
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_in_queues_count_at_a_new_quota_from_the_first_moment() {
    let (database, mut session) = stage(&[]).await;
    submit_many(&database, "direct", 4).await;
    submit_many(&database, "public_decrypt", 3).await;
    session.claim("tx", 2).await;
    session
        .execute("select tidegate.quota_set(kind => 'public_decrypt', high_water => 3); select tidegate.quota_set(kind => 'direct', high_water => 5)")
        .await;
    assert_eq!(state(&mut session, "kind public_decrypt").await, "too_many_requests 3 1");
    assert_eq!(state(&mut session, "kind direct").await, "accepting 0 0");
    assert_eq!(outcomes(&mut session, &batch("direct", 2)).await, ["refused"; 2]);
    assert_eq!(outcomes(&mut session, &batch("direct", 1)).await, ["accepted"]);
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_are_submitted_or_end_while_a_quota_is_made_are_counted_right() {
    let (database, mut session) = stage(&[]).await;
    submit_many(&database, "direct", 6).await;
    let mut submitting = Session::begin(&database).await;
    outcomes(&mut submitting, &batch("direct", 2)).await;
    let mut ending = Session::begin(&database).await;
    let held = ending.claim("tx", 1).await;
    ending.texts(&settle("settle_rejected", &held, "null")).await;
    let mut making = Session::begin(&database).await;
    making.execute("select tidegate.quota_set(kind => 'direct', high_water => 20)").await;
    // Who ends a counted one waits until the quota is there, and finds it.
    let later = Session::open(&database).await.start(
        "select tidegate.fail_internal(array(select id from tidegate.request where req_status = 'processing' order by id offset 1 limit 1))",
    );
    later.until_blocked_by(&database, &making).await;
    // Who began before it was there does not see it.
    let mut old = Session::open(&database).await;
    old.execute("begin isolation level repeatable read").await;
    old.text("select count(*) from tidegate.gate").await;
    making.commit().await;
    assert_eq!(later.finish().await.1.len(), 1);
    assert_eq!(outcomes(&mut old, "submit('direct', '{}', admission => 'accepted')").await, ["accepted"]);
    let last =
        old.text("select id from tidegate.request where req_status = 'processing' order by id desc limit 1").await;
    for session in [&mut submitting, &mut ending, &mut old] {
        session.commit().await;
    }

    // The round finds those that came.
    session.execute("select tidegate.quota_reconcile(), tidegate.quota_reconcile()").await;
    assert_eq!(counted(&mut session, "kind direct").await, "7");
    sound(&database).await;

    // And those that went unseen.
    session
        .execute(&format!(
            "insert into tidegate.quota_usage select 'kind direct', id from tidegate.request where finished_at is not null;
             insert into tidegate.quota_usage values ('kind direct', gen_random_uuid()), ('kind gone', '{last}')"
        ))
        .await;
    // Three at a time, twice round.
    for _ in 0..12 {
        session.execute("select tidegate.quota_reconcile(3)").await;
    }
    assert_eq!(counted(&mut session, "kind direct").await, "7");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_that_is_made_under_load_counts_right_in_the_end() {
    let (database, mut session) = stage(&[]).await;
    let done = Arc::new(AtomicBool::new(false));
    let busy = |number: usize| {
        let done = Arc::clone(&done);
        let database = &database;
        async move {
            let mut session = Session::open(database).await;
            while !done.load(Ordering::Relaxed) {
                if number < 2 {
                    outcomes(&mut session, &promised("direct", 3)).await;
                } else {
                    let held = session.claim("tx", 4).await;
                    session.texts(&settle("settle_rejected", &held, "null")).await;
                }
            }
        }
    };
    let making = async {
        let last = campaign(10, 30) - 1;
        for round in 0..=last {
            session
                .execute(
                    "select tidegate.quota_set(kind => 'direct', high_water => 1000); select tidegate.quota_reconcile(7)",
                )
                .await;
            if round < last {
                session.execute("select tidegate.quota_remove('kind direct')").await;
            }
        }
        done.store(true, Ordering::Relaxed);
    };
    tokio::join!(join_all((0..4).map(busy)), making);
    for _ in 0..3 {
        database.execute("select tidegate.quota_reconcile(100000)").await;
    }
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn maintenance_goes_through_a_deep_queue_at_once_after_a_quota_was_made() {
    let database = TestDatabase::deep().await;
    let mut session = Session::open(&database).await;
    session.execute("select tidegate.quota_set(kind => 'direct', high_water => 20000)").await;
    assert_eq!(counted(&mut session, "kind direct").await, "10000");
    // A call gives no duty more than half a second, and the next one goes on.
    while session.text("select is_new from tidegate.gate_round").await != "f" {
        session.execute("call tidegate.maintain()").await;
    }
    assert_eq!(counted(&mut session, "kind direct").await, server::DEEP.to_string());
    session.execute("select tidegate.gates_evaluate()").await;
    let closed = state(&mut session, "kind direct").await;
    assert!(closed.starts_with("too_many_requests 2000"), "{closed}");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn maintenance_opens_a_quota_that_counted_requests_in_no_queue() {
    let (_database, mut session) = stage(&[DIRECT]).await;
    outcomes(&mut session, &batch("direct", 6)).await;
    // Ended by a session that did not see the quota.
    session
        .execute(
            "update tidegate.request set req_status = 'failure' where kind = 'direct';
             insert into tidegate.quota_usage select 'kind direct', id from tidegate.request;
             update tidegate.gate set state = 'too_many_requests' where kind = 'direct'",
        )
        .await;
    assert_eq!(outcomes(&mut session, "submit('direct', '{}')").await, ["refused"]);
    session.execute("update tidegate.maintenance set ran_at = '-infinity'").await;
    session.execute("call tidegate.maintain()").await;
    assert_eq!(state(&mut session, "kind direct").await, "accepting 0 3");
    assert_eq!(outcomes(&mut session, "submit('direct', '{}')").await, ["accepted"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_quota_refuses_no_submission() {
    let (database, mut session) = stage(&[DIRECT, ANN]).await;
    outcomes(&mut session, &batch("direct", 6)).await;
    let mut other = Session::begin(&database).await;
    assert_eq!(
        outcomes(&mut other, "submit('direct', '{}', submitter => 'ann', admission => 'accepted')").await,
        ["accepted"]
    );
    let mut removing = Session::begin(&database).await;
    for (name, removed) in [("kind direct", "t"), ("kind direct", "f"), ("submitter ann", "t")] {
        let remove = format!("select tidegate.quota_remove('{name}', 'bob')");
        assert_eq!(removing.text(&remove).await, removed);
    }
    // No session waits for it.
    assert_eq!(outcomes(&mut session, &promised("direct", 1)).await, ["accepted"]);
    removing.commit().await;
    other.commit().await;
    assert_eq!(outcomes(&mut session, &batch("direct", 10)).await, ["accepted"; 10]);
    assert_eq!(
        session
            .texts("select distinct on_behalf_of, operation, subject from tidegate.config_history('kind direct') where operation = 'delete'")
            .await,
        ["bob delete gate kind direct"]
    );
    let (code, _) = session.attempt("select tidegate.quota_remove('tx')").await.unwrap_err();
    assert_eq!(code, "TG007");
    // What it counted goes with the next round; a new one of its name counts anew, and goes on in the history.
    let held = session.claim("tx", 2).await;
    session.texts(&settle("settle_rejected", &held, "null")).await;
    assert_eq!(session.text(&format!("select tidegate.quota_set({DIRECT})")).await, "t");
    assert_eq!(counted(&mut session, "kind direct").await, "16");
    assert_eq!(state(&mut session, "kind direct").await, "too_many_requests 16 3");
    assert_eq!(
        session
            .texts(
                "select signal, depth, cause, case actor when session_user then 'owner' else actor end, is_current
                 from tidegate.gate_history where gate = 'kind direct' order by epoch"
            )
            .await,
        [
            "TOO_MANY_REQUESTS 6 high mark owner f",
            "ACCEPTING_REQUESTS 6 removed bob f",
            "TOO_MANY_REQUESTS 16 high mark owner t"
        ]
    );
    session
        .execute("select tidegate.quota_remove('kind direct'); select tidegate.quota_reconcile(), tidegate.quota_reconcile()")
        .await;
    assert_eq!(database.number("select count(*) from tidegate.quota_usage").await, 0);
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_quota_of_a_kind_goes_with_the_kind() {
    let (database, mut session) = stage(&[]).await;
    session
        .execute(
            "insert into tidegate.kind (name, flow, tx_queue, processing_ms, tx_confirmation_ms) values ('mine', 'direct', 'tx', 1, 1);
             select tidegate.quota_set(kind => 'mine', high_water => 4);
             delete from tidegate.kind where name = 'mine'",
        )
        .await;
    assert_eq!(session.texts("select name from tidegate.gate order by name").await, ["readiness", "tx"]);
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_changes_as_far_as_it_is_named_and_invalid_values_are_refused_in_words() {
    let (database, mut session) = stage(&["kind => 'direct', high_water => 9"]).await;
    let shown = "select high_water || ' ' || low_water || ' ' || mode from tidegate.gate where name = 'kind direct'";
    for (change, changed, expected) in [
        ("high_water => 9", "f", "9 4 strict"),
        ("low_water => 2", "t", "9 2 strict"),
        ("mode => 'soft'", "t", "9 2 soft"),
        ("high_water => 20", "t", "20 2 soft"),
        ("high_water => 20, actor => 'ann'", "f", "20 2 soft"),
    ] {
        let set = format!("select tidegate.quota_set('direct', {change})");
        assert_eq!(session.text(&set).await, changed, "{change}");
        assert_eq!(session.text(shown).await, expected, "{change}");
    }
    for (call, code, words) in [
        ("high_water => 3", "TG007", "name one of them"),
        ("'direct', 'ann', 3", "TG007", "name one of them"),
        ("'nope', high_water => 3", "TG002", "no kind \"nope\""),
        ("submitter => 'ann'", "TG007", "high_water"),
        ("submitter => '', high_water => 3", "TG007", "1 to 200 characters"),
        ("submitter => repeat('x', 201), high_water => 3", "TG007", "1 to 200 characters"),
        ("'direct', high_water => 2", "TG007", "low water is below high water"),
        ("submitter => 'ann', high_water => 0", "TG007", "low water is below high water"),
        ("'direct', mode => 'hard'", "TG007", "mode is known"),
    ] {
        let (said, message) = session.attempt(&format!("select tidegate.quota_set({call})")).await.unwrap_err();
        assert_eq!(said, code, "{call}");
        assert!(message.contains(words), "{call}: {message}");
    }
    // It closes and opens with its marks.
    submit_many(&database, "direct", 5).await;
    session.execute("select tidegate.quota_set('direct', high_water => 5)").await;
    assert_eq!(state(&mut session, "kind direct").await, "too_many_requests 5 1");
    session
        .execute("select tidegate.config_set_many('{\"kind direct.high_water\": 50, \"kind direct.low_water\": 10}'); select tidegate.gates_evaluate()")
        .await;
    assert_eq!(state(&mut session, "kind direct").await, "accepting 5 2");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_concurrent_operators_make_one_quota() {
    let (database, _) = stage(&[]).await;
    let mut one = Session::begin(&database).await;
    let make = "select tidegate.quota_set(submitter => 'a.b \"c\"', high_water => 4)";
    assert_eq!(one.text(make).await, "t");
    let two =
        Session::open(&database).await.start("select tidegate.quota_set(submitter => 'a.b \"c\"', high_water => 8)");
    two.until_blocked_by(&database, &one).await;
    one.commit().await;
    assert_eq!(two.finish().await.1, ["t"]);
    assert_eq!(
        database.value("select name || high_water from tidegate.gate where queue is null").await,
        "submitter a.b \"c\"8"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_quota_that_is_full_closes_when_it_is_released() {
    let (database, mut session) = stage(&[]).await;
    session
        .execute(
            "select tidegate.quota_set(kind => 'direct', high_water => 4500);
             select tidegate.gate_force('kind direct', 'accepting')",
        )
        .await;
    submit_many(&database, "direct", 4600).await;
    session.execute("select tidegate.gate_force('kind direct', null)").await;
    let state = "select state || ' ' || depth from tidegate.gate_event order by id desc limit 1";
    assert_eq!(session.text(state).await, "too_many_requests 4501");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_is_forced_as_a_gate_is() {
    let (database, mut session) = stage(&[ANN]).await;
    session.execute("select tidegate.gate_force('submitter ann', 'too_many_requests')").await;
    for (submitter, outcome) in [("'ann'", "refused"), ("'bob'", "accepted"), ("null", "accepted")] {
        assert_eq!(
            outcomes(&mut session, &format!("submit('direct', '{{}}', submitter => {submitter})")).await,
            [outcome]
        );
    }
    session.execute("select tidegate.gate_force('submitter ann', null)").await;
    eventually("it is let go", || async {
        database.number("select count(*) from tidegate.gate where state = 'accepting' and name = 'submitter ann'").await
            == 1
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_that_is_removed_while_a_submission_waits_for_it_does_not_refuse_it() {
    let (database, mut session) = stage(&[DIRECT]).await;
    let submit = batch("direct", 1);
    let mut first = Session::begin(&database).await;
    assert_eq!(outcomes(&mut first, &submit).await, ["accepted"]);
    let second = Session::open(&database).await.start(&format!("select outcome from tidegate.{submit}"));
    second.until_blocked_by(&database, &first).await;
    assert_eq!(session.text("select tidegate.quota_remove('kind direct')").await, "t");
    first.commit().await;

    assert_eq!(second.finish().await.1, ["accepted"]);
}
