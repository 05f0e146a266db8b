//! The logs of a range of blocks, from one endpoint.

use std::collections::{HashSet, VecDeque};

use alloy::rpc::types::{Filter, Header, Log};
use serde_json::value::RawValue;

use super::WatchOptions;
use crate::{Chain, RpcCall, RpcError, store::BlockId};

/// After so many ranges without an error they become twice as large again.
const GOOD_RANGES: u32 = 10;

/// The logs of a range.
pub(super) struct Page {
    /// Its last block.
    pub(super) to: BlockId,
    /// In the order of the chain.
    pub(super) logs: Vec<Log>,
    /// Other blocks that were asked for, as the same endpoint has them.
    pub(super) others: Vec<BlockId>,
}

/// How many blocks to ask for at once.
pub(super) struct Range {
    blocks: u64,
    max: u64,
    good: u32,
}

impl Range {
    pub(super) fn new(max: u64) -> Range {
        let max = max.max(1);
        Range { blocks: max, max, good: 0 }
    }

    pub(super) fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Halves the range after an error that a smaller one may not have, and doubles it after good ones.
    pub(super) fn noted<T>(&mut self, read: Result<T, RpcError>) -> Result<T, RpcError> {
        match &read {
            Ok(_) => self.good += 1,
            Err(RpcError::Refused { .. } | RpcError::NoAnswer { .. }) => {
                self.blocks = (self.blocks / 2).max(1);
                self.good = 0;
            }
            Err(_) => {}
        }
        if self.good == GOOD_RANGES {
            self.blocks = (self.blocks * 2).min(self.max);
            self.good = 0;
        }
        read
    }
}

/// Reads the logs of the blocks after `from` up to `to`, and the blocks of these other numbers. None if the chain has
/// another block in the place of `from`.
///
/// An endpoint that has not reached `to` would answer with the logs that it has, and no error. So the headers of both
/// ends come from the same HTTP call.
pub(super) async fn read(
    chain: &Chain,
    from: BlockId,
    to: u64,
    others: &[u64],
    options: &WatchOptions,
) -> Result<Option<Page>, RpcError> {
    let to = to.max(from.number);
    let filter = Filter::new()
        .address(options.addresses.clone())
        .event_signature(options.topics.clone())
        .from_block(from.number + 1)
        .to_block(to);
    let mut calls = vec![header(to)];
    calls.extend(others.iter().copied().map(header));
    if to > from.number {
        calls.push(RpcCall::new("eth_getLogs", (filter,)));
    }
    // Last, for the chain may drop blocks meanwhile.
    calls.push(header(from.number));
    chain
        .batch_if(&calls, |endpoint, results| {
            let mut results: VecDeque<_> = calls.iter().zip(results).collect();
            let block = |found: Option<(&RpcCall, Result<Box<RawValue>, RpcError>)>, number: u64| {
                let found = found.map(|(call, header)| call.parse::<Option<Header>>(&header?));
                let header = found
                    .transpose()?
                    .flatten()
                    .ok_or_else(|| RpcError::Behind { endpoint: endpoint.to_owned(), block: number })?;
                Ok::<_, RpcError>(BlockId::of(&header))
            };
            if block(results.pop_back(), from.number)? != from {
                return Ok(None);
            }
            let to = block(results.pop_front(), to)?;
            let others = others.iter().map(|number| block(results.pop_front(), *number));
            let others = others.collect::<Result<_, _>>()?;
            let logs = match results.pop_front() {
                Some((call, logs)) => own(call.parse(&logs?)?, from, to, options)?,
                None => Vec::new(),
            };
            Ok(Some(Page { to, logs, others }))
        })
        .await
}

pub(super) fn header(of: u64) -> RpcCall {
    RpcCall::new("eth_getBlockByNumber", (alloy::eips::BlockNumberOrTag::Number(of), false))
}

/// The logs that were asked for, each once and in order.
fn own(mut logs: Vec<Log>, from: BlockId, to: BlockId, options: &WatchOptions) -> Result<Vec<Log>, RpcError> {
    logs.retain(|log| !log.removed && options.addresses.contains(&log.address()));
    for log in &logs {
        let is_within = log.block_number.is_some_and(|number| number > from.number && number <= to.number);
        let is_of_last = log.block_number == Some(to.number);
        if !is_within || is_of_last && log.block_hash != Some(to.hash) || log.log_index.is_none() {
            return Err(RpcError::Unexpected {
                method: "eth_getLogs",
                cause: format!("a log of block {:?}, which is not in the range", log.block_number),
            });
        }
    }
    let mut seen = HashSet::new();
    logs.retain(|log| seen.insert((log.block_number, log.log_index)));
    logs.sort_by_key(|log| (log.block_number, log.log_index));
    Ok(logs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_halved_by_errors_and_doubled_by_ten_good_ones() {
        let no_answer = || RpcError::NoAnswer { endpoint: String::new(), method: "eth_getLogs", cause: String::new() };
        let mut range = Range::new(1000);
        for blocks in [500, 250, 125, 62, 31, 15, 7, 3, 1, 1] {
            range.noted::<()>(Err(no_answer())).unwrap_err();
            assert_eq!(range.blocks(), blocks);
        }
        range.noted::<()>(Err(RpcError::NoEndpoint(1))).unwrap_err();
        for good in 1..=100 {
            range.noted(Ok(())).unwrap();
            assert_eq!(range.blocks(), (1 << (good / 10)).min(1000));
        }
        range.noted::<()>(Err(RpcError::Behind { endpoint: String::new(), block: 1 })).unwrap_err();
        assert_eq!(range.blocks(), 1000);
    }
}
