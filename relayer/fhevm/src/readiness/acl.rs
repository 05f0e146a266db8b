//! Whether the host chains allow every handle: one call for each chain.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use alloy::{
    eips::BlockNumberOrTag,
    primitives::{Address, B256, Bytes},
    sol_types::{SolCall, SolValue},
};
use futures_util::future::try_join_all;
use tidegate::stage::Check;

use crate::chains::HostChain;
use crate::{
    abi::host::Acl,
    labels::Label,
    request::{Payload, User, UserDecrypt, chain_of},
    view::{self, ViewError},
};

const TRIES: u32 = 3;
const BETWEEN_TRIES: Duration = Duration::from_secs(1);

/// Asks the access control list of each handle's chain. `Err` is the outcome of the check.
pub(super) async fn check(host_chains: &HashMap<u64, HostChain>, payload: &Payload) -> Result<(), Check> {
    let asked = questions(payload).into_iter().map(|(chain, questions)| async move {
        match host_chains.get(&chain) {
            Some(host) => ask(host, questions).await,
            None => Err(failed(&format!("chain {chain} is not configured in this process"))),
        }
    });
    match try_join_all(asked).await?.into_iter().all(|allowed| allowed) {
        true => Ok(()),
        false => Err(Check::Failed(Label::NotAllowedOnHostAcl.error())),
    }
}

/// The calls of each chain, all of which must return true.
fn questions(payload: &Payload) -> BTreeMap<u64, Vec<Bytes>> {
    let mut questions = BTreeMap::new();
    let mut add = |handle: &B256, call: Vec<u8>| {
        questions.entry(chain_of(handle)).or_insert_with(Vec::new).push(Bytes::from(call));
    };
    match payload {
        Payload::InputProof(_) => {}
        Payload::PublicDecrypt(request) => {
            for handle in &request.ciphertext_handles {
                add(handle, Acl::isAllowedForDecryptionCall { handle: *handle }.abi_encode());
            }
        }
        Payload::UserDecrypt(request) => of_user(request, add),
    }
    questions
}

fn of_user(request: &UserDecrypt, mut add: impl FnMut(&B256, Vec<u8>)) {
    let is_allowed = |handle: B256, account: Address| Acl::isAllowedCall { handle, account }.abi_encode();
    for pair in &request.handle_contract_pairs {
        match request.user {
            User::User { user_address } => {
                add(&pair.handle, is_allowed(pair.handle, user_address));
                add(&pair.handle, is_allowed(pair.handle, pair.contract_address));
            }
            User::Delegated { delegator_address, delegate_address } => {
                let call = Acl::isHandleDelegatedForUserDecryptionCall {
                    delegator: delegator_address,
                    delegate: delegate_address,
                    contractAddress: pair.contract_address,
                    handle: pair.handle,
                };
                add(&pair.handle, call.abi_encode());
            }
        }
    }
}

/// Whether one chain allows all that it is asked.
async fn ask(host: &HostChain, questions: Vec<Bytes>) -> Result<bool, Check> {
    let call = Acl::multicallCall { data: questions };
    let mut tries = 1;
    loop {
        let results = view::at(&host.chain, host.acl, &call, BlockNumberOrTag::Latest).await;
        let cause = match results {
            Ok(results) if results.len() == call.data.len() => {
                return Ok(results.iter().all(|result| bool::abi_decode(result) == Ok(true)));
            }
            Ok(results) => format!("the ACL answered {} of {} calls", results.len(), call.data.len()),
            // It answers every call of the same kind with this.
            Err(error @ (ViewError::Reverted(_) | ViewError::Unreadable(..))) => {
                return Err(failed(&error.to_string()));
            }
            Err(ViewError::Rpc(error)) => error.to_string(),
        };
        if tries == TRIES {
            return Err(failed(&cause));
        }
        tries += 1;
        tokio::time::sleep(BETWEEN_TRIES).await;
    }
}

fn failed(cause: &str) -> Check {
    tracing::warn!(cause, "a host chain's ACL could not be asked");
    Check::Failed(Label::HostAclFailed.error())
}
