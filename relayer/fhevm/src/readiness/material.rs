//! Whether the gateway has the material of every handle.

use alloy::{eips::BlockNumberOrTag, primitives::Address};
use tidegate::stage::Check;
use tidegate_evm::Chain;

use super::retry;
use crate::{
    abi::gateway::Decryption,
    calldata,
    labels::Label,
    request::Payload,
    reverts::{self, Action},
    view::{self, ViewError},
};

/// Asks the contract that decrypts. `Err` is the outcome of the check.
pub(super) async fn check(gateway: &Chain, decryption: Address, payload: &Payload) -> Result<(), Check> {
    let latest = BlockNumberOrTag::Latest;
    let ready = match payload {
        Payload::InputProof(_) => Ok(true),
        Payload::PublicDecrypt(request) => {
            let call = Decryption::isPublicDecryptionReadyCall {
                ctHandles: request.ciphertext_handles.clone(),
                extraData: request.extra_data.clone(),
            };
            view::at(gateway, decryption, &call, latest).await
        }
        Payload::UserDecrypt(request) => {
            let call = Decryption::isUserDecryptionReadyCall {
                ctHandleContractPairs: calldata::pairs(request),
                extraData: request.extra_data.clone(),
            };
            view::at(gateway, decryption, &call, latest).await
        }
    };
    match ready {
        Ok(true) => Ok(()),
        Ok(false) => Err(Check::Snooze { after: None }),
        Err(ViewError::Reverted(data)) => Err(match reverts::action(&data) {
            Action::AwaitMaterial => Check::Snooze { after: None },
            _ => Check::Failed(reverts::error(&data, payload)),
        }),
        Err(ViewError::Rpc(error)) => Err(retry(Label::GatewayNotReachable, &error)),
        Err(error @ ViewError::Unreadable(..)) => Err(retry(Label::InternalServerError, &error)),
    }
}
