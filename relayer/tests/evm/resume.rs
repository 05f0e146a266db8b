//! A request keeps its transaction, whatever became of the process that signed it and whatever the endpoint answers.

use std::{sync::Arc, time::Duration};

use tidegate_evm::{LocalSigner, Order, Revert, Sender, Sending, WaitCause};

use super::{
    node::Node,
    orders::{adopt, chain, database, key, options, orders, sender, taken},
};
use crate::support::{TestDatabase, eventually};

/// A chain that mines when it is told to, a wallet, and orders.
async fn scene(count: usize) -> (TestDatabase, Node, Sender, Vec<Order>) {
    let (database, node) = (database().await, Node::start(false).await);
    let chain = chain(&node.url).await;
    adopt(&database, &chain, 1, 64).await;
    let orders = orders(&database, count).await;
    let sender = sender(&chain, &database.pool, &[1]);
    (database, node, sender, orders)
}

/// Sends until the endpoint has answered, and then no more.
async fn send_and_leave(database: &TestDatabase, sender: &Sender, order: &Order) {
    let answered = eventually("the answer is recorded", || async {
        database.number("select count(*) from evm.attempt where answer is not null").await == 1
    });
    tokio::select! {
        outcome = sender.send(order) => panic!("{outcome:?}"),
        () = answered => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_the_endpoint_has_already_are_taken_for_sent() {
    let (database, node, sender, orders) = scene(1).await;
    send_and_leave(&database, &sender, &orders[0]).await;
    assert!(sender.find(orders[0].request).await.unwrap().mined().is_none());
    // As if the process had ended before it recorded the answer.
    database.execute("update evm.tx set state = 'signed'; update evm.attempt set answer = null").await;
    let mine = async {
        eventually("the bytes are sent again", || async { node.sent().len() == 2 }).await;
        node.mine();
    };
    let (outcome, ()) = tokio::join!(sender.send(&orders[0]), mine);
    let Sending::Mined(mined) = outcome else { panic!("{outcome:?}") };
    assert_eq!(node.sent(), [mined.hash, mined.hash], "the same bytes");
    assert_eq!(database.text("select string_agg(answer, ',') from evm.attempt").await.unwrap(), "accepted");
    assert_eq!(taken(&database).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_nonce_that_is_too_low_leads_to_the_receipt_of_the_own_transaction() {
    let (database, node, sender, orders) = scene(1).await;
    send_and_leave(&database, &sender, &orders[0]).await;
    node.mine();
    database.execute("update evm.tx set state = 'signed'; update evm.attempt set answer = null").await;
    let Sending::Mined(mined) = sender.send(&orders[0]).await else { panic!() };
    assert_eq!(node.sent(), [mined.hash, mined.hash]);
    let found = sender.find(orders[0].request).await.unwrap().mined().unwrap();
    assert_eq!((found.hash, found.block_hash), (mined.hash, mined.block_hash));
    let state = "select concat(state, ' ', block_number, ' ', status) from evm.tx";
    assert_eq!(database.text(state).await.unwrap(), "mined 1 1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lowest_transaction_that_is_refused_stops_new_orders() {
    let (database, node, sender, orders) = scene(2).await;
    node.refuse_next(-32003, "max fee per gas less than block base fee");
    send_and_leave(&database, &sender, &orders[0]).await;
    let mut hasty = options();
    hasty.patience = Duration::from_millis(500);
    let chain = chain(&node.url).await;
    let signer = Arc::new(LocalSigner::from(key(1)));
    let hasty = Sender::new(chain, database.pool.clone(), vec![signer], hasty);
    let outcome = hasty.send(&orders[1]).await;
    assert!(matches!(outcome, Sending::Waiting(WaitCause::Full)), "{outcome:?}");
    assert_eq!(taken(&database).await.len(), 1);

    // The resumed order sends the same bytes again, and this time they are taken.
    let mine = async {
        eventually("both are sent", || async {
            node.mine();
            node.sent().len() == 3
        })
        .await;
        node.mine();
    };
    let (first, second, ()) = tokio::join!(sender.send(&orders[0]), sender.send(&orders[1]), mine);
    assert!(matches!((&first, &second), (Sending::Mined(_), Sending::Mined(_))), "{first:?} {second:?}");
    assert_eq!(taken(&database).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_are_refused_for_a_revert_end_the_order() {
    let (database, node, sender, orders) = scene(1).await;
    node.refuse_next(3, "execution reverted");
    let revert = async {
        eventually("it was refused", || async { node.sent().len() == 1 }).await;
        node.revert(Some([1, 2, 3, 4].into()));
    };
    let (outcome, ()) = tokio::join!(sender.send(&orders[0]), revert);
    let Sending::Reverted(Revert { data, mined: false }) = outcome else { panic!("{outcome:?}") };
    assert_eq!(data.as_ref(), [1, 2, 3, 4]);
    assert_eq!(taken(&database).await.len(), 1, "the nonce stays the order's");
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_are_refused_for_good_end_the_order() {
    for (message, is_it) in [
        ("oversized data", (|outcome| matches!(outcome, Sending::TooLarge)) as fn(&Sending) -> bool),
        ("exceeds block gas limit", |outcome| matches!(outcome, Sending::Gas)),
    ] {
        let (database, node, sender, orders) = scene(1).await;
        node.refuse_next(-32000, message);
        let outcome = sender.send(&orders[0]).await;
        assert!(is_it(&outcome), "{outcome:?}");
        assert_eq!(taken(&database).await.len(), 1, "the nonce stays the order's");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_estimate_that_reverts_takes_no_nonce() {
    let (database, node, sender, orders) = scene(2).await;
    node.revert(Some([9, 8, 7, 6].into()));
    let outcome = sender.send(&orders[0]).await;
    let Sending::Reverted(Revert { data, mined: false }) = outcome else { panic!("{outcome:?}") };
    assert_eq!(data.as_ref(), [9, 8, 7, 6]);
    assert!(taken(&database).await.is_empty());
    assert!(node.sent().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filler_that_is_mined_ends_the_order() {
    let (database, node, sender, orders) = scene(1).await;
    send_and_leave(&database, &sender, &orders[0]).await;
    node.mine();
    // The transaction that was mined was not the order's call, as a keeper signs it for a request that has ended.
    database.execute("update evm.attempt set kind = 'filler'").await;
    assert!(sender.find(orders[0].request).await.unwrap().mined().is_none());
    assert!(matches!(sender.send(&orders[0]).await, Sending::Ended));
}
