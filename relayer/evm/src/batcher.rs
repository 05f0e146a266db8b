//! Takes nonces for orders: many in one transaction, each with its signed bytes.
//!
//! A wallet has a task of its own in each process. Orders that arrive while a transaction runs are in the next one.

use std::{collections::HashSet, sync::Arc, time::Duration};

use alloy::{
    consensus::TxEip1559,
    eips::{Encodable2718, eip2930::AccessList},
    primitives::{B256, Bytes, TxKind, U256},
};
use tidegate::request::RequestId;
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep, timeout_at},
};

use crate::{
    Chain, Signer,
    broadcast::{Reach, broadcast},
    failpoint::{self, Step},
    fees::Fees,
    metrics,
    order::{Order, WaitCause},
    receipts::{Receipts, Watch},
    store::{Allocation, AllocationError, Fate, SignedOrder, Slot, Store},
    wallets::Choice,
};

/// The most orders in one transaction.
const BATCH_MAX: usize = 64;

/// How long a transaction waits for more orders.
const BATCH_WAIT: Duration = Duration::from_millis(2);

/// How long a wallet that another process holds is waited for, in milliseconds, before the next one is tried.
const BUSY_MS: i32 = 100;

/// The pause between two tries to find out what became of a commit.
const PAUSE: Duration = Duration::from_millis(200);

/// An order that wants a nonce of the wallet that it has chosen.
pub(crate) struct Job {
    pub(crate) order: Order,
    pub(crate) gas_limit: u64,
    pub(crate) choice: Choice,
    pub(crate) answer: oneshot::Sender<Placed>,
}

/// What an order got.
pub(crate) enum Placed {
    /// A transaction.
    Slot(Slot, Watch),
    /// Nothing: the request has ended, or its lease.
    Ended,
    /// Nothing from this wallet: choose again.
    Again,
    /// Nothing: another process takes nonces of the wallet.
    Busy,
    /// Nothing yet: another transaction has the request locked.
    Locked,
    /// Nothing, for this reason.
    Failed(WaitCause),
}

/// What the task of a wallet works with.
pub(crate) struct Lane {
    pub(crate) wallet: i16,
    pub(crate) chain: Chain,
    pub(crate) store: Store,
    pub(crate) signer: Arc<dyn Signer>,
    pub(crate) receipts: Arc<Receipts>,
}

impl Lane {
    /// Takes nonces for orders as they arrive, until no order can arrive any more.
    pub(crate) async fn run(self, mut jobs: mpsc::UnboundedReceiver<Job>) {
        let (sends, broadcasts) = mpsc::unbounded_channel();
        let broadcaster = send_all(self.chain.clone(), self.store.clone(), broadcasts);
        let batches = async {
            let mut batch = Vec::new();
            while jobs.recv_many(&mut batch, BATCH_MAX).await > 0 {
                let until = Instant::now() + BATCH_WAIT;
                while batch.len() < BATCH_MAX {
                    let room = BATCH_MAX - batch.len();
                    match timeout_at(until, jobs.recv_many(&mut batch, room)).await {
                        Ok(more) if more > 0 => {}
                        _ => break,
                    }
                }
                batch.retain(|job| !job.answer.is_closed());
                self.allocate(std::mem::take(&mut batch), &sends).await;
            }
            drop(sends);
        };
        tokio::join!(batches, broadcaster);
    }

    async fn allocate(&self, batch: Vec<Job>, sends: &mpsc::UnboundedSender<Vec<(B256, Bytes)>>) {
        if batch.is_empty() {
            return;
        }
        let began = Instant::now();
        // Before the transaction, which must not wait for the chain.
        let fees = match self.chain.suggested_fees().await {
            Ok(fees) => fees,
            Err(error) => return fail_all(batch, || Placed::Failed(error.clone().into())),
        };
        let leases: Vec<_> = batch.iter().map(|job| job.order.lease).collect();
        let (allocation, terms) = match Allocation::begin(&self.store, self.wallet, &leases, BUSY_MS).await {
            Ok(begun) => begun,
            Err(AllocationError::Busy) => return fail_all(batch, || Placed::Busy),
            Err(AllocationError::Store(error)) => {
                let cause = WaitCause::from(error);
                return fail_all(batch, || Placed::Failed(cause.clone()));
            }
        };
        if let Some(refusal) = &terms.refusal {
            tracing::debug!(wallet = self.wallet, refusal, "the wallet takes no orders");
        }
        let (mut free, mut placed) = (Vec::new(), Vec::new());
        let mut seen = HashSet::new();
        for (job, fate) in batch.into_iter().zip(terms.fates) {
            match fate {
                Fate::Free if free.len() < terms.room && seen.insert(job.order.request) => free.push(job),
                Fate::Free => answer(job, Placed::Again),
                Fate::Slot => placed.push(job),
                Fate::Ended => answer(job, Placed::Ended),
                Fate::Locked => answer(job, Placed::Locked),
            }
        }
        let committed = if free.is_empty() {
            allocation.abandon().await.map_err(WaitCause::from)
        } else {
            self.commit(allocation, terms.next_nonce, fees, &free).await
        };
        metrics::step("allocate", began.elapsed());
        free.append(&mut placed);
        match committed {
            Ok(()) => self.hand_out(free, sends).await,
            Err(cause) => fail_all(free, || Placed::Failed(cause.clone())),
        }
    }

    /// Signs, inserts and commits. An error means that nothing was committed.
    async fn commit(
        &self,
        mut allocation: Allocation,
        first_nonce: u64,
        fees: Fees,
        jobs: &[Job],
    ) -> Result<(), WaitCause> {
        let mut signed = Vec::with_capacity(jobs.len());
        for (nonce, job) in (first_nonce..).zip(jobs) {
            job.choice.gets(nonce);
            let transaction = TxEip1559 {
                chain_id: self.chain.id(),
                nonce,
                gas_limit: job.gas_limit,
                max_fee_per_gas: fees.max_fee,
                max_priority_fee_per_gas: fees.tip,
                to: TxKind::Call(job.order.to),
                value: U256::ZERO,
                access_list: AccessList::default(),
                input: job.order.calldata.clone(),
            };
            let transaction = self.signer.sign(transaction).await;
            let transaction = transaction.map_err(|error| WaitCause::Signer(error.to_string()))?;
            signed.push(SignedOrder {
                request: job.order.request,
                to: job.order.to,
                calldata: job.order.calldata.clone(),
                gas_limit: job.gas_limit,
                hash: *transaction.hash(),
                raw: transaction.encoded_2718(),
            });
        }
        let stored = allocation.insert(first_nonce, fees.max_fee, fees.tip, &signed).await?;
        if stored != signed.len() {
            let moved = "the wallet's next nonce has changed under its lock";
            return Err(WaitCause::Database(moved.to_owned()));
        }
        failpoint::reached(Step::Signed);
        if let Err(error) = allocation.commit().await {
            tracing::warn!(%error, wallet = self.wallet, "a commit has no answer: its outcome is read");
            let orders: Vec<_> = jobs.iter().map(|job| job.order.request).collect();
            while let Err(error) = self.store.slots_under_lock(self.wallet, &orders).await {
                tracing::debug!(%error, wallet = self.wallet, "the outcome of a commit could not be read");
                sleep(PAUSE).await;
            }
        }
        Ok(())
    }

    /// Reads the transactions of orders as they were committed, and gives them to the chain and to the orders.
    async fn hand_out(&self, jobs: Vec<Job>, sends: &mpsc::UnboundedSender<Vec<(B256, Bytes)>>) {
        failpoint::reached(Step::Committed);
        let orders: Vec<RequestId> = jobs.iter().map(|job| job.order.request).collect();
        let mut slots = match self.store.slots(&orders, true).await {
            Ok(slots) => slots,
            // The keeper broadcasts them, and the orders find them when they are resumed.
            Err(error) => {
                let cause = WaitCause::from(error);
                return fail_all(jobs, || Placed::Failed(cause.clone()));
            }
        };
        let unsent = slots.iter_mut().filter(|slot| slot.state == "signed");
        let unsent: Vec<_> = unsent.filter_map(|slot| Some((slot.newest()?, slot.raw.take()?))).collect();
        // The receiver ends after the sender.
        let _ = sends.send(unsent);
        for job in jobs {
            let Job { order, choice, answer, .. } = job;
            let slot = slots.iter().find(|slot| slot.order == order.request);
            let placed = match slot {
                Some(slot) => {
                    choice.taken(slot);
                    Placed::Slot(slot.clone(), self.receipts.watch(slot.clone()))
                }
                None => Placed::Again,
            };
            let _ = answer.send(placed);
        }
    }
}

/// An order that has stopped waiting needs no answer.
fn answer(job: Job, placed: Placed) {
    let _ = job.answer.send(placed);
}

fn fail_all(jobs: Vec<Job>, placed: impl Fn() -> Placed) {
    for job in jobs {
        answer(job, placed());
    }
}

/// Broadcasts the transactions of one allocation after the other.
async fn send_all(chain: Chain, store: Store, mut sends: mpsc::UnboundedReceiver<Vec<(B256, Bytes)>>) {
    while let Some(signed) = sends.recv().await {
        let began = Instant::now();
        if !signed.is_empty() {
            broadcast(&chain, &store, signed, Reach::One).await;
            metrics::step("send", began.elapsed());
        }
    }
}
