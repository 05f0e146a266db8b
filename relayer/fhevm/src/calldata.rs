//! The gateway call of a stored request.

use alloy::{
    primitives::{Address, Bytes, U256},
    sol_types::SolCall,
};

use crate::{
    abi::gateway::{
        ContractsInfo, CtHandleContractPair, Decryption, DelegationAccounts, InputVerification, RequestValidity,
    },
    answers::Contracts,
    request::{Payload, User, UserDecrypt},
};

/// The input of the call that asks the gateway for what `payload` requests.
#[must_use]
pub fn of(payload: &Payload) -> Bytes {
    let input = match payload {
        Payload::InputProof(request) => InputVerification::verifyProofRequestCall {
            contractChainId: U256::from(request.contract_chain_id),
            contractAddress: request.contract_address,
            userAddress: request.user_address,
            ciphertextWithZKProof: request.ciphertext_with_input_verification.clone(),
            extraData: request.extra_data.clone(),
        }
        .abi_encode(),
        Payload::PublicDecrypt(request) => Decryption::publicDecryptionRequestCall {
            ctHandles: request.ciphertext_handles.clone(),
            extraData: request.extra_data.clone(),
        }
        .abi_encode(),
        Payload::UserDecrypt(request) => user_decrypt(request),
    };
    input.into()
}

/// The contract that takes the call.
#[must_use]
pub fn contract(contracts: &Contracts, payload: &Payload) -> Address {
    match payload {
        Payload::InputProof(_) => contracts.input_verification,
        Payload::PublicDecrypt(_) | Payload::UserDecrypt(_) => contracts.decryption,
    }
}

fn user_decrypt(request: &UserDecrypt) -> Vec<u8> {
    let request_validity = RequestValidity {
        startTimestamp: U256::from(request.request_validity.start_timestamp),
        durationDays: U256::from(request.request_validity.duration_days),
    };
    let contracts = ContractsInfo {
        chainId: U256::from(request.contracts_chain_id),
        addresses: request.contract_addresses.clone(),
    };
    match request.user {
        User::User { user_address } => Decryption::userDecryptionRequestCall {
            ctHandleContractPairs: pairs(request),
            requestValidity: request_validity,
            contractsInfo: contracts,
            userAddress: user_address,
            publicKey: request.public_key.clone(),
            signature: request.signature.clone(),
            extraData: request.extra_data.clone(),
        }
        .abi_encode(),
        User::Delegated { delegator_address, delegate_address } => Decryption::delegatedUserDecryptionRequestCall {
            ctHandleContractPairs: pairs(request),
            requestValidity: request_validity,
            delegationAccounts: DelegationAccounts {
                delegatorAddress: delegator_address,
                delegateAddress: delegate_address,
            },
            contractsInfo: contracts,
            publicKey: request.public_key.clone(),
            signature: request.signature.clone(),
            extraData: request.extra_data.clone(),
        }
        .abi_encode(),
    }
}

/// The handles of a user decryption as the contracts take them.
pub(crate) fn pairs(request: &UserDecrypt) -> Vec<CtHandleContractPair> {
    let pairs = request.handle_contract_pairs.iter();
    pairs.map(|pair| CtHandleContractPair { ctHandle: pair.handle, contractAddress: pair.contract_address }).collect()
}

#[cfg(test)]
mod tests {
    use alloy::hex;
    use serde_json::{Value, json};

    use super::*;

    const HANDLE: &str = "0x1c92b55f05ee16f6facd3a57d7d9365f7f233b30a1000000000000007a690500";
    const A: &str = "0x63c6684e14e27dc59870c5595d574bd6ca5d6ac6";
    const B: &str = "0x3f92107747fcccc58db838122c14149b1c6e5a81";

    fn stored(payload: Value) -> Payload {
        serde_json::from_value(payload).unwrap()
    }

    fn user(variant: &Value) -> Payload {
        let mut payload = json!({
            "family": "user_decrypt",
            "handleContractPairs": [{"handle": HANDLE, "contractAddress": A}],
            "requestValidity": {"startTimestamp": "1700000000", "durationDays": "10"},
            "contractsChainId": "31337",
            "contractAddresses": [A],
            "signature": "0x0102",
            "publicKey": "0x03",
            "extraData": "0x00",
        });
        payload.as_object_mut().unwrap().extend(variant.as_object().unwrap().clone());
        stored(payload)
    }

    /// The words of a call, after its selector.
    fn words(input: &[u8]) -> Vec<String> {
        input[4..].chunks(32).map(hex::encode).collect()
    }

    #[test]
    fn an_input_proof_is_one_call_with_its_fields_in_order() {
        let input = of(&stored(json!({
            "family": "input_proof",
            "contractChainId": "31337",
            "contractAddress": A,
            "userAddress": B,
            "ciphertextWithInputVerification": "0xabcd",
            "extraData": "0x00",
        })));

        assert_eq!(hex::encode(&input[..4]), "a7004996");
        let words = words(&input);
        assert_eq!(words[0], format!("{:064x}", 31337));
        assert_eq!(words[1], format!("{:0>64}", &A[2..]));
        assert_eq!(words[2], format!("{:0>64}", &B[2..]));
        assert_eq!(words[5..7], [format!("{:064x}", 2), format!("{:0<64}", "abcd")]);
        assert_eq!(words[7..9], [format!("{:064x}", 1), "0".repeat(64)]);
    }

    #[test]
    fn each_family_calls_its_function_and_decodes_to_the_stored_fields() {
        let public = of(&stored(json!({
            "family": "public_decrypt", "ciphertextHandles": [HANDLE], "extraData": "0x00",
        })));
        let call = Decryption::publicDecryptionRequestCall::abi_decode(&public).unwrap();
        assert_eq!(call.ctHandles[0].to_string(), HANDLE);

        let own = of(&user(&json!({"variant": "user", "userAddress": B})));
        let call = Decryption::userDecryptionRequestCall::abi_decode(&own).unwrap();
        assert_eq!(call.userAddress.to_string().to_lowercase(), B);
        assert_eq!(call.ctHandleContractPairs[0].ctHandle.to_string(), HANDLE);
        assert_eq!(call.requestValidity.durationDays, U256::from(10));
        assert_eq!(call.contractsInfo.chainId, U256::from(31337));
        assert_eq!((call.signature[..].to_vec(), call.publicKey[..].to_vec()), (vec![1, 2], vec![3]));

        let delegated = of(&user(&json!({"variant": "delegated", "delegatorAddress": A, "delegateAddress": B})));
        let call = Decryption::delegatedUserDecryptionRequestCall::abi_decode(&delegated).unwrap();
        assert_eq!(call.delegationAccounts.delegatorAddress.to_string().to_lowercase(), A);
        assert_eq!(call.delegationAccounts.delegateAddress.to_string().to_lowercase(), B);
    }
}
