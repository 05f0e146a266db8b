//! Nonces: each is taken once, with its signed bytes, and only for a request whose lease is held.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::{FutureExt, future::join_all};
use tidegate_evm::{LocalSigner, Order, Revert, Sender, Sending, WaitCause, signer::SignError};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{
    cut::{At, Cut},
    node::Node,
    orders::{adopt, asking, chain, database, key, options, orders, sender, sender_with, taken},
};
use crate::support::{TestDatabase, eventually, until_blocked};

/// Sends all orders at once.
async fn send_all(sender: &Sender, orders: &[Order]) -> Vec<Sending> {
    join_all(orders.iter().map(|order| sender.send(order))).await
}

/// Each order has one nonce, and none is missing.
async fn assert_contiguous(database: &TestDatabase, orders: &[Order]) {
    let taken = taken(database).await;
    let nonces: Vec<_> = taken.iter().map(|(nonce, _)| *nonce).collect();
    assert_eq!(nonces, (0..i64::try_from(orders.len()).unwrap()).collect::<Vec<_>>());
    let requests: HashSet<_> = taken.iter().map(|(_, request)| *request).collect();
    assert_eq!(requests, orders.iter().map(|order| order.request).collect());
}

fn assert_mined(outcomes: &[Sending]) {
    for outcome in outcomes {
        assert!(matches!(outcome, Sending::Mined(_)), "{outcome:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_at_once_give_each_order_one_nonce() {
    let (database, node) = (database().await, Node::start(true).await);
    let chain = chain(&node.url).await;
    let wallet = adopt(&database, &chain, 1, 1000).await;
    let orders = orders(&database, 200).await;
    let (one, other) = (sender(&chain, &database.pool, &[1]), sender(&chain, &database.pool, &[1]));
    // Each has every order, as a hedged call has.
    let (some, more) = tokio::join!(send_all(&one, &orders), send_all(&other, &orders));
    assert_mined(&some);
    assert_mined(&more);
    assert_contiguous(&database, &orders).await;
    assert_eq!(node.count(wallet), 200);
    let sent: HashSet<_> = node.sent().into_iter().collect();
    assert_eq!(sent.len(), 200, "no nonce was signed twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_whose_lease_has_ended_gets_no_nonce() {
    let (database, node) = (database().await, Node::start(true).await);
    let chain = chain(&node.url).await;
    adopt(&database, &chain, 1, 64).await;
    let orders = orders(&database, 4).await;
    let sender = sender(&chain, &database.pool, &[1]);
    database.store.cancel(orders[0].request).await.unwrap();
    database
        .execute(&format!(
            "update tidegate.claim set until = tidegate.clock() where '{}' = any(ids)",
            orders[1].request
        ))
        .await;
    assert!(matches!(sender.send(&orders[0]).await, Sending::Ended));
    assert!(matches!(sender.send(&orders[1]).await, Sending::Ended));
    let other =
        Order { lease: tidegate::Lease { token: orders[2].lease.token + 1, ..orders[2].lease }, ..orders[2].clone() };
    assert!(matches!(sender.send(&other).await, Sending::Ended));
    assert!(taken(&database).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_waits_while_its_request_is_locked() {
    let (database, node) = (database().await, Node::start(true).await);
    let chain = chain(&node.url).await;
    adopt(&database, &chain, 1, 64).await;
    let orders = orders(&database, 2).await;
    let sender = sender(&chain, &database.pool, &[1]);
    let mut session = database.pool.begin().await.unwrap();
    sqlx::query("select from tidegate.request where id = $1 for update")
        .bind(orders[0].request.0)
        .execute(&mut *session)
        .await
        .unwrap();
    let mut locked = Box::pin(sender.send(&orders[0]));
    assert!(locked.as_mut().now_or_never().is_none());
    tokio::select! {
        outcome = &mut locked => panic!("{outcome:?}"),
        outcome = sender.send(&orders[1]) => assert_mined(&[outcome]),
    }
    assert_eq!(taken(&database).await.len(), 1);
    session.rollback().await.unwrap();
    assert_mined(&[locked.await]);
    assert_eq!(taken(&database).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_signature_takes_no_nonce() {
    let (database, node) = (database().await, Node::start(true).await);
    let chain = chain(&node.url).await;
    adopt(&database, &chain, 1, 64).await;
    let orders = orders(&database, 20).await;
    let fails = Arc::new(AtomicBool::new(true));
    let asked = Arc::new(AtomicUsize::new(0));
    let signer = {
        let (fails, asked) = (Arc::clone(&fails), Arc::clone(&asked));
        asking(1, move |nonce| {
            asked.fetch_add(1, Ordering::SeqCst);
            let fails = nonce == 2 && fails.load(Ordering::SeqCst);
            Box::pin(async move { if fails { Err(SignError("the module is away".to_owned())) } else { Ok(()) } })
        })
    };
    let sender = sender_with(&chain, &database.pool, vec![Arc::new(signer)]);
    let sends = send_all(&sender, &orders);
    let watch = async {
        eventually("signatures fail", || async { asked.load(Ordering::SeqCst) >= 6 }).await;
        let nonces: Vec<_> = taken(&database).await.into_iter().map(|(nonce, _)| nonce).collect();
        assert!(nonces.iter().all(|nonce| *nonce < 2), "{nonces:?}");
        fails.store(false, Ordering::SeqCst);
    };
    let (outcomes, ()) = tokio::join!(sends, watch);
    assert_mined(&outcomes);
    assert_contiguous(&database, &orders).await;
}

/// Signs once it may: the transaction that takes the nonces is open meanwhile.
fn held() -> (Arc<Notify>, CancellationToken, impl tidegate_evm::Signer) {
    let (reached, may) = (Arc::new(Notify::new()), CancellationToken::new());
    let signer = {
        let (reached, may) = (Arc::clone(&reached), may.clone());
        asking(1, move |_| {
            reached.notify_one();
            let may = may.clone();
            Box::pin(async move {
                may.cancelled().await;
                Ok(())
            })
        })
    };
    (reached, may, signer)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_lost_before_the_commit_leaves_no_nonce() {
    let (database, node) = (database().await, Node::start(true).await);
    let chain = chain(&node.url).await;
    adopt(&database, &chain, 1, 64).await;
    let orders = orders(&database, 1).await;
    let (reached, _, signer) = held();
    let lost = sender_with(&chain, &database.pool, vec![Arc::new(signer)]);
    let other = sender(&chain, &database.pool, &[1]);
    tokio::select! {
        outcome = lost.send(&orders[0]) => panic!("{outcome:?}"),
        () = reached.notified() => {}
    }
    // The other one gets the wallet although the process hangs with its transaction open.
    assert_mined(&[other.send(&orders[0]).await]);
    drop(lost);
    assert_contiguous(&database, &orders).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_the_server_ends_is_repeated() {
    let (database, node) = (database().await, Node::start(true).await);
    let chain = chain(&node.url).await;
    adopt(&database, &chain, 1, 64).await;
    let orders = orders(&database, 3).await;
    let (reached, may, signer) = held();
    let sender = sender_with(&chain, &database.pool, vec![Arc::new(signer)]);
    let end = async {
        reached.notified().await;
        // Waits until it has ended.
        let end = "select count(*) filter (where pg_terminate_backend(pid, 30000)) from pg_stat_activity
                   where datname = current_database() and state = 'idle in transaction'";
        assert_eq!(database.number(end).await, 1);
        may.cancel();
    };
    let (outcomes, ()) = tokio::join!(send_all(&sender, &orders), end);
    assert_mined(&outcomes);
    assert_contiguous(&database, &orders).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_the_server_did_not_get_is_repeated() {
    lose_a_commit(At::Question).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_answer_is_lost_is_read() {
    lose_a_commit(At::Answer).await;
}

async fn lose_a_commit(at: At) {
    let (database, node) = (database().await, Node::start(true).await);
    let chain = chain(&node.url).await;
    let wallet = adopt(&database, &chain, 1, 64).await;
    // The lost session is still committing when its outcome is read: it waits for a lock of this test.
    database
        .execute(
            "create function public.wait() returns trigger language plpgsql as $$
             begin
               perform set_config('lock_timeout', '0', true), pg_advisory_xact_lock_shared(1);
               return null;
             end $$;
             create constraint trigger slow after insert on evm.tx deferrable initially deferred
               for each row execute function public.wait()",
        )
        .await;
    let mut session = database.pool.begin().await.unwrap();
    sqlx::query("select pg_advisory_xact_lock(1)").execute(&mut *session).await.unwrap();
    let cut = Cut::new(&database, at).await;
    cut.commits.add_permits(1);
    let orders = orders(&database, 5).await;
    let sender = sender(&chain, &cut.pool, &[1]);
    let let_commit = async {
        // The lost session, and the one that reads; or, where the commit did not arrive, the one that repeats it.
        until_blocked(&database, if matches!(at, At::Answer) { 2 } else { 1 }).await;
        session.rollback().await.unwrap();
    };
    let (outcomes, ()) = tokio::join!(send_all(&sender, &orders), let_commit);
    assert_mined(&outcomes);
    assert_eq!(cut.commits.available_permits(), 0, "a commit was lost");
    assert_contiguous(&database, &orders).await;
    assert_eq!(node.count(wallet), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_transactions_are_under_way_than_a_wallet_may_have() {
    let (database, node) = (database().await, Node::start(false).await);
    let chain = chain(&node.url).await;
    let wallet = adopt(&database, &chain, 1, 5).await;
    let orders = orders(&database, 12).await;
    let (one, other) = (sender(&chain, &database.pool, &[1]), sender(&chain, &database.pool, &[1]));
    let (half, rest) = orders.split_at(6);
    let mine = async {
        let mut mined = 0;
        while mined < 12 {
            eventually("as many were sent as may be", || async { node.sent().len() as u64 >= (mined + 5).min(12) })
                .await;
            assert!(node.sent().len() as u64 <= mined + 5, "{:?}", node.sent().len());
            node.mine();
            mined = node.count(wallet);
        }
    };
    let (some, more, ()) = tokio::join!(send_all(&one, half), send_all(&other, rest), mine);
    assert_mined(&some);
    assert_mined(&more);
    assert_contiguous(&database, &orders).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wallet_that_is_not_in_use_takes_no_orders() {
    let (database, node) = (database().await, Node::start(true).await);
    let chain = chain(&node.url).await;
    adopt(&database, &chain, 1, 64).await;
    let orders = orders(&database, 1).await;
    let mut hasty = options();
    hasty.patience = Duration::from_millis(300);
    let signer = Arc::new(LocalSigner::from(key(1)));
    let hasty = Sender::new(chain.clone(), database.pool.clone(), vec![signer], hasty);
    for (change, undo) in [
        ("state = 'draining'", "state = 'active'"),
        ("state = 'off', off_cause = 'a test'", "state = 'active', off_cause = null"),
        ("system_identifier = system_identifier + 1", "system_identifier = system_identifier - 1"),
        ("timeline_id = timeline_id + 1", "timeline_id = timeline_id - 1"),
        ("unfunded_cause = 'a test'", "unfunded_cause = null"),
    ] {
        database.execute(&format!("update evm.wallet set {change}")).await;
        let outcome = hasty.send(&orders[0]).await;
        let is_refused = matches!(outcome, Sending::Waiting(WaitCause::NoWallet(_) | WaitCause::Unfunded));
        assert!(is_refused, "{change}: {outcome:?}");
        database.execute(&format!("update evm.wallet set {undo}")).await;
    }
    assert!(taken(&database).await.is_empty());
    assert_mined(&[sender(&chain, &database.pool, &[1]).send(&orders[0]).await]);
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_go_to_the_wallet_with_the_least_under_way() {
    let (database, node) = (database().await, Node::start(false).await);
    let chain = chain(&node.url).await;
    let wallets = [adopt(&database, &chain, 1, 64).await, adopt(&database, &chain, 2, 64).await];
    let orders = orders(&database, 40).await;
    let sender = sender(&chain, &database.pool, &[1, 2]);
    let mine = async {
        eventually("all are sent", || async { node.sent().len() == 40 }).await;
        node.mine();
    };
    let (outcomes, ()) = tokio::join!(send_all(&sender, &orders), mine);
    assert_mined(&outcomes);
    assert_eq!(wallets.map(|wallet| node.count(wallet)), [20, 20]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wallet_that_lacks_tokens_leaves_the_order_to_the_next_one() {
    let (database, node) = (database().await, Node::start(true).await);
    let chain = chain(&node.url).await;
    adopt(&database, &chain, 1, 64).await;
    adopt(&database, &chain, 2, 64).await;
    let orders = orders(&database, 4).await;
    let mut options = options();
    options.lacks_funds = |data| data.starts_with(&[1, 2, 3, 4]).then_some("too few tokens");
    let signer = |number| -> Arc<dyn tidegate_evm::Signer> { Arc::new(LocalSigner::from(key(number))) };
    let sender = |options| Sender::new(chain.clone(), database.pool.clone(), vec![signer(1), signer(2)], options);
    let mut hasty = options.clone();
    hasty.patience = Duration::from_millis(500);
    let (sender, hasty) = (sender(options), sender(hasty));
    node.revert(Some([1, 2, 3, 4, 5].into()));
    // The second one finds both wallets without funds.
    for order in &orders[..2] {
        let outcome = sender.send(order).await;
        let Sending::Reverted(Revert { data, mined: false }) = outcome else { panic!("{outcome:?}") };
        assert_eq!(data.as_ref(), [1, 2, 3, 4, 5]);
        let unfunded = "select count(*) from evm.wallet where unfunded_cause = 'too few tokens'";
        assert_eq!(database.number(unfunded).await, 2, "each wallet was tried");
    }

    // They lack something else: the order waits.
    node.revert(None);
    let outcome = hasty.send(&orders[2]).await;
    assert!(matches!(outcome, Sending::Waiting(WaitCause::Unfunded)), "{outcome:?}");
    assert!(taken(&database).await.is_empty());

    database.execute("update evm.wallet set unfunded_cause = null").await;
    assert_mined(&send_all(&sender, &orders[2..]).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wallet_that_another_process_holds_leaves_the_order_to_the_next_one() {
    let (database, node) = (database().await, Node::start(true).await);
    let chain = chain(&node.url).await;
    adopt(&database, &chain, 1, 64).await;
    let other = adopt(&database, &chain, 2, 64).await;
    let orders = orders(&database, 3).await;
    let sender = sender(&chain, &database.pool, &[1, 2]);
    let mut session = database.pool.begin().await.unwrap();
    sqlx::query("select pg_advisory_xact_lock(evm.wallet_lock_key(w.id)) from evm.wallet as w where name = 'wallet-1'")
        .execute(&mut *session)
        .await
        .unwrap();
    assert_mined(&send_all(&sender, &orders).await);
    assert_eq!(node.count(other), 3);
    session.rollback().await.unwrap();
}
