//! Records which transactions are mined, and which of them are final.

use std::collections::HashMap;

use alloy::{primitives::B256, rpc::types::TransactionReceipt};

use super::{Keeper, KeeperError, View};
use crate::{receipts::noted, store::OpenSlot};

/// How many transactions become final in one step, at most.
const FINAL_MAX: i32 = 250;

impl Keeper {
    /// Records what the chain has done with the wallet's transactions.
    pub(super) async fn record(&self, epoch: i64, view: &View) -> Result<(), KeeperError> {
        self.note_receipts(epoch, view).await?;
        self.settle(epoch, view).await
    }

    /// Records the receipts of transactions whose nonces the chain has used. Where all versions of one have none, looks
    /// for what has used its nonce.
    async fn note_receipts(&self, epoch: i64, view: &View) -> Result<(), KeeperError> {
        let used: Vec<&OpenSlot> = view.open.iter().filter(|slot| slot.nonce < view.latest).collect();
        let hashes: Vec<B256> = used.iter().flat_map(|slot| slot.hashes.iter().copied()).collect();
        if hashes.is_empty() {
            return Ok(());
        }
        let receipts = self.chain.receipts(&hashes).await?;
        let found: HashMap<_, _> =
            hashes.iter().zip(&receipts).filter_map(|(hash, receipt)| Some((*hash, receipt.as_ref()?))).collect();
        self.note(found.values().copied()).await?;
        let missing = used.into_iter().find(|slot| !slot.hashes.iter().any(|hash| found.contains_key(hash)));
        match missing {
            Some(slot) => self.look_for(epoch, view, slot).await,
            None => Ok(()),
        }
    }

    /// Records receipts.
    pub(crate) async fn note<'a>(
        &self,
        receipts: impl Iterator<Item = &'a TransactionReceipt>,
    ) -> Result<(), KeeperError> {
        let noted: Vec<_> = receipts.filter_map(noted).collect();
        if !noted.is_empty() {
            self.store.note_mined(&noted).await?;
        }
        Ok(())
    }

    /// Makes mined transactions final whose receipts are still those of final blocks, and takes the wallet out of use
    /// when one that was final is gone.
    async fn settle(&self, epoch: i64, view: &View) -> Result<(), KeeperError> {
        let settled = view.wallet.settled_nonce;
        let unsettled = self.store.unsettled(self.wallet, settled, view.finalized, FINAL_MAX).await?;
        if unsettled.iter().all(|transaction| transaction.is_settled) {
            return Ok(());
        }
        let hashes: Vec<B256> = unsettled.iter().map(|transaction| transaction.hash).collect();
        let receipts = self.chain.receipts(&hashes).await?;
        let mut finals = Vec::new();
        for (transaction, receipt) in unsettled.iter().zip(&receipts) {
            let block = receipt.as_ref().and_then(|receipt| receipt.block_hash);
            if block == Some(transaction.block_hash) {
                if !transaction.is_settled {
                    finals.push((transaction.nonce, transaction.block_hash));
                }
            } else if let Some(receipt) = receipt {
                // It was mined again in another block: that one is looked at when it is final.
                self.note([receipt].into_iter()).await?;
            } else if self.is_gone(view, transaction.hash).await? {
                if transaction.is_settled {
                    let cause = format!(
                        "transaction {} of nonce {} was final in block {}, and the chain has it no more: a reorganisation \
                         went deeper than what is called final",
                        transaction.hash, transaction.nonce, transaction.block_hash
                    );
                    return self.take_out(epoch, &cause).await;
                }
                self.store.reopen(self.wallet, epoch, transaction.nonce, view.head).await?;
                self.memory().open_from = Some(transaction.nonce);
                break;
            }
        }
        if !finals.is_empty() {
            self.store.settle(self.wallet, epoch, &finals).await?.ok_or(KeeperError::Superseded)?;
        }
        Ok(())
    }

    /// Whether no endpoint has a receipt of this transaction.
    pub(crate) async fn is_gone(&self, view: &View, hash: B256) -> Result<bool, KeeperError> {
        let receipt: Option<TransactionReceipt> =
            self.chain.find("eth_getTransactionReceipt", (hash,), view.head).await?;
        self.note(receipt.iter()).await?;
        Ok(receipt.is_none())
    }
}
