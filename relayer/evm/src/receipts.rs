//! The receipts of the transactions that this process waits for.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use alloy::{
    eips::BlockNumberOrTag,
    primitives::{Address, B256},
    rpc::types::TransactionReceipt,
};
use tokio::{
    sync::{Notify, oneshot},
    time::{Instant, MissedTickBehavior, interval},
};

use crate::{
    Chain, RpcError, SenderOptions,
    failpoint::{self, Step},
    metrics,
    store::{NotedReceipt, Slot, Store},
};

/// How often the database is asked whether a transaction has a newer version.
const REFRESH: Duration = Duration::from_secs(1);

/// What happened to a transaction.
#[derive(Debug)]
pub(crate) enum Event {
    /// A version of it is mined; whether it was the order's call, or a filler.
    Mined(Box<TransactionReceipt>, bool),
    /// The endpoint refuses the newest version, because the call reverts.
    Refused,
    /// The endpoint refuses the newest version, because no endpoint takes as many bytes.
    TooLarge,
    /// The endpoint refuses the newest version for its gas limit.
    Gas,
    /// It is not the order's live transaction any more.
    Gone,
}

/// The transactions that this process waits for, and the loop that asks for their receipts.
pub(crate) struct Receipts {
    chain: Chain,
    store: Store,
    every: Duration,
    confirmations: u64,
    waits: Mutex<HashMap<u64, Wait>>,
    next_id: AtomicU64,
    begun: Notify,
    /// Notified when receipts have come, for the wallets have room then.
    pub(crate) mined: Arc<dyn Fn() + Send + Sync>,
}

struct Wait {
    slot: Slot,
    answer: oneshot::Sender<Event>,
}

/// A wait for one transaction; it ends when this is dropped.
pub(crate) struct Watch {
    receipts: Arc<Receipts>,
    id: u64,
    answer: oneshot::Receiver<Event>,
}

impl Watch {
    /// Returns what happens to it next.
    pub(crate) async fn event(&mut self) -> Event {
        // The sender is dropped only with the loop.
        (&mut self.answer).await.unwrap_or(Event::Gone)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.receipts.waits().remove(&self.id);
    }
}

impl Receipts {
    pub(crate) fn new(chain: Chain, store: Store, options: &SenderOptions, mined: Arc<dyn Fn() + Send + Sync>) -> Self {
        Self {
            chain,
            store,
            every: options.receipts_every,
            confirmations: options.confirmations,
            waits: Mutex::default(),
            next_id: AtomicU64::default(),
            begun: Notify::new(),
            mined,
        }
    }

    fn waits(&self) -> MutexGuard<'_, HashMap<u64, Wait>> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a transaction.
    pub(crate) fn watch(self: &Arc<Self>, slot: Slot) -> Watch {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        self.waits().insert(id, Wait { slot, answer: sender });
        self.begun.notify_one();
        Watch { receipts: Arc::clone(self), id, answer }
    }

    /// Asks for receipts until it is dropped.
    pub(crate) async fn run(self: Arc<Self>) {
        let mut ticks = interval(self.every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut refreshed = Instant::now();
        loop {
            if self.waits().is_empty() {
                self.begun.notified().await;
            }
            ticks.tick().await;
            if let Err(error) = self.ask().await {
                tracing::debug!(%error, "receipts could not be asked for");
            }
            if refreshed.elapsed() >= REFRESH {
                self.refresh().await;
                refreshed = Instant::now();
            }
        }
    }

    /// Asks for the receipts of all versions of the transactions that the chain counts as mined.
    async fn ask(&self) -> Result<(), RpcError> {
        let mut wallets: BTreeMap<Address, String> = BTreeMap::new();
        for wait in self.waits().values() {
            wallets.entry(wait.slot.address).or_insert_with(|| wait.slot.wallet_name.clone());
        }
        let mut counts = BTreeMap::new();
        for (address, name) in wallets {
            let count = self.chain.transaction_count(address, BlockNumberOrTag::Latest).await?;
            metrics::nonce(&name, "chain", count);
            counts.insert(address, count);
        }
        let mut asked: Vec<(u64, B256, bool)> = Vec::new();
        for (id, wait) in self.waits().iter() {
            if counts.get(&wait.slot.address).is_some_and(|count| wait.slot.nonce < *count) {
                asked.extend(wait.slot.attempts.iter().map(|attempt| (*id, attempt.hash, attempt.is_own)));
            }
        }
        if asked.is_empty() {
            return Ok(());
        }
        let hashes: Vec<_> = asked.iter().map(|(_, hash, _)| *hash).collect();
        let head = self.chain.head();
        let receipts = self.chain.receipts(&hashes).await?;
        let mined = asked.into_iter().zip(receipts);
        let mined: Vec<_> = mined.filter_map(|((id, _, is_own), receipt)| Some((id, is_own, receipt?))).collect();
        self.note(mined.iter().map(|(_, _, receipt)| receipt)).await;
        let counts = |receipt: &TransactionReceipt| {
            let is_deep = |number| number + self.confirmations <= head;
            receipt.status() || receipt.block_number.is_some_and(is_deep)
        };
        for (id, is_own, receipt) in mined.into_iter().filter(|(_, _, receipt)| counts(receipt)) {
            if let Some(wait) = self.waits().remove(&id) {
                // An order that has stopped waiting finds the receipt when it is resumed.
                let _ = wait.answer.send(Event::Mined(Box::new(receipt), is_own));
            }
        }
        (self.mined)();
        Ok(())
    }

    async fn note(&self, receipts: impl Iterator<Item = &TransactionReceipt>) {
        let noted: Vec<_> = receipts.filter_map(noted).collect();
        if noted.is_empty() {
            return;
        }
        // The keeper records what is not recorded here.
        if let Err(error) = self.store.note_mined(&noted).await {
            tracing::warn!(%error, "the receipts of {} transactions were not recorded", noted.len());
        }
        failpoint::reached(Step::Mined);
    }

    /// Reads the transactions again: a keeper may have signed newer versions of them.
    async fn refresh(&self) {
        let orders: HashSet<_> = self.waits().values().map(|wait| wait.slot.order).collect();
        let asked: Vec<_> = orders.iter().copied().collect();
        let slots = match self.store.slots(&asked, false).await {
            Ok(slots) => slots,
            Err(error) => {
                tracing::debug!(%error, "the transactions could not be read again");
                return;
            }
        };
        let mut slots: HashMap<_, _> = slots.into_iter().map(|slot| (slot.order, slot)).collect();
        let mut waits = self.waits();
        let mut ended = Vec::new();
        for (id, wait) in waits.iter_mut() {
            if !orders.contains(&wait.slot.order) {
                continue;
            }
            match slots.get_mut(&wait.slot.order) {
                Some(slot) if (slot.wallet, slot.nonce) == (wait.slot.wallet, wait.slot.nonce) => {
                    wait.slot.clone_from(slot);
                    let newest = slot.attempts.last().and_then(|attempt| attempt.answer.as_deref());
                    match newest.filter(|_| slot.state == "signed") {
                        Some("revert") => ended.push((*id, Event::Refused)),
                        Some("too_large") => ended.push((*id, Event::TooLarge)),
                        Some("gas") => ended.push((*id, Event::Gas)),
                        _ => {}
                    }
                }
                _ => ended.push((*id, Event::Gone)),
            }
        }
        for (id, event) in ended {
            if let Some(wait) = waits.remove(&id) {
                let _ = wait.answer.send(event);
            }
        }
    }
}

/// A receipt as it is recorded; none when it names no block.
pub(crate) fn noted(receipt: &TransactionReceipt) -> Option<NotedReceipt> {
    Some(NotedReceipt {
        hash: receipt.transaction_hash,
        block_number: receipt.block_number?,
        block_hash: receipt.block_hash?,
        succeeded: receipt.status(),
    })
}
