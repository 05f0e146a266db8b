//! Blocks that the chain drops, with their logs and with transactions of wallets.

use std::sync::atomic::Ordering::Relaxed;

use tidegate_evm::WatchOptions;

use super::scene::{Recorder, Scene};
use crate::support::eventually;

#[tokio::test]
async fn a_reorganisation_is_undone_and_read_again() {
    let scene = Scene::new().await;
    let recorder = Recorder::default();
    let _watching = scene.watch(1, scene.options(), &recorder);
    for logs in 1..=4 {
        scene.block(logs).await;
        scene.caught_up().await;
    }
    // Transactions of a wallet in blocks 1 to 4; that of block 3 failed.
    scene
        .database
        .execute(
            "insert into evm.wallet (chain_id, address, name, first_nonce, system_identifier, timeline_id)
             select c, decode(repeat('0' || w, 20), 'hex'), 'wallet' || w, 0, 1, 1 from (values (31337, 1), (1, 2)) as v(c, w);
             insert into evm.tx
               (wallet, nonce, recipient, gas_limit, state, mined_hash, block_number, block_hash, status)
             select w.id, b.number, w.address, 1, 'mined', decode(repeat('07', 32), 'hex'), b.number, b.hash,
               case when b.number = 3 then 0 else 1 end
             from evm.wallet as w cross join evm.block as b where b.number > 0;
             insert into evm.tx (wallet, nonce, recipient, gas_limit, state)
             select w.id, 5, w.address, 1, 'signed' from evm.wallet as w",
        )
        .await;
    let states = |wallet: i64| {
        let sql = format!(
            "select string_agg(state || coalesce(block_number::text, '') || coalesce(status::text, ''), ' ' order by nonce)
             from evm.tx where wallet = {wallet}"
        );
        let database = &scene.database;
        async move { database.text(&sql).await.unwrap() }
    };
    let before = "mined11 mined21 mined30 mined41 signed";
    assert_eq!(states(1).await, before);

    scene.anvil.reorg(3).await.unwrap();
    scene.caught_up().await;
    assert_eq!(scene.applied().await, [(1, 0)]);
    assert_eq!(recorder.drops.load(Relaxed), 1);
    assert_eq!(states(1).await, "mined11 sent sent sent signed");
    assert_eq!(states(2).await, before, "another chain's wallet");
    eventually("the new blocks are read in one page, and the old ones forgotten", || async {
        scene.database.text("select string_agg(number::text, ' ' order by number) from evm.block").await.as_deref()
            == Some("0 1 4")
    })
    .await;

    scene.block(2).await;
    scene.caught_up().await;
}

#[tokio::test]
async fn with_confirmations_no_log_of_a_dropped_block_is_applied() {
    let scene = Scene::new().await;
    let recorder = Recorder::default();
    let options = WatchOptions { confirmations: 3, ..scene.options() };
    let _watching = scene.watch(1, options, &recorder);
    for _ in 0..5 {
        scene.block(1).await;
    }
    eventually("the blocks with three after them are read", || async { scene.cursor().await == 2 }).await;
    scene.anvil.reorg(3).await.unwrap();
    scene.block(1).await;
    scene.anvil.mine(3).await.unwrap();
    eventually("the new blocks are read", || async { scene.cursor().await == 6 }).await;
    assert_eq!(scene.applied().await, scene.on_chain().await);
    assert_eq!(recorder.drops.load(Relaxed), 0);
}

#[tokio::test]
async fn a_reorganisation_deeper_than_the_watcher_remembers_stops_it() {
    let scene = Scene::new().await;
    scene.anvil.mine(10).await.unwrap();
    let recorder = Recorder::default();
    let options = WatchOptions { after: Some(8), ..scene.options() };
    let _watching = scene.watch(1, options, &recorder);
    scene.caught_up().await;
    scene.anvil.reorg(5).await.unwrap();
    scene.block(1).await;
    let asked = scene.first.calls("eth_blockNumber");
    eventually("it has looked several times", || async { scene.first.calls("eth_blockNumber") > asked + 5 }).await;
    assert_eq!((scene.cursor().await, recorder.drops.load(Relaxed)), (10, 0));
    assert!(scene.applied().await.is_empty());
}

/// The cursor stays below it, so that the reorganisation does not reach the cursor.
#[tokio::test]
async fn with_confirmations_transactions_of_dropped_blocks_are_sent_again_at_once() {
    let scene = Scene::new().await;
    let recorder = Recorder::default();
    let options = WatchOptions { confirmations: 3, ..scene.options() };
    let _watching = scene.watch(1, options, &recorder);
    scene.anvil.mine(5).await.unwrap();
    eventually("the blocks with three after them are read", || async { scene.cursor().await == 2 }).await;
    scene.mined_in(&[2, 4]).await;
    let states = "select string_agg(state, ' ' order by nonce) from evm.tx";
    let looks = scene.first.calls("eth_blockNumber");
    eventually("it has looked at both", || async { scene.first.calls("eth_blockNumber") > looks + 2 }).await;
    assert_eq!(scene.database.text(states).await.as_deref(), Some("mined mined"));

    scene.anvil.reorg(3).await.unwrap();

    eventually("the dropped one is to be sent again", || async {
        scene.database.text(states).await.as_deref() == Some("mined sent")
    })
    .await;
    assert_eq!((scene.cursor().await, recorder.drops.load(Relaxed)), (2, 0));
}
