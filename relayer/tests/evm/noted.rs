//! Receipts that several sessions note at once.

use alloy::primitives::B256;
use sqlx::Connection;
use tidegate_evm::store::{NotedReceipt, Store};

use super::orders::database;
use crate::support::{TestDatabase, eventually};

fn hash(nonce: u8) -> B256 {
    B256::repeat_byte(nonce + 1)
}

fn receipt(nonce: u8) -> NotedReceipt {
    NotedReceipt { hash: hash(nonce), block_number: 5, block_hash: B256::repeat_byte(0xbb), succeeded: true }
}

/// A wallet with three transactions that are sent.
async fn sent(database: &TestDatabase) {
    database
        .execute(
            "insert into evm.wallet (chain_id, address, name, first_nonce, system_identifier, timeline_id)
             values (1, decode(repeat('01', 20), 'hex'), 'wallet', 0, 1, 1);
             insert into evm.tx (wallet, nonce, recipient, gas_limit, state)
             select w.id, n, w.address, 1, 'sent' from evm.wallet as w, generate_series(0, 2) as n;
             insert into evm.attempt (wallet, nonce, n, kind, hash, max_fee, tip)
             select t.wallet, t.nonce, 1, 'own', decode(repeat('0' || t.nonce + 1, 32), 'hex'), 1, 1 from evm.tx as t",
        )
        .await;
}

/// Waits until so many sessions wait for locks.
async fn waiting(database: &TestDatabase, sessions: i64) {
    let waiting = "select count(*) from pg_stat_activity
                   where datname = current_database() and wait_event_type = 'Lock' and query like '%evm.note_mined%'";
    eventually("the sessions wait", || async { database.number(waiting).await == sessions }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_sessions_note_the_same_receipts_in_opposite_orders() {
    let database = database().await;
    sent(&database).await;
    let mut held = sqlx::PgConnection::connect(&database.url).await.unwrap();
    let mut holder = held.begin().await.unwrap();
    sqlx::query("select from evm.tx where nonce = 1 for update").execute(&mut *holder).await.unwrap();
    let note = |nonces: [u8; 3]| {
        let store = Store::new(database.pool.clone());
        tokio::spawn(async move { store.note_mined(&nonces.map(receipt)).await })
    };
    // Each has locked the first of its rows that it can, and waits for the one in the middle or for the other session.
    let first = note([0, 1, 2]);
    waiting(&database, 1).await;
    let second = note([2, 1, 0]);
    waiting(&database, 2).await;
    holder.rollback().await.unwrap();

    let noted = [first.await.unwrap().unwrap(), second.await.unwrap().unwrap()];
    assert_eq!(noted, [3, 0]);
    assert_eq!(database.number("select count(*) from evm.tx where state = 'mined'").await, 3);
}
