//! Requests of all families, what each of them sends to the gateway, and what it must be answered.
#![expect(non_snake_case, reason = "the members of the contracts' structs are spelled so")]

use std::collections::HashSet;
use std::time::{SystemTime, UNIX_EPOCH};

use alloy::primitives::{Address, B256, Bytes, U256, address, hex, keccak256};
use alloy::signers::local::PrivateKeySigner;
use alloy::sol_types::SolCall as _;
use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};

use crate::abi::{
    ContractsInfo, CtHandleContractPair, Decryption, DelegationAccounts, InputVerification, RequestValidity,
};
use crate::client::Ended;
use crate::coprocessor::{EUINT64, REJECTED, handles};
use crate::host::acl;
use crate::kms::{clear_value, share};
use crate::network::Network;
use crate::user::Permit;

/// The contract whose ciphertexts are decrypted.
const CONTRACT: Address = address!("00000000000000000000000000000000000c0de5");

/// The KMS context of all requests: the current one.
const EXTRA_DATA: [u8; 1] = [0];

/// A request.
#[derive(Clone, Debug)]
pub struct Work {
    /// Where it is submitted.
    pub path: &'static str,
    /// What is submitted.
    pub body: Value,
    /// The contract that it becomes a transaction of.
    pub to: Address,
    /// The input of that transaction.
    pub calldata: Bytes,
    answer: Answer,
}

/// What it must be answered.
#[derive(Clone, Debug)]
enum Answer {
    Proof(Vec<B256>),
    Rejection,
    Value(U256),
    Shares(HashSet<Bytes>),
}

/// The request of a number: no two are the same, and each family has one in five; a proof that is rejected counts as one.
///
/// # Errors
///
/// When a key cannot sign.
pub fn work(network: &Network, number: u64) -> anyhow::Result<Work> {
    let (host, _) = network.hosts.first().context("the network has no host chain")?;
    let seed = keccak256(format!("request {number}"));
    match number % 5 {
        0 => Ok(proof(network, host.chain_id(), seed, Address::from_slice(&seed[..20]))),
        1 => Ok(proof(network, host.chain_id(), seed, REJECTED)),
        2 => Ok(public(network, host.chain_id(), seed)),
        family => user(network, host.chain_id(), seed, family == 4),
    }
}

fn proof(network: &Network, host_chain: u64, seed: B256, user: Address) -> Work {
    let ciphertext = Bytes::from(seed.repeat(40));
    let call = InputVerification::verifyProofRequestCall {
        contractChainId: U256::from(host_chain),
        contractAddress: CONTRACT,
        userAddress: user,
        ciphertextWithZKProof: ciphertext.clone(),
        extraData: EXTRA_DATA.into(),
    };
    Work {
        path: "v2/input-proof",
        body: json!({
            "contractChainId": host_chain.to_string(), "contractAddress": CONTRACT, "userAddress": user,
            "ciphertextWithInputVerification": hex::encode(&ciphertext), "extraData": "0x00",
        }),
        to: network.gateway.input_verification,
        calldata: call.abi_encode().into(),
        answer: match user {
            REJECTED => Answer::Rejection,
            _ => Answer::Proof(handles(&ciphertext, acl(), U256::from(host_chain), &[EUINT64])),
        },
    }
}

fn handle(host_chain: u64, seed: B256) -> B256 {
    handles(&seed.into(), acl(), U256::from(host_chain), &[EUINT64])[0]
}

fn public(network: &Network, host_chain: u64, seed: B256) -> Work {
    let handle = handle(host_chain, seed);
    let call = Decryption::publicDecryptionRequestCall { ctHandles: vec![handle], extraData: EXTRA_DATA.into() };
    Work {
        path: "v2/public-decrypt",
        body: json!({"ciphertextHandles": [handle], "extraData": "0x00"}),
        to: network.gateway.decryption,
        calldata: call.abi_encode().into(),
        answer: Answer::Value(clear_value(handle)),
    }
}

fn user(network: &Network, host_chain: u64, seed: B256, delegated: bool) -> anyhow::Result<Work> {
    let handle = handle(host_chain, seed);
    let decryption = network.gateway.decryption;
    let key = PrivateKeySigner::from_bytes(&seed)?;
    let delegator = Address::from_slice(&seed[12..]);
    let permit = Permit {
        public_key: seed.repeat(25).into(),
        contracts: vec![CONTRACT],
        // The chain's clock is that of its newest block.
        start: SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() - 60,
        days: 1,
        extra_data: EXTRA_DATA.into(),
    };
    let signature = match delegated {
        true => permit.sign_delegated(&key, delegator, host_chain, decryption)?,
        false => permit.sign(&key, host_chain, decryption)?,
    };
    let mut body = json!({
        "handleContractPairs": [{"handle": handle, "contractAddress": CONTRACT}],
        "contractsChainId": host_chain.to_string(), "contractAddresses": [CONTRACT],
        "signature": hex::encode(&signature), "publicKey": hex::encode(&permit.public_key), "extraData": "0x00",
    });
    let ctHandleContractPairs = vec![CtHandleContractPair { ctHandle: handle, contractAddress: CONTRACT }];
    let requestValidity =
        RequestValidity { startTimestamp: U256::from(permit.start), durationDays: U256::from(permit.days) };
    let contractsInfo = ContractsInfo { chainId: U256::from(host_chain), addresses: permit.contracts };
    let (start, days) = (permit.start.to_string(), permit.days.to_string());
    let (path, calldata) = if delegated {
        body["delegatorAddress"] = json!(delegator);
        body["delegateAddress"] = json!(key.address());
        body["startTimestamp"] = json!(start);
        body["durationDays"] = json!(days);
        let call = Decryption::delegatedUserDecryptionRequestCall {
            ctHandleContractPairs,
            requestValidity,
            delegationAccounts: DelegationAccounts { delegatorAddress: delegator, delegateAddress: key.address() },
            contractsInfo,
            publicKey: permit.public_key.clone(),
            signature,
            extraData: EXTRA_DATA.into(),
        };
        ("v2/delegated-user-decrypt", call.abi_encode())
    } else {
        body["userAddress"] = json!(key.address());
        body["requestValidity"] = json!({"startTimestamp": start, "durationDays": days});
        let call = Decryption::userDecryptionRequestCall {
            ctHandleContractPairs,
            requestValidity,
            contractsInfo,
            userAddress: key.address(),
            publicKey: permit.public_key.clone(),
            signature,
            extraData: EXTRA_DATA.into(),
        };
        ("v2/user-decrypt", call.abi_encode())
    };
    let nodes = network.kms.signers().into_iter();
    let shares = nodes.map(|node| share(node, &[handle], &permit.public_key)).collect();
    Ok(Work { path, body, to: decryption, calldata: calldata.into(), answer: Answer::Shares(shares) })
}

impl Work {
    /// Compares how it ended with what the stand-ins have answered.
    ///
    /// # Errors
    ///
    /// When they differ.
    pub fn check(&self, ended: &Ended, user_threshold: usize) -> anyhow::Result<()> {
        let Ended::Succeeded(result) = ended else { bail!("{} ended with {ended:?}", self.path) };
        match &self.answer {
            Answer::Proof(handles) => {
                ensure!(result["accepted"] == true && result["handles"] == json!(handles), "wrong proof: {result}");
            }
            Answer::Rejection => ensure!(result["accepted"] == false, "a rejected proof: {result}"),
            Answer::Value(value) => {
                let expected = hex::encode(value.to_be_bytes::<32>());
                ensure!(result["decryptedValue"] == expected, "{result} instead of the value {expected}");
            }
            Answer::Shares(known) => {
                let shares = result["result"].as_array().context("no shares")?;
                let payloads = shares
                    .iter()
                    .map(|share| anyhow::Ok(hex::decode(share["payload"].as_str().unwrap_or_default())?.into()));
                let payloads = payloads.collect::<anyhow::Result<HashSet<Bytes>>>()?;
                ensure!(
                    shares.len() == user_threshold && payloads.len() == shares.len() && payloads.is_subset(known),
                    "not {user_threshold} shares of different nodes: {result}"
                );
            }
        }
        Ok(())
    }
}
