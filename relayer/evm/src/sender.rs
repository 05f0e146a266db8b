//! Sends orders: one transaction each.

mod options;

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use alloy::{
    eips::BlockNumberOrTag,
    primitives::{Address, Bytes, TxKind},
    rpc::types::{TransactionInput, TransactionReceipt},
};
use sqlx::PgPool;
use tidegate::request::RequestId;
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep, timeout_at},
};
use tokio_util::task::AbortOnDropHandle;

pub use self::options::SenderOptions;

use crate::{
    CallError, CallRequest, Chain, Signer,
    batcher::{Job, Lane, Placed},
    broadcast::{Reach, broadcast},
    metrics,
    node_error::Class,
    order::{Finding, Mined, Order, Revert, SenderError, Sending, WaitCause},
    receipts::{Event, Receipts, Watch, noted},
    revert,
    store::{Slot, Store},
    wallets::Wallets,
};

/// The pause after an endpoint that did not answer.
const PAUSE: Duration = Duration::from_millis(500);

/// The pause while another transaction has the request locked.
const LOCKED: Duration = Duration::from_millis(20);

/// A transaction that was sent this long ago and is not mined is sent again when its order is resumed.
const STALE: Duration = Duration::from_secs(5);

/// All wallets of one chain whose keys this process holds. Clones share them.
#[derive(Clone)]
pub struct Sender(Arc<Inner>);

struct Inner {
    chain: Chain,
    store: Store,
    options: SenderOptions,
    signers: HashMap<Address, Arc<dyn Signer>>,
    wallets: Arc<Wallets>,
    receipts: Arc<Receipts>,
    /// The tasks of wallets, and the loop of receipts.
    lanes: Mutex<HashMap<i16, Running>>,
    _receipts: AbortOnDropHandle<()>,
    /// Addresses that have code.
    contracts: Mutex<HashSet<Address>>,
}

/// The way to the task of a wallet, and the task.
type Running = (mpsc::UnboundedSender<Job>, AbortOnDropHandle<()>);

impl Sender {
    /// Sends with these keys. Their accounts are wallets once they were adopted.
    #[must_use]
    pub fn new(chain: Chain, pool: PgPool, signers: Vec<Arc<dyn Signer>>, options: SenderOptions) -> Self {
        let store = Store::new(pool);
        let signers: HashMap<_, _> = signers.into_iter().map(|signer| (signer.address(), signer)).collect();
        let addresses = signers.keys().copied().collect();
        let wallets = Arc::new(Wallets::new(chain.id(), store.clone(), addresses));
        let mined = {
            let wallets = Arc::clone(&wallets);
            Arc::new(move || wallets.changed())
        };
        let receipts = Receipts::new(chain.clone(), store.clone(), &options, mined);
        let receipts = Arc::new(receipts);
        Self(Arc::new(Inner {
            chain,
            store,
            options,
            signers,
            wallets,
            lanes: Mutex::default(),
            _receipts: AbortOnDropHandle::new(tokio::spawn(Arc::clone(&receipts).run())),
            receipts,
            contracts: Mutex::default(),
        }))
    }

    /// Sends an order and waits for its receipt. A request that has a transaction already gets no second one: that one
    /// is resumed.
    ///
    /// May be dropped at any moment, and called again.
    pub async fn send(&self, order: &Order) -> Sending {
        self.0.send(order).await.unwrap_or_else(Sending::Waiting)
    }

    /// What became of the transaction of a request.
    ///
    /// # Errors
    ///
    /// When the database or every endpoint does not answer.
    pub async fn find(&self, request: RequestId) -> Result<Finding, SenderError> {
        let slots = self.0.store.slots(&[request], false).await?;
        // A nonce is taken under the request's lease only: the caller has it, or it is held no more.
        let Some(slot) = slots.first() else {
            return Ok(Finding::Never);
        };
        let own: Vec<_> = slot.attempts.iter().filter(|attempt| attempt.is_own).collect();
        let hashes: Vec<_> = own.iter().map(|attempt| attempt.hash).collect();
        let receipts = self.0.chain.receipts(&hashes).await?;
        let (succeeded, reverted): (Vec<_>, Vec<_>) =
            receipts.into_iter().flatten().partition(TransactionReceipt::status);
        let receipt = succeeded.into_iter().next();
        if let Some(noted) = receipt.as_ref().and_then(noted) {
            self.0.store.note_mined(&[noted]).await?;
        }
        Ok(match receipt.as_ref().and_then(Mined::of) {
            Some(mined) => Finding::Mined(mined),
            None if slot.state == "final" && !reverted.is_empty() => Finding::Never,
            None => Finding::Open,
        })
    }
}

impl Inner {
    async fn send(&self, order: &Order) -> Result<Sending, WaitCause> {
        let until = Instant::now() + self.options.patience;
        loop {
            let (slot, watch) = match self.resume(order).await? {
                Some(resumed) => resumed,
                None => match self.place(order, until).await? {
                    Ok(placed) => placed,
                    Err(sending) => return Ok(sending),
                },
            };
            if let Some(sending) = self.outcome(order, &slot, watch, until).await? {
                return Ok(sending);
            }
        }
    }

    /// The transaction that the order has already; sent again if nothing is known to have taken it.
    async fn resume(&self, order: &Order) -> Result<Option<(Slot, Watch)>, WaitCause> {
        let mut slots = self.store.slots(&[order.request], true).await?;
        let Some(mut slot) = slots.pop() else { return Ok(None) };
        let watch = self.receipts.watch(slot.clone());
        let is_due = slot.state == "signed" || slot.state == "sent" && slot.age >= STALE;
        if let (true, Some(hash), Some(raw)) = (is_due, slot.newest(), slot.raw.take()) {
            broadcast(&self.chain, &self.store, vec![(hash, raw)], Reach::All).await;
        }
        Ok(Some((slot, watch)))
    }

    /// Gets the order a transaction; or else what came of it.
    async fn place(&self, order: &Order, until: Instant) -> Result<Got, WaitCause> {
        let mut tries = Tries::default();
        loop {
            match self.try_to_place(order, &mut tries, until).await {
                Ok(Some(got)) => return Ok(got),
                Ok(None) => {}
                Err(cause) if cause.is_temporary() && Instant::now() + PAUSE < until => sleep(PAUSE).await,
                Err(cause) => return Err(cause),
            }
        }
    }

    /// Tries one wallet; `None`: try again.
    async fn try_to_place(&self, order: &Order, tries: &mut Tries, until: Instant) -> Result<Option<Got>, WaitCause> {
        self.require_contract(order.to).await?;
        let choice = self.wallets.choose(&tries.lacking, tries.busy.take(), !tries.holds, until);
        let choice = match (choice.await, tries.revert.take()) {
            (Ok(choice), revert) => {
                tries.revert = revert;
                choice
            }
            // Every wallet lacks what the call takes, by the estimates.
            (Err(WaitCause::Unfunded | WaitCause::NoWallet(_)), Some(revert)) => {
                return Ok(Some(Err(Sending::Reverted(revert))));
            }
            (Err(cause), _) => return Err(cause),
        };
        let (wallet, address) = (choice.id, choice.address);
        let began = Instant::now();
        let estimate = self.chain.estimate_gas(&call(address, order)).await;
        metrics::step("estimate", began.elapsed());
        // Then the wallet lacks gas money, or a reserve of tokens: the order waits for either.
        let may_pass = match &estimate {
            Err(CallError::Rpc(error)) => matches!(error.class(), Class::NoFunds | Class::OutOfGas),
            estimate => estimate.is_ok(),
        };
        if may_pass && !choice.is_funded {
            *tries = Tries::default();
            tries.holds = true;
            return Ok(None);
        }
        let gas = match estimate {
            Ok(gas) => gas,
            Err(error) => {
                let (data, cause) = match error {
                    CallError::Reverted(data) => {
                        let cause = (self.options.lacks_funds)(&data);
                        (data, cause)
                    }
                    CallError::Rpc(error) => match error.class() {
                        // No block has as much gas.
                        Class::OutOfGas => (Bytes::new(), None),
                        _ => return Err(error.into()),
                    },
                };
                let revert = Revert { data, mined: false };
                let Some(cause) = cause else {
                    metrics::outcome(&choice.name, "refused");
                    return Ok(Some(Err(Sending::Reverted(revert))));
                };
                if choice.is_funded {
                    self.unfund(wallet, &choice.name, cause).await?;
                }
                tries.lacking.push(wallet);
                (tries.revert, tries.holds) = (Some(revert), false);
                return Ok(None);
            }
        };
        let (answer, placed) = oneshot::channel();
        let job = Job { order: order.clone(), gas_limit: scaled(gas, self.options.gas_factor), choice, answer };
        self.lane(wallet, address)?.send(job).map_err(|_| ended_task())?;
        match placed.await.map_err(|_| ended_task())? {
            Placed::Slot(slot, watch) => return Ok(Some(Ok((slot, watch)))),
            Placed::Ended => return Ok(Some(Err(Sending::Ended))),
            Placed::Again => self.wallets.changed(),
            Placed::Busy => tries.busy = Some(wallet),
            Placed::Locked => sleep(LOCKED).await,
            Placed::Failed(cause) => return Err(cause),
        }
        Ok(None)
    }

    /// Waits for the receipt; `None`: the order has to be resumed.
    async fn outcome(
        &self,
        order: &Order,
        slot: &Slot,
        mut watch: Watch,
        until: Instant,
    ) -> Result<Option<Sending>, WaitCause> {
        let began = Instant::now();
        let Ok(event) = timeout_at(until, watch.event()).await else {
            return Err(WaitCause::NotMined);
        };
        let (sending, outcome) = match event {
            // The request has ended, for its nonce was used up without its call.
            Event::Mined(_, false) => (Some(Sending::Ended), "filled"),
            Event::Mined(receipt, true) if receipt.status() => (Mined::of(&receipt).map(Sending::Mined), "mined"),
            Event::Mined(receipt, true) => {
                let call = call(slot.address, order).gas_limit(slot.gas_limit);
                let data = revert::replay(&self.chain, &call, receipt.block_number.unwrap_or_default()).await?;
                (Some(Sending::Reverted(Revert { data, mined: true })), "reverted")
            }
            Event::Refused => match self.chain.call(&call(slot.address, order), BlockNumberOrTag::Latest).await {
                Err(CallError::Reverted(data)) => (Some(Sending::Reverted(Revert { data, mined: false })), "refused"),
                Err(CallError::Rpc(error)) => return Err(error.into()),
                Ok(_) => (None, ""),
            },
            Event::TooLarge => (Some(Sending::TooLarge), "refused"),
            Event::Gas => (Some(Sending::Gas), "refused"),
            Event::Gone => (None, ""),
        };
        if sending.is_some() {
            metrics::step("mine", began.elapsed());
            metrics::outcome(&slot.wallet_name, outcome);
        }
        Ok(sending)
    }

    /// The task that takes the nonces of a wallet in this process.
    fn lane(&self, wallet: i16, address: Address) -> Result<mpsc::UnboundedSender<Job>, WaitCause> {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((lane, _)) = lanes.get(&wallet).filter(|(lane, _)| !lane.is_closed()) {
            return Ok(lane.clone());
        }
        let signer = self.signers.get(&address).map(Arc::clone).ok_or_else(ended_task)?;
        let (jobs, arriving) = mpsc::unbounded_channel();
        let lane = Lane {
            wallet,
            chain: self.chain.clone(),
            store: self.store.clone(),
            signer,
            receipts: Arc::clone(&self.receipts),
        };
        let task = AbortOnDropHandle::new(tokio::spawn(lane.run(arriving)));
        lanes.insert(wallet, (jobs.clone(), task));
        Ok(jobs)
    }

    async fn unfund(&self, wallet: i16, name: &str, cause: &str) -> Result<(), WaitCause> {
        if self.store.unfund(wallet, cause).await? {
            tracing::warn!(wallet = name, cause, "the wallet takes no orders until it has funds");
        }
        self.wallets.changed();
        Ok(())
    }

    /// A call of an address without code does not revert, so it would be taken for a success.
    async fn require_contract(&self, address: Address) -> Result<(), WaitCause> {
        let known = || self.contracts.lock().unwrap_or_else(PoisonError::into_inner);
        if known().contains(&address) {
            return Ok(());
        }
        let code: Bytes = self.chain.read("eth_getCode", (address, BlockNumberOrTag::Latest)).await?;
        if code.is_empty() {
            return Err(WaitCause::NoContract(address));
        }
        known().insert(address);
        Ok(())
    }
}

/// A transaction and the wait for it, or what came of the order without one.
type Got = Result<(Slot, Watch), Sending>;

/// The wallets that an order has been tried with.
#[derive(Default)]
struct Tries {
    /// Those without tokens, and what the call reverts with there.
    lacking: Vec<i16>,
    revert: Option<Revert>,
    /// The one that another process had just now.
    busy: Option<i16>,
    /// Whether the order waits for a wallet's funds: the call does not revert there.
    holds: bool,
}

/// The call of an order, as a wallet makes it.
fn call(from: Address, order: &Order) -> CallRequest {
    CallRequest {
        from: Some(from),
        to: Some(TxKind::Call(order.to)),
        input: TransactionInput::new(order.calldata.clone()),
        ..CallRequest::default()
    }
}

/// A gas limit.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "no gas is near a float's limits"
)]
fn scaled(gas: u64, factor: f64) -> u64 {
    (gas as f64 * factor).ceil() as u64
}

fn ended_task() -> WaitCause {
    WaitCause::NoWallet("the task of a wallet has ended".to_owned())
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender")
            .field("chain", &self.0.chain)
            .field("wallets", &self.0.signers.keys())
            .finish_non_exhaustive()
    }
}
