//! Does a fair queue find every message in its turn, whatever commits late, rolls back, is locked or runs out?

use super::fair_queues::{fair_queue, id_of, served, submit_names};
use crate::support::{
    TestDatabase,
    race::{Held, Session, expire_leases, leases, sound},
};

const FOLD: &str = "select tidegate.fold_turns('payf')";

/// A fair queue by submitter, and a session.
async fn opened() -> (TestDatabase, Session) {
    let database = fair_queue("submitter").await;
    let session = Session::open(&database).await;
    (database, session)
}

/// A transaction that submits under another key and stays open to the end of the test.
async fn open_submission(database: &TestDatabase) -> Session {
    let mut open = Session::begin(database).await;
    submit_names(&mut open, "pay", "z1").await;
    open
}

fn settle(held: &[Held], outcome: &str) -> String {
    format!("select s.id from tidegate.settle({}, '{{{outcome}}}') as s", leases(held))
}

/// Key `a` is active at a5, and this open transaction has submitted a3.
async fn late_submission(database: &TestDatabase, session: &mut Session) -> Session {
    submit_names(session, "pay", "a1 a2").await;
    assert_eq!(served(session, 1).await, "a1");
    let mut late = Session::begin(database).await;
    submit_names(&mut late, "pay", "a3").await;
    submit_names(session, "pay", "a4 a5 a6").await;
    assert_eq!(served(session, 2).await, "a2 a4");
    late
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_message_of_an_active_key_that_commits_late_is_served_after_a_fold_beside_an_open_submission() {
    let (database, mut session) = opened().await;
    database.stop_clock().await;
    let mut open = open_submission(&database).await;
    let mut late = late_submission(&database, &mut session).await;
    late.commit().await;
    session.execute(FOLD).await;

    assert_eq!(served(&mut session, 2).await, "a3 a5");
    open.commit().await;
    assert_eq!(served(&mut session, 9).await, "a6 z1");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_message_that_commits_after_the_duties_have_passed_it_is_served_after_the_next_ones() {
    let (database, mut session) = opened().await;
    database.stop_clock().await;
    let mut open = open_submission(&database).await;
    let mut late = late_submission(&database, &mut session).await;
    for _ in 0..3 {
        session.execute("update public.test_clock set at = at + interval '1 second'").await;
        submit_names(&mut session, "pay", "b0").await;
        session.execute(FOLD).await;
        session.execute("select tidegate.rescan_queue('payf')").await;
    }
    late.commit().await;
    session.execute("select tidegate.rescan_queue('payf')").await;
    session.execute(FOLD).await;

    assert_eq!(served(&mut session, 9).await, "a3 b0 a5 b0 a6 b0");
    open.rollback().await;
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_message_that_commits_after_its_key_has_become_idle_is_served_by_a_claim_that_finds_too_few() {
    let (database, mut session) = opened().await;
    let mut open = open_submission(&database).await;
    let mut late = late_submission(&database, &mut session).await;
    assert_eq!(served(&mut session, 9).await, "a5 a6");
    late.commit().await;

    assert_eq!(served(&mut session, 9).await, "a3");
    open.rollback().await;
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_claims_of_a_transaction_that_rolls_back_leave_no_key_behind() {
    let (database, mut session) = opened().await;
    submit_names(&mut session, "pay", "a1 a2 a3 b1 b2 b3 c1 c2").await;
    assert_eq!(served(&mut session, 2).await, "a1 b1");
    for _ in 0..3 {
        session.execute("begin").await;
        assert_eq!(served(&mut session, 1).await, "c1");
        assert_eq!(served(&mut session, 4).await, "a2 b2 c2 a3");
        assert_eq!(served(&mut session, 4).await, "b3");
        session.rollback().await;
        session.execute(FOLD).await;
    }

    assert_eq!(served(&mut session, 9).await, "c1 a2 b2 c2 a3 b3");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_after_a_change_of_its_key_in_a_transaction_that_rolls_back_leaves_no_message_behind() {
    for change in ["release", "submission", "cancel"] {
        let (database, mut session) = opened().await;
        submit_names(&mut session, "pay", "a1 b1 b2").await;
        let held = session.claim("payf", 2).await;
        session.execute("begin").await;
        let expected = match change {
            "release" => {
                session.texts(&settle(&held, "released")).await;
                "b1 a1 b2"
            }
            "submission" => {
                submit_names(&mut session, "pay", "a2").await;
                "b2 a2"
            }
            _ => {
                session.execute(&format!("select tidegate.cancel({})", id_of("b2"))).await;
                ""
            }
        };
        assert_eq!(served(&mut session, 9).await, expected, "{change}");
        session.rollback().await;

        assert_eq!(session.texts(&settle(&held[..1], "released")).await.len(), 1, "{change}");
        submit_names(&mut session, "pay", "c1").await;
        assert_eq!(served(&mut session, 9).await, "b2 a1 c1", "{change}");
        sound(&database).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_message_that_is_locked_delays_neither_its_key_nor_others_and_is_served_after_that() {
    let (database, mut session) = opened().await;
    submit_names(&mut session, "pay", "a1 a2 a3 b1 b2 c1").await;
    let mut locker = Session::begin(&database).await;
    locker.execute(&format!("select tidegate.cancel({})", id_of("a1"))).await;
    locker.execute("savepoint before").await;
    locker.execute(&format!("select tidegate.cancel({})", id_of("c1"))).await;

    for name in ["a2", "b1", "a3", "b2", "", ""] {
        assert_eq!(served(&mut session, 1).await, name);
    }
    // A key that becomes active now comes before none that was passed, and waits for none.
    submit_names(&mut session, "pay", "d1 d2").await;
    assert_eq!(served(&mut session, 1).await, "d1");
    locker.execute("rollback to before").await;
    assert_eq!(served(&mut session, 2).await, "c1 d2");
    locker.rollback().await;
    assert_eq!(served(&mut session, 9).await, "a1");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_passes_all_keys_lets_none_of_them_hold_virtual_time_back_for_the_others() {
    let (database, mut session) = opened().await;
    submit_names(&mut session, "pay", "a1 a2 a3 a4 b1").await;
    let mut locker = Session::begin(&database).await;
    for name in ["a4", "b1"] {
        locker.execute(&format!("select tidegate.cancel({})", id_of(name))).await;
    }
    assert_eq!(served(&mut session, 9).await, "a1 a2 a3");
    submit_names(&mut session, "pay", "d1 d2 d3 d4").await;
    locker.rollback().await;

    // Between a3 and a4 each other key has one service.
    assert_eq!(served(&mut session, 9).await, "b1 d1 a4 d2 d3 d4");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_had_the_queue_to_itself_does_not_pay_for_that_later() {
    let (database, mut session) = opened().await;
    let names = |key: &str, count| (0..count).map(|_| key.to_owned()).collect::<Vec<_>>().join(" ");
    submit_names(&mut session, "pay", &names("a", 100)).await;
    assert_eq!(served(&mut session, 100).await, names("a", 100));
    for is_folded in [true, false] {
        if is_folded {
            session.execute(FOLD).await;
        }
        submit_names(&mut session, "pay", &names("b", 50)).await;
        submit_names(&mut session, "pay", "a").await;
        let order = served(&mut session, 51).await;
        let before = order.split(' ').take_while(|name| *name == "b").count();
        assert!(before <= 2, "{order}");
    }
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_half_open_breaker_takes_no_turns_of_the_other_kinds_of_a_submitter() {
    let (database, mut session) = opened().await;
    database.stop_clock().await;
    database
        .execute(
            "update tidegate.policy set breaker_error_rate = 0.5, breaker_samples_min = 4, breaker_probes = 1
             where kind = 'pay' and stage = 'tx'",
        )
        .await;
    let probe = "update tidegate.breaker
         set state = 'open', epoch = epoch + 1, changed_at = tidegate.clock(), open_until = tidegate.clock()
         where kind = 'pay' and stage = 'tx'";
    database.execute(probe).await;
    submit_names(&mut session, "pay", "ap").await;
    assert_eq!(served(&mut session, 1).await, "ap", "the probe, which stays under way");
    assert_eq!(database.value("select state from tidegate.breaker where kind = 'pay'").await, "half_open");

    submit_names(&mut session, "pay", &["ap"; 30].join(" ")).await;
    submit_names(&mut session, "refund", &["ar"; 30].join(" ")).await;
    submit_names(&mut session, "refund", &["br"; 30].join(" ")).await;
    let mut order = Vec::new();
    for _ in 0..20 {
        order.push(served(&mut session, 1).await);
        // Those that were put back come due.
        session.execute("update public.test_clock set at = at + interval '300 milliseconds'").await;
    }
    let count = order.iter().filter(|name| *name == "ar").count();
    assert!((9..=11).contains(&count) && order.iter().all(|name| name != "ap"), "{order:?}");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_reaps_serves_nothing_and_locks_nothing_that_a_settle_waits_with() {
    let (database, mut session) = opened().await;
    database.find_deadlocks_soon().await;
    submit_names(&mut session, "pay", "a1 a2 b1 a3").await;
    let held = session.claim("payf", 1).await;
    expire_leases(&database, "payf").await;
    let mut reaper = Session::begin(&database).await;
    assert_eq!(served(&mut reaper, 9).await, "");
    let late = Session::open(&database).await.start(&settle(&held, "released"));
    late.until_blocked_by(&database, &reaper).await;

    assert_eq!(served(&mut reaper, 1).await, "b1");
    reaper.commit().await;
    assert_eq!(late.finish().await.1, Vec::<String>::new());
    assert_eq!(served(&mut session, 9).await, "a1 a2 a3");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_passes_a_lease_that_has_run_out_while_a_settle_of_it_is_open() {
    let (database, mut session) = opened().await;
    database.find_deadlocks_soon().await;
    submit_names(&mut session, "pay", "a1 a2 b1").await;
    let held = session.claim("payf", 1).await;
    expire_leases(&database, "payf").await;
    let mut settling = Session::begin(&database).await;
    assert_eq!(settling.texts(&settle(&held, "released")).await.len(), 1);
    assert_eq!(served(&mut session, 1).await, "b1");
    settling.commit().await;

    assert_eq!(served(&mut session, 9).await, "a1 a2");
    sound(&database).await;
}
