//! Applies the events of the gateway's contracts, each page in one transaction.

mod signers;

use std::collections::{BTreeMap, HashMap, HashSet, btree_map::Entry};

use alloy::{
    primitives::{Address, B256, U256},
    rpc::types::Log,
};
use metrics::{counter, histogram};
use sqlx::PgConnection;
use tidegate::{Response, Tidegate, request::RequestId};
use tidegate_evm::{CallRequest, Chain, RpcError, store::BlockId};

pub use self::signers::SignerSets;
use crate::{
    answers::{Answer, Contracts, Event},
    calldata,
    request::{Family, Payload},
    reverts,
    signature::Domains,
    store::{self, Reference, Referenced, Store, StoreError},
    view::ViewError,
};

/// As many as one statement takes.
const RESPONSES_AT_ONCE: usize = 1000;

/// Why a page could not be applied. It is read again.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The database refused a statement, or does not answer.
    #[error(transparent)]
    Database(#[from] StoreError),
    /// A response was not taken.
    #[error(transparent)]
    Respond(#[from] tidegate::Error),
    /// The chain could not be asked.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// The signers that count could not be read.
    #[error("cannot read the signers that count: {0}")]
    Signers(String),
    /// The signers that count were read too long ago.
    #[error("the signers that count lack one: they are read again")]
    Lacking,
    /// These blocks have to be known first.
    #[error("blocks {0:?} have to be read, for only receipts told of requests in them")]
    Blocks(Vec<u64>),
    /// An endpoint does not have the block of a request.
    #[error("an endpoint has no block {0}")]
    Behind(u64),
}

impl From<ViewError> for ApplyError {
    fn from(error: ViewError) -> Self {
        Self::Signers(error.to_string())
    }
}

/// What applies the events of one gateway.
#[derive(Clone)]
pub struct Responses {
    tidegate: Tidegate,
    store: Store,
    gateway: Chain,
    contracts: Contracts,
    domains: Domains,
    /// The signers that count; none: all do.
    signers: Option<SignerSets>,
}

/// What became of the events of a page.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Applied {
    /// Requests of ours that the page has.
    pub requests: usize,
    /// Responses that changed a request.
    pub responses: usize,
}

/// An answer that counts.
struct Own<'a> {
    request: RequestId,
    /// The name of the share that it is, if it is one.
    part: Option<String>,
    answer: &'a Answer,
    /// For how many seconds it was awaited.
    waited: Option<f64>,
}

impl Responses {
    /// Applies events of these contracts.
    #[must_use]
    pub fn new(tidegate: Tidegate, gateway: Chain, contracts: Contracts, signers: Option<SignerSets>) -> Self {
        let domains = Domains::new(gateway.id(), contracts.decryption, contracts.input_verification);
        let store = Store::new(tidegate.store().pool().clone());
        Self { tidegate, store, gateway, contracts, domains, signers }
    }

    pub(crate) fn contracts(&self) -> Contracts {
        self.contracts
    }

    pub(crate) fn gateway(&self) -> &Chain {
        &self.gateway
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// Reads from the chain what [`apply`](Self::apply) needs: it does not ask the chain.
    ///
    /// # Errors
    ///
    /// When the signers that count cannot be read.
    pub async fn prepare(&self) -> Result<(), ApplyError> {
        match &self.signers {
            Some(signers) => Ok(signers.refresh(&self.gateway).await?),
            None => Ok(()),
        }
    }

    /// Applies logs in their order, in a transaction of the caller's. `blocks` are blocks that the endpoint of the logs
    /// has.
    ///
    /// # Errors
    ///
    /// See [`ApplyError`]; the transaction is to be rolled back and the logs applied again, after
    /// [`prepare`](Self::prepare) and with the blocks that [`ApplyError::Blocks`] names.
    pub async fn apply(
        &self,
        connection: &mut PgConnection,
        logs: &[Log],
        blocks: &[BlockId],
    ) -> Result<Applied, ApplyError> {
        let events: Vec<_> = logs.iter().filter_map(|log| Some((log, self.contracts.event(log)?))).collect();
        // The chain orders a request before its responses, and an id is given once.
        let requests = self.requests(connection, &events).await?;
        let mut answers = self.answers(connection, &events, blocks).await?;
        let mut responses = 0;
        // A round has one answer of each request, because shares that a completed request does not need are not kept.
        while !answers.is_empty() {
            // In the order of the ids, in which rows are locked.
            let (mut round, mut later) = (BTreeMap::new(), Vec::new());
            for own in answers {
                match round.entry(own.request) {
                    Entry::Vacant(first) => _ = first.insert(own),
                    Entry::Occupied(_) => later.push(own),
                }
            }
            let mut completed = HashSet::new();
            for (own, outcome) in self.respond(connection, round.into_values().collect()).await? {
                responses += usize::from(matches!(outcome.as_str(), "completed" | "stored"));
                if outcome == "completed" {
                    completed.insert(own.request);
                    if let (Answer::Share(_), Some(waited)) = (own.answer, own.waited) {
                        histogram!("fhevm_share_wait_seconds").record(waited);
                    }
                }
            }
            later.retain(|own| !completed.contains(&own.request));
            answers = later;
        }
        Ok(Applied { requests, responses })
    }

    /// Forgets what the logs of blocks from `from` on told, in a transaction of the caller's: the chain has dropped them.
    ///
    /// # Errors
    ///
    /// See [`ApplyError`].
    pub async fn dropped(&self, connection: &mut PgConnection, from: u64) -> Result<(), ApplyError> {
        let references = store::dropped(connection, from).await?;
        tracing::info!(from, references, "the chain has dropped blocks; their ids of requests are forgotten");
        Ok(())
    }

    /// Ends a request that awaits its response, though its transaction has reverted in this block.
    pub(crate) async fn fail(&self, request: RequestId, wallet: Address, block: u64) -> Result<(), ApplyError> {
        let Some(payload) = self.store.payload(request).await? else {
            return Ok(());
        };
        let call = CallRequest::default()
            .from(wallet)
            .to(calldata::contract(&self.contracts, &payload))
            .input(calldata::of(&payload).into());
        let data = tidegate_evm::replay(&self.gateway, &call, block).await?;
        if self.tidegate.fail(request, reverts::error(&data, &payload)).await? {
            tracing::warn!(%request, block, "a transaction that had succeeded has reverted after a reorganisation");
        }
        Ok(())
    }

    /// Notes the ids of our requests; returns how many there are.
    async fn requests(&self, connection: &mut PgConnection, events: &[(&Log, Event)]) -> Result<usize, ApplyError> {
        let requested = || events.iter().filter(|(_, event)| event.answer.is_none());
        let hashes: Vec<B256> = requested().filter_map(|(log, _)| log.transaction_hash).collect();
        if hashes.is_empty() {
            return Ok(0);
        }
        let own: HashMap<_, _> = store::own(connection, &hashes).await?.into_iter().collect();
        let references: Vec<_> = requested()
            .filter_map(|(log, event)| {
                Some(Reference {
                    contract: event.contract,
                    id: event.id,
                    request: *own.get(&log.transaction_hash?)?,
                    block_number: log.block_number?,
                    block_hash: log.block_hash?,
                })
            })
            .collect();
        count("request", true, references.len());
        count("request", false, hashes.len() - references.len());
        if !references.is_empty() {
            store::note(connection, &references, true).await?;
        }
        Ok(own.len())
    }

    /// The answers that count.
    async fn answers<'a>(
        &self,
        connection: &mut PgConnection,
        events: &'a [(&Log, Event)],
        blocks: &[BlockId],
    ) -> Result<Vec<Own<'a>>, ApplyError> {
        let answered: Vec<_> =
            events.iter().filter_map(|(_, event)| Some(((event.contract, event.id), event.answer.as_ref()?))).collect();
        if answered.is_empty() {
            return Ok(Vec::new());
        }
        let mut ids: Vec<_> = answered.iter().map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids.dedup();
        let requests = self.confirmed(connection, &ids, blocks).await?;
        let mut own = Vec::new();
        for (id, answer) in answered {
            let Some(request) = requests.get(&id) else {
                count(answer.name(), false, 1);
                continue;
            };
            count(answer.name(), true, 1);
            if request.ended {
                continue;
            }
            if let Some(part) = self.part(request, answer)? {
                own.push(Own { request: request.reference.request, part, answer, waited: request.waited });
            }
        }
        Ok(own)
    }

    /// The requests of these ids, but for those of blocks that the chain has dropped. A row that only a receipt told of
    /// needs its block.
    async fn confirmed(
        &self,
        connection: &mut PgConnection,
        ids: &[(Address, U256)],
        blocks: &[BlockId],
    ) -> Result<HashMap<(Address, U256), Referenced>, ApplyError> {
        let user = Family::UserDecrypt.kind();
        let all = Family::ALL.map(Family::kind);
        let with_payload: &[&str] = if self.signers.is_some() { &all } else { &[user] };
        let (mut confirmed, mut unknown) = (HashMap::new(), Vec::new());
        for found in store::referenced(connection, ids, with_payload).await? {
            let reference = &found.reference;
            let number = reference.block_number;
            let block = blocks.iter().find(|block| block.number == number);
            if block.is_some_and(|block| block.hash != reference.block_hash) {
                // The watcher forgets its own rows when it goes back.
                store::refute(connection, reference).await?;
                tracing::warn!(
                    request = %reference.request, number,
                    "an id is of a block that the chain has dropped; its answers are not taken",
                );
                continue;
            }
            if !found.watched {
                if block.is_none() {
                    unknown.push(number);
                    continue;
                }
                store::confirm(connection, reference).await?;
            }
            confirmed.insert((reference.contract, reference.id), found);
        }
        if !unknown.is_empty() {
            unknown.sort_unstable();
            unknown.dedup();
            return Err(ApplyError::Blocks(unknown));
        }
        Ok(confirmed)
    }

    /// The name of the part that an answer is, if it is one; `None` for an answer that does not count.
    fn part(&self, of: &Referenced, answer: &Answer) -> Result<Option<Option<String>>, ApplyError> {
        let request = of.reference.request;
        let (part, signers) = match (answer, of.kind.as_str(), &of.payload) {
            (Answer::Share(share), _, Some(Payload::UserDecrypt(decrypt))) => {
                let signer = self.domains.share_signer(decrypt, share);
                if signer.is_none() {
                    tracing::warn!(%request, index = %share.index, "a share has no signature of a node");
                }
                let part = signer.map_or_else(|| format!("index-{}", share.index), |signer| signer.to_string());
                (Some(part), vec![signer])
            }
            (Answer::Public(public), kind, payload) if kind == Family::PublicDecrypt.kind() => match payload {
                Some(Payload::PublicDecrypt(decrypt)) => (None, self.domains.public_signers(decrypt, public)),
                _ => (None, Vec::new()),
            },
            (Answer::Proof(proof), kind, payload) if kind == Family::InputProof.kind() => match payload {
                Some(Payload::InputProof(input)) => (None, self.domains.proof_signers(input, proof)),
                _ => (None, Vec::new()),
            },
            _ => {
                tracing::error!(%request, event = answer.name(), "an answer is of another family than its request");
                return Ok(None);
            }
        };
        if let Some(sets) = &self.signers
            && !sets.contain(answer, &signers)?
        {
            counter!("fhevm_foreign_signatures_total").increment(1);
            tracing::error!(
                %request, event = answer.name(),
                "an answer has a signature of no node that counts: is a contract's address wrong, or an endpoint lying?",
            );
            return Ok(None);
        }
        Ok(Some(part))
    }

    /// Stores one answer for each of several requests, and returns the outcomes.
    async fn respond<'a>(
        &self,
        connection: &mut PgConnection,
        answers: Vec<Own<'a>>,
    ) -> Result<Vec<(Own<'a>, String)>, ApplyError> {
        let mut responses = Vec::new();
        for own in &answers {
            let mut response = Response::new(own.request, &own.answer.response())?;
            response.part.clone_from(&own.part);
            responses.push(response);
        }
        let mut outcomes = Vec::new();
        for some in responses.chunks(RESPONSES_AT_ONCE) {
            for responded in self.tidegate.respond_many(some).within(&mut *connection).await? {
                outcomes.push(responded?.outcome);
            }
        }
        for (own, outcome) in answers.iter().zip(&outcomes) {
            tracing::debug!(request = %own.request, event = own.answer.name(), outcome, "applied an answer");
        }
        Ok(answers.into_iter().zip(outcomes).collect())
    }
}

fn count(event: &'static str, own: bool, events: usize) {
    if events > 0 {
        let own = if own { "true" } else { "false" };
        counter!("fhevm_events_total", "event" => event, "own" => own).increment(events as u64);
    }
}
