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
    responses::ApplyError,
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
    kept: Arc<Mutex<Kept>>,
}

#[derive(Debug, Default)]
struct Kept {
    kms: HashSet<Address>,
    coprocessors: HashSet<Address>,
    read_at: Option<Instant>,
    /// How old they were when they were needed last.
    age: Duration,
    /// An answer has come since with a signer that they do not have.
    lack: bool,
}

impl SignerSets {
    /// Those of this contract.
    #[must_use]
    pub fn new(gateway_config: Address) -> Self {
        Self { gateway_config, kept: Arc::default() }
    }

    /// Reads the lists, unless those that are kept will do.
    pub(super) async fn refresh(&self, gateway: &Chain) -> Result<(), ViewError> {
        {
            let mut kept = self.kept();
            kept.age = kept.read_at.map_or(Duration::MAX, |read_at| read_at.elapsed());
            if kept.age < if kept.lack { KEPT_LACKING } else { KEPT } {
                return Ok(());
            }
        }
        let (config, latest) = (self.gateway_config, BlockNumberOrTag::Latest);
        let kms = view::at(gateway, config, &GatewayConfig::getKmsSignersCall {}, latest).await?;
        let coprocessors = view::at(gateway, config, &GatewayConfig::getCoprocessorSignersCall {}, latest).await?;
        *self.kept() = Kept {
            kms: kms.into_iter().collect(),
            coprocessors: coprocessors.into_iter().collect(),
            read_at: Some(Instant::now()),
            ..Kept::default()
        };
        Ok(())
    }

    /// Whether all of an answer's signers are listed. Only a rejected proof has none.
    pub(super) fn contain(&self, answer: &Answer, signers: &[Option<Address>]) -> Result<bool, ApplyError> {
        if signers.is_empty() {
            return Ok(matches!(answer, Answer::Proof(Proof::Rejected)));
        }
        let mut kept = self.kept();
        let set = match answer {
            Answer::Proof(_) => &kept.coprocessors,
            Answer::Public(_) | Answer::Share(_) => &kept.kms,
        };
        let listed = signers.iter().all(|signer| signer.is_some_and(|signer| set.contains(&signer)));
        kept.lack |= !listed;
        if listed || kept.read_at.is_some() && kept.age < KEPT_LACKING { Ok(listed) } else { Err(ApplyError::Lacking) }
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
