//! Does a store give every caller its turn, with fewer connections than callers, whatever becomes of them?

use std::time::Duration;

use tidegate::internals::{
    database::{self, PoolSettings},
    error::StoreError,
    store::Store,
};

use crate::support::{TestDatabase, eventually, submission};

async fn narrow_store(database: &TestDatabase) -> Store {
    let settings = PoolSettings { connections_max: 2, ..PoolSettings::default() };
    Store::new(database::connect(&database.url, &settings).await.unwrap())
}

/// Sessions of stores.
const SESSIONS: &str = "select count(*) from pg_stat_activity
    where datname = current_database() and query like '-- submit: %'";

#[tokio::test(flavor = "multi_thread")]
async fn many_callers_share_few_connections_and_so_do_transactions() {
    let database = TestDatabase::unlimited().await;
    let store = narrow_store(&database).await;
    let mut tasks = Vec::new();
    for caller in 0..12 {
        let store = store.clone();
        tasks.push(tokio::spawn(async move {
            for round in 0..30 {
                if caller % 4 == 0 {
                    let mut transaction = store.pool().begin().await.unwrap();
                    sqlx::query("select").execute(&mut *transaction).await.unwrap();
                } else if (caller + round) % 5 == 0 {
                    // A caller that goes away while it waits, or in the midst of its statement.
                    let _ = tokio::time::timeout(
                        Duration::from_micros(round * 100),
                        store.submit(&submission("direct", &1.into())),
                    )
                    .await;
                } else {
                    store.submit(&submission("direct", &1.into())).await.unwrap();
                    store.submit(&submission("unknown", &1.into())).await.unwrap_err();
                }
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert!((1..=2).contains(&database.number(SESSIONS).await));
    let mut held = Vec::new();
    for _ in 0..2 {
        held.push(store.pool().begin().await.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_one_after_the_other_use_one_connection() {
    let database = TestDatabase::unlimited().await;
    let store = narrow_store(&database).await;
    for _ in 0..20 {
        store.submit(&submission("direct", &1.into())).await.unwrap();
    }
    assert_eq!(database.number(SESSIONS).await, 1);
    // A connection that the server has closed fails one statement and no other.
    database.execute(&SESSIONS.replace("count(*)", "pg_terminate_backend(pid)")).await;
    eventually("the session ends", || async { database.number(SESSIONS).await == 0 }).await;
    let _ = store.submit(&submission("direct", &1.into())).await;
    store.submit(&submission("direct", &1.into())).await.unwrap();
}

#[test]
fn a_store_may_be_dropped_after_its_runtime() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let store = runtime.block_on(async {
        let database = TestDatabase::unlimited().await;
        let store = narrow_store(&database).await;
        store.submit(&submission("direct", &1.into())).await.unwrap();
        store
    });
    drop(runtime);
    drop(store);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_closes_although_a_store_keeps_a_connection_of_it() {
    let database = TestDatabase::unlimited().await;
    database.submit("direct").await;
    let beside = database.store.with_own_pool(1);
    beside.check_ready().await.unwrap();

    tokio::time::timeout(Duration::from_secs(20), database.pool.close())
        .await
        .expect("the store gives its connections back");
    // A store beside it ends with it: a worker that cannot settle must not claim.
    for store in [&database.store, &beside] {
        let refused = store.check_ready().await;
        assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
    }
}
