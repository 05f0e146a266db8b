//! Are weights and pauses of keys kept, by whatever claims run, and seen?

use super::fair_queues::{fair_queue, served, submit_names};
use crate::support::{
    TestDatabase,
    race::{Session, sound},
};

const FOLD: &str = "select tidegate.fold_turns('payf')";

async fn opened() -> (TestDatabase, Session) {
    let database = fair_queue("submitter").await;
    let session = Session::open(&database).await;
    (database, session)
}

async fn set(session: &mut Session, key: &str, change: &str) -> String {
    session.text(&format!("select tidegate.fair_key_set('payf', '{key}', {change})")).await
}

fn names(key: &str, count: usize) -> String {
    vec![key; count].join(" ")
}

/// How often each key of a few letters was served.
fn shares(order: &str, keys: &str) -> Vec<usize> {
    keys.chars().map(|key| order.matches(key).count()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_served_by_their_weights() {
    for batch in [1, 7, 80] {
        let (database, mut session) = opened().await;
        for (key, weight) in [("b", 2), ("c", 5)] {
            assert_eq!(set(&mut session, key, &format!("weight => {weight}")).await, "t");
            assert_eq!(set(&mut session, key, &format!("weight => {weight}")).await, "f");
        }
        for key in ["a", "b", "c"] {
            submit_names(&mut session, "pay", &names(key, 60)).await;
        }
        let mut order = String::new();
        while order.matches(char::is_alphabetic).count() < 80 {
            order += &served(&mut session, batch).await;
        }
        let counts = shares(&order.replace(' ', "")[..80], "abc");
        assert!(
            counts[0].abs_diff(10) <= 1 && counts[1].abs_diff(20) <= 1 && counts[2].abs_diff(50) <= 1,
            "{counts:?}"
        );
        sound(&database).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_weight_acts_from_the_next_service_on() {
    let (database, mut session) = opened().await;
    for key in ["a", "b"] {
        submit_names(&mut session, "pay", &names(key, 40)).await;
    }
    assert_eq!(shares(&served(&mut session, 10).await, "ab"), [5, 5]);
    set(&mut session, "a", "weight => 4").await;
    let counts = shares(&served(&mut session, 20).await, "ab");
    assert!(counts[0].abs_diff(16) <= 1, "{counts:?}");
    assert_eq!(session.text("select tidegate.fair_key_remove('payf', 'a')").await, "t");
    assert_eq!(session.text("select tidegate.fair_key_remove('payf', 'a')").await, "f");
    let counts = shares(&served(&mut session, 20).await, "ab");
    assert!(counts[0].abs_diff(10) <= 1, "{counts:?}");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_key_waits_whatever_it_submits_and_goes_on_at_virtual_time() {
    let (database, mut session) = opened().await;
    submit_names(&mut session, "pay", "a1 a2 b1 b2 b3 b4 b5").await;
    assert_eq!(served(&mut session, 1).await, "a1");
    // One that has a turn, one that has none yet.
    set(&mut session, "a", "paused => true").await;
    set(&mut session, "c", "paused => true").await;
    submit_names(&mut session, "pay", "c1 a3").await;
    assert_eq!(served(&mut session, 3).await, "b1 b2 b3");
    session.execute(FOLD).await;
    assert_eq!(served(&mut session, 9).await, "b4 b5");
    assert_eq!(served(&mut session, 9).await, "");
    sound(&database).await;
    submit_names(&mut session, "pay", "b6 b7 b8").await;
    assert_eq!(served(&mut session, 1).await, "b6");
    for key in ["a", "c"] {
        assert_eq!(set(&mut session, key, "paused => false").await, "t");
    }
    // They have missed five services, and get none of them back.
    assert_eq!(served(&mut session, 9).await, "b7 a2 c1 b8 a3");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_in_a_transaction_that_rolls_back_leaves_the_key_where_it_was() {
    let (database, mut session) = opened().await;
    submit_names(&mut session, "pay", "a1 a2 b1 b2").await;
    session.execute("begin").await;
    set(&mut session, "a", "paused => true").await;
    assert_eq!(served(&mut session, 2).await, "b1 b2");
    session.rollback().await;
    assert_eq!(served(&mut session, 9).await, "a1 b1 a2 b2");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_of_the_only_key_that_waits_sets_virtual_time_back_for_no_other() {
    let (database, mut session) = opened().await;
    submit_names(&mut session, "pay", &names("a", 30)).await;
    served(&mut session, 20).await;
    set(&mut session, "a", "paused => true").await;
    submit_names(&mut session, "pay", &names("b", 30)).await;
    assert_eq!(served(&mut session, 1).await, "b");
    set(&mut session, "a", "paused => false").await;
    assert_eq!(shares(&served(&mut session, 8).await, "ab"), [4, 4]);
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_are_paused_together_lose_nothing_of_what_they_get_meanwhile() {
    let (database, mut session) = opened().await;
    submit_names(&mut session, "pay", &format!("b1 {}", names("a", 30))).await;
    served(&mut session, 12).await;
    // By hand, and a row that moves to another name.
    session
        .execute("insert into tidegate.fair_key (queue, name, paused) values ('payf', 'b', true), ('payf', 'a', true)")
        .await;
    submit_names(&mut session, "pay", "b2").await;
    for _ in 0..3 {
        session.execute(FOLD).await;
    }
    assert_eq!(served(&mut session, 9).await, "");
    sound(&database).await;
    session.execute("update tidegate.fair_key set name = 'c' where name = 'b'").await;
    assert_eq!(served(&mut session, 9).await, "b2");
    session.execute("delete from tidegate.fair_key").await;
    assert_eq!(shares(&served(&mut session, 4).await, "ab"), [4, 0]);
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_settings_in_two_orders_wait_for_each_other_without_a_deadlock() {
    let (database, mut first) = opened().await;
    database.find_deadlocks_soon().await;
    first.execute("begin").await;
    set(&mut first, "a", "weight => 2").await;
    let second = Session::open(&database).await.start("select tidegate.fair_key_set('payf', 'b', weight => 3)");
    second.until_blocked_by(&database, &first).await;
    set(&mut first, "b", "weight => 4").await;
    first.commit().await;
    assert_eq!(second.finish().await.1, ["t"]);
    let weights = "select name, weight from tidegate.fair_key order by name";
    assert_eq!(first.texts(weights).await, ["a 2", "b 3"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_a_key_waits_for_a_claim_that_is_open() {
    let (database, mut session) = opened().await;
    submit_names(&mut session, "pay", "a1 a2 b1").await;
    let mut claimer = Session::begin(&database).await;
    assert_eq!(served(&mut claimer, 1).await, "a1");
    let change = Session::open(&database).await.start("select tidegate.fair_key_set('payf', 'a', paused => true)");
    change.until_blocked_by(&database, &claimer).await;
    claimer.commit().await;
    assert_eq!(change.finish().await.1, ["t"]);
    assert_eq!(served(&mut session, 9).await, "b1");
    set(&mut session, "a", "paused => false").await;
    assert_eq!(served(&mut session, 9).await, "a2");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recovery_keeps_weights_and_pauses() {
    let (database, mut session) = opened().await;
    set(&mut session, "a", "paused => true").await;
    set(&mut session, "b", "weight => 2").await;
    submit_names(&mut session, "pay", "a1 b1 b2 b3 b4 c1 c2").await;
    session.execute("select tidegate.recover()").await;
    assert_eq!(served(&mut session, 9).await, "b1 c1 b2 b3 c2 b4");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn positions_follow_weights_and_a_paused_key_stands_behind_all_others() {
    let (database, mut session) = opened().await;
    set(&mut session, "b", "weight => 2").await;
    submit_names(&mut session, "pay", "a1 a2 b1 b2 b3 c1").await;
    set(&mut session, "c", "paused => true").await;
    session.execute(FOLD).await;
    let line = "select r.payload #>> '{}' from tidegate.request as r order by tidegate.request_position(r.id)";
    let expected = session.texts(line).await;
    assert_eq!(expected.last().unwrap(), "c1");
    assert_eq!(served(&mut session, 9).await, expected[..5].join(" "));
    session.execute("select tidegate.config_set('payf.per_seconds', '1')").await;
    let poll = "select queue_position, retry_after_seconds from tidegate.request_outlooks(array(
                  select r.id from tidegate.request as r where r.submitter = 'c'))";
    let longest = session.text("select coalesce(s.max_seconds, 300) from tidegate.setting as s").await;
    assert_eq!(session.text(poll).await, format!("0 {longest}"));
    // Before a fold, too: behind what waits.
    submit_names(&mut session, "pay", "a3 a4").await;
    set(&mut session, "d", "paused => true").await;
    let submit = "select queue_position from tidegate.submit_group('pay', '{1}', submitters => '{d}')";
    assert_eq!(session.text(submit).await, "2");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_see_the_keys_of_a_queue() {
    let (_database, mut session) = opened().await;
    set(&mut session, "b", "weight => 3").await;
    set(&mut session, "z", "paused => true").await;
    submit_names(&mut session, "pay", "a1 a2 a3 b1 -1").await;
    assert_eq!(served(&mut session, 1).await, "a1");
    let keys = "select name, weight, paused, waiting, held, share, oldest_age < interval '1 minute'
                from tidegate.fair_keys('payf')";
    let seen = session.texts(keys).await;
    assert_eq!(seen, ["a 1 f 2 1 0.2000 t", " 1 f 1 0 0.2000 t", "b 3 f 1 0 0.6000 t", "z 1 t 0 0 0 t"]);
    let history = "select row_key, column_name, old_value, new_value from tidegate.config_change
                   where table_name = 'fair_key' and column_name = 'weight' order by id";
    assert_eq!(session.texts(history).await, ["payf.b weight  3", "payf.z weight  1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_make_no_sense_are_refused_by_their_names() {
    let (database, _) = opened().await;
    for (call, code, said) in [
        (
            "'payf', 'a', weight => 0",
            "TG007",
            "the weight of \"a\" in the queue \"payf\" is refused: 0 is not 1 to 1000",
        ),
        (
            "'payf', 'a', weight => 1001",
            "TG007",
            "the weight of \"a\" in the queue \"payf\" is refused: 1001 is not 1 to 1000",
        ),
        ("'tx', 'a', weight => 2", "TG007", "queue \"tx\" is fifo: it has no turns"),
        ("'nowhere', 'a', weight => 2", "TG005", "there is no queue \"nowhere\""),
    ] {
        let refusal = database.refused(&format!("select tidegate.fair_key_set({call})")).await;
        assert_eq!((refusal.code.as_str(), refusal.message.as_str()), (code, said), "{call}");
    }
    assert_eq!(database.refused("select tidegate.fair_keys('tx')").await.code, "TG007");
    assert_eq!(database.refused("select tidegate.fair_key_remove('tx', 'a')").await.code, "TG007");
}
