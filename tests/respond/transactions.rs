//! Are responses in a program's transaction there if and only if it commits?

use std::time::Duration;

use serde_json::json;
use sqlx::{Connection, PgConnection};
use tidegate::{Error, Response, StoreError, Tidegate, request::RequestId};
use uuid::Uuid;

use crate::support::{
    TestDatabase,
    race::{receipt, sound},
    until_blocked,
};

/// A request that awaits its response under the reference, and one that awaits three shares.
async fn awaiting(database: &TestDatabase) -> (RequestId, RequestId) {
    database.execute("create table public.page (number bigint primary key)").await;
    let direct = receipt(database, "direct", Some("tx-1")).await;
    (direct, receipt(database, "user_decrypt", None).await)
}

/// A page of events: its responses, and how far the program has read.
async fn apply(tidegate: &Tidegate, page: &mut PgConnection, shared: RequestId, parts: &[&str]) -> Vec<String> {
    let mut outcomes = Vec::new();
    let direct = tidegate.respond("tx-1", &json!("paid")).within(&mut *page).await.unwrap();
    outcomes.push(direct.outcome);
    for part in parts {
        let share = tidegate.respond(shared, part).part(*part).within(&mut *page).await.unwrap();
        outcomes.push(share.outcome);
    }
    let number = "insert into public.page values (1) on conflict do nothing";
    sqlx::query(number).execute(page).await.unwrap();
    outcomes
}

#[tokio::test(flavor = "multi_thread")]
async fn responses_are_stored_if_and_only_if_the_transaction_commits() {
    let database = TestDatabase::unlimited().await;
    let tidegate = Tidegate::from_pool(database.pool.clone());
    let (direct, shared) = awaiting(&database).await;
    let parts = ["a", "b", "c"];
    let whole = ["completed", "stored", "stored", "completed"];

    for end in ["rollback", "kill"] {
        let mut session = database.session().await;
        let pid: i32 = sqlx::query_scalar("select pg_backend_pid()").fetch_one(&mut session).await.unwrap();
        let mut page = session.begin().await.unwrap();
        assert_eq!(apply(&tidegate, &mut page, shared, &parts).await, whole);
        if end == "rollback" {
            page.rollback().await.unwrap();
        } else {
            database.execute(&format!("select pg_terminate_backend({pid}, 10000)")).await;
            page.commit().await.unwrap_err();
        }
        for id in [direct, shared] {
            assert_eq!(database.status(id).await, "receipt_received", "{end}");
        }
        let left = "select (select count(*) from public.page) + (select count(*) from tidegate.response_part)";
        assert_eq!(database.number(left).await, 0, "{end}");
    }

    let waits = tidegate.wait(direct, Duration::from_secs(30));
    let (ended, ()) = tokio::join!(waits, async {
        let mut page = database.pool.begin().await.unwrap();
        assert_eq!(apply(&tidegate, &mut page, shared, &parts).await, whole);
        assert_eq!(database.status(direct).await, "receipt_received", "other sessions do not see it yet");
        page.commit().await.unwrap();
    });
    assert_eq!(ended.unwrap().response::<String>().unwrap(), "paid");
    assert_eq!(database.status(shared).await, "completed");
    // The page is read again.
    let mut page = database.pool.begin().await.unwrap();
    assert_eq!(apply(&tidegate, &mut page, shared, &["a"]).await, ["late", "late"]);
    page.commit().await.unwrap();
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_that_apply_one_page_at_once_each_response_counts_once() {
    let database = TestDatabase::unlimited().await;
    let tidegate = Tidegate::from_pool(database.pool.clone());
    let (direct, shared) = awaiting(&database).await;
    let mut first = database.pool.begin().await.unwrap();
    assert_eq!(apply(&tidegate, &mut first, shared, &["a", "b"]).await, ["completed", "stored", "stored"]);
    let second = tokio::spawn({
        let (tidegate, pool) = (tidegate.clone(), database.pool.clone());
        async move {
            let mut page = pool.begin().await.unwrap();
            let outcomes = apply(&tidegate, &mut page, shared, &["a", "b"]).await;
            page.commit().await.unwrap();
            outcomes
        }
    });
    until_blocked(&database, 1).await;
    first.commit().await.unwrap();
    assert_eq!(second.await.unwrap(), ["late", "duplicate", "duplicate"]);
    assert_eq!(database.status(direct).await, "completed");
    assert_eq!(database.status(shared).await, "receipt_received");
    assert_eq!(tidegate.respond(shared, &"c").part("c").await.unwrap().outcome, "completed");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_that_is_refused_leaves_the_others_of_its_transaction_behind_a_savepoint() {
    let database = TestDatabase::unlimited().await;
    let tidegate = Tidegate::from_pool(database.pool.clone());
    let (direct, shared) = awaiting(&database).await;
    let mut page = database.pool.begin().await.unwrap();
    assert_eq!(apply(&tidegate, &mut page, shared, &["a"]).await, ["completed", "stored"]);
    for (id, is_known) in [(shared, true), (RequestId(Uuid::nil()), false)] {
        let mut savepoint = page.begin().await.unwrap();
        // It lacks the name of its share, or names no request.
        let refused = tidegate.respond(id, &1).within(&mut savepoint).await.unwrap_err();
        assert!(
            match refused {
                Error::Store(StoreError::Misuse(_)) => is_known,
                Error::Store(StoreError::UnknownRequest(_)) => !is_known,
                _ => false,
            },
            "{refused}"
        );
        savepoint.rollback().await.unwrap();
    }
    let share = tidegate.respond(shared, &1).part("b").within(&mut page).await.unwrap();
    assert_eq!(share.outcome, "stored");
    page.commit().await.unwrap();
    assert_eq!(database.status(direct).await, "completed");
    assert_eq!(database.number("select count(*) from tidegate.response_part").await, 2);
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_response_of_several_does_not_lose_the_transaction() {
    let database = TestDatabase::unlimited().await;
    let tidegate = Tidegate::from_pool(database.pool.clone());
    let (direct, shared) = awaiting(&database).await;
    let unknown = RequestId(Uuid::now_v7());
    let paid = Response::new("tx-1", &"paid").unwrap();
    let share = Response::new(shared, &1).unwrap();

    let mut session = database.session().await;
    let mut page = session.begin().await.unwrap();
    let responses = [share.clone(), paid, Response::new(unknown, &1).unwrap(), share.clone().part("a")];
    let results = tidegate.respond_many(&responses).within(&mut page).await.unwrap();
    assert!(matches!(&results[0], Err(Error::Store(StoreError::Misuse(why))) if why.contains("shares")), "{results:?}");
    assert!(matches!(&results[2], Err(Error::Store(StoreError::UnknownRequest(_)))), "{results:?}");
    let outcomes: Vec<_> = results.iter().flatten().map(|responded| responded.outcome.as_str()).collect();
    assert_eq!(outcomes, ["completed", "stored"]);
    let alone = tidegate.respond_many(&[share]).within(&mut page).await.unwrap();
    assert!(matches!(alone[0], Err(Error::Store(StoreError::Misuse(_)))), "{alone:?}");
    assert!(tidegate.respond_many(&[]).within(&mut page).await.unwrap().is_empty());

    assert_eq!(database.status(direct).await, "receipt_received");
    page.commit().await.unwrap();
    assert_eq!(database.status(direct).await, "completed");
}
