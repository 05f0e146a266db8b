//! Is a plain submission, which takes few statements, answered and recorded as any other?

use crate::support::{
    TestDatabase,
    race::{Session, sound},
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
    order by r.msg_id desc
    limit 1";

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
        (
            "direct",
            "select tidegate.gate_force('tx', 'accepting', 'ann')",
        ),
        (
            "direct",
            "select tidegate.gate_force('tx', 'too_many_requests', 'ann')",
        ),
        ("direct", "select tidegate.pause('tx')"),
        (
            "direct",
            "update tidegate.queue set per_seconds = 0 where name = 'tx'",
        ),
        ("direct", "update tidegate.kind set eta = 'observed'"),
        ("direct", "update tidegate.kind set processing_ms = null"),
        (
            "direct",
            "select tidegate.cap_set(submitter => 'me', high_water => 3)",
        ),
        (
            "direct",
            "select tidegate.cap_set(kind => 'direct', high_water => 1)",
        ),
        ("unknown", ""),
    ] {
        let mut told = Vec::new();
        for call in [
            "submit('$k', '{\"n\": 1}', submitter => 'me')",
            "submit_group('$k', '{\"{\\\"n\\\": 1}\"}', submitters => '{me}')",
            "submit_batch('$k', '{\"{\\\"n\\\": 1}\"}', submitter => 'me')",
        ] {
            let database = TestDatabase::unlimited().await;
            let mut session = Session::open(&database).await;
            session
                .execute("update tidegate.setting set jitter = 0")
                .await;
            // Behind one that waits.
            session
                .texts("select * from tidegate.submit('direct', '{}')")
                .await;
            session.execute(setup).await;
            let said = session
                .attempt(&format!(
                    "select s.outcome, s.req_status, s.queue, s.queue_position, s.retry_after_seconds from tidegate.{} as s",
                    call.replace("$k", kind)
                ))
                .await;
            told.push((said, session.texts(RECORDED).await));
            sound(&database).await;
        }
        assert_eq!(told[0], told[2], "{kind} {setup}");
        assert_eq!(told[1], told[2], "{kind} {setup}, as a group");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plain_submission_that_finds_no_room_leaves_nothing_behind() {
    let database = TestDatabase::unlimited().await;
    database
        .execute("update tidegate.gate set high_water = 2, low_water = 1")
        .await;
    let mut session = Session::open(&database).await;
    let submit = "select outcome from tidegate.submit('direct', '{}')";
    let mut outcomes = Vec::new();
    for _ in 0..4 {
        outcomes.extend(session.texts(submit).await);
    }
    assert_eq!(outcomes, ["accepted", "accepted", "refused", "refused"]);
    assert_eq!(
        database
            .number("select count(*) from tidegate.request")
            .await,
        2
    );
    let state = "select state from tidegate.gate where name = 'tx'";
    assert_eq!(database.text(state).await.unwrap(), "too_many_requests");
    // In one transaction with others, and back.
    session.execute("begin; savepoint s").await;
    session
        .texts("select tidegate.gate_force('tx', 'accepting', 'ann')")
        .await;
    assert_eq!(session.texts(submit).await, ["accepted"]);
    session.execute("rollback to s").await;
    assert_eq!(session.texts(submit).await, ["refused"]);
    session.commit().await;
    sound(&database).await;
}
