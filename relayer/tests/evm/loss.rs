//! What takes a wallet out of use, and what `resync` makes of it.

use std::time::Duration;

use alloy::primitives::Bytes;
use serde_json::Value;
use tidegate_evm::{
    Order, Sending,
    checker::{Sends, Violation},
    keeper::KeeperError,
    operations::{self, Call, Finding, OperationError, ResyncOptions},
};
use tidegate_fhevm_stand_ins::{
    chain::Mining,
    rpc_proxy::{Fault, Rule},
};

use super::{
    counter,
    orders::CONTRACT,
    scene::{Scene, outcomes},
};
use crate::support::eventually;

const SEND: &str = "eth_sendRawTransaction";
const RECEIPT: &str = "eth_getTransactionReceipt";

/// A send of which nothing is certain; the endpoint remains healthy.
const REFUSED: Fault = Fault::Refuse(-32000, "not now");

const AT_ONCE: ResyncOptions =
    ResyncOptions { quiet: Duration::ZERO, patience: Duration::ZERO, lost_depth: 20, lost_quorum: 1 };

async fn stopped_scene() -> Scene {
    let scene = Scene::new(Mining::OnDemand).await;
    scene.database.stop_clock().await;
    scene
}

fn call(order: &Order) -> Call {
    Call { request: order.request, to: order.to, calldata: order.calldata.clone() }
}

/// Steps for a minute: nothing is sent, and nothing signed.
async fn assert_silent(scene: &Scene) {
    let keeper = scene.keeper().await;
    let (sent, versions) = (scene.proxy.calls(SEND), scene.versions().await);
    for _ in 0..6 {
        scene.later(Duration::from_secs(10)).await;
        scene.anvil.mine(1).await.unwrap();
        keeper.step(1).await.unwrap();
    }
    assert_eq!((scene.proxy.calls(SEND), scene.versions().await), (sent, versions));
    let refusal = scene.database.text("select refusal from evm.wallet_load(1::smallint)").await;
    assert_eq!(refusal.unwrap(), "off");
}

/// The ways to find what has used a nonce, without those that need more of a node.
fn nodes() -> [Vec<Rule>; 3] {
    let without_index = || Rule::new("eth_getTransactionBySenderAndNonce", Fault::Refuse(-32601, "Method not found"));
    // Counts at old blocks, by their numbers.
    let count = "eth_getTransactionCount";
    let without_states = Rule::new(count, Fault::Refuse(-32000, "missing trie node")).containing("\",\"0x");
    [vec![], vec![without_index()], vec![without_index(), without_states]]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_transaction_at_our_nonce_takes_the_wallet_out_of_use() {
    for rules in nodes() {
        let scene = stopped_scene().await;
        scene.proxy.add(Rule::new(SEND, REFUSED));
        let orders = scene.orders(3).await;
        let sends = scene.begin(&orders).await;
        scene.proxy.clear();
        rules.into_iter().for_each(|rule| scene.proxy.add(rule));
        let foreign = scene.foreign(0, CONTRACT, Bytes::from_static(&[1, 2, 3, 4])).await;
        scene.anvil.mine(1).await.unwrap();
        let keeper = scene.keeper().await;
        // The other two are due.
        scene.later(Duration::from_secs(1)).await;
        keeper.step(1).await.unwrap();
        let (state, cause) = scene.state().await;
        assert_eq!(state, "off");
        assert_eq!(scene.counts().await, (1, 1), "nothing is sent");
        assert!(cause.unwrap().contains(&foreign.to_string()));
        assert_eq!(scene.states().await, ["signed"; 3], "it is not taken for lost without a person");
        assert_silent(&scene).await;
        drop(sends);
        let found = scene.check(false, |_| Sends::AtMostOne).await.violations;
        assert!(matches!(found.as_slice(), [Violation::Foreign { nonce: 0, .. }]), "{found:?}");

        // Its block is not final: nothing is decided.
        let store = scene.store();
        let resync = async || operations::resync(&scene.chain, &store, "wallet-1", &[], AT_ONCE).await.unwrap();
        let report = resync().await;
        assert_eq!((report.found.as_slice(), report.in_use), (&[(0, Finding::NotFinal)][..], false), "{report}");
        scene.anvil.mine(21).await.unwrap();
        let report = resync().await;
        assert_eq!((report.found.as_slice(), report.in_use), (&[(0, Finding::Lost)][..], true), "{report}");
        // The other two are sent, and the first request gets another nonce.
        keeper.step(1).await.unwrap();
        let first = scene.database.text("select order_id from evm.tx where nonce = 0").await.unwrap();
        let again = orders.iter().find(|order| order.request.to_string() == first).unwrap();
        let sends = scene.begin(std::slice::from_ref(again)).await;
        eventually("all are in the pool", || async { scene.counts().await == (1, 4) }).await;
        scene.anvil.mine(1).await.unwrap();
        assert!(matches!(outcomes(sends).await.as_slice(), [Sending::Mined(_)]));
        keeper.step(1).await.unwrap();
        for order in &orders {
            assert_eq!(scene.counted(order.request).await, 1);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receipt_that_is_withheld_proves_nothing() {
    let scene = stopped_scene().await;
    let keeper = scene.keeper().await;
    let orders = scene.orders(2).await;
    let sends = scene.begin(&orders).await;
    scene.proxy.add(Rule::new(RECEIPT, Fault::Answer(Value::Null)));
    scene.anvil.mine(1).await.unwrap();
    for _ in 0..10 {
        scene.later(Duration::from_secs(10)).await;
        scene.anvil.mine(10).await.unwrap();
        keeper.step(1).await.unwrap();
    }
    assert_eq!((scene.states().await, scene.state().await.0), (vec!["sent".to_owned(); 2], "active".to_owned()));
    assert_eq!(scene.versions().await, [1, 1]);
    scene.proxy.clear();
    keeper.step(1).await.unwrap();
    assert_eq!(scene.states().await, ["final"; 2]);
    outcomes(sends).await;
    scene.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn receipts_that_cannot_be_read_hold_no_other_transaction_up() {
    let scene = stopped_scene().await;
    let orders = scene.orders(2).await;
    drop(scene.begin(&orders[..1]).await);
    scene.anvil.mine(1).await.unwrap();
    scene.proxy.add(Rule::new(SEND, REFUSED));
    drop(scene.begin(&orders[1..]).await);
    scene.proxy.clear();
    scene.proxy.add(Rule::new("eth_getTransactionReceipt", REFUSED));
    scene.later(Duration::from_secs(1)).await;
    let outcome = scene.keeper().await.step(1).await;
    assert!(matches!(outcome, Err(KeeperError::Endpoint(_))), "{outcome:?}");
    assert_eq!(scene.states().await, ["sent"; 2]);
    assert_eq!(scene.counts().await, (1, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_orders_own_transaction_of_a_former_life_is_adopted() {
    let scene = stopped_scene().await;
    let keeper = scene.keeper().await;
    scene.proxy.add(Rule::new(SEND, REFUSED));
    let orders = scene.orders(1).await;
    let sends = scene.begin(&orders).await;
    scene.foreign(0, CONTRACT, counter::count(orders[0].request)).await;
    scene.anvil.mine(1).await.unwrap();
    keeper.step(1).await.unwrap();
    assert_eq!((scene.states().await, scene.state().await.0), (vec!["mined".to_owned()], "active".to_owned()));
    assert!(matches!(outcomes(sends).await.as_slice(), [Sending::Mined(_)]));
    scene.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_was_set_back_sends_nothing_until_resync_adopts_what_is_there() {
    let scene = stopped_scene().await;
    let keeper = scene.keeper().await;
    let orders = scene.orders(4).await;
    let sends = scene.begin(&orders).await;
    scene.anvil.mine(1).await.unwrap();
    outcomes(sends).await;
    keeper.step(1).await.unwrap();
    // As it was after the first two nonces were taken.
    let back = "delete from evm.attempt where nonce >= 2; delete from evm.tx where nonce >= 2";
    scene.database.execute(back).await;
    keeper.step(1).await.unwrap();
    let (state, cause) = scene.state().await;
    assert_eq!(state, "off");
    assert!(
        cause.unwrap().contains("the chain has 4 transactions of it, 4 with those that wait, and the database only 2")
    );
    assert_silent(&scene).await;

    let store = scene.store();
    let calls: Vec<_> = orders.iter().map(call).collect();
    let report = operations::resync(&scene.chain, &store, "wallet-1", &calls[..], AT_ONCE).await.unwrap();
    assert!(report.in_use, "{report}");
    let nonces: Vec<_> = report.found.iter().map(|(nonce, _)| *nonce).collect();
    assert_eq!(nonces, [2, 3], "{report}");
    assert!(report.found.iter().all(|(_, finding)| matches!(finding, Finding::Adopted(Some(_)))), "{report}");
    let sender = scene.sender();
    for order in &orders {
        assert!(sender.find(order.request).await.unwrap().mined().is_some());
    }
    let more = scene.begin(&scene.orders(1).await).await;
    scene.anvil.mine(1).await.unwrap();
    assert!(matches!(outcomes(more).await.as_slice(), [Sending::Mined(_)]));
    keeper.step(1).await.unwrap();
    scene.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_with_another_timeline_sends_nothing_while_the_former_ones_transactions_wait() {
    let scene = stopped_scene().await;
    let keeper = scene.keeper().await;
    let orders = scene.orders(3).await;
    drop(scene.begin(&orders).await);
    // The copy was made before the last nonce was taken, which is in the pool.
    let copied = "delete from evm.attempt where nonce = 2; delete from evm.tx where nonce = 2;
                  update evm.wallet set timeline_id = timeline_id + 1";
    scene.database.execute(copied).await;
    keeper.step(1).await.unwrap();
    let (state, cause) = scene.state().await;
    assert_eq!(state, "off");
    assert!(cause.unwrap().contains("timeline"));
    let (sent, store) = (scene.proxy.calls(SEND), scene.store());
    scene.later(Duration::from_secs(10)).await;
    keeper.step(1).await.unwrap();
    assert_eq!(scene.proxy.calls(SEND), sent);
    let calls: Vec<_> = orders.iter().map(call).collect();
    let waiting = operations::resync(&scene.chain, &store, "wallet-1", &calls, AT_ONCE).await;
    assert!(matches!(waiting, Err(OperationError::Pending { latest: 0, pending: 3, .. })), "{waiting:?}");
    scene.anvil.mine(1).await.unwrap();
    let report = operations::resync(&scene.chain, &store, "wallet-1", &calls, AT_ONCE).await.unwrap();
    assert!(report.in_use && report.cause.contains("timeline"), "{report}");
    assert!(matches!(report.found.last(), Some((2, Finding::Adopted(Some(_))))), "{report}");
    keeper.step(1).await.unwrap();
    assert_eq!(scene.state().await.0, "active");
    scene.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn final_transactions_that_are_gone_take_the_wallet_out_of_use() {
    let scene = stopped_scene().await;
    let keeper = scene.keeper().await;
    scene.anvil.mine(1).await.unwrap();
    drop(scene.begin(&scene.orders(2).await).await);
    scene.anvil.mine(22).await.unwrap();
    keeper.step(1).await.unwrap();
    keeper.step(1).await.unwrap();
    assert_eq!(scene.states().await, ["final"; 2]);
    scene.anvil.reorg(22).await.unwrap();
    keeper.step(1).await.unwrap();
    let (state, cause) = scene.state().await;
    assert_eq!(state, "off");
    assert!(cause.unwrap().contains("they are gone"));
    assert_silent(&scene).await;
    let report = operations::resync(&scene.chain, &scene.store(), "wallet-1", &[], AT_ONCE).await.unwrap();
    assert_eq!((report.found.len(), report.in_use), (2, true), "{report}");
    scene.later(Duration::from_secs(1)).await;
    keeper.step(1).await.unwrap();
    scene.anvil.mine(1).await.unwrap();
    keeper.step(1).await.unwrap();
    assert_eq!(scene.counts().await, (2, 2));
    let report = scene.check(true, |_| Sends::AtMostOne).await;
    assert_eq!((report.wallets[0].fillers, report.violations), (2, vec![]));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_sees_drains_and_stops_wallets() {
    let scene = stopped_scene().await;
    let (chain, store) = (&scene.chain, scene.store());
    drop(scene.begin(&scene.orders(2).await).await);
    let id = scene.anvil.chain_id();
    let list = operations::list(&store, id).await.unwrap().to_string();
    assert!(list.contains(&scene.wallet.to_checksum(None)) && list.contains("2/64"), "{list}");
    let check = operations::check(chain, &store, "wallet-1", &super::scene::options().funds).await.unwrap();
    assert_eq!((check.latest, check.pending), (0, 2));
    assert!(check.to_string().contains("pays for"), "{check}");
    let drained = operations::drain(&store, id, "wallet-1").await.unwrap();
    assert_eq!(drained, "wallet-1 takes no new orders; 2 transactions are in flight");
    assert!(operations::drain(&store, id, "wallet-1").await.unwrap().contains("already"));
    let again = operations::resync(chain, &store, "wallet-1", &[], AT_ONCE).await.unwrap_err();
    assert!(matches!(again, OperationError::InUse(_)), "{again}");
    assert!(operations::off(&store, id, "wallet-1").await.unwrap().contains("2 orders in flight wait"));
    assert!(operations::off(&store, id, "wallet-1").await.unwrap().contains("already"));
    assert!(matches!(operations::drain(&store, id, "wallet-1").await, Err(OperationError::Off(..))));
    assert!(matches!(operations::off(&store, id, "b").await, Err(OperationError::Unknown { .. })));
}
