//! Are batches and groups accepted as far as there is room, and does a refusal name the gate?

use super::{STATE, batch, hold, outcomes, serve, stage};
use crate::support::race::{Session, sound};

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_goes_in_whole_or_not_at_all() {
    let database = stage().await;
    let mut session = Session::open(&database).await;
    // 40 never fit.
    let (code, message) =
        session.attempt(&format!("select * from tidegate.{}", batch("direct", 40))).await.unwrap_err();
    assert_eq!(code, "TG011");
    assert!(message.contains("40") && message.contains("30"), "{message}");

    assert_eq!(outcomes(&mut session, &batch("direct", 15)).await, ["accepted"; 15]);
    assert_eq!(outcomes(&mut session, &batch("direct", 20)).await, ["refused"; 20]);
    // Nothing closed: there is room for others.
    assert_eq!(session.text(STATE).await, "accepting 0 0");
    assert_eq!(outcomes(&mut session, &batch("direct", 15)).await, ["accepted"; 15]);
    assert_eq!(session.text(STATE).await, "too_many_requests 30 1");
    let (code, _) = session.attempt(&format!("select * from tidegate.{}", batch("direct", 31))).await.unwrap_err();
    assert_eq!(code, "TG011");
    assert_eq!(database.number("select count(*) from tidegate.request").await, 30);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_is_let_in_as_far_as_there_is_room() {
    let database = stage().await;
    let mut session = Session::open(&database).await;
    outcomes(&mut session, &batch("direct", 27)).await;
    outcomes(&mut session, "submit('direct', '1', 'one')").await;
    let group = "submit_group('direct', '{5,1,2,2,3,4}', array[null, 'one', 'two', 'two', null, 'four'])";
    let replayed = "replayed";
    // Room for two: the first, and the second's two submissions of one key, which are one request.
    assert_eq!(outcomes(&mut session, group).await, ["accepted", replayed, "accepted", replayed, "refused", "refused"]);
    assert_eq!(session.text(STATE).await, "too_many_requests 30 1");
    assert_eq!(outcomes(&mut session, group).await, ["refused", replayed, replayed, replayed, "refused", "refused"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_has_waited_for_a_key_takes_the_room_that_there_is_then() {
    let database = stage().await;
    let mut holder = Session::begin(&database).await;
    // A submission of another caller under one of the keys, past its gate.
    holder
        .execute(
            "insert into tidegate.dedup (scope, key, fingerprint, request_id, first_seen, dedup_window, expires_at)
             values ('direct:', 'one', tidegate_internal.fingerprint('1', '{}'), gen_random_uuid(), now(), '1 hour', now() + interval '1 hour')",
        )
        .await;
    let mut session = Session::open(&database).await;
    outcomes(&mut session, &batch("direct", 27)).await;

    let group = Session::open(&database)
        .await
        .start("select outcome from tidegate.submit_group('direct', '{1,2,3,4,5}', '{one,two,three,four,five}')");
    group.until_blocked_by(&database, &holder).await;
    serve(&mut session, 4).await;
    holder.rollback().await;

    let (_, told) = group.finish().await;
    assert_eq!(told, ["accepted", "accepted", "accepted", "accepted", "accepted"]);
    assert_eq!(
        session.text("select g.state || ' ' || g.epoch from tidegate.gate as g where g.name = 'tx'").await,
        "accepting 0"
    );
    outcomes(&mut session, &batch("direct", 2)).await;
    assert_eq!(session.text(STATE).await, "too_many_requests 30 1");
}

#[tokio::test(flavor = "multi_thread")]
async fn submissions_that_a_group_leaves_no_room_for_name_the_gate_that_it_closes() {
    let database = stage().await;
    let mut session = Session::open(&database).await;
    session.execute("update tidegate.queue set per_seconds = 1 where name = 'tx'").await;
    outcomes(&mut session, &batch("direct", 28)).await;
    // At 30 it closes, and opens at 15: 15 s, with a margin of 0.2.
    assert_eq!(
        session
            .texts(
                "select outcome || case when outcome = 'refused' then ' ' || retry_after_seconds else '' end
                    from tidegate.submit_group('direct', '{1,2,3,4}')"
            )
            .await,
        ["accepted", "accepted", "refused 18", "refused 18"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_is_let_in_in_part_closes_the_gate_even_if_workers_drain_meanwhile() {
    let database = stage().await;
    let mut session = Session::open(&database).await;
    outcomes(&mut session, &batch("direct", 28)).await;
    let takes = "tidegate.kind, text, tidegate.request_status, integer";
    let holder = hold(&database, "eta_inputs", takes, "tidegate.eta_terms").await;
    let group = Session::open(&database)
        .await
        .start("select outcome from tidegate.submit_group('direct', array_fill('{}'::jsonb, array[5]))");
    group.until_blocked_by(&database, &holder).await;
    serve(&mut session, 1).await;
    holder.close().await;
    assert_eq!(group.finish().await.1, ["accepted", "accepted", "refused", "refused", "refused"]);
    assert_eq!(session.text(STATE).await, "too_many_requests 30 1");
    sound(&database).await;
}
