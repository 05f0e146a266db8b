//! A key management system whose nodes decrypt whatever is requested, to values that follow from the handles.

use std::sync::Arc;

use alloy::primitives::{Address, B256, Bytes, U256, keccak256};
use alloy::rpc::types::Log;
use alloy::sol_types::{Eip712Domain, SolCall as _, SolEvent, eip712_domain};

use crate::abi::{
    Decryption, PublicDecryptVerification, SnsCiphertextMaterial, UserDecryptResponseVerification, WithMaterials,
};
use crate::node::{Answer, Node};

/// The nodes, and the contract whose requests they answer.
#[derive(Clone, Debug)]
pub struct Kms {
    nodes: Arc<[Arc<Node>]>,
}

/// What a request asks for.
enum Asked {
    Public { id: U256, handles: Vec<B256>, extra_data: Bytes },
    User { id: U256, handles: Vec<B256>, public_key: Bytes, extra_data: Bytes },
}

impl Kms {
    /// A KMS of so many nodes.
    ///
    /// # Errors
    ///
    /// When a key cannot be made.
    pub fn new(nodes: usize) -> anyhow::Result<Kms> {
        let nodes = (0..nodes).map(|number| Ok(Arc::new(Node::new("KMS node", number)?)));
        Ok(Kms { nodes: nodes.collect::<anyhow::Result<_>>()? })
    }

    /// Its nodes.
    pub fn nodes(&self) -> &[Arc<Node>] {
        &self.nodes
    }

    /// The addresses of its nodes.
    pub fn signers(&self) -> Vec<Address> {
        self.nodes.iter().map(|node| node.address()).collect()
    }

    /// A node's answer to the request of an event, if it is one.
    pub(crate) fn answer(&self, node: &Node, log: &Log, chain_id: u64) -> anyhow::Result<Option<Answer>> {
        let to = log.address();
        let domain = domain("Decryption", chain_id, to);
        let (id, calldata) = match asked(log) {
            None => return Ok(None),
            Some(Asked::Public { id, handles, extra_data }) => {
                // The published SDK checks the signature over no extra data.
                let extra_data = if extra_data[..] == [0] { Bytes::new() } else { extra_data };
                let result: Bytes =
                    handles.iter().flat_map(|handle| clear_value(*handle).to_be_bytes::<32>()).collect();
                let signed = PublicDecryptVerification {
                    ctHandles: handles,
                    decryptedResult: result.clone(),
                    extraData: extra_data.clone(),
                };
                let signature = node.sign(&signed, &domain)?;
                let call = Decryption::publicDecryptionResponseCall {
                    decryptionId: id,
                    decryptedResult: result,
                    signature,
                    extraData: extra_data,
                };
                (id, call.abi_encode())
            }
            Some(Asked::User { id, handles, public_key, extra_data }) => {
                let share = share(node.address(), &handles, &public_key);
                let signed = UserDecryptResponseVerification {
                    publicKey: public_key,
                    ctHandles: handles,
                    userDecryptedShare: share.clone(),
                    extraData: extra_data.clone(),
                };
                let signature = node.sign(&signed, &domain)?;
                let call = Decryption::userDecryptionResponseCall {
                    decryptionId: id,
                    userDecryptedShare: share,
                    signature,
                    extraData: extra_data,
                };
                (id, call.abi_encode())
            }
        };
        Ok(Some(Answer { id, to, calldata: calldata.into() }))
    }
}

/// The domain of what is signed for a contract of the gateway.
pub fn domain(name: &'static str, chain_id: u64, contract: Address) -> Eip712Domain {
    eip712_domain! { name: name, version: "1", chain_id: chain_id, verifying_contract: contract, }
}

/// What a handle decrypts to: a value of its type, which follows from the handle.
pub fn clear_value(handle: B256) -> U256 {
    let bits = match handle[30] {
        0 => 1,
        7 => 160,
        8 => 256,
        wide => 2 << wide,
    };
    U256::from_be_bytes(keccak256(handle).0) >> (256 - bits)
}

/// A node's share of a user decryption, which follows from the node and from what is asked.
pub fn share(node: Address, handles: &[B256], public_key: &Bytes) -> Bytes {
    let handles = handles.concat();
    Bytes::copy_from_slice(keccak256([node.as_slice(), &handles, public_key].concat()).as_slice())
}

fn asked(log: &Log) -> Option<Asked> {
    fn decoded<E: SolEvent>(log: &Log) -> Option<E> {
        log.log_decode::<E>().ok().map(|log| log.inner.data)
    }
    let handles = |materials: Vec<SnsCiphertextMaterial>| materials.iter().map(|found| found.ctHandle).collect();
    if let Some(event) = decoded::<Decryption::PublicDecryptionRequest>(log) {
        return Some(Asked::Public { id: event.decryptionId, handles: event.ctHandles, extra_data: event.extraData });
    }
    if let Some(event) = decoded::<WithMaterials::PublicDecryptionRequest>(log) {
        let handles = handles(event.snsCtMaterials);
        return Some(Asked::Public { id: event.decryptionId, handles, extra_data: event.extraData });
    }
    let (id, handles, public_key, extra_data) = if let Some(event) = decoded::<Decryption::UserDecryptionRequest>(log) {
        (event.decryptionId, event.ctHandles, event.publicKey, event.extraData)
    } else {
        let event = decoded::<WithMaterials::UserDecryptionRequest>(log)?;
        (event.decryptionId, handles(event.snsCtMaterials), event.publicKey, event.extraData)
    };
    Some(Asked::User { id, handles, public_key, extra_data })
}
