//! Nodes that answer requests of the gateway: each has a key, and an account of the same address.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use alloy::primitives::{Address, B256, Bytes, U256, keccak256};
use alloy::signers::SignerSync as _;
use alloy::signers::local::PrivateKeySigner;
use alloy::sol_types::{Eip712Domain, SolStruct};

/// How a node treats the requests that it sees. It can be changed while requests wait.
#[derive(Clone, Copy, Debug, Default)]
pub struct Behaviour {
    /// How long after the request it answers.
    pub delay: Duration,
    /// It does not answer. What it has not answered waits.
    pub silent: bool,
    /// How many times it sends its answer again.
    pub repeats: u32,
}

/// A node.
#[derive(Debug)]
pub struct Node {
    key: PrivateKeySigner,
    behaviour: Mutex<Behaviour>,
}

impl Node {
    /// The node of a name and a number. Its key follows from both.
    ///
    /// # Errors
    ///
    /// When the hash of both is no key, which no name is known for.
    pub(crate) fn new(name: &str, number: usize) -> anyhow::Result<Node> {
        let key = PrivateKeySigner::from_bytes(&keccak256(format!("{name} {number}")))?;
        Ok(Node { key, behaviour: Mutex::default() })
    }

    /// The address that its signatures recover to, and that its transactions come from.
    pub fn address(&self) -> Address {
        self.key.address()
    }

    /// Changes how it behaves.
    pub fn behave(&self, behaviour: Behaviour) {
        *self.behaviour.lock().unwrap_or_else(PoisonError::into_inner) = behaviour;
    }

    pub(crate) fn behaviour(&self) -> Behaviour {
        *self.behaviour.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn sign(&self, message: &impl SolStruct, domain: &Eip712Domain) -> anyhow::Result<Bytes> {
        let digest: B256 = message.eip712_signing_hash(domain);
        Ok(self.key.sign_hash_sync(&digest)?.as_bytes().into())
    }
}

/// An answer of one node to one request.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub id: U256,
    pub to: Address,
    pub calldata: Bytes,
}
