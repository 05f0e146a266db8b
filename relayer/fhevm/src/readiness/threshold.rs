//! How many shares answer a user decryption: those of its KMS context.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use alloy::{eips::BlockNumberOrTag, primitives::U256};
use tidegate::stage::Check;

use super::retry;
use crate::chains::Kms;
use crate::{abi::host::ProtocolConfig, labels::Label, view};

const TRIES: u32 = 3;
const BETWEEN_TRIES: Duration = Duration::from_millis(200);

/// Governance may change a threshold.
const KEPT: Duration = Duration::from_secs(60);

/// The thresholds of contexts, kept for a minute.
pub(super) struct Thresholds {
    kms: Option<Kms>,
    without_context: i32,
    kept: Mutex<HashMap<U256, (Instant, i32)>>,
}

impl Thresholds {
    pub(super) fn new(kms: Option<Kms>, without_context: i32) -> Self {
        Self { kms, without_context, kept: Mutex::default() }
    }

    /// The threshold of requests with this extra data. `Err` is the outcome of the check.
    pub(super) async fn of(&self, extra_data: &[u8]) -> Result<i32, Check> {
        let Some(context) = context(extra_data) else {
            return Ok(self.without_context);
        };
        if let Some((_, threshold)) = self.kept().get(&context) {
            return Ok(*threshold);
        }
        let threshold = self.read(context).await?;
        self.kept().insert(context, (Instant::now(), threshold));
        Ok(threshold)
    }

    /// Those that are not too old.
    fn kept(&self) -> MutexGuard<'_, HashMap<U256, (Instant, i32)>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|_, (read_at, _)| read_at.elapsed() < KEPT);
        kept
    }

    async fn read(&self, context: U256) -> Result<i32, Check> {
        let Some(kms) = &self.kms else {
            let cause = "the request names a KMS context, and the configuration has no section kms";
            return Err(retry(Label::InternalServerError, &cause));
        };
        let call = ProtocolConfig::getUserDecryptionThresholdForContextCall { contextId: context };
        let mut tries = 1;
        loop {
            let read = view::at(&kms.chain, kms.protocol_config, &call, BlockNumberOrTag::Latest).await;
            let cause = match read.map(i32::try_from) {
                Ok(Ok(threshold)) if threshold > 0 => return Ok(threshold),
                Ok(_) => format!("KMS context {context:#x} has a threshold that is no count of shares"),
                Err(error) => error.to_string(),
            };
            if tries == TRIES {
                return Err(retry(Label::InternalServerError, &cause));
            }
            tries += 1;
            tokio::time::sleep(BETWEEN_TRIES).await;
        }
    }
}

/// The context that extra data of version 1 or 2 names.
fn context(extra_data: &[u8]) -> Option<U256> {
    match extra_data {
        [1 | 2, rest @ ..] => rest.first_chunk::<32>().map(|context| U256::from_be_bytes(*context)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extra_data_of_version_one_and_two_name_a_context() {
        let id: U256 = U256::from(7) << 248;
        assert_eq!(context(&[0]), None);
        assert_eq!(context(&[&[1][..], &id.to_be_bytes::<32>()].concat()), Some(id));
        assert_eq!(context(&[&[2][..], &id.to_be_bytes::<32>(), &[8; 32]].concat()), Some(id));
        assert_eq!(context(&[1, 7]), None);
    }
}
