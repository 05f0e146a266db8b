//! Does a queue that lost its messages get them back, with their numbers and order?

use crate::support::{
    TestDatabase, eventually,
    race::{Session, a_bit_of_everything, line, sound, submit_many},
};

const RECOVER: &str = "select examined, reset, ended, rebuilt, renumbered from tidegate.recover()";

#[tokio::test(flavor = "multi_thread")]
async fn purged_queues_are_rebuilt_with_their_numbers_and_order() {
    let database = TestDatabase::unlimited().await;
    let mut session = a_bit_of_everything(&database).await;
    let before = (line(&mut session, "readiness").await, line(&mut session, "tx").await);
    session
        .texts("with gone as (delete from tidegate.claim) select pgmq.purge_queue('tx'), pgmq.purge_queue('readiness')")
        .await;

    // Ten live ones, two of them in flight without a message.
    assert_eq!(session.texts(RECOVER).await, ["10 2 0 10 0"]);

    assert_eq!((line(&mut session, "readiness").await, line(&mut session, "tx").await), before);
    sound(&database).await;
    assert_eq!(session.claim("tx", 100).await.len() + session.claim("readiness", 100).await.len(), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rebuilt_message_below_the_low_water_mark_is_claimable_at_once() {
    let database = TestDatabase::unlimited().await;
    submit_many(&database, "direct", 5).await;
    database.execute("select setval('tidegate.watermark_tx', 5000); select pgmq.purge_queue('tx')").await;
    let mut session = Session::open(&database).await;

    session.texts(RECOVER).await;

    assert_eq!(session.claim("tx", 10).await.len(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_dropped_and_made_again_goes_on_numbering_behind_the_old_requests() {
    let database = TestDatabase::unlimited().await;
    let ids = submit_many(&database, "direct", 7).await;
    let mut session = Session::open(&database).await;
    let before = line(&mut session, "tx").await;
    session.texts("select pgmq.drop_queue('tx')").await;
    session.texts("select pgmq.create('tx')").await;

    assert_eq!(session.texts(RECOVER).await, ["7 0 0 7 0"]);
    let newcomer = database.submit("direct").await;

    assert_eq!(line(&mut session, "tx").await[..7], before);
    let order: Vec<_> = session.claim("tx", 10).await.iter().map(|held| held.id).collect();
    assert_eq!(order, [ids, vec![newcomer]].concat());
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_requests_whose_number_was_taken_are_renumbered_whatever_the_batch() {
    for batch in [2, 1000] {
        let database = TestDatabase::unlimited().await;
        let ids = submit_many(&database, "direct", 9).await;
        let mut session = Session::open(&database).await;
        let before = line(&mut session, "tx").await;
        session.texts("select pgmq.drop_queue('tx')").await;
        session.texts("select pgmq.create('tx')").await;
        let newcomers = submit_many(&database, "direct", 3).await;

        let (mut renumbered, mut after) = (0, "null".to_owned());
        loop {
            let sql =
                format!("select renumbered, coalesce(next_after::text, '-') from tidegate.recover({batch}, {after})");
            let step = session.text(&sql).await;
            let (count, next) = step.split_once(' ').unwrap();
            renumbered += count.parse::<usize>().unwrap();
            if next == "-" {
                break;
            }
            after = format!("'{next}'");
        }

        assert_eq!(renumbered, 3, "batch {batch}");
        assert_eq!(line(&mut session, "tx").await[3..9], before[3..]);
        let order: Vec<_> = session.claim("tx", 20).await.iter().map(|held| held.id).collect();
        assert_eq!(order, [&newcomers[..], &ids[3..], &ids[..3]].concat(), "batch {batch}");
        sound(&database).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn strays_are_removed_and_a_message_of_an_uncommitted_submit_is_not() {
    let database = TestDatabase::unlimited().await;
    let ids = submit_many(&database, "direct", 2).await;
    let mut submitter = Session::begin(&database).await;
    submitter.texts("select id from tidegate.submit('direct', '{}')").await;
    let mut session = Session::open(&database).await;
    let before = line(&mut session, "tx").await;
    session
        .execute(&format!(
            "insert into pgmq.q_tx (vt, message) values ('-infinity', '{{\"id\": \"{}\"}}'), ('-infinity', '[]'),
               ('infinity', 'null'), ('-infinity', '{{\"id\": \"00000000-0000-7000-8000-000000000000\"}}')",
            ids[0]
        ))
        .await;

    let mut removed = 0;
    let mut after = "null".to_owned();
    while after != "-" {
        let step = session
            .text(&format!(
                "select removed, coalesce(next_after::text, '-') from tidegate.remove_stray_messages('tx', 2, {after})"
            ))
            .await;
        let (count, next) = step.split_once(' ').unwrap();
        removed += count.parse::<usize>().unwrap();
        next.clone_into(&mut after);
    }

    assert_eq!(removed, 4);
    assert_eq!(line(&mut session, "tx").await, before);
    submitter.commit().await;
    assert_eq!(session.texts("select removed from tidegate.remove_stray_messages('tx')").await, ["0"]);
    assert_eq!(session.claim("tx", 9).await.len(), 3);
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dba_may_count_read_and_purge_with_pgmqs_own_functions() {
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;
    submit_many(&database, "direct", 5).await;
    assert_eq!(session.text("select queue_length from pgmq.metrics('tx')").await, "5");

    // What pgmq has read is hidden for a second, and then claimed as any other.
    assert_eq!(session.texts("select msg_id from pgmq.read('tx', 1, 2)").await.len(), 2);
    let claimed = session.claim("tx", 5).await.len();
    assert!(claimed >= 3, "{claimed}");
    let due = "select count(*) from pgmq.q_tx where vt <= clock_timestamp()";
    eventually("the others are due", || async { database.number(due).await == 5 - i64::try_from(claimed).unwrap() })
        .await;
    assert_eq!(session.claim("tx", 5).await.len(), 5 - claimed);

    submit_many(&database, "direct", 4).await;
    session.texts("select pgmq.purge_queue('tx')").await;
    assert_eq!(session.text("select rebuilt from tidegate.recover()").await, "4");
    assert_eq!(session.claim("tx", 9).await.len(), 4);
    sound(&database).await;
}
