//! Searches for answers that the watcher has not read: an endpoint may leave logs out. And for requests that will get
//! none, because a reorganisation has reverted their transactions.

use std::time::Duration;

use alloy::{
    eips::BlockNumberOrTag,
    primitives::{B256, Bytes},
    rpc::types::{Filter, Header, Log},
    sol_types::{SolCall, SolValue},
};
use metrics::counter;
use serde_json::value::RawValue;
use tidegate::request::RequestId;
use tidegate_evm::{CallRequest, Mined, RpcCall, RpcError, store::BlockId};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{
    abi::gateway::{Decryption, InputVerification},
    responses::{ApplyError, Responses},
    store::{Awaiting, Reference, StoreError},
};

/// How many requests are asked for at once.
const AT_ONCE: i64 = 200;

/// When it runs, and which requests it asks for.
#[derive(Debug, Clone, Copy)]
pub struct Schedule {
    /// The time between two runs: half a minute.
    pub every: Duration,
    /// The least time for which a request has awaited its response: a minute.
    pub after: Duration,
    /// The ages at which the shares of user decryptions are searched for before the contract has enough of its own: five
    /// and fifteen minutes.
    pub shares_at: [Duration; 2],
    /// How many blocks below the newest one are not read.
    pub confirmations: u64,
    /// The most blocks that one call for logs covers.
    pub range: u64,
}

impl Default for Schedule {
    fn default() -> Self {
        Self {
            every: Duration::from_secs(30),
            after: Duration::from_secs(60),
            shares_at: [Duration::from_secs(300), Duration::from_secs(900)],
            confirmations: 0,
            range: 1000,
        }
    }
}

/// Runs until `stop`.
pub async fn run(responses: &Responses, schedule: Schedule, stop: &CancellationToken) {
    let mut forgotten = Uuid::nil();
    let mut ticks = tokio::time::interval(schedule.every);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        match once(responses, &schedule).await {
            Ok(0) => {}
            Ok(found) => {
                counter!("fhevm_reconciled_total").increment(found as u64);
                tracing::warn!(found, "found answers that the watcher has not read");
            }
            Err(error) => tracing::warn!(%error, "could not search for answers; the next run does"),
        }
        match responses.store().forget(forgotten).await {
            Ok(last) => forgotten = last.unwrap_or_default(),
            Err(error) => tracing::warn!(%error, "could not delete references of requests that are gone"),
        }
    }
}

/// Searches once, and returns how many responses it found.
///
/// # Errors
///
/// See [`ApplyError`].
pub async fn once(responses: &Responses, schedule: &Schedule) -> Result<usize, ApplyError> {
    let seconds = i32::try_from(schedule.after.as_secs()).unwrap_or(i32::MAX);
    let (mut after, mut found) = (Uuid::nil(), 0);
    loop {
        let awaiting = responses.store().awaiting(seconds, after, AT_ONCE).await?;
        let Some(last) = awaiting.last() else {
            return Ok(found);
        };
        after = last.id;
        let ids: Vec<_> = awaiting.iter().map(|request| request.id).collect();
        let mut references = responses.store().references_of(&ids).await?;
        references.extend(of_receipts(responses, &ids, &references, schedule).await?);
        for (reference, done) in done(responses, references).await? {
            let is_due = || {
                let request = awaiting.iter().find(|request| request.id == reference.request.0);
                request.is_some_and(|request| is_due(request, schedule))
            };
            if done || reference.contract == responses.contracts().decryption && is_due() {
                found += apply(responses, &reference, schedule).await?;
            }
        }
    }
}

/// Whether one of the ages has passed since the last run.
fn is_due(request: &Awaiting, schedule: &Schedule) -> bool {
    let age = Duration::from_secs(request.seconds.unsigned_abs());
    let due = |at: &Duration| (*at..*at + schedule.every).contains(&age);
    schedule.shares_at.iter().any(due)
}

/// The ids of requests that have none, from the receipts of their transactions. Fails requests whose transactions were
/// mined with success, and after a reorganisation again with a revert.
async fn of_receipts(
    responses: &Responses,
    requests: &[Uuid],
    known: &[Reference],
    schedule: &Schedule,
) -> Result<Vec<Reference>, ApplyError> {
    let is_known = |id: RequestId| known.iter().any(|known| known.request == id);
    let mut mined = responses.store().mined_hashes(requests).await?;
    mined.retain(|(request, _, succeeded)| !succeeded || !is_known(*request));
    let hashes: Vec<_> = mined.iter().map(|(_, hash, _)| *hash).collect();
    let head = responses.gateway().block_number().await?;
    let receipts = responses.gateway().receipts(&hashes).await?;
    let mut references = Vec::new();
    for ((request, hash, _), receipt) in mined.into_iter().zip(receipts) {
        let Some((block_number, block_hash, receipt)) =
            receipt.and_then(|receipt| Some((receipt.block_number?, receipt.block_hash?, receipt)))
        else {
            continue;
        };
        if !receipt.status() {
            if block_number + schedule.confirmations <= head {
                responses.fail(request, receipt.from, block_number).await?;
            }
            continue;
        }
        let logs = receipt.inner.logs().to_vec();
        let mined = Mined { hash, block_number, block_hash, logs };
        references.extend(Reference::of_receipt(&responses.contracts(), request, &mined));
    }
    responses.store().note_receipt(&references).await?;
    Ok(references)
}

/// Which of the requests the contracts have answered.
async fn done(responses: &Responses, references: Vec<Reference>) -> Result<Vec<(Reference, bool)>, ApplyError> {
    let mut calls = Vec::new();
    for (at, reference) in references.iter().enumerate() {
        let inputs = if reference.contract == responses.contracts().input_verification {
            let id = reference.id;
            let verified = InputVerification::isProofVerifiedCall { zkProofId: id }.abi_encode();
            vec![verified, InputVerification::isProofRejectedCall { zkProofId: id }.abi_encode()]
        } else {
            vec![Decryption::isDecryptionDoneCall { decryptionId: reference.id }.abi_encode()]
        };
        for input in inputs {
            let call = CallRequest::default().to(reference.contract).input(Bytes::from(input).into());
            calls.push((at, RpcCall::new("eth_call", (call, BlockNumberOrTag::Latest))));
        }
    }
    let questions: Vec<_> = calls.iter().map(|(_, call)| call.clone()).collect();
    let answers = responses.gateway().batch(&questions).await?;
    let mut references: Vec<_> = references.into_iter().map(|reference| (reference, false)).collect();
    for ((at, call), answer) in calls.iter().zip(answers) {
        let returned: Bytes = call.parse(&answer?)?;
        references[*at].1 |= bool::abi_decode(&returned) == Ok(true);
    }
    Ok(references)
}

/// Applies the logs of one request; returns how many of its responses were not known.
async fn apply(responses: &Responses, reference: &Reference, schedule: &Schedule) -> Result<usize, ApplyError> {
    let head = responses.gateway().block_number().await?;
    let head = head.saturating_sub(schedule.confirmations);
    let (mut from, mut found) = (reference.block_number, 0);
    while from <= head {
        let to = head.min(from + schedule.range - 1);
        for (logs, block) in logs(responses, reference, from, to).await? {
            responses.prepare().await?;
            let mut transaction = responses.store().begin().await?;
            found += responses.apply(&mut transaction, &logs, &[block]).await?.responses;
            transaction.commit().await.map_err(StoreError::from)?;
        }
        from = to + 1;
    }
    Ok(found)
}

/// What an endpoint has of a request.
type Seen = (Vec<Log>, BlockId);

/// The logs of a request in a range of blocks, and the block of the request, as each endpoint has them: one may leave
/// logs out. Those that have the same are one.
async fn logs(responses: &Responses, reference: &Reference, from: u64, to: u64) -> Result<Vec<Seen>, ApplyError> {
    let filter =
        Filter::new().address(reference.contract).topic1(B256::from(reference.id)).from_block(from).to_block(to);
    let number = reference.block_number;
    let calls = [
        RpcCall::new("eth_getLogs", (filter,)),
        RpcCall::new("eth_getBlockByNumber", (BlockNumberOrTag::Number(number), false)),
    ];
    let read = |answers: Vec<Result<Box<RawValue>, RpcError>>| -> Result<Seen, ApplyError> {
        let mut answers = answers.into_iter();
        let mut next = || answers.next().ok_or(ApplyError::Behind(number));
        let logs = calls[0].parse(&next()??)?;
        let header: Option<Header> = calls[1].parse(&next()??)?;
        Ok((logs, BlockId::of(&header.ok_or(ApplyError::Behind(number))?)))
    };
    let (mut seen, mut failed) = (Vec::new(), None);
    for answers in responses.gateway().batch_everywhere(&calls).await {
        match answers.map_err(ApplyError::from).and_then(read) {
            Ok(one) if seen.contains(&one) => {}
            Ok(one) => seen.push(one),
            Err(error) => failed = Some(error),
        }
    }
    match failed {
        Some(error) if seen.is_empty() => Err(error),
        _ => Ok(seen),
    }
}
