//! Wrong versions of the keeper, the sender and the watcher, each of which a test must tell from the right one.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use alloy::{
    consensus::{Signed, TxEip1559},
    eips::Encodable2718,
    primitives::{Address, Bytes},
};
use futures_util::future::BoxFuture;
use serde_json::Value;
use tidegate_evm::{
    Chain, LocalSigner, Sending, Signer,
    checker::{Report, Sends, Violation},
    signer::SignError,
};
use tidegate_fhevm_stand_ins::{
    chain::Mining,
    rpc_proxy::{Fault, Rule},
};

use super::{
    orders::{key, options},
    scene::{Scene, outcomes},
    watcher::scene as watcher,
};
use crate::support::eventually;

/// Changes the text of a function of the database.
async fn mutate(scene: &Scene, function: &str, from: &str, to: &str) {
    let definition = scene.database.text(&format!("pg_get_functiondef('evm.{function}'::regproc)")).await.unwrap();
    assert_eq!(definition.matches(from).count(), 1, "{definition}");
    scene.database.execute(&definition.replace(from, to)).await;
}

async fn stopped_scene() -> Scene {
    let scene = Scene::new(Mining::OnDemand).await;
    scene.database.stop_clock().await;
    scene
}

/// A transaction is mined, its receipt does not come, and its bytes are sent again.
async fn nonce_too_low(is_mutant: bool) -> Report {
    let scene = stopped_scene().await;
    if is_mutant {
        let wrong = "update evm.tx as t set state = case s.answer when 'nonce_too_low' then 'lost' else 'sent' end";
        mutate(&scene, "note_sent", "update evm.tx as t set state = 'sent'", wrong).await;
        mutate(&scene, "note_sent", "t.state = 'signed' and s.answer = 'accepted'", "t.state in ('signed', 'sent')")
            .await;
    }
    let orders = scene.orders(1).await;
    let sends = scene.begin(&orders).await;
    scene.proxy.add(Rule::new("eth_getTransactionReceipt", Fault::Answer(Value::Null)));
    scene.anvil.mine(1).await.unwrap();
    scene.later(Duration::from_secs(5)).await;
    // Another process takes the request over.
    drop(sends);
    let sends = scene.begin(&orders).await;
    eventually("the chain refused the bytes", || async {
        let answers = "select count(*) from evm.attempt where answer = 'nonce_too_low'";
        scene.database.number(answers).await > 0
    })
    .await;
    if is_mutant {
        eventually("another nonce is in the pool", || async { scene.counts().await == (1, 2) }).await;
    }
    scene.proxy.clear();
    scene.anvil.mine(1).await.unwrap();
    outcomes(sends).await;
    scene.check(false, |_| Sends::AtMostOne).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_nonce_after_nonce_too_low_is_caught() {
    assert_eq!(nonce_too_low(false).await.violations, []);
    let caught = nonce_too_low(true).await.violations;
    assert!(matches!(caught.as_slice(), [Violation::TooMany { most: 1, .. }, ..]), "{caught:?}");
}

/// A key that broadcasts what it signs, which is before the commit.
struct Hasty {
    key: LocalSigner,
    chain: Chain,
    broadcasts: bool,
}

impl Signer for Hasty {
    fn address(&self) -> Address {
        self.key.address()
    }

    fn sign(&self, transaction: TxEip1559) -> BoxFuture<'_, Result<Signed<TxEip1559>, SignError>> {
        Box::pin(async move {
            let signed = self.key.sign(transaction).await?;
            if self.broadcasts {
                self.chain.send_raw(&Bytes::from(signed.encoded_2718())).await;
            }
            // The transaction of the database is not committed, as when the process is killed here.
            Err(SignError("the process is gone".to_owned()))
        })
    }
}

/// A process is lost between the broadcast and the commit, in whatever order they come.
async fn lost_before_the_commit(is_mutant: bool) -> Report {
    let scene = stopped_scene().await;
    let hasty = Hasty { key: LocalSigner::from(key(1)), chain: scene.chain.clone(), broadcasts: is_mutant };
    let mut options = options();
    options.patience = Duration::ZERO;
    let sender =
        tidegate_evm::Sender::new(scene.chain.clone(), scene.database.pool.clone(), vec![Arc::new(hasty)], options);
    let orders = scene.orders(2).await;
    let lost = sender.send(&orders[0]).await;
    assert!(matches!(lost, Sending::Waiting(_)), "{lost:?}");
    let sends = scene.begin(&orders[1..]).await;
    scene.anvil.mine(1).await.unwrap();
    if !is_mutant {
        outcomes(sends).await;
    }
    scene.check(false, |_| Sends::AtMostOne).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broadcast_before_the_commit_is_caught() {
    assert_eq!(lost_before_the_commit(false).await.violations, []);
    let caught = lost_before_the_commit(true).await.violations;
    assert!(matches!(caught.as_slice(), [Violation::Foreign { nonce: 0, .. }, ..]), "{caught:?}");
}

/// Whether an order is free while its own bytes may still be mined, although its nonce has a filler.
async fn is_free_early(is_mutant: bool) -> bool {
    let scene = stopped_scene().await;
    if is_mutant {
        let right = "select s.nonce from signed as s order by s.nonce";
        let wrong =
            "update evm.tx as t set state = 'void', mined_hash = '\\x' || repeat('00', 32)::bytea from signed as s
                     where t.wallet = p_wallet and t.nonce = s.nonce returning t.nonce";
        let wrong = wrong.replace("'\\x' || repeat('00', 32)::bytea", "decode(repeat('00', 32), 'hex')");
        mutate(&scene, "keeper_sign", right, &wrong).await;
    }
    let keeper = scene.keeper().await;
    let orders = scene.orders(1).await;
    drop(scene.begin(&orders).await);
    scene.end(orders[0].request).await;
    scene.later(Duration::from_secs(1)).await;
    // The filler does not arrive.
    let refused = Fault::Refuse(-32000, "not now");
    scene.proxy.add(Rule::new("eth_sendRawTransaction", refused));
    keeper.step(1).await.unwrap();
    let signed = "select count(*) from evm.attempt where kind = 'filler'";
    assert_eq!(scene.database.number(signed).await, 1);
    let live = "select count(*) from evm.tx where state not in ('lost', 'void')";
    let is_free = scene.database.number(live).await == 0;
    scene.anvil.mine(1).await.unwrap();
    assert_eq!(scene.counted(orders[0].request).await, 1, "the own bytes were mined");
    is_free
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_that_is_free_when_its_filler_is_signed_is_caught() {
    assert!(!is_free_early(false).await);
    assert!(is_free_early(true).await);
}

/// How many versions there are after an old version was refused by the pool, block after block.
async fn versions_after_a_late_send(is_mutant: bool) -> i64 {
    let scene = stopped_scene().await;
    if is_mutant {
        let wrong = "case when exists (
            select from evm.attempt as o where o.wallet = t.wallet and o.nonce = t.nonce and o.answer = 'replaced'
          ) then 'fee_too_low' else a.answer end,\n";
        mutate(&scene, "keeper_open", "a.answer,\n", wrong).await;
    }
    let keeper = scene.keeper().await;
    drop(scene.begin(&scene.orders(1).await).await);
    // Fees rise while it waits: a second version.
    scene.anvil.set_next_base_fee(50_000_000_000).await.unwrap();
    scene.anvil.mine(1).await.unwrap();
    keeper.step(1).await.unwrap();
    assert_eq!(scene.versions().await, [2]);
    // Its owner sends the first one late.
    let (_, late) = (scene.later(Duration::from_secs(1)).await, scene.raw(0, 1).await);
    let answer = scene.chain.send_raw(&late).await;
    assert!(["replaced", "fee_too_low"].contains(&answer.class.name()), "{answer:?}");
    scene.database.execute("update evm.attempt set answer = 'replaced' where nonce = 0 and n = 1").await;
    for _ in 0..4 {
        // No block takes the second one either, though its price is right.
        let hash = alloy::primitives::keccak256(scene.raw(0, i16::try_from(scene.versions().await[0]).unwrap()).await);
        scene.anvil.drop_transaction(hash).await.unwrap();
        scene.anvil.mine(1).await.unwrap();
        keeper.step(1).await.unwrap();
    }
    scene.versions().await[0]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bump_in_answer_to_an_old_version_is_caught() {
    assert_eq!(versions_after_a_late_send(false).await, 2);
    assert!(versions_after_a_late_send(true).await > 2);
}

/// The logs that were applied, and those of the chain, after a process was killed in the middle of a page.
async fn applied_after_a_kill(is_mutant: bool) -> [Vec<(i64, i64)>; 2] {
    let scene = watcher::Scene::new().await;
    scene.block(2).await;
    let recorder = watcher::Recorder { is_mutant, ..watcher::Recorder::default() };
    recorder.stops.store(true, Relaxed);
    let (_stop, killed) = scene.watch(1, scene.options(), &recorder);
    recorder.stopped.notified().await;
    killed.abort();
    killed.await.unwrap_err();

    scene.block(1).await;
    let _watching = scene.watch(2, scene.options(), &recorder);
    eventually("another process has read the rest", || async { scene.cursor().await == 2 }).await;
    eventually("and has applied it", || async { scene.applied().await.last().is_some_and(|(block, _)| *block == 2) })
        .await;
    [scene.applied().await, scene.on_chain().await]
}

#[tokio::test]
async fn a_cursor_that_moves_in_a_transaction_of_its_own_is_caught() {
    let [applied, on_chain] = applied_after_a_kill(false).await;
    assert_eq!(applied, on_chain);
    let [applied, on_chain] = applied_after_a_kill(true).await;
    assert_eq!(applied, on_chain[2..], "the logs of the page are lost");
}
