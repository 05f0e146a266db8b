//! Whose signatures count: those that the gateway's configuration lists.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use alloy::{eips::BlockNumberOrTag, primitives::Address};
use tidegate_evm::Chain;

use crate::{
    abi::gateway::GatewayConfig,
    answers::{Answer, Proof},
    view::{self, ViewError},
};

/// How long the lists are kept.
const KEPT: Duration = Duration::from_secs(60);

/// How long they are kept when they lack a signer.
const KEPT_LACKING: Duration = Duration::from_secs(2);

/// The signers of a contract `GatewayConfig`, kept for a minute.
#[derive(Debug, Clone)]
pub struct SignerSets {
    gateway_config: Address,
    kept: Arc<Mutex<Option<Kept>>>,
}

#[derive(Debug, Clone)]
struct Kept {
    kms: HashSet<Address>,
    coprocessors: HashSet<Address>,
    read_at: Instant,
}

impl SignerSets {
    /// Those of this contract.
    #[must_use]
    pub fn new(gateway_config: Address) -> Self {
        Self {
            gateway_config,
            kept: Arc::default(),
        }
    }

    /// Whether all of an answer's signers are listed. Only a rejected proof has none.
    pub(super) async fn contain(
        &self,
        gateway: &Chain,
        answer: &Answer,
        signers: &[Option<Address>],
    ) -> Result<bool, ViewError> {
        if signers.is_empty() {
            return Ok(matches!(answer, Answer::Proof(Proof::Rejected)));
        }
        let within = |kept: &Kept| {
            let set = match answer {
                Answer::Proof(_) => &kept.coprocessors,
                Answer::Public(_) | Answer::Share(_) => &kept.kms,
            };
            signers
                .iter()
                .all(|signer| signer.is_some_and(|signer| set.contains(&signer)))
        };
        if let Some(kept) = self.kept().clone() {
            let (listed, age) = (within(&kept), kept.read_at.elapsed());
            if age < if listed { KEPT } else { KEPT_LACKING } {
                return Ok(listed);
            }
        }
        let (config, latest) = (self.gateway_config, BlockNumberOrTag::Latest);
        let read = Kept {
            kms: view::at(gateway, config, &GatewayConfig::getKmsSignersCall {}, latest)
                .await?
                .into_iter()
                .collect(),
            coprocessors: view::at(gateway, config, &GatewayConfig::getCoprocessorSignersCall {}, latest)
                .await?
                .into_iter()
                .collect(),
            read_at: Instant::now(),
        };
        let listed = within(&read);
        *self.kept() = Some(read);
        Ok(listed)
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Option<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
