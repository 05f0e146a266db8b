//! Which blocks the chain has dropped.

use alloy::{primitives::B256, rpc::types::Header};

use super::range::header;
use crate::{Chain, RpcCall, RpcError, store::BlockId};

/// How many headers one HTTP call asks for.
const HEADERS: usize = 50;

/// The first of these blocks that the chain has.
pub(super) async fn last_kept(chain: &Chain, blocks: &[BlockId]) -> Result<Option<BlockId>, RpcError> {
    for blocks in blocks.chunks(HEADERS) {
        let hashes = hashes(chain, blocks).await?;
        if let Some((block, _)) = blocks.iter().zip(hashes).find(|(block, hash)| Some(block.hash) == *hash) {
            return Ok(Some(*block));
        }
    }
    Ok(None)
}

/// The hashes of those blocks in whose places the chain has others.
pub(super) async fn dropped(chain: &Chain, blocks: &[BlockId]) -> Result<Vec<B256>, RpcError> {
    let mut dropped = Vec::new();
    for blocks in blocks.chunks(HEADERS) {
        let hashes = hashes(chain, blocks).await?;
        let differ = blocks.iter().zip(hashes).filter(|(block, hash)| hash.is_some_and(|hash| hash != block.hash));
        dropped.extend(differ.map(|(block, _)| block.hash));
    }
    Ok(dropped)
}

/// The hashes of the blocks that one endpoint has at these numbers.
async fn hashes(chain: &Chain, blocks: &[BlockId]) -> Result<Vec<Option<B256>>, RpcError> {
    let calls: Vec<RpcCall> = blocks.iter().map(|block| header(block.number)).collect();
    chain
        .batch_if(&calls, |_, results| {
            let headers = calls.iter().zip(results).map(|(call, result)| call.parse::<Option<Header>>(&result?));
            headers.map(|header| Ok(header?.map(|header| header.hash))).collect()
        })
        .await
}
