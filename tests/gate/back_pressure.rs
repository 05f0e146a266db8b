//! Do gates close and open by themselves, at their marks only, once each, however many come and go at once?

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use sqlx::postgres::PgListener;

use crate::support::{
    TestDatabase, campaign, eventually,
    race::{DEPTH, NOTHING, Session, expire_leases, leases, sound, submit_many},
    rest,
};

/// The marks of the seed, on both queues, and refusals as computed, without jitter.
async fn stage() -> TestDatabase {
    let database = TestDatabase::unlimited().await;
    database
        .execute(
            "update tidegate.gate set high_water = 30, low_water = 15;
             update tidegate.setting set jitter = 0",
        )
        .await;
    database
}

const STATE: &str = "select g.state || ' ' || g.depth || ' ' || g.epoch from tidegate.gate as g where g.name = 'tx'";

/// Of fewer openings, the share at the low-water mark is chance.
const OPENINGS_MIN: usize = 20;

const HISTORY: &str =
    "select h.signal || ' ' || h.depth from tidegate.gate_history as h where h.gate = 'tx' order by h.epoch";

async fn outcomes(session: &mut Session, call: &str) -> Vec<String> {
    session.texts(&format!("select outcome from tidegate.{call}")).await
}

/// Serves so many requests, one by one.
async fn serve(session: &mut Session, count: usize) {
    for _ in 0..count {
        let held = session.claim("tx", 1).await;
        settle(session, &held).await;
    }
}

async fn settle(session: &mut Session, held: &[crate::support::race::Held]) {
    session.texts(&format!("select id from tidegate_internal.settle_rejected({}, null)", leases(held))).await;
}

fn batch(kind: &str, count: usize) -> String {
    format!("submit_batch('{kind}', array_fill('{{}}'::jsonb, array[{count}]))")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_ends_requests_counts_those_that_it_takes() {
    let database = stage().await;
    let mut session = Session::open(&database).await;
    outcomes(&mut session, &batch("direct", 30)).await;
    let late = "update tidegate.request set deadline_at = clock_timestamp() - interval '1 s'
                where id in (select id from tidegate.request order by id limit ";
    session.execute(&format!("{late} 1)")).await;

    assert_eq!(session.claim("tx", 30).await.len(), 29);
    assert_eq!(session.text(STATE).await, "too_many_requests 30 1");

    // Of the ended leases a claim takes five, ends nineteen, and releases five.
    session.execute(&format!("{late} 20)")).await;
    expire_leases(&database, "tx").await;
    assert_eq!(session.claim("tx", 5).await.len(), 5);
    assert_eq!(session.text(STATE).await, "accepting 10 2");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recovery_that_ends_requests_under_a_lease_opens_the_gate() {
    let database = stage().await;
    database.execute("update tidegate.policy set semantics = 'at_most_once' where kind = 'direct'").await;
    let mut session = Session::open(&database).await;
    outcomes(&mut session, &batch("direct", 30)).await;
    assert_eq!(session.claim("tx", 20).await.len(), 20);
    expire_leases(&database, "tx").await;

    session.texts("select ended from tidegate.recover()").await;

    assert_eq!(session.text(STATE).await, "accepting 10 2");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gate_closes_at_the_high_mark_and_opens_at_the_low_one() {
    let database = stage().await;
    let mut session = Session::open(&database).await;
    for _ in 0..30 {
        assert_eq!(outcomes(&mut session, "submit('direct', '{}')").await, ["accepted"]);
    }
    assert_eq!(session.text(STATE).await, "too_many_requests 30 1");
    for served in [0, 1, 13] {
        serve(&mut session, served).await;
        assert_eq!(outcomes(&mut session, "submit('direct', '{}')").await, ["refused"]);
    }

    serve(&mut session, 1).await;
    assert_eq!(session.text(STATE).await, "accepting 15 2");
    for _ in 0..15 {
        assert_eq!(outcomes(&mut session, "submit('direct', '{}')").await, ["accepted"]);
    }
    assert_eq!(session.text(STATE).await, "too_many_requests 30 3");
    sound(&database).await;
}

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
async fn a_batch_is_told_when_there_is_room_for_all_of_it() {
    let database = stage().await;
    let mut session = Session::open(&database).await;
    session.execute("update tidegate.queue set per_seconds = 1 where name = 'tx'").await;
    outcomes(&mut session, &batch("direct", 20)).await;
    let told = |count: usize| format!("select distinct retry_after_seconds from tidegate.{}", batch("direct", count));
    // 20 + 15 - 30 have to go, with a margin of 0.2.
    for (count, seconds) in [(15, "6"), (11, "2"), (30, "24")] {
        assert_eq!(session.text(&told(count)).await, seconds, "{count}");
    }
    outcomes(&mut session, &batch("direct", 10)).await;
    // Closed at 30: to 15, or as far as the batch needs.
    for (count, seconds) in [(1, "18"), (15, "18"), (20, "24")] {
        assert_eq!(session.text(&told(count)).await, seconds, "{count}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_after_waits_for_snoozed_messages() {
    let database = stage().await;
    let began = Instant::now();
    let mut session = Session::open(&database).await;
    outcomes(&mut session, &batch("direct", 12)).await;
    for minutes in 1..=18 {
        outcomes(
            &mut session,
            &format!("submit('direct', '{{}}', not_before => clock_timestamp() + interval '{minutes} minutes')"),
        )
        .await;
    }
    session.execute("update tidegate.setting set max_seconds = 1000").await;
    // 15 have to go; 12 can now, and the third delayed one in three minutes.
    let told = "select retry_after_seconds from tidegate.submit('direct', '{}')";
    let copied = "select still_wait from tidegate.gate_copy() where name = 'tx'";
    for told in [told, copied] {
        // The minutes pass from the submission on.
        let seconds: u64 = session.text(told).await.parse().unwrap();
        let passed = began.elapsed().as_secs() + 1;
        assert!((180 - passed..=180).contains(&seconds), "{told}: {seconds}");
    }
    session.execute("update tidegate.setting set max_seconds = 100").await;
    assert_eq!(session.text(told).await, "100");
    session
        .execute("update pgmq.q_tx set vt = '-infinity' where vt < clock_timestamp() + interval '210 seconds'")
        .await;
    assert_eq!(session.text(told).await, "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_that_has_been_closed_for_a_while_tells_how_fast_it_is_served() {
    let database = stage().await;
    let mut session = Session::open(&database).await;
    session
        .execute("update tidegate.queue set per_seconds = 10 where name = 'tx'; select setval('tidegate.pacing_tx', 1)")
        .await;
    outcomes(&mut session, &batch("direct", 30)).await;
    let told = "select retry_after_seconds from tidegate.submit('direct', '{}')";
    // 15 at 10 per second, with a margin of 0.2.
    assert_eq!(session.text(told).await, "2");
    // In ten seconds 4 have gone, so 11 take 22 s at 0.5 per second: 4, and one that may be about to go.
    session
        .execute(
            "update tidegate.gate set changed_at = clock_timestamp() - interval '10 seconds' where name = 'tx';
             delete from pgmq.q_tx where msg_id in (select msg_id from pgmq.q_tx limit 4)",
        )
        .await;
    assert_eq!(session.text(told).await, "27");
    // As fast as the limit, give or take the margin: the limit it is.
    session.execute("update tidegate.queue set per_seconds = 0.55 where name = 'tx'").await;
    assert_eq!(session.text(told).await, "24");
}

#[tokio::test(flavor = "multi_thread")]
async fn replays_pass_and_take_no_room() {
    let database = stage().await;
    let mut session = Session::open(&database).await;
    let keyed = |from: i32, to: i32| {
        format!(
            "submit_batch('direct', array_fill('{{}}'::jsonb, array[{}]),
               array(select 'key ' || n from generate_series({from}, {to}) as n))",
            to - from + 1
        )
    };
    outcomes(&mut session, &keyed(1, 20)).await;
    // Ten new ones of thirty fit exactly; eleven do not.
    assert_eq!(outcomes(&mut session, &keyed(1, 31)).await, ["refused"; 31]);
    let outcomes_of = outcomes(&mut session, &keyed(1, 30)).await;
    assert_eq!(outcomes_of[..20], ["replayed"; 20]);
    assert_eq!(outcomes_of[20..], ["accepted"; 10]);
    assert_eq!(session.text(STATE).await, "too_many_requests 30 1");
    assert_eq!(outcomes(&mut session, &keyed(1, 30)).await, ["replayed"; 30]);
    assert_eq!(outcomes(&mut session, &keyed(2, 31)).await, ["refused"; 30]);
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
async fn promised_work_goes_in_and_closes_the_gate() {
    let database = stage().await;
    let mut session = Session::open(&database).await;
    let promised = "submit_batch('direct', array_fill('{}'::jsonb, array[20]), admission => 'accepted')";
    for _ in 0..2 {
        assert_eq!(outcomes(&mut session, promised).await, ["accepted"; 20]);
    }
    assert_eq!(session.text(STATE).await, "too_many_requests 40 1");
    assert_eq!(outcomes(&mut session, promised).await, ["accepted"; 20]);
    assert_eq!(outcomes(&mut session, "submit('direct', '{}')").await, ["refused"]);
    // It does not wait for the lock of a submission that does not commit.
    serve(&mut session, 45).await;
    let mut other = Session::begin(&database).await;
    assert_eq!(outcomes(&mut other, "submit('direct', '{}')").await, ["accepted"]);
    assert_eq!(outcomes(&mut session, "submit('direct', '{}', admission => 'accepted')").await, ["accepted"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decrypt_enters_by_its_first_queue_and_closes_the_second_by_passing() {
    let database = stage().await;
    let mut session = Session::open(&database).await;
    assert_eq!(outcomes(&mut session, &batch("direct", 29)).await, ["accepted"; 29]);
    assert_eq!(outcomes(&mut session, &batch("public_decrypt", 29)).await, ["accepted"; 29]);
    let held = session.claim("readiness", 5).await;
    session.texts(&format!("select id from tidegate_internal.settle_passed({})", leases(&held))).await;
    // Admission `accepted` is never refused, so beyond the mark.
    assert_eq!(session.text(STATE).await, "too_many_requests 34 1");
    for kind in ["public_decrypt", "direct"] {
        assert_eq!(outcomes(&mut session, &format!("submit('{kind}', '{{}}')")).await, ["refused"], "{kind}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn removing_messages_opens_the_gate() {
    let database = stage().await;
    let mut session = Session::open(&database).await;
    for remove in [
        "select tidegate.cancel(r.id) from tidegate.request as r where r.queue = 'tx' limit 15",
        "select tidegate.fail_tx(array(select r.id from tidegate.request as r where r.queue = 'tx' limit 15))",
        "update tidegate.request set deadline_at = clock_timestamp() where id in (select id from tidegate.request where queue = 'tx' limit 15);
         select tidegate.expire_by_deadline()",
        "delete from pgmq.q_tx where msg_id in (select msg_id from pgmq.q_tx limit 15); select tidegate.gates_evaluate()",
        "update tidegate.gate set low_water = 30, high_water = 40; select tidegate.gates_evaluate()",
    ] {
        while session.text(STATE).await.starts_with("accepting") {
            outcomes(&mut session, "submit('direct', '{}')").await;
        }
        session.execute(remove).await;
        assert!(session.text(STATE).await.starts_with("accepting"), "{remove}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_that_is_held_by_hand_stays_until_it_is_released() {
    let database = stage().await;
    let mut session = Session::open(&database).await;
    session.execute("select tidegate.gate_force('tx', 'accepting', 'ann')").await;
    assert_eq!(outcomes(&mut session, &batch("direct", 100)).await, ["accepted"; 100]);
    session.execute("select tidegate.gates_evaluate()").await;
    assert_eq!(session.text(STATE).await, "accepting 0 1");
    // Above the mark it closes as it is let go.
    session.execute("select tidegate.gate_force('tx', null)").await;
    assert_eq!(session.text(STATE).await, "too_many_requests 100 2");
    session.execute("select tidegate.gate_force('tx', 'too_many_requests')").await;
    serve(&mut session, 100).await;
    session.execute("select tidegate.gates_evaluate()").await;
    assert_eq!(session.text(STATE).await, "too_many_requests 100 3");
    session.execute("select tidegate.gate_force('tx', null)").await;
    assert_eq!(session.text(STATE).await, "accepting 0 4");
    assert_eq!(
        session
            .texts("select cause || ' ' || depth || ' ' || (actor = 'ann') || ' ' || is_current from tidegate.gate_history order by epoch")
            .await,
        [
            "forced open 0 true false",
            "released 100 false false",
            "forced closed 100 false false",
            "released 0 false true"
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn strict_admission_needs_a_snapshot_of_now() {
    let database = stage().await;
    let mut session = Session::open(&database).await;
    for level in ["repeatable read", "serializable"] {
        session.execute(&format!("begin isolation level {level}")).await;
        let (code, message) = session.attempt("select * from tidegate.submit('direct', '{}')").await.unwrap_err();
        assert_eq!(code, "TG007");
        assert!(message.contains("READ COMMITTED"), "{message}");
        session.rollback().await;
        session.execute(&format!("begin isolation level {level}")).await;
        assert_eq!(outcomes(&mut session, "submit('direct', '{}', admission => 'accepted')").await, ["accepted"]);
        session.commit().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn open_submissions_take_room_and_keep_nothing_waiting() {
    let database = stage().await;
    let mut open = Session::begin(&database).await;
    outcomes(&mut open, "submit('direct', '{}')").await;
    outcomes(&mut open, &batch("direct", 9)).await;
    let mut other = Session::open(&database).await;
    other.execute("set lock_timeout = '2s'").await;
    for _ in 0..20 {
        assert_eq!(outcomes(&mut other, "submit('direct', '{}')").await, ["accepted"]);
    }
    // What is open may still be taken back: the gate stays as it is, and the wait is the shortest.
    assert_eq!(
        other.texts("select outcome, retry_after_seconds from tidegate.submit('direct', '{}')").await,
        ["refused 1"]
    );
    assert_eq!(other.text(STATE).await, "accepting 0 0");

    open.rollback().await;
    assert_eq!(outcomes(&mut other, &batch("direct", 10)).await, ["accepted"; 10]);
    assert_eq!(other.text(STATE).await, "too_many_requests 30 1");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closing_that_commits_late_opens_again_at_the_depth_of_then() {
    let database = stage().await;
    let mut filling = Session::begin(&database).await;
    let mut worker = Session::open(&database).await;
    outcomes(&mut worker, &batch("direct", 29)).await;
    assert_eq!(outcomes(&mut filling, "submit('direct', '{}')").await, ["accepted"]);
    serve(&mut worker, 24).await;
    filling.commit().await;
    assert_eq!(worker.text(STATE).await, "too_many_requests 30 1");
    serve(&mut worker, 1).await;
    assert_eq!(worker.text(STATE).await, "accepting 5 2");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_given_back_whose_claim_was_deleted_by_hand_takes_its_room_again() {
    for back in ["tidegate_internal.settle_released(LEASES)", "tidegate_internal.settle_retry(LEASES, null, null)"] {
        let database = stage().await;
        let mut session = Session::open(&database).await;
        assert_eq!(outcomes(&mut session, "submit('direct', '{}')").await, ["accepted"]);
        let held = session.claim("tx", 1).await;
        database.execute("delete from tidegate.claim").await;
        // The gate knows its number as dead from here on.
        session.execute("select tidegate_internal.refresh_offset('tx', true)").await;
        assert_eq!(outcomes(&mut session, &batch("direct", 29)).await, ["accepted"; 29]);
        let back = back.replace("LEASES", &leases(&held));
        assert_eq!(session.texts(&format!("select id from {back}")).await.len(), 1);
        assert_eq!(session.text(DEPTH).await, "30", "{back}");
        assert_eq!(outcomes(&mut session, "submit('direct', '{}')").await, ["refused"]);
        sound(&database).await;
    }
}

/// Makes an internal function wait, before it does its work, for a lock that the session holds.
async fn hold(database: &TestDatabase, function: &str, takes: &str, returns: &str) -> Session {
    let passed: Vec<_> = (1..=takes.split(',').count()).map(|number| format!("${number}")).collect();
    database
        .execute(&format!(
            "alter function tidegate_internal.{function} rename to held;
             create function tidegate_internal.{function}({takes}) returns {returns} language plpgsql as $$
             begin
               perform pg_advisory_xact_lock_shared(1);
               return tidegate_internal.held({});
             end $$",
            passed.join(", ")
        ))
        .await;
    let mut session = Session::begin(database).await;
    session.execute("select pg_advisory_xact_lock(1)").await;
    session
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_closes_the_gate_even_if_workers_drain_meanwhile() {
    let database = stage().await;
    // Neither sees the other's messages, so neither closes the gate.
    let mut first = Session::begin(&database).await;
    let mut second = Session::begin(&database).await;
    outcomes(&mut first, &batch("direct", 15)).await;
    outcomes(&mut second, &batch("direct", 15)).await;
    first.commit().await;
    second.commit().await;
    assert_eq!(first.text(STATE).await, "accepting 0 0");

    let waits = "tidegate.kind, text, bigint";
    let holder = hold(&database, "gate_wait", waits, "integer").await;
    let refused = second.start("select outcome from tidegate.submit('direct', '{}')");
    refused.until_blocked_by(&database, &holder).await;
    serve(&mut first, 1).await;
    holder.close().await;
    assert_eq!(refused.finish().await.1, ["refused"]);
    assert_eq!(first.text(STATE).await, "too_many_requests 30 1");
    sound(&database).await;
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

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_whose_lock_is_kept_for_too_long_is_named_and_costs_others_five_seconds() {
    let database = stage().await;
    with_quota(&database).await;
    let mut holder = Session::begin(&database).await;
    outcomes(&mut holder, "submit('direct', '{}')").await;
    let mut other = Session::open(&database).await;
    other.execute("set lock_timeout = '100ms'").await;
    let (code, message) = other.attempt("select * from tidegate.submit('direct', '{}')").await.unwrap_err();
    assert_eq!(code, "55P03");
    assert!(message.contains("gate \"kind direct\" is busy"), "{message}");
    assert_eq!(other.text("show lock_timeout").await, "100ms");
    holder.rollback().await;
    // On a busy machine any lock may take longer than that.
    other.execute("reset lock_timeout").await;
    assert_eq!(outcomes(&mut other, "submit('direct', '{}')").await, ["accepted"]);
}

/// With a quota that never limits: but its submissions come one after the other.
async fn with_quota(database: &TestDatabase) {
    database.execute("select tidegate.quota_set(kind => 'direct', high_water => 1000)").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replays_pass_no_gate() {
    let database = stage().await;
    let mut session = Session::open(&database).await;
    let keyed = "submit('direct', '{}', 'k')";
    outcomes(&mut session, keyed).await;
    // At another isolation level.
    session.execute("begin isolation level repeatable read").await;
    assert_eq!(outcomes(&mut session, keyed).await, ["replayed"]);
    session.commit().await;
    // While a quota's lock is kept.
    with_quota(&database).await;
    let mut holder = Session::begin(&database).await;
    outcomes(&mut holder, "submit('direct', '{}')").await;
    session.execute("set lock_timeout = '1s'").await;
    assert_eq!(outcomes(&mut session, keyed).await, ["replayed"]);
    assert_eq!(session.attempt("select * from tidegate.submit('direct', '{}', 'l')").await.unwrap_err().0, "55P03");
    holder.rollback().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_read_the_gates_before_anything_is_set_up() {
    let database = TestDatabase::uninitialised().await;
    assert_eq!(database.store.gate_copy().await.unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_queue_keeps_no_other_gate_closed() {
    let database = stage().await;
    let mut session = Session::open(&database).await;
    outcomes(&mut session, &batch("direct", 30)).await;
    session
        .execute("select pgmq.drop_queue('readiness'); delete from pgmq.q_tx; select tidegate.gates_evaluate()")
        .await;
    assert_eq!(session.text(STATE).await, "accepting 0 2");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_settle_that_fills_a_closed_queue_delays_no_submission() {
    let database = stage().await;
    let mut session = Session::open(&database).await;
    outcomes(&mut session, &batch("public_decrypt", 2)).await;
    outcomes(&mut session, &batch("direct", 30)).await;
    let held = session.claim("readiness", 1).await;
    session.execute("begin").await;
    session.texts(&format!("select id from tidegate_internal.settle_passed({})", leases(&held))).await;
    assert_eq!(
        session
            .text("select count(*) from pg_locks where locktype = 'advisory' and mode = 'ExclusiveLock' and pid = pg_backend_pid()")
            .await,
        "0"
    );
    session.commit().await;
}

/// The notifications on the gates' channel, and whether there are no more.
async fn heard(listener: &mut PgListener, database: &TestDatabase) -> Vec<String> {
    database.execute("select pg_notify('tidegate_gate', 'over')").await;
    let mut heard = Vec::new();
    loop {
        let said = listener.recv().await.unwrap().payload().to_owned();
        if said == "over" {
            return heard;
        }
        let said: serde_json::Value = serde_json::from_str(&said).unwrap();
        assert_eq!(said["queue"], "tx", "{said}");
        heard.push(format!("{} {}", said["signal"].as_str().unwrap(), said["depth"]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_at_once_never_pass_the_mark_and_every_flip_is_told_once() {
    let database = stage().await;
    let mut listener = PgListener::connect(&database.url).await.unwrap();
    listener.listen("tidegate_gate").await.unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let openings = Arc::new(AtomicUsize::new(0));

    let mut watch = Session::open(&database).await;
    let watched = tokio::spawn({
        let (over, openings) = (Arc::clone(&over), Arc::clone(&openings));
        async move {
            let mut deepest = 0;
            while !over.load(Ordering::SeqCst) {
                let depth: i64 = watch.text(DEPTH).await.parse().unwrap();
                deepest = deepest.max(depth);
                openings.store(watch.texts(HISTORY).await.len() / 2, Ordering::SeqCst);
                rest().await;
            }
            deepest
        }
    });
    let mut workers = Vec::new();
    for _ in 0..3 {
        let mut session = Session::open(&database).await;
        let over = Arc::clone(&over);
        workers.push(tokio::spawn(async move {
            // However fast they are: they leave the gate time to close once.
            while session.texts(HISTORY).await.is_empty() {
                rest().await;
            }
            while !over.load(Ordering::SeqCst) {
                let held = session.claim("tx", 1).await;
                if !held.is_empty() {
                    settle(&mut session, &held).await;
                }
                // Submitters are faster, so that the gate closes often.
                rest().await;
            }
        }));
    }
    let mut submitters = Vec::new();
    for number in 0..campaign(16, 50) {
        let mut session = Session::open(&database).await;
        let openings = Arc::clone(&openings);
        submitters.push(tokio::spawn(async move {
            let (mut taken, mut round) = (0, 0);
            while round < campaign(12, 40) || openings.load(Ordering::SeqCst) < OPENINGS_MIN {
                round += 1;
                let call = match (number + round) % 10 {
                    0 => batch("direct", 7),
                    _ => "submit('direct', '{}')".to_owned(),
                };
                match session.attempt(&format!("select outcome from tidegate.{call}")).await {
                    Ok(said) => {
                        let accepted = said.iter().filter(|said| *said == "accepted").count();
                        taken += accepted;
                        // A refused caller comes back later, and leaves the processor to the workers.
                        if accepted == 0 {
                            tokio::time::sleep(Duration::from_millis(100)).await;
                        }
                    }
                    // On a slow machine some wait too long for their turn at the gate.
                    Err((code, _)) => assert_eq!(code, "55P03"),
                }
            }
            taken
        }));
    }
    let taken: usize = join_all(submitters).await.into_iter().map(Result::unwrap).sum();
    let queue_is_empty = || async { database.number(DEPTH).await == 0 };
    eventually("everything has been served", queue_is_empty).await;
    over.store(true, Ordering::SeqCst);
    for worker in workers {
        worker.await.unwrap();
    }
    let deepest = watched.await.unwrap();

    assert!(deepest <= 30, "{deepest} messages were in the queue");
    assert!(taken > campaign(30, 100), "only {taken} were let in");
    let mut session = Session::open(&database).await;
    session.execute("select tidegate.gates_evaluate()").await;
    let history = session.texts(HISTORY).await;
    assert!(history.len() >= 2, "{history:?}");
    let mut at_the_mark = 0;
    for (place, flip) in history.iter().enumerate() {
        if place % 2 == 0 {
            assert_eq!(flip, "TOO_MANY_REQUESTS 30", "{history:?}");
            continue;
        }
        // Settles see a closing when it commits, and may have removed messages by then (see
        // `a_closing_that_commits_late_opens_again_at_the_depth_of_then`).
        let depth: i32 = flip.strip_prefix("ACCEPTING_REQUESTS ").unwrap().parse().unwrap();
        assert!((0..=15).contains(&depth), "{history:?}");
        at_the_mark += i32::from(depth == 15);
    }
    assert!(at_the_mark * 4 > i32::try_from(history.len()).unwrap(), "{history:?}");
    assert_eq!(heard(&mut listener, &database).await, history);
    let problems = database.violations().await;
    assert_eq!(problems, NOTHING);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_soft_gate_waits_for_no_lock() {
    let database = stage().await;
    database.execute("update tidegate.gate set mode = 'soft'").await;
    let mut one = Session::begin(&database).await;
    let mut two = Session::open(&database).await;
    submit_many(&database, "direct", 29).await;
    assert_eq!(outcomes(&mut one, "submit('direct', '{}')").await, ["accepted"]);
    // Over the mark by the requests in flight.
    assert_eq!(outcomes(&mut two, "submit('direct', '{}')").await, ["accepted"]);
    one.commit().await;
    assert_eq!(outcomes(&mut two, "submit('direct', '{}')").await, ["refused"]);
    assert_eq!(two.text(DEPTH).await, "31");
    assert_eq!(
        two.text("select state || ' ' || epoch from tidegate.gate where name = 'tx'").await,
        "too_many_requests 1"
    );
}
