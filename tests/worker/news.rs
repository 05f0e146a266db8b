//! Announcements of moved requests: none without a watcher, and with one at a bounded rate.

use std::time::Duration;

use sqlx::postgres::PgListener;
use tidegate::{
    internals::{
        listener::Subscriber,
        news::{Announcer, Waiters},
    },
    request::{RequestId, Status},
};
use uuid::Uuid;

use crate::{
    access::roles::{is_denied, login},
    support::{
        TestDatabase, eventually,
        sql::{run, value},
    },
};

/// Listens on the channel of moves.
async fn listen(database: &TestDatabase) -> PgListener {
    let mut listener = PgListener::connect(&database.url).await.unwrap();
    listener.listen("tidegate_moved").await.unwrap();
    listener
}

async fn heard(listener: &mut PgListener) -> String {
    let notification = tokio::time::timeout(Duration::from_secs(30), listener.recv());
    let notification = notification.await.expect("nothing was said").unwrap();
    notification.payload().to_owned()
}

fn some_ids(count: usize) -> Vec<RequestId> {
    (0..count).map(|_| RequestId(Uuid::new_v4())).collect()
}

/// Sends a last notification: one that has not come before it was not sent.
async fn say_last(database: &TestDatabase) {
    database.execute("select pg_notify('tidegate_moved', 'last')").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_announced_without_a_watcher_and_then_only_new_moves() {
    let database = TestDatabase::new().await;
    let mut listener = listen(&database).await;
    let announcer = Announcer::new(database.store.clone());
    let ids = some_ids(3);
    announcer.note([(ids[0], Status::Completed), (ids[1], Status::Processing), (ids[2], Status::Queued)]);
    announcer.finish().await;
    say_last(&database).await;
    assert_eq!(heard(&mut listener).await, "last");

    // Nonsense of another version asks for nothing.
    announcer.on_notification("everything");
    announcer.on_notification("");
    announcer.on_notification("ended");
    announcer.finish().await;
    assert_eq!(heard(&mut listener).await, format!("ended {}", ids[0]));

    // Moves are announced to watchers of moves, and an end once only.
    announcer.on_notification("moved");
    announcer.finish().await;
    assert_eq!(heard(&mut listener).await, format!("moved {}", ids[1]));
    announcer.note([(ids[2], Status::TxInFlight)]);
    announcer.finish().await;
    say_last(&database).await;
    assert_eq!(heard(&mut listener).await, format!("moved {}", ids[2]));
    assert_eq!(heard(&mut listener).await, "last");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_announcement_has_a_bounded_number_of_ids() {
    let database = TestDatabase::new().await;
    let mut listener = listen(&database).await;
    let announcer = Announcer::new(database.store.clone());
    announcer.on_notification("ended");

    announcer.note(some_ids(5000).into_iter().map(|id| (id, Status::Completed)));
    announcer.finish().await;
    say_last(&database).await;

    let mut told = 0;
    loop {
        let payload = heard(&mut listener).await;
        let Some(ids) = payload.strip_prefix("ended ") else {
            break;
        };
        assert!(payload.len() < 8000);
        told += ids.split(' ').count();
    }
    assert_eq!(told, 1000);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_announcement_by_sql_fits_its_payloads() {
    let database = TestDatabase::new().await;
    let mut session = database.session().await;
    for (ended, moved, notifications) in [
        ("'{}'", "'{}'", "0"),
        ("null", "null", "0"),
        ("array[null::uuid]", "'{}'", "0"),
        ("array_fill(gen_random_uuid(), array[200])", "'{}'", "1"),
        ("array_fill(gen_random_uuid(), array[201])", "array[gen_random_uuid()]", "3"),
        ("array_fill(gen_random_uuid(), array[10400])", "'{}'", "50"),
    ] {
        let sql = format!("select tidegate.announce({ended}, {moved})");
        assert_eq!(value(&mut session, &sql).await, notifications, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_calls_subscribe_to_ends_or_moves_and_receive_them() {
    let database = TestDatabase::unlimited().await;
    let mut asked = PgListener::connect(&database.url).await.unwrap();
    asked.listen("tidegate_watch").await.unwrap();
    let waiters = Waiters::new(database.store.clone(), 3);
    let id = database.submit("direct").await;

    let mut waits = waiters.wait_for(id).unwrap();
    assert_eq!(heard(&mut asked).await, "ended");
    let mut follows = waiters.follow(id, 1).unwrap();
    assert_eq!(heard(&mut asked).await, "moved");
    let third = waiters.wait_for(id).unwrap();
    assert!(waiters.wait_for(id).is_none(), "all places are taken");
    drop(third);

    // A notification of a move wakes followers; one of an end wakes both, even a false one.
    waiters.on_notification(&format!("moved {} {id}", Uuid::new_v4()));
    follows.moved().await;
    waiters.on_notification(&format!("ended {id}"));
    follows.moved().await;
    waits.ended().await;
    for nonsense in ["", "ended", "ended x", "moved ", "forgotten 1", &format!("{id}")] {
        waiters.on_notification(nonsense);
    }
    // Neither was true: the end is found by looking, when it comes.
    database.execute(&format!("select tidegate.cancel('{id}')")).await;
    follows.moved().await;
    waits.ended().await;
    drop((waits, follows));
    assert_eq!(waiters.waiting().waiters, 0);
    assert_eq!(waiters.waiting().requests, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_just_before_a_wait_and_a_removed_request_are_found() {
    let database = TestDatabase::unlimited().await;
    let waiters = Waiters::new(database.store.clone(), 100);
    let ended = database.submit("direct").await;
    let live = database.submit("direct").await;
    // One caller waits all the time, so that the node already asks when the others come.
    let other = waiters.wait_for(live).unwrap();
    eventually("a look", || async { waiters.waiting().polls > 0 }).await;
    database.execute(&format!("select tidegate.cancel('{ended}')")).await;

    let looks = waiters.waiting().polls;
    waiters.wait_for(ended).unwrap().ended().await;
    waiters.wait_for(RequestId(Uuid::new_v4())).unwrap().ended().await;
    // A second caller, that comes after the first has its answer.
    let mut first = waiters.wait_for(ended).unwrap();
    first.ended().await;
    waiters.wait_for(ended).unwrap().ended().await;

    // At once, and not at the next look; this machine may stop for two seconds meanwhile.
    assert!(waiters.waiting().polls <= looks + 2);
    drop(other);
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_and_workers_may_ask_and_tell_and_readers_may_not() {
    let database = TestDatabase::new().await;
    for (role, may) in [("api", true), ("worker", true), ("admin", true), ("reader", false)] {
        let mut session = login(&database, role).await;
        for call in ["watch(true)", "announce('{}')", "moved_since('{}', '{}')"] {
            let sql = format!("select * from tidegate.{call}");
            if may {
                run(&mut session, &sql).await;
            } else {
                is_denied(&mut session, &sql).await;
            }
        }
    }
}
