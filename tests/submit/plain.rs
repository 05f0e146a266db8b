//! Is a plain submission, which takes few statements, answered and recorded as any other?

use crate::support::{
    TestDatabase,
    race::{NOTHING, Said, Session, sound},
};

/// The request, its message and its history, but for what is its own: id, number, times.
const RECORDED: &str = "
    select (to_jsonb(r) - '{id,msg_id,submitted_at,processing_at,queued_at,deadline_at,readiness_deadline_at}'::text[])
      || jsonb_build_object(
        'deadline', r.deadline_at - r.submitted_at, 'processing', r.processing_at - r.submitted_at,
        'queued', r.queued_at - r.submitted_at,
        'message', (to_jsonb(m) - '{msg_id,message,enqueued_at,vt}'::text[]) || jsonb_build_object('waits', m.vt = '-infinity'),
        'events', (
          select jsonb_agg(to_jsonb(e) - '{request_id,at}'::text[] || jsonb_build_object('at', e.at - r.submitted_at))
          from tidegate.request_event as e where e.request_id = r.id
        )
      )
    from tidegate.request as r
    left join pgmq.q_tx as m on tidegate.message_request_id(m.message) = r.id
    order by r.id desc
    limit 1";

/// The stored keys, and whether each stands for the latest request.
const KEYS: &str = "
    select to_jsonb(d) - '{request_id,first_seen,expires_at}'::text[] || jsonb_build_object(
      'kept', d.expires_at - d.first_seen,
      'latest', d.request_id = (select r.id from tidegate.request as r order by r.id desc limit 1)
    )
    from tidegate.dedup as d
    order by d.scope, d.key";

/// A session in a database with one request that waits, and then this.
async fn after(setup: &str) -> (TestDatabase, Session) {
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;
    session.execute("update tidegate.setting set jitter = 0").await;
    session.texts("select * from tidegate.submit('direct', '{}')").await;
    session.execute(setup).await;
    (database, session)
}

/// What each way to submit one request says and leaves behind, with a key in SQL or `null`: `submit`, a group of one, a batch of one.
///
/// Each finds the database as the one before it did, because that one is rolled back.
async fn told(session: &mut Session, kind: &str, key: &str) -> [(Said, Vec<String>, Vec<String>); 3] {
    let mut told = Vec::new();
    for call in [
        "submit($k, '{\"n\": 1}', $key, 'me')",
        "submit_group($k, '{\"{\\\"n\\\": 1}\"}', array[$key], '{me}')",
        "submit_batch($k, '{\"{\\\"n\\\": 1}\"}', array[$key], 'me')",
    ] {
        session.execute("begin; savepoint before").await;
        // Of a replay a group tells no more.
        let said = session
            .attempt(&format!(
                "select s.outcome, s.req_status, s.queue, case when s.outcome <> 'replayed' then s.queue_position end,
                   case when s.outcome <> 'replayed' then s.retry_after_seconds end
                 from tidegate.{} as s",
                call.replace("$key", key).replace("$k", &format!("'{kind}'"))
            ))
            .await
            // It names a request.
            .map_err(|(code, message)| if code == "TG004" { (code, String::new()) } else { (code, message) });
        if said.is_err() {
            session.execute("rollback to before").await;
        }
        session.execute("set constraints all immediate").await;
        let stored = (session.texts(RECORDED).await, session.texts(KEYS).await);
        assert_eq!(session.violations().await, NOTHING);
        session.rollback().await;
        told.push((said, stored.0, stored.1));
    }
    told.try_into().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plain_submission_is_answered_and_recorded_as_any_other() {
    let rated = "update tidegate.queue set per_seconds = 3 where name = 'tx'";
    let far = "update tidegate.kind set processing_ms = 7000000";
    for (kind, setup) in [
        ("direct", ""),
        ("direct", rated),
        ("direct", far),
        ("input_proof", rated),
        // These are for the other path.
        ("user_decrypt", rated),
        ("direct", "update tidegate.gate set mode = 'soft'"),
        ("direct", "select tidegate.gate_force('tx', 'accepting', 'ann')"),
        ("direct", "select tidegate.gate_force('tx', 'too_many_requests', 'ann')"),
        ("direct", "select tidegate.pause('tx')"),
        ("direct", "update tidegate.queue set per_seconds = 0 where name = 'tx'"),
        ("direct", "update tidegate.kind set eta = 'observed'"),
        ("direct", "update tidegate.kind set processing_ms = null"),
        ("direct", "select tidegate.quota_set(submitter => 'me', high_water => 3)"),
        ("direct", "select tidegate.quota_set(kind => 'direct', high_water => 1)"),
        ("unknown", ""),
    ] {
        let (_database, mut session) = after(setup).await;
        for key in ["null", "'k'"] {
            let [alone, grouped, any] = told(&mut session, kind, key).await;
            assert_eq!(alone, any, "{kind} {key} {setup}");
            assert_eq!(grouped, any, "{kind} {key} {setup}, as a group");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_submission_with_a_key_is_answered_and_recorded_as_any_other() {
    let first = "select * from tidegate.submit('direct', '{\"n\": 1.0}', 'k', 'me')";
    let other = "select * from tidegate.submit('direct', '{\"n\": 2}', 'k', 'me')";
    let windowed = "update tidegate.policy set dedup_window = '2 hours' where kind = 'direct' and stage = 'tx'";
    let expired = "select tidegate_internal.settle_receipt(array[c.lease], responses => array['1'::jsonb])
                   from tidegate.claim_tx('tx', 'w', 1000, '1 minute') as c;
                   update tidegate.dedup set first_seen = now() - dedup_window, expires_at = now()";
    let cancelled = "select tidegate.cancel(request_id) from tidegate.dedup";
    let closed = "select tidegate.gate_force('tx', 'too_many_requests', 'ann')";
    let proxy = "update tidegate.kind set key_mode = 'proxy'";
    let bucketed = "update tidegate.kind set key_mode = 'proxy', key_bucket = '10 minutes'";
    let natural = "update tidegate.kind set key_mode = 'natural', key_paths = '{n}'";
    let lacking = "update tidegate.kind set key_mode = 'natural', key_paths = '{m}'";
    let required = "update tidegate.kind set key_mode = 'required'";
    let sets = "update tidegate.kind set set_paths = '{n}'";
    let made = "select * from tidegate.submit('direct', '{\"n\": 1}', null, 'me')";
    let shared = "update tidegate.kind set key_scope = 'kind'";
    let yours = "select * from tidegate.submit('direct', '{\"n\": 1}', 'k', 'you')";
    let yours_made = "select * from tidegate.submit('direct', '{\"n\": 1}', null, 'you')";
    let decided = "select * from tidegate.submit('direct', '{\"n\": 2}', 'k', 'me', same_key => 'replay')";
    for (key, expected, setup) in [
        ("'k'", "accepted", vec![]),
        ("'k'", "accepted", vec![windowed]),
        ("'k'", "accepted", vec![sets]),
        ("'k'", "replayed", vec![first]),
        ("'k'", "replayed", vec![first, closed]),
        ("'k'", "refused", vec![closed]),
        ("'k'", "TG004", vec![other]),
        ("'k'", "accepted", vec![other, expired]),
        ("'k'", "accepted", vec![first, cancelled]),
        ("'K'", "accepted", vec![other]),
        ("repeat('é', 255)", "accepted", vec![]),
        ("repeat('k', 256)", "TG007", vec![]),
        ("''", "TG007", vec![]),
        ("null", "accepted", vec![proxy]),
        ("null", "replayed", vec![proxy, made]),
        ("null", "accepted", vec![bucketed]),
        ("null", "replayed", vec![bucketed, made]),
        ("null", "replayed", vec![natural, made]),
        ("null", "TG007", vec![lacking]),
        ("null", "TG012", vec![required]),
        ("'k'", "accepted", vec![required]),
        ("'k'", "replayed", vec![required, first]),
        ("'k'", "accepted", vec![lacking]),
        ("'k'", "accepted", vec![proxy, made]),
        ("'k'", "replayed", vec![proxy, first]),
        ("'k'", "accepted", vec![yours]),
        ("'k'", "accepted", vec![shared]),
        ("'k'", "replayed", vec![shared, yours]),
        ("'k'", "accepted", vec![yours, shared]),
        ("null", "replayed", vec![shared, proxy, yours_made]),
        ("'k'", "replayed", vec![decided]),
    ] {
        let setup = setup.join("; ");
        let (_database, mut session) = after(&setup).await;
        let [alone, grouped, any] = told(&mut session, "direct", key).await;
        let outcome = match &alone.0 {
            Ok(rows) => &rows[0],
            Err((code, _)) => code,
        };
        assert!(outcome.contains(expected), "{key} {setup}: {outcome}");
        assert_eq!(alone, any, "{key} {setup}");
        assert_eq!(grouped, any, "{key} {setup}, as a group");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_whose_number_was_drawn_in_vain_or_rolled_back_is_free() {
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;
    let submit = "select outcome from tidegate.submit('direct', '{}', 'k')";
    let keys = "select count(*) from tidegate.dedup";
    session.execute("begin").await;
    assert_eq!(session.texts(submit).await, ["accepted"]);
    session.rollback().await;
    session.execute("begin; savepoint s").await;
    assert_eq!(session.texts(submit).await, ["accepted"]);
    session.execute("rollback to s").await;
    assert_eq!(session.texts(submit).await, ["accepted"]);
    assert_eq!(session.texts(submit).await, ["replayed"]);
    session.rollback().await;
    assert_eq!(database.number(keys).await, 0);

    // The gate is full, but does not say so.
    database.execute("update tidegate.gate set high_water = 1, low_water = 0").await;
    session.texts("select * from tidegate.submit('direct', '{}')").await;
    database.execute("update tidegate.gate set state = 'accepting'").await;
    assert_eq!(session.texts(submit).await, ["refused"]);
    assert_eq!(database.number(keys).await, 0);
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_key_waits_for_another_transaction_as_long_as_its_patience() {
    let database = TestDatabase::unlimited().await;
    let mut first = Session::begin(&database).await;
    let submit = "select outcome from tidegate.submit('direct', '{}', 'k')";
    assert_eq!(first.texts(submit).await, ["accepted"]);
    let mut second = Session::open(&database).await;
    let patient = "select outcome from tidegate.submit_group(
        'direct', '{\"{}\"}', idempotency_keys => '{k}', key_patience_ms => 1)";
    assert_eq!(second.attempt(patient).await.unwrap_err().0, "55P03");
    first.rollback().await;
    second.execute("set lock_timeout = '7s'; begin").await;
    assert_eq!(second.texts(patient).await, ["accepted"]);
    assert_eq!(second.texts("show lock_timeout").await, ["7s"]);
    second.commit().await;
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plain_submission_that_finds_no_room_leaves_nothing_behind() {
    let database = TestDatabase::unlimited().await;
    database.execute("update tidegate.gate set high_water = 2, low_water = 1").await;
    let mut session = Session::open(&database).await;
    let submit = "select outcome from tidegate.submit('direct', '{}')";
    let mut outcomes = Vec::new();
    for _ in 0..4 {
        outcomes.extend(session.texts(submit).await);
    }
    assert_eq!(outcomes, ["accepted", "accepted", "refused", "refused"]);
    assert_eq!(database.number("select count(*) from tidegate.request").await, 2);
    let state = "select state from tidegate.gate where name = 'tx'";
    assert_eq!(database.text(state).await.unwrap(), "too_many_requests");
    // In one transaction with others, and back.
    session.execute("begin; savepoint s").await;
    session.texts("select tidegate.gate_force('tx', 'accepting', 'ann')").await;
    assert_eq!(session.texts(submit).await, ["accepted"]);
    session.execute("rollback to s").await;
    assert_eq!(session.texts(submit).await, ["refused"]);
    session.commit().await;
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn draws_under_keys_in_one_open_transaction_all_take_room() {
    let database = TestDatabase::unlimited().await;
    database.execute("update tidegate.gate set high_water = 4, low_water = 1").await;
    let mut open = Session::begin(&database).await;
    for key in ["a", "b", "c"] {
        let submit = format!("select outcome from tidegate.submit('direct', '{{}}', '{key}')");
        assert_eq!(open.texts(&submit).await, ["accepted"]);
    }
    let mut session = Session::open(&database).await;
    let submit = "select outcome from tidegate.submit('direct', '{}')";
    assert_eq!(session.texts(submit).await, ["accepted"]);
    // The dead are counted anew, and those three are none.
    assert_eq!(session.texts(submit).await, ["refused"]);
    open.commit().await;
    sound(&database).await;
}
