//! The keeper's duties, one by one, on a chain that makes a block when a test wants one.

use std::time::Duration;

use alloy::primitives::U256;
use serde_json::json;
use tidegate_evm::{Chain, Sending, checker::Sends, keeper::KeeperError};
use tidegate_fhevm_stand_ins::{
    chain::Mining,
    rpc_proxy::{Fault, Rule},
};

use super::scene::{Scene, options, outcomes};
use crate::support::eventually;

const SEND: &str = "eth_sendRawTransaction";

/// A send of which nothing is certain; the endpoint remains healthy.
const REFUSED: Fault = Fault::Refuse(-32000, "not now");

async fn stopped_scene() -> Scene {
    let scene = Scene::new(Mining::OnDemand).await;
    scene.database.stop_clock().await;
    scene
}

/// Makes final what is mined: on these chains, blocks 20 below the last one.
async fn make_final(scene: &Scene) {
    scene.anvil.mine(21).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_signed_and_not_sent_is_sent_after_a_second_and_the_lowest_nonce_after_a_quarter() {
    let scene = stopped_scene().await;
    let keeper = scene.keeper().await;
    scene.proxy.add(Rule::new(SEND, REFUSED));
    let orders = scene.orders(3).await;
    let sends = scene.begin(&orders).await;
    assert_eq!(scene.states().await, ["signed"; 3]);
    keeper.step(1).await.unwrap();
    let sent = scene.proxy.calls(SEND);
    for (milliseconds, more, why) in [
        (240, 0, "its owner has time to send it"),
        (10, 1, "all others wait for it"),
        (740, 2, "not more often than the keeper looks"),
    ] {
        scene.later(Duration::from_millis(milliseconds)).await;
        keeper.step(1).await.unwrap();
        assert_eq!(scene.proxy.calls(SEND), sent + more, "{why}");
    }
    scene.proxy.clear();
    scene.later(Duration::from_millis(250)).await;
    keeper.step(1).await.unwrap();
    assert_eq!(scene.states().await, ["sent"; 3]);
    assert_eq!(scene.counts().await, (0, 3));
    scene.anvil.mine(1).await.unwrap();
    for sending in outcomes(sends).await {
        assert!(matches!(sending, Sending::Mined(_)), "{sending:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_pool_has_swallowed_is_sent_again_after_five_seconds_though_the_pool_counts_it() {
    let scene = stopped_scene().await;
    let keeper = scene.keeper().await;
    scene.proxy.add(Rule::new(SEND, Fault::Swallow).times(1));
    let counted = Rule::new("eth_getTransactionCount", Fault::Answer(json!("0x1"))).containing("pending");
    scene.proxy.add(counted);
    let orders = scene.orders(1).await;
    let sends = scene.begin(&orders).await;
    assert_eq!((scene.states().await, scene.counts().await), (vec!["sent".to_owned()], (0, 0)));
    scene.later(Duration::from_millis(4_900)).await;
    keeper.step(1).await.unwrap();
    assert_eq!(scene.counts().await, (0, 0));
    scene.later(Duration::from_millis(100)).await;
    keeper.step(1).await.unwrap();
    assert_eq!(scene.counts().await, (0, 1));
    scene.anvil.mine(1).await.unwrap();
    outcomes(sends).await;
    assert_eq!(scene.versions().await, [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_endpoint_takes_and_drops_is_sent_again_to_the_others() {
    let scene = stopped_scene().await;
    scene.proxy.add(Rule::new(SEND, Fault::Swallow));
    let counted = Rule::new("eth_getTransactionCount", Fault::Answer(json!("0x3"))).containing("pending");
    scene.proxy.add(counted);
    let sends = scene.begin(&scene.orders(3).await).await;
    assert_eq!((scene.states().await, scene.counts().await.1), (vec!["sent".to_owned(); 3], 0));
    let urls = [scene.proxy.url().clone(), scene.anvil.url().clone()];
    let both = Chain::connect(scene.anvil.chain_id(), &urls).await.unwrap();
    let keeper = scene.keeper_with(both, options()).await;

    scene.later(Duration::from_secs(5)).await;
    keeper.step(1).await.unwrap();

    assert_eq!(scene.counts().await, (0, 3));
    scene.anvil.mine(1).await.unwrap();
    outcomes(sends).await;
    assert_eq!(scene.versions().await, [1; 3]);
}

/// Four orders, of which the pool lacks the first and the third.
async fn with_two_holes(scene: &Scene) {
    let orders = scene.orders(4).await;
    for (nonce, order) in orders.chunks(1).enumerate() {
        if nonce % 2 == 0 {
            scene.proxy.add(Rule::new(SEND, Fault::Swallow).times(1));
        }
        drop(scene.begin(order).await);
    }
    assert_eq!(scene.counts().await, (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_pool_lacks_is_sent_again_in_one_step_and_nothing_else() {
    let scene = stopped_scene().await;
    let keeper = scene.keeper().await;
    with_two_holes(&scene).await;
    scene.later(Duration::from_millis(240)).await;
    keeper.step(1).await.unwrap();
    assert_eq!((scene.counts().await, scene.proxy.calls(SEND)), ((0, 0), 4));
    scene.later(Duration::from_millis(10)).await;
    keeper.step(1).await.unwrap();
    assert_eq!((scene.counts().await, scene.proxy.calls(SEND)), ((0, 4), 6));
    assert_eq!(scene.versions().await, [1; 4]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_that_takes_nothing_gets_one_transaction_per_quarter_of_a_second() {
    let scene = stopped_scene().await;
    let keeper = scene.keeper().await;
    with_two_holes(&scene).await;
    for (fault, sends) in [(Fault::Swallow, 5), (REFUSED, 6), (REFUSED, 7)] {
        scene.proxy.clear();
        scene.proxy.add(Rule::new(SEND, fault));
        scene.later(Duration::from_millis(250)).await;
        for _ in 0..3 {
            keeper.step(1).await.unwrap();
            assert_eq!(scene.proxy.calls(SEND), sends);
        }
    }
    // A price that is too low can wait.
    scene.proxy.clear();
    scene.proxy.add(Rule::new(SEND, Fault::Refuse(-32000, "transaction underpriced")));
    for sends in [8, 8, 8] {
        scene.later(Duration::from_millis(250)).await;
        keeper.step(1).await.unwrap();
        assert_eq!(scene.proxy.calls(SEND), sends);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn receipts_are_recorded_and_bytes_forgotten_once_they_are_final() {
    let scene = stopped_scene().await;
    let keeper = scene.keeper().await;
    let sends = scene.begin(&scene.orders(2).await).await;
    drop(sends);
    scene.anvil.mine(1).await.unwrap();
    keeper.step(1).await.unwrap();
    assert_eq!(scene.states().await, ["mined"; 2]);
    keeper.step(1).await.unwrap();
    assert_eq!(scene.states().await, ["mined"; 2], "not final yet");
    make_final(&scene).await;
    keeper.step(1).await.unwrap();
    assert_eq!(scene.states().await, ["final"; 2]);
    let kept = "select count(a.raw) + count(t.calldata) from evm.tx as t join evm.attempt as a using (wallet, nonce)";
    assert_eq!(scene.database.number(kept).await, 0);
    assert_eq!(scene.database.number("select settled_nonce from evm.keeper").await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lowest_transaction_is_bumped_while_blocks_are_made_and_never_faster() {
    let scene = stopped_scene().await;
    let keeper = scene.keeper().await;
    let sends = scene.begin(&scene.orders(2).await).await;
    keeper.step(1).await.unwrap();
    for hash in hashes(&scene).await {
        scene.anvil.drop_transaction(hash).await.unwrap();
    }
    scene.later(Duration::from_secs(11)).await;
    keeper.step(1).await.unwrap();
    assert_eq!(scene.versions().await, [1, 1], "no block was made");
    for hash in hashes(&scene).await {
        scene.anvil.drop_transaction(hash).await.unwrap();
    }
    scene.anvil.mine(1).await.unwrap();
    keeper.step(1).await.unwrap();
    assert_eq!(scene.versions().await, [2, 1], "the lowest one only");
    let raised = "select bool_and(b.max_fee >= a.max_fee * 1.125 and b.tip >= a.tip * 1.125)::text
                  from evm.attempt as a join evm.attempt as b using (wallet, nonce) where b.n = a.n + 1";
    assert_eq!(scene.database.text(raised).await.unwrap(), "true");
    keeper.step(1).await.unwrap();
    keeper.step(1).await.unwrap();
    assert_eq!(scene.versions().await, [2, 1]);
    scene.later(Duration::from_secs(5)).await;
    keeper.step(1).await.unwrap();
    scene.anvil.mine(1).await.unwrap();
    outcomes(sends).await;
    keeper.step(1).await.unwrap();
    assert_eq!(scene.states().await, ["mined"; 2]);
}

async fn hashes(scene: &Scene) -> Vec<alloy::primitives::B256> {
    let sql = "select hash from evm.attempt order by nonce desc, n desc";
    let hashes: Vec<Vec<u8>> = sqlx::query_scalar(sql).fetch_all(&scene.database.pool).await.unwrap();
    hashes.iter().map(|hash| hash.as_slice().try_into().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn all_that_the_base_fee_prices_out_is_bumped_at_once() {
    let scene = stopped_scene().await;
    let keeper = scene.keeper().await;
    let sends = scene.begin(&scene.orders(5).await).await;
    scene.anvil.set_next_base_fee(50_000_000_000).await.unwrap();
    scene.anvil.mine(1).await.unwrap();
    assert_eq!(scene.counts().await.0, 0, "the chain has thrown them out");
    keeper.step(1).await.unwrap();
    assert_eq!(scene.versions().await, [2; 5]);
    scene.anvil.mine(1).await.unwrap();
    for sending in outcomes(sends).await {
        assert!(matches!(sending, Sending::Mined(_)), "{sending:?}");
    }
    assert_eq!(scene.counts().await, (5, 5));
}

#[tokio::test(flavor = "multi_thread")]
async fn at_the_cap_the_newest_bytes_are_sent_every_ten_seconds_and_nothing_new_is_taken() {
    let scene = stopped_scene().await;
    let cap = 5_000_000_000;
    let keeper = scene.keeper_with(scene.direct(cap).await, options()).await;
    let sends = scene.begin(&scene.orders(1).await).await;
    for _ in 0..8 {
        scene.anvil.set_next_base_fee(50_000_000_000).await.unwrap();
        scene.anvil.mine(1).await.unwrap();
        keeper.step(1).await.unwrap();
    }
    let capped = format!("select count(*) from evm.attempt where max_fee > {cap}");
    assert_eq!(scene.database.number(&capped).await, 0);
    let versions = scene.versions().await;
    scene.later(Duration::from_secs(10)).await;
    keeper.step(1).await.unwrap();
    assert_eq!(scene.versions().await, versions);
    let refusal = scene.database.text("select refusal from evm.wallet_load(1::smallint)").await;
    assert_eq!(refusal.unwrap(), "refused");
    // The price falls.
    scene.anvil.set_next_base_fee(1_000).await.unwrap();
    scene.anvil.mine(1).await.unwrap();
    scene.later(Duration::from_secs(10)).await;
    keeper.step(1).await.unwrap();
    scene.anvil.set_next_base_fee(1_000).await.unwrap();
    scene.anvil.mine(1).await.unwrap();
    outcomes(sends).await;
    assert_eq!(scene.counts().await, (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_nonce_whose_request_has_ended_is_used_up_and_its_order_is_free_once_that_is_final() {
    let scene = stopped_scene().await;
    let keeper = scene.keeper().await;
    let orders = scene.orders(3).await;
    scene.proxy.add(Rule::new(SEND, REFUSED));
    let sends = scene.begin(&orders).await;
    scene.proxy.clear();
    let of_nonce = "select order_id from evm.tx where nonce = 1";
    let ended = scene.database.text(of_nonce).await.unwrap().parse().unwrap();
    scene.end(ended).await;
    keeper.step(1).await.unwrap();
    assert_eq!(scene.versions().await, [1, 1, 1]);
    scene.later(Duration::from_secs(1)).await;
    keeper.step(1).await.unwrap();
    assert_eq!(scene.versions().await, [1, 2, 1]);
    assert_eq!(scene.counts().await, (0, 3));
    scene.anvil.mine(1).await.unwrap();
    keeper.step(1).await.unwrap();
    assert_eq!(scene.states().await, ["mined"; 3]);
    let live = "select count(*) from evm.tx where nonce = 1 and state not in ('lost', 'void')";
    assert_eq!(scene.database.number(live).await, 1, "a reorganisation can still bring its own bytes back");
    make_final(&scene).await;
    keeper.step(1).await.unwrap();
    assert_eq!(scene.states().await, ["final", "void", "final"]);
    drop(sends);
    let report = scene.check(true, |_| Sends::AtMostOne).await;
    assert_eq!((report.wallets[0].mined, report.wallets[0].fillers, &report.violations), (3, 1, &vec![]), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_own_bytes_may_be_mined_although_a_filler_was_signed() {
    let scene = stopped_scene().await;
    let keeper = scene.keeper().await;
    let orders = scene.orders(1).await;
    drop(scene.begin(&orders).await);
    scene.end(orders[0].request).await;
    scene.later(Duration::from_secs(1)).await;
    scene.proxy.add(Rule::new(SEND, REFUSED));
    keeper.step(1).await.unwrap();
    assert_eq!(scene.versions().await, [2]);
    scene.anvil.mine(1).await.unwrap();
    keeper.step(1).await.unwrap();
    make_final(&scene).await;
    keeper.step(1).await.unwrap();
    assert_eq!(scene.states().await, ["final"]);
    assert_eq!(scene.counted(orders[0].request).await, 1);
    scene.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_reorganisation_drops_is_sent_again() {
    let scene = stopped_scene().await;
    let keeper = scene.keeper().await;
    let orders = scene.orders(2).await;
    drop(scene.begin(&orders).await);
    scene.anvil.mine(1).await.unwrap();
    keeper.step(1).await.unwrap();
    assert_eq!(scene.states().await, ["mined"; 2]);
    scene.anvil.reorg(1).await.unwrap();
    scene.later(Duration::from_secs(5)).await;
    keeper.step(1).await.unwrap();
    assert_eq!((scene.states().await, scene.counts().await), (vec!["sent".to_owned(); 2], (0, 2)));
    scene.anvil.mine(1).await.unwrap();
    keeper.step(1).await.unwrap();
    assert_eq!(scene.states().await, ["mined"; 2]);
    scene.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_epoch_writes_nothing() {
    let scene = stopped_scene().await;
    let (old, new) = (scene.keeper().await, scene.keeper().await);
    old.step(1).await.unwrap();
    new.step(2).await.unwrap();
    assert!(matches!(old.step(1).await, Err(KeeperError::Superseded)));
    let writes = [
        "evm.keeper_off(1::smallint, 1, 'x')",
        "evm.keeper_fund(1::smallint, 1, 'x')",
        "evm.keeper_settle(1::smallint, 1, '{}', '{}') is not null",
        "evm.keeper_reopen(1::smallint, 1, 0, 100) > 0",
    ];
    for write in writes {
        assert_eq!(scene.database.text(&format!("select {write}")).await.unwrap(), "false", "{write}");
    }
    assert_eq!(scene.state().await, ("active".to_owned(), None));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_keepers_at_once_sign_one_version() {
    let scene = stopped_scene().await;
    let keepers = [scene.keeper().await, scene.keeper().await];
    let sends = scene.begin(&scene.orders(8).await).await;
    scene.anvil.set_next_base_fee(50_000_000_000).await.unwrap();
    scene.anvil.mine(1).await.unwrap();
    let (one, other) = tokio::join!(keepers[0].step(1), keepers[1].step(1));
    one.unwrap();
    other.unwrap();
    assert_eq!(scene.versions().await, [2; 8]);
    scene.anvil.mine(1).await.unwrap();
    outcomes(sends).await;
    scene.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wallet_without_gas_money_takes_no_orders_until_it_has_some() {
    let scene = stopped_scene().await;
    let keeper = scene.keeper().await;
    keeper.step(1).await.unwrap();
    assert_eq!(scene.state().await, ("active".to_owned(), None));
    scene.anvil.set_balance(scene.wallet, U256::from(1_000_000)).await.unwrap();
    scene.later(Duration::from_secs(14)).await;
    keeper.step(1).await.unwrap();
    assert_eq!(scene.state().await.1, None);
    scene.later(Duration::from_secs(1)).await;
    keeper.step(1).await.unwrap();
    assert!(scene.state().await.1.unwrap().starts_with("gas: it has 1000000 wei"));
    let refusal = scene.database.text("select refusal from evm.wallet_load(1::smallint)").await;
    assert_eq!(refusal.unwrap(), "unfunded");
    scene.anvil.set_balance(scene.wallet, U256::from(10).pow(U256::from(21))).await.unwrap();
    scene.later(Duration::from_secs(15)).await;
    keeper.step(1).await.unwrap();
    assert_eq!(scene.state().await.1, None);
    let sends = scene.begin(&scene.orders(1).await).await;
    eventually("the order is in the pool", || async { scene.counts().await == (0, 1) }).await;
    drop(sends);
}
