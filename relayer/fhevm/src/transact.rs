//! The send of a request: one transaction on the gateway chain.

use std::time::{Duration, Instant};

use serde_json::json;
use tidegate::{
    request::{Request, RequestError, RequestId},
    stage::{self, Found, Receipt, Sent},
};
use tidegate_evm::{Finding, Mined, Order, Revert, Sender, Sending, WaitCause};

use crate::{
    abi::reverts::{ERC20InsufficientAllowance, ERC20InsufficientBalance, EnforcedPause},
    answers::Contracts,
    calldata,
    labels::{Detail, Label},
    request::Payload,
    reverts::{self, Action},
    store::{Reference, Store, StoreError},
};

/// For how long, and how often, a call is repeated whose material the readiness check saw before the gateway.
const MATERIAL_BUDGET: Duration = Duration::from_secs(30);
const MATERIAL_AGAIN: Duration = Duration::from_secs(1);

/// After how long a call is repeated that was ahead of the chain's clock.
const CLOCK_AGAIN: Duration = Duration::from_secs(2);

/// After how long a request is sent again that met a paused contract, if such requests are held.
const PAUSED_AGAIN: Duration = Duration::from_secs(10);

/// The longest call that the gateway chain takes, as every Arbitrum chain. A longer one would take a nonce, and hold its
/// wallet up until that is used up.
const CALLDATA_MAX: usize = 95_000;

/// Why a wallet that an estimate was made for cannot pay the request's price; `None` for a revert that is not about the
/// wallet.
#[must_use]
pub fn lacks_funds(data: &[u8]) -> Option<&'static str> {
    use alloy::sol_types::SolError;
    match *data.first_chunk()? {
        ERC20InsufficientBalance::SELECTOR => Some("it has too few fee tokens"),
        ERC20InsufficientAllowance::SELECTOR => Some("it has not approved the payment of fee tokens"),
        _ => None,
    }
}

/// The send stage of all kinds.
#[derive(Debug, Clone)]
pub struct Transact {
    sender: Sender,
    store: Store,
    contracts: Contracts,
    hold_while_paused: bool,
}

impl Transact {
    /// Sends to these contracts. With `hold_while_paused`, requests wait for contracts that are paused until their
    /// deadline; without, they fail.
    #[must_use]
    pub fn new(sender: Sender, store: Store, contracts: Contracts, hold_while_paused: bool) -> Self {
        Self { sender, store, contracts, hold_while_paused }
    }

    /// The receipt of a transaction, after its logs have told the request's id. The watcher reads the same from the
    /// chain, and is believed rather than an endpoint that may be on a fork.
    async fn receipt(&self, request: RequestId, mined: &Mined) -> Result<Receipt, StoreError> {
        let references = Reference::of_receipt(&self.contracts, request, mined);
        if references.is_empty() {
            tracing::warn!(%request, hash = %mined.hash, "a receipt has no event of the gateway's contracts");
        }
        self.store.note_receipt(&references).await?;
        Ok(Receipt { reference: Some(mined.hash.to_string()), response: None })
    }

    fn refused(&self, revert: &Revert, payload: &Payload) -> Sent {
        use alloy::sol_types::SolError;
        let data = &revert.data;
        let error = reverts::error(data, payload);
        // What was mined has used its nonce: no second transaction.
        if self.hold_while_paused && !revert.mined && data.starts_with(&EnforcedPause::SELECTOR) {
            return Sent::Retry { error, after: Some(PAUSED_AGAIN), may_have_left: false };
        }
        if !reverts::is_known(data) {
            let selector = alloy::hex::encode_prefixed(&data[..data.len().min(4)]);
            tracing::warn!(selector, bytes = data.len(), "the gateway reverts with an unknown error");
        }
        Sent::Rejected(error)
    }
}

impl stage::Transact for Transact {
    type Payload = Payload;

    async fn send(&self, request: &Request<Payload>) -> Sent {
        let order = Order {
            request: request.id,
            lease: request.lease(),
            to: calldata::contract(&self.contracts, &request.payload),
            calldata: calldata::of(&request.payload),
        };
        if order.calldata.len() > CALLDATA_MAX {
            return Sent::Rejected(too_large(&request.payload));
        }
        let mut awaits_material = None;
        let mut awaits_clock = true;
        loop {
            let revert = match self.sender.send(&order).await {
                Sending::Mined(mined) => {
                    return match self.receipt(request.id, &mined).await {
                        Ok(receipt) => Sent::Receipt(receipt),
                        Err(error) => retry(Label::InternalServerError, &error, true),
                    };
                }
                Sending::TooLarge => return Sent::Rejected(too_large(&request.payload)),
                Sending::Gas => {
                    let details = json!({ "refused": "no block takes a transaction with its gas limit" });
                    return Sent::Rejected(Label::InternalServerError.error().with_details(details));
                }
                Sending::Waiting(cause) => return waiting(&cause),
                Sending::Ended => {
                    let cause = "the request has ended, or another worker has it";
                    return retry(Label::InternalServerError, &cause, true);
                }
                Sending::Reverted(revert) => revert,
            };
            let pause = match reverts::action(&revert.data) {
                _ if revert.mined => None,
                Action::Fail => None,
                Action::AwaitMaterial => {
                    let began: &mut Instant = awaits_material.get_or_insert_with(Instant::now);
                    (began.elapsed() < MATERIAL_BUDGET).then_some(MATERIAL_AGAIN)
                }
                Action::AwaitClock => std::mem::take(&mut awaits_clock).then_some(CLOCK_AGAIN),
            };
            match pause {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return self.refused(&revert, &request.payload),
            }
        }
    }

    async fn find_receipt(&self, request: &Request<Payload>) -> Result<Found, RequestError> {
        let not_found = |error: &dyn std::fmt::Display| {
            RequestError::new(Label::GatewayNotReachable.code(), error.to_string(), true)
        };
        let mut found = self.sender.find(request.id).await;
        if let (Ok(Finding::Never), true) = (&found, request.send_id != request.id) {
            found = self.sender.find(request.send_id).await;
        }
        match found.map_err(|error| not_found(&error))? {
            Finding::Mined(mined) => {
                let receipt = self.receipt(request.id, &mined).await;
                receipt.map(Found::Receipt).map_err(|error| not_found(&error))
            }
            Finding::Open => Ok(Found::Nothing),
            Finding::Never => Ok(Found::Never),
        }
    }
}

/// The error of a request whose transaction no endpoint takes.
fn too_large(payload: &Payload) -> RequestError {
    let field = match payload {
        Payload::InputProof(_) => "ciphertextWithInputVerification",
        Payload::PublicDecrypt(_) => "ciphertextHandles",
        Payload::UserDecrypt(_) => "publicKey",
    };
    let details = json!([Detail::new(field, "Is larger than the gateway chain takes")]);
    Label::ValidationFailed.error().with_details(details)
}

/// An order that is not through. Its label is the request's, should its deadline pass meanwhile.
fn waiting(cause: &WaitCause) -> Sent {
    let (label, may_have_left) = match cause {
        WaitCause::Endpoint(_) => (Label::GatewayNotReachable, true),
        WaitCause::Unfunded => (Label::InsufficientBalance, false),
        WaitCause::Full | WaitCause::NoWallet(_) => (Label::ResponseTimedOut, false),
        WaitCause::NoContract(_) => (Label::InternalServerError, false),
        WaitCause::Database(_) | WaitCause::Signer(_) | WaitCause::NotMined => (Label::ResponseTimedOut, true),
    };
    retry(label, cause, may_have_left)
}

fn retry(label: Label, cause: &dyn std::fmt::Display, may_have_left: bool) -> Sent {
    let error = RequestError::new(label.code(), cause.to_string(), label.repeat());
    Sent::Retry { error, after: None, may_have_left }
}
