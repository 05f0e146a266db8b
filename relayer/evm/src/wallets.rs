//! Which wallet an order gets.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use alloy::{eips::BlockNumberOrTag, primitives::Address};
use tokio::{
    sync::Notify,
    time::{Instant, timeout, timeout_at},
};

use crate::{
    Chain, RpcError, metrics,
    order::WaitCause,
    store::{Slot, Store, StoreError, Wallet},
};

/// How old what is known of the wallets may be.
const FRESH: Duration = Duration::from_millis(250);

/// Why an account was not adopted.
#[derive(Debug, thiserror::Error)]
pub enum AdoptError {
    /// The chain has pending transactions of the account.
    #[error(
        "{address} has {pending} transactions with those that wait, and {latest} mined: stop what else uses its key, and \
         wait until they are equal"
    )]
    Pending {
        /// The account.
        address: Address,
        /// Its transactions that are mined.
        latest: u64,
        /// The same with those that wait.
        pending: u64,
    },
    /// It is one already.
    #[error("{0} is a wallet of this chain already, or another wallet has the name {1}")]
    Known(Address, String),
    /// The chain did not answer.
    #[error(transparent)]
    Endpoint(#[from] RpcError),
    /// The database did not answer.
    #[error(transparent)]
    Database(#[from] StoreError),
}

/// Adopts an account as a wallet: from now on no other program may use its key. Returns its first nonce.
///
/// # Errors
///
/// While it has transactions that wait, or when it is a wallet already.
pub async fn adopt(
    chain: &Chain,
    store: &Store,
    address: Address,
    name: &str,
    in_flight_max: u32,
) -> Result<u64, AdoptError> {
    let pending = chain.transaction_count(address, BlockNumberOrTag::Pending).await?;
    let latest = chain.transaction_count(address, BlockNumberOrTag::Latest).await?;
    if pending != latest {
        return Err(AdoptError::Pending { address, latest, pending });
    }
    let adopted = store.adopt(chain.id(), address, name, latest, in_flight_max).await?;
    adopted.ok_or_else(|| AdoptError::Known(address, name.to_owned()))?;
    Ok(latest)
}

/// The wallets whose keys this process holds, as they were a moment ago.
pub(crate) struct Wallets {
    chain: u64,
    store: Store,
    addresses: Vec<Address>,
    view: Mutex<View>,
    /// Held by the order that is first in line for a wallet.
    turn: tokio::sync::Mutex<()>,
    freed: Notify,
}

#[derive(Default)]
struct View {
    read_at: Option<Instant>,
    wallets: Vec<Wallet>,
    /// Orders of this process that have chosen a wallet, by the numbers of their choices, until it is read with them.
    chosen: HashMap<u64, Chosen>,
    /// How many choices there were.
    choices: u64,
}

struct Chosen {
    wallet: i16,
    /// The nonce that the order gets, once it is known.
    nonce: Option<u64>,
    /// The nonce is committed.
    is_taken: bool,
}

/// A place of an order in a wallet, until it is dropped.
pub(crate) struct Choice {
    wallets: Arc<Wallets>,
    number: u64,
    pub(crate) id: i16,
    pub(crate) address: Address,
    pub(crate) name: String,
    /// False if the wallet is known to lack funds: it takes no order, and an estimate tells what it lacks.
    pub(crate) is_funded: bool,
}

impl Wallets {
    pub(crate) fn new(chain: u64, store: Store, addresses: Vec<Address>) -> Self {
        Self {
            chain,
            store,
            addresses,
            view: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            freed: Notify::new(),
        }
    }

    fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place in the wallet with the least in flight, in the order of the calls, and waits for one until `until`.
    ///
    /// Those in `tried` are not taken; when no other one takes orders, there is no wait. `busy` is taken if there is no
    /// other. With `or_unfunded`, one that lacks funds is taken if all others do.
    pub(crate) async fn choose(
        self: &Arc<Self>,
        tried: &[i16],
        busy: Option<i16>,
        or_unfunded: bool,
        until: Instant,
    ) -> Result<Choice, WaitCause> {
        let turn = timeout_at(until, self.turn.lock()).await;
        let _turn = turn.map_err(|_| self.view().cause(tried))?;
        loop {
            self.refresh().await?;
            {
                let mut view = self.view();
                let cause = view.cause(tried);
                let unfunded = || view.unfunded(tried).filter(|_| or_unfunded && matches!(cause, WaitCause::Unfunded));
                if let Some(wallet) = view.pick(tried, busy).or_else(unfunded).cloned() {
                    let number = view.chosen(wallet.id);
                    return Ok(Choice {
                        wallets: Arc::clone(self),
                        number,
                        id: wallet.id,
                        address: wallet.address,
                        name: wallet.name,
                        is_funded: wallet.refusal.is_none(),
                    });
                }
                if Instant::now() >= until || !tried.is_empty() && !matches!(cause, WaitCause::Full) {
                    return Err(cause);
                }
            }
            // Another process may free one, too.
            let _ = timeout(FRESH, self.freed.notified()).await;
        }
    }

    /// Reads the wallets again if what is known is old.
    async fn refresh(&self) -> Result<(), WaitCause> {
        if self.view().read_at.is_some_and(|read_at| read_at.elapsed() < FRESH) {
            return Ok(());
        }
        let wallets = self.store.wallets(self.chain, &self.addresses).await?;
        wallets.iter().for_each(metrics::wallet);
        let mut view = self.view();
        view.wallets = wallets;
        view.read_at = Some(Instant::now());
        let View { wallets, chosen, .. } = &mut *view;
        chosen.retain(|_, order| !order.is_taken || wallets.iter().any(|wallet| order.is_beyond(wallet)));
        Ok(())
    }

    /// Makes the next choice read the wallets again: one may have room.
    pub(crate) fn changed(&self) {
        self.view().read_at = None;
        self.freed.notify_one();
    }
}

impl Chosen {
    /// Whether the order is of this wallet, and not among those in flight that were read of it.
    fn is_beyond(&self, wallet: &Wallet) -> bool {
        self.wallet == wallet.id && self.nonce.is_none_or(|nonce| nonce >= wallet.next_nonce)
    }
}

impl View {
    fn chosen(&mut self, wallet: i16) -> u64 {
        self.choices += 1;
        self.chosen.insert(self.choices, Chosen { wallet, nonce: None, is_taken: false });
        self.choices
    }

    fn pick(&self, tried: &[i16], busy: Option<i16>) -> Option<&Wallet> {
        let beyond = |wallet: &Wallet| self.chosen.values().filter(|order| order.is_beyond(wallet)).count();
        let load = |wallet: &Wallet| wallet.in_flight + i64::try_from(beyond(wallet)).unwrap_or(i64::MAX);
        let usable = self.wallets.iter().filter(|wallet| {
            wallet.refusal.is_none() && !tried.contains(&wallet.id) && load(wallet) < wallet.in_flight_max
        });
        usable.min_by_key(|wallet| (busy == Some(wallet.id), load(wallet)))
    }

    fn unfunded(&self, tried: &[i16]) -> Option<&Wallet> {
        let mut wallets = self.wallets.iter();
        wallets.find(|wallet| wallet.refusal.as_deref() == Some("unfunded") && !tried.contains(&wallet.id))
    }

    /// Why none was picked.
    fn cause(&self, tried: &[i16]) -> WaitCause {
        let others = || self.wallets.iter().filter(|wallet| !tried.contains(&wallet.id));
        let refused = |word: &str| others().any(|wallet| wallet.refusal.as_deref() == Some(word));
        if others().any(|wallet| wallet.refusal.is_none()) || refused("refused") {
            WaitCause::Full
        } else if refused("unfunded") || !tried.is_empty() {
            WaitCause::Unfunded
        } else {
            let states = self.wallets.iter().map(|wallet| {
                let refusal = wallet.refusal.as_deref().unwrap_or_default();
                format!("{} is {refusal}", wallet.name)
            });
            let states: Vec<_> = states.collect();
            WaitCause::NoWallet(match states.as_slice() {
                [] => "none whose key is held here was added".to_owned(),
                states => states.join(", "),
            })
        }
    }
}

impl Choice {
    /// The order gets this nonce if the transaction that takes it commits.
    pub(crate) fn gets(&self, nonce: u64) {
        if let Some(order) = self.wallets.view().chosen.get_mut(&self.number) {
            order.nonce = Some(nonce);
        }
    }

    /// The order has this transaction: it counts until the wallet is read with it.
    pub(crate) fn taken(self, slot: &Slot) {
        if let Some(order) = self.wallets.view().chosen.get_mut(&self.number) {
            *order = Chosen { wallet: slot.wallet, nonce: Some(slot.nonce), is_taken: true };
        }
    }
}

impl Drop for Choice {
    fn drop(&mut self) {
        let mut view = self.wallets.view();
        if view.chosen.get(&self.number).is_some_and(|order| !order.is_taken) {
            view.chosen.remove(&self.number);
        }
        drop(view);
        self.wallets.freed.notify_one();
    }
}
