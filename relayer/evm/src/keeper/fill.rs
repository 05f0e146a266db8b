//! Uses up nonces whose requests have ended.

use alloy::{
    consensus::TxEip1559,
    primitives::{Bytes, TxKind, U256},
};

use super::{Keeper, KeeperError, View, bump::raised};
use crate::{CallError, CallRequest, store::OpenSlot};

impl Keeper {
    /// Signs an empty transaction to itself for each nonce that nothing else will use: its request has ended, and it is
    /// not mined. Whichever version is mined then is recorded.
    pub(super) async fn fill(&self, epoch: i64, view: &View) -> Result<(), KeeperError> {
        let is_hole =
            |slot: &&OpenSlot| !slot.is_filler && slot.ended.is_some_and(|ended| ended >= self.options.hole_after);
        let holes: Vec<&OpenSlot> = view.unmined().filter(is_hole).collect();
        if holes.is_empty() {
            return Ok(());
        }
        let address = self.address();
        let call = CallRequest::default().from(address).to(address).value(U256::ZERO);
        let gas = match self.chain.estimate_gas(&call).await {
            Ok(gas) => gas,
            Err(CallError::Rpc(error)) => return Err(error.into()),
            Err(CallError::Reverted(_)) => {
                let wallet = &self.name;
                tracing::error!(wallet, "nonces cannot be used up: the wallet's account refuses empty transactions");
                return Ok(());
            }
        };
        let fees = self.suggested(view).await?;
        let cap = self.chain.fee_bounds().cap;
        let mut versions = Vec::new();
        for slot in &holes {
            let (max_fee, tip) = raised(slot.max_fee, slot.tip, fees, cap).unwrap_or((slot.max_fee, slot.tip));
            let transaction = TxEip1559 {
                chain_id: self.chain.id(),
                nonce: slot.nonce,
                gas_limit: gas + gas / 5,
                max_fee_per_gas: max_fee,
                max_priority_fee_per_gas: tip,
                to: TxKind::Call(address),
                value: U256::ZERO,
                access_list: alloy::eips::eip2930::AccessList::default(),
                input: Bytes::new(),
            };
            versions.push(self.version(slot, true, transaction).await?);
        }
        let filled = self.store_and_send(epoch, &versions).await?;
        if filled > 0 {
            tracing::info!(wallet = self.name, filled, "nonces of requests that have ended are used up");
        }
        Ok(())
    }
}
