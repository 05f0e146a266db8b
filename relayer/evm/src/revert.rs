//! Why a mined transaction reverted.

use alloy::{eips::BlockNumberOrTag, primitives::Bytes};

use crate::{CallError, CallRequest, Chain, RpcError};

/// What the contract returned: the call is made again on the state after the transaction's block, on that before it, and
/// on the newest. Empty if it reverts on none of them.
pub async fn replay(chain: &Chain, call: &CallRequest, block: u64) -> Result<Bytes, RpcError> {
    let (mut returned, mut last) = (false, None);
    let parent = block.saturating_sub(1);
    for at in [BlockNumberOrTag::Number(block), BlockNumberOrTag::Number(parent), BlockNumberOrTag::Latest] {
        match chain.call(call, at).await {
            Err(CallError::Reverted(data)) => return Ok(data),
            Err(CallError::Rpc(error)) => last = Some(error),
            Ok(_) => returned = true,
        }
    }
    match last {
        Some(error) if !returned => Err(error),
        _ => Ok(Bytes::new()),
    }
}
