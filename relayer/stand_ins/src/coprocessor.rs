//! A coprocessor whose nodes accept every ciphertext, but for those of certain users.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use alloy::primitives::{Address, B256, Bytes, U256, address, keccak256};
use alloy::rpc::types::Log;
use alloy::sol_types::SolCall as _;

use crate::abi::{CiphertextVerification, InputVerification};
use crate::host::acl;
use crate::kms::domain;
use crate::node::{Answer, Node};

/// The type of a value that has 64 bits.
pub const EUINT64: u8 = 5;

/// The user whose ciphertexts a coprocessor of the tests is told to reject.
pub const REJECTED: Address = address!("00000000000000000000000000000000000bad00");

/// The nodes, and what they know.
#[derive(Clone, Debug)]
pub struct Coprocessor {
    nodes: Arc<[Arc<Node>]>,
    rejected: Arc<Mutex<HashSet<Address>>>,
}

impl Coprocessor {
    /// A coprocessor of so many nodes.
    ///
    /// # Errors
    ///
    /// When a key cannot be made.
    pub fn new(nodes: usize) -> anyhow::Result<Coprocessor> {
        let nodes = (0..nodes).map(|number| Ok(Arc::new(Node::new("coprocessor", number)?)));
        Ok(Coprocessor { nodes: nodes.collect::<anyhow::Result<_>>()?, rejected: Arc::default() })
    }

    /// Its nodes.
    pub fn nodes(&self) -> &[Arc<Node>] {
        &self.nodes
    }

    /// The addresses of its nodes.
    pub fn signers(&self) -> Vec<Address> {
        self.nodes.iter().map(|node| node.address()).collect()
    }

    /// Rejects the ciphertexts of a user from now on.
    pub fn reject(&self, user: Address) {
        self.rejected.lock().unwrap_or_else(PoisonError::into_inner).insert(user);
    }

    /// A node's answer to the request of an event, if it is one.
    pub(crate) fn answer(&self, node: &Node, log: &Log, chain_id: u64) -> anyhow::Result<Option<Answer>> {
        let to = log.address();
        let Ok(log) = log.log_decode::<InputVerification::VerifyProofRequest>() else {
            return Ok(None);
        };
        let event = log.inner.data;
        let extra_data = event.extraData;
        let rejected = self.rejected.lock().unwrap_or_else(PoisonError::into_inner).contains(&event.userAddress);
        let calldata = if rejected {
            InputVerification::rejectProofResponseCall { zkProofId: event.zkProofId, extraData: extra_data }
                .abi_encode()
        } else {
            let host = event.contractChainId;
            let handles = handles(&event.ciphertextWithZKProof, acl(), host, &[EUINT64]);
            let signed = CiphertextVerification {
                ctHandles: handles.clone(),
                userAddress: event.userAddress,
                contractAddress: event.contractAddress,
                contractChainId: host,
                extraData: extra_data.clone(),
            };
            let call = InputVerification::verifyProofResponseCall {
                zkProofId: event.zkProofId,
                ctHandles: handles,
                signature: node.sign(&signed, &domain("InputVerification", chain_id, to))?,
                extraData: extra_data,
            };
            call.abi_encode()
        };
        Ok(Some(Answer { id: event.zkProofId, to, calldata: calldata.into() }))
    }
}

/// The handles of the values of a ciphertext, as the SDK computes them.
pub fn handles(ciphertext: &Bytes, acl: Address, chain_id: U256, types: &[u8]) -> Vec<B256> {
    let blob = keccak256([b"ZK-w_rct", &ciphertext[..]].concat());
    let chain: [u8; 32] = chain_id.to_be_bytes();
    (0..)
        .zip(types)
        .map(|(index, fhe_type)| {
            let hashed = [b"ZK-w_hdl", &blob[..], &[index], acl.as_slice(), &chain].concat();
            let mut handle = keccak256(hashed);
            handle[21] = index;
            handle[22..30].copy_from_slice(&chain[24..]);
            handle[30..].copy_from_slice(&[*fhe_type, 0]);
            handle
        })
        .collect()
}
