//! What comes of an order on a real chain.

use alloy::sol_types::SolError;
use futures_util::future::join_all;
use tidegate_evm::{Order, Revert, Sender, Sending, WaitCause, store::Store, wallets};
use tidegate_fhevm_stand_ins::{abi::Counter, chain::Mining};

use super::{
    counter::{self, Counted},
    orders::{CONTRACT, adopt, database, key, orders, sender, taken},
};
use crate::support::{TestDatabase, eventually};

/// Orders that count their requests, from one wallet.
async fn scene(mining: Mining, count: usize) -> (TestDatabase, Counted, Sender, Vec<Order>) {
    let (database, counted) = tokio::join!(database(), Counted::start(mining));
    let chain = counted.chain().await;
    adopt(&database, &chain, 1, 64).await;
    let orders = orders(&database, count).await.into_iter().map(|order| Order {
        to: counted.contract,
        calldata: counter::count(order.request),
        ..order
    });
    let orders = orders.collect();
    let sender = sender(&chain, &database.pool, &[1]);
    (database, counted, sender, orders)
}

#[tokio::test(flavor = "multi_thread")]
async fn each_order_is_mined_once() {
    let (database, counted, sender, orders) = scene(Mining::Every(1), 100).await;
    let outcomes = join_all(orders.iter().map(|order| sender.send(order))).await;
    for (order, outcome) in orders.iter().zip(&outcomes) {
        let Sending::Mined(mined) = outcome else { panic!("{outcome:?}") };
        assert_eq!(mined.logs.len(), 1);
        assert_eq!(mined.logs[0].topics()[2], counter::name(order.request));
        let found = sender.find(order.request).await.unwrap().mined().unwrap();
        assert_eq!(found.hash, mined.hash);
    }
    let mut names = counted.counted().await;
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 100);
    assert_eq!(counted.mined(key(1).address()).await, 100);
    assert_eq!(taken(&database).await.last().unwrap().0, 99);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_reverts_costs_no_nonce() {
    let (database, counted, sender, mut orders) = scene(Mining::Automatic, 2).await;
    orders[0].calldata = counter::refuse(orders[0].request);
    let outcome = sender.send(&orders[0]).await;
    let Sending::Reverted(Revert { data, mined: false }) = outcome else { panic!("{outcome:?}") };
    let order = counter::name(orders[0].request);
    assert_eq!(data.as_ref(), Counter::Refused { order }.abi_encode());
    assert!(matches!(sender.send(&orders[1]).await, Sending::Mined(_)));
    assert_eq!(counted.mined(key(1).address()).await, 1);
    assert_eq!(taken(&database).await, [(0, orders[1].request)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_reverts_when_it_is_mined_is_not_repeated() {
    let (database, counted, sender, orders) = scene(Mining::OnDemand, 1).await;
    let fail = async {
        eventually("it is sent", || async {
            database.number("select count(*) from evm.tx where state = 'sent'").await == 1
        })
        .await;
        counted.fail(&[1, 2, 3, 4, 5]).await;
    };
    let (outcome, ()) = tokio::join!(sender.send(&orders[0]), fail);
    for outcome in [outcome, sender.send(&orders[0]).await] {
        let Sending::Reverted(Revert { data, mined: true }) = outcome else { panic!("{outcome:?}") };
        assert_eq!(data.as_ref(), [1, 2, 3, 4, 5]);
    }
    assert!(sender.find(orders[0].request).await.unwrap().mined().is_none());
    assert_eq!(taken(&database).await.len(), 1);
    let state = "select concat(state, ' ', status) from evm.tx";
    assert_eq!(database.text(state).await.unwrap(), "mined 0");
    assert_eq!(counted.mined(key(1).address()).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_without_code_gets_no_transaction() {
    let (database, _counted, sender, mut orders) = scene(Mining::Automatic, 1).await;
    orders[0].to = CONTRACT;
    let outcome = sender.send(&orders[0]).await;
    assert!(matches!(outcome, Sending::Waiting(WaitCause::NoContract(CONTRACT))), "{outcome:?}");
    assert!(taken(&database).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_with_transactions_that_wait_is_not_adopted() {
    let (database, counted, sender, orders) = scene(Mining::OnDemand, 1).await;
    let send = sender.send(&orders[0]);
    let is_sent = eventually("it is sent", || async {
        database.number("select count(*) from evm.tx where state = 'sent'").await == 1
    });
    tokio::select! {
        outcome = send => panic!("{outcome:?}"),
        () = is_sent => {}
    }
    database.execute("truncate evm.wallet cascade").await;
    let (chain, store) = (counted.chain().await, Store::new(database.pool.clone()));
    let address = key(1).address();
    let refused = wallets::adopt(&chain, &store, address, "again", 64).await.unwrap_err();
    assert!(refused.to_string().contains("1 transactions with those that wait, and 0 mined"), "{refused}");
    counted.anvil.mine(1).await.unwrap();
    assert_eq!(wallets::adopt(&chain, &store, address, "again", 64).await.unwrap(), 1);
    let twice = wallets::adopt(&chain, &store, address, "other", 64).await.unwrap_err();
    assert!(matches!(twice, wallets::AdoptError::Known(..)), "{twice}");
}
