//! Where clients find the public key and the CRS: read on the host chain that carries the KMS protocol, served by every
//! node.

use std::time::Duration;

use alloy::{
    eips::BlockNumberOrTag,
    primitives::{Address, B256, U256},
    rpc::types::Filter,
    sol_types::SolEvent,
};
use serde_json::{Value, json};
use tidegate_evm::{Chain, RpcError};
use tokio_util::sync::CancellationToken;

use crate::{
    abi::host::{KmsGeneration, ProtocolConfig},
    store::{Store, StoreError},
    view::{self, ViewError},
};

/// The time between two reads.
const EVERY: Duration = Duration::from_secs(12);

/// Where the key's place is read.
#[derive(Debug, Clone)]
pub struct Source {
    /// The host chain that carries the KMS protocol.
    pub chain: Chain,
    /// Its contract `ProtocolConfig`.
    pub protocol_config: Address,
    /// Its contract `KMSGeneration`.
    pub kms_generation: Address,
}

/// Why the key's place could not be read.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error("{0}")]
    View(ViewError),
    #[error(transparent)]
    Rpc(#[from] RpcError),
    #[error("block {block} has no event of KMS context {context:#x}")]
    NoContext { context: U256, block: U256 },
    #[error("KMS context {0:#x} has no node")]
    NoNode(U256),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<ViewError> for ReadError {
    fn from(error: ViewError) -> Self {
        Self::View(error)
    }
}

/// Reads and stores it, again and again until `stop`.
pub async fn run(source: &Source, store: &Store, stop: &CancellationToken) {
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        let read = async { Ok::<_, ReadError>(store.key_url_set(&source.read().await?).await?) };
        if let Err(error) = read.await {
            tracing::warn!(%error, "could not read the key's place; nodes serve the one that is known");
        }
    }
}

impl Source {
    /// The answer of the key URL, at the newest final block.
    async fn read(&self) -> Result<Value, ReadError> {
        let (config, generation) = (self.protocol_config, self.kms_generation);
        let at = BlockNumberOrTag::Finalized;
        let key = view::at(&self.chain, generation, &KmsGeneration::getActiveKeyIdCall {}, at).await?;
        let crs = view::at(&self.chain, generation, &KmsGeneration::getActiveCrsIdCall {}, at).await?;
        // These revert for an id without materials.
        view::at(&self.chain, generation, &KmsGeneration::getKeyMaterialsCall { keyId: key }, at).await?;
        view::at(&self.chain, generation, &KmsGeneration::getCrsMaterialsCall { crsId: crs }, at).await?;
        let current = ProtocolConfig::getCurrentKmsContextAndEpochCall {};
        let context = view::at(&self.chain, config, &current, at).await?.contextId;
        let anchor = ProtocolConfig::getKmsContextAnchorCall { contextId: context };
        let block = view::at(&self.chain, config, &anchor, at).await?.emissionBlockNumber;
        Ok(answer(&self.storage(context, block).await?, key, crs))
    }

    /// The storage of the first node of a context, which was announced in this block.
    async fn storage(&self, context: U256, block: U256) -> Result<String, ReadError> {
        let number = block.saturating_to::<u64>();
        let filter = Filter::new()
            .address(self.protocol_config)
            .event_signature(ProtocolConfig::NewKmsContext::SIGNATURE_HASH)
            .topic1(B256::from(context))
            .from_block(number)
            .to_block(number);
        let logs = self.chain.logs(&filter).await?;
        let event = logs.iter().find_map(|log| ProtocolConfig::NewKmsContext::decode_log(&log.inner).ok());
        let event = event.ok_or(ReadError::NoContext { context, block })?;
        let node = event.data.kmsNodeParams.into_iter().next().ok_or(ReadError::NoNode(context))?;
        Ok(format!("{}/{}", node.storageUrl, node.storagePrefix))
    }
}

fn answer(storage: &str, key: U256, crs: U256) -> Value {
    let place =
        |what, id: U256| json!({ "dataId": format!("{id:#066x}"), "urls": [format!("{storage}/{what}/{id:064x}")] });
    json!({
        "fheKeyInfo": [{ "fhePublicKey": place("PublicKey", key) }],
        "crs": { "2048": place("CRS", crs) },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_64_digits_in_urls_and_a_prefix_elsewhere() {
        let digits = format!("{:064x}", 0x2a);
        assert_eq!(
            answer("https://kms.example/PUB-p1", U256::from(0x2a), U256::from(0x2a)),
            json!({
                "fheKeyInfo": [{"fhePublicKey": {
                    "dataId": format!("0x{digits}"), "urls": [format!("https://kms.example/PUB-p1/PublicKey/{digits}")],
                }}],
                "crs": {"2048": {
                    "dataId": format!("0x{digits}"), "urls": [format!("https://kms.example/PUB-p1/CRS/{digits}")],
                }},
            })
        );
    }
}
