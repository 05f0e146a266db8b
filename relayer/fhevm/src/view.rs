//! Calls of contracts that read.

use alloy::{
    eips::BlockNumberOrTag,
    primitives::{Address, Bytes},
    sol_types::SolCall,
};
use tidegate_evm::{CallError, CallRequest, Chain};

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ViewError {
    /// The contract reverts with this.
    #[error("the contract reverts, with {} bytes", .0.len())]
    Reverted(Bytes),
    /// No endpoint has a result.
    #[error(transparent)]
    Rpc(tidegate_evm::RpcError),
    /// The result is not of the function's type, as at an address without the contract.
    #[error("{0} at {1} returned what the function does not return: is the contract's address right?")]
    Unreadable(&'static str, Address),
}

impl From<CallError> for ViewError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Reverted(data) => Self::Reverted(data),
            CallError::Rpc(error) => Self::Rpc(error),
        }
    }
}

/// Calls a function of a contract, at a block.
pub(crate) async fn at<C: SolCall>(
    chain: &Chain,
    contract: Address,
    call: &C,
    block: BlockNumberOrTag,
) -> Result<C::Return, ViewError> {
    let input = Bytes::from(call.abi_encode());
    let request = CallRequest::default().to(contract).input(input.into());
    let result = chain.call(&request, block).await?;
    C::abi_decode_returns(&result).map_err(|_| ViewError::Unreadable(C::SIGNATURE, contract))
}
