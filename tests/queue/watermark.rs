//! Does the watermark of a queue, below which claims do not look, ever hide a message?

use std::time::Duration;

use crate::support::{
    TestDatabase,
    race::{Held, Session, settle, submit_many},
};

/// Submits and drains so many requests that the next claims raise the mark to thousands.
async fn drive_up(database: &TestDatabase) -> i64 {
    let mut session = Session::open(database).await;
    submit_many(database, "direct", 7000).await;
    for _ in 0..7 {
        drain(&mut session, 1000).await;
    }
    submit_many(database, "direct", 50).await;
    drain(&mut session, 50).await;
    mark(database).await
}

async fn drain(session: &mut Session, batch: i32) {
    let held = session.claim("tx", batch).await;
    session.texts(&settle("settle_rejected", &held, "null")).await;
}

async fn mark(database: &TestDatabase) -> i64 {
    database.number("select coalesce(pg_sequence_last_value('tidegate.watermark_tx'), 0)").await
}

fn ids(held: &[Held]) -> Vec<String> {
    held.iter().map(|held| held.id.to_string()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_given_back_below_the_mark_is_claimed_next() {
    for (function, more) in [
        ("settle_released", ""),
        ("settle_retry", "null, array[interval '0']"),
        ("settle_retry", "null, array[interval '-1 second']"),
    ] {
        let database = TestDatabase::unlimited().await;
        database.execute("update tidegate.policy set base_ms = 0, jitter_ms = 0").await;
        let first = database.submit("direct").await;
        let mut holder = Session::open(&database).await;
        let held = holder.claim("tx", 1).await;
        let mark_above = drive_up(&database).await;
        assert!(mark_above > 4000, "{mark_above}");
        let behind = database.submit("direct").await;

        assert_eq!(holder.texts(&settle(function, &held, more)).await, [first.to_string()]);

        assert_eq!(ids(&holder.claim("tx", 2).await), [first.to_string(), behind.to_string()], "{function}");
        assert_eq!(database.violations().await, Vec::<String>::new());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_recovered_below_the_mark_is_claimed_next() {
    let database = TestDatabase::unlimited().await;
    let first = database.submit("direct").await;
    let mut holder = Session::open(&database).await;
    holder.claim("tx", 1).await;
    drive_up(&database).await;

    holder.texts("select reset from tidegate.recover(reset_all => true, force => true)").await;

    assert_eq!(ids(&holder.claim("tx", 2).await), [first.to_string()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_comes_due_below_the_mark_is_claimed_in_its_turn() {
    let database = TestDatabase::unlimited().await;
    let expired = database.submit("direct").await;
    let backing_off = database.submit("direct").await;
    let mut holder = Session::open(&database).await;
    holder.claim("tx", 1).await;
    let held = holder.claim("tx", 1).await;
    holder.texts(&settle("settle_retry", &held, "null, array[interval '1 minute']")).await;
    let delayed = holder
        .text("select id from tidegate.submit('direct', '{}', not_before => clock_timestamp() + interval '1 minute')")
        .await;
    let first = database.number("select min(msg_id) from pgmq.q_tx").await;
    let mark_above = drive_up(&database).await;
    assert!(mark_above > first + 3, "{mark_above}");
    database.submit("direct").await;
    // The minute passes, and leases run out.
    database
        .execute(
            "update pgmq.q_tx set vt = clock_timestamp() where vt > clock_timestamp();
             update tidegate.claim set until = clock_timestamp()",
        )
        .await;

    let mut found = Vec::new();
    let all_found = async {
        while found.len() < 4 {
            found.extend(ids(&holder.claim("tx", 3).await));
        }
    };
    tokio::time::timeout(Duration::from_secs(20), all_found).await.expect("they never came due");
    for id in [expired.to_string(), backing_off.to_string(), delayed] {
        assert!(found.contains(&id), "{id}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_commits_while_the_mark_is_being_raised_is_not_left_behind() {
    // The claim that raises the mark is still open: the release waits, and lowers the mark again.
    let database = TestDatabase::unlimited().await;
    let first = database.submit("direct").await;
    let mut holder = Session::open(&database).await;
    let held = holder.claim("tx", 1).await;
    let mut raiser = almost_driven_up(&database).await;
    raiser.execute("begin").await;
    drain(&mut raiser, 1).await;
    assert!(mark(&database).await > held[0].msg_id);
    let release = holder.start(&settle("settle_released", &held, ""));
    release.until_blocked_by(&database, &raiser).await;
    raiser.commit().await;

    assert_eq!(release.finish().await.1, [first.to_string()]);
    assert_eq!(ids(&raiser.claim("tx", 1).await), [first.to_string()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mark_raised_while_a_release_is_uncommitted_does_not_leave_it_behind() {
    let database = TestDatabase::unlimited().await;
    let first = database.submit("direct").await;
    let mut holder = Session::open(&database).await;
    let held = holder.claim("tx", 1).await;
    let mut raiser = almost_driven_up(&database).await;
    holder.execute("begin").await;
    holder.texts(&settle("settle_released", &held, "")).await;
    // This claim sees neither the release nor anything else that waits so far down.
    drain(&mut raiser, 1).await;
    holder.commit().await;

    assert_eq!(ids(&raiser.claim("tx", 1).await), [first.to_string()]);
}

/// As [`drive_up`], but the next claim will be the one that raises the mark.
async fn almost_driven_up(database: &TestDatabase) -> Session {
    let mut session = Session::open(database).await;
    submit_many(database, "direct", 7000).await;
    // One claim: it begins at the bottom, so the mark stays.
    drain(&mut session, 7000).await;
    submit_many(database, "direct", 2).await;
    session
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submission_that_commits_thousands_of_numbers_late_is_found_by_the_rescan() {
    let database = TestDatabase::unlimited().await;
    let mut late = Session::begin(&database).await;
    let id = late.text("select id from tidegate.submit('direct', '{}')").await;
    let mark_above = drive_up(&database).await;
    late.commit().await;
    let number = database.number("select min(msg_id) from pgmq.q_tx").await;
    assert!(number < mark_above, "it must lie below the mark");
    let mut session = Session::open(&database).await;

    assert_eq!(session.text("select tidegate.rescan_queue('tx')").await, "1");

    assert_eq!(ids(&session.claim("tx", 1).await), [id]);
    assert_eq!(session.text("select tidegate.rescan_queue('tx')").await, "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_mark_passes_no_number_whose_transaction_is_open() {
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;
    submit_many(&database, "direct", 3000).await;
    drain(&mut session, 3000).await;
    let mut late = Session::begin(&database).await;
    let id = late.text("select id from tidegate.submit('direct', '{}')").await;
    for _ in 0..4 {
        submit_many(&database, "direct", 500).await;
        drain(&mut session, 500).await;
    }
    let raised = mark(&database).await;
    assert!((500..3000).contains(&raised), "{raised}");
    database.submit("direct").await;
    late.commit().await;

    assert_eq!(ids(&session.claim("tx", 1).await), [id]);
    drive_up(&database).await;
    assert!(mark(&database).await > 7000);
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_commit_below_the_mark_are_found_and_counted_when_their_draw_has_ended() {
    let database = TestDatabase::unlimited().await;
    let mut late = Session::begin(&database).await;
    let found_late =
        late.texts("select id from tidegate.submit_batch('direct', array_fill('{}'::jsonb, array[10]))").await;
    drive_up(&database).await;
    assert!(drive_up(&database).await > 4000);
    database
        .execute(
            "update tidegate.gate set high_water = 100, low_water = 99 where name = 'tx';
             insert into tidegate.kind_watermark (queue, kind, mark, epoch)
             values ('tx', 'direct', 14000, coalesce(pg_sequence_last_value('tidegate.epoch_tx'), 0))",
        )
        .await;
    late.commit().await;

    // Nothing but settings of sequences survives.
    let mut claiming = Session::begin(&database).await;
    claiming.execute("select tidegate_internal.watermark_advance('tx', 14111)").await;
    claiming.rollback().await;
    let mut session = Session::open(&database).await;
    let fill = "select id from tidegate.submit_group('direct', array_fill('{}'::jsonb, array[200])) where outcome = 'accepted'";
    assert_eq!(session.texts(fill).await.len(), 90);
    let claimed = session.texts("select id from tidegate.claim_tx('tx', 'w', 200, '1 minute', '{direct}')").await;
    assert_eq!(claimed.len(), 100);
    assert_eq!(claimed[..10], found_late[..]);
}

/// The transaction that has drawn is the newest one, and none has ended since.
#[tokio::test(flavor = "multi_thread")]
async fn two_looks_at_the_newest_draw_do_not_take_it_for_ended() {
    let database = TestDatabase::unlimited().await;
    let mut late = Session::begin(&database).await;
    let id = late.text("select id from tidegate.submit('direct', '{}')").await;
    for _ in 0..3 {
        database.execute("select tidegate_internal.watermark_advance('tx', 3000)").await;
    }
    let ended = "select coalesce(pg_sequence_last_value('tidegate.closed_draws_tx'), 0)";
    assert_eq!(database.number(ended).await, 0);
    late.commit().await;
    let mut session = Session::open(&database).await;
    assert_eq!(ids(&session.claim("tx", 1).await), [id]);
    session.texts("select tidegate_internal.watermark_advance('tx', 3000)").await;
    assert_eq!(database.number(ended).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_mark_rises_though_some_draw_is_open_at_every_moment() {
    let database = TestDatabase::unlimited().await;
    let mut open = Session::begin(&database).await;
    for _ in 0..3 {
        open.texts("select id from tidegate.submit('direct', '{}')").await;
        drive_up(&database).await;
        let mut next = Session::begin(&database).await;
        next.texts("select id from tidegate.submit('direct', '{}')").await;
        open.commit().await;
        open = next;
    }
    // The first two have ended, and two rounds of numbers lie below the draw of the third.
    let ended = "select pg_sequence_last_value('tidegate.closed_draws_tx')";
    let ended = database.number(ended).await;
    assert!((7000..=14_103).contains(&ended), "{ended}");
    assert!(mark(&database).await >= 14_103);
    open.commit().await;
    let left = database.number("select count(*) from pgmq.q_tx").await;
    let mut session = Session::open(&database).await;
    session.texts("select tidegate.rescan_queue('tx')").await;
    let claimed = session.claim("tx", 100).await.len();
    assert_eq!(i64::try_from(claimed).unwrap(), left);
    assert_eq!(database.violations().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rescan_takes_nothing_from_a_live_holder_and_frees_a_hold_longer_than_its_lease() {
    let database = TestDatabase::unlimited().await;
    submit_many(&database, "direct", 2).await;
    let mut session = Session::open(&database).await;
    let held = session.claim("tx", 2).await;
    assert_eq!(session.text("select tidegate.rescan_queue('tx')").await, "0");

    // The clock stepped back by an hour since these were taken.
    session.execute("update tidegate.claim set until = until + interval '1 hour'").await;
    assert_eq!(session.text("select tidegate.rescan_queue('tx')").await, "1");
    let again = session.claim("tx", 2).await;
    assert_eq!(ids(&again), ids(&held));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rescan_takes_nothing_from_a_lease_that_begins_just_then() {
    let database = TestDatabase::unlimited().await;
    database.submit("direct").await;
    let mut worker = Session::begin(&database).await;
    // The rescan is called, and stops at its first look at a table; this lease begins after that.
    worker.execute("lock table tidegate.queue").await;
    let rescan = Session::open(&database).await.start("select tidegate.rescan_queue('tx')");
    rescan.until_blocked_by(&database, &worker).await;
    let held = worker.claim("tx", 1).await;
    worker.commit().await;

    assert_eq!(rescan.finish().await.1, ["0"]);
    assert!(worker.claim("tx", 1).await.is_empty());
    assert_eq!(worker.texts(&settle("settle_receipt", &held, "")).await.len(), 1);
}
