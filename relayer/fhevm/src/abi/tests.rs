use std::{collections::BTreeMap, path::Path};

use alloy::sol_types::{SolCall, SolError, SolEvent};

use super::{gateway, host, reverts, with_materials};

/// Selector or topic, and canonical signature, as the deployed contracts have them.
const FIXTURE: &str = include_str!("selectors.tsv");

/// What a type's signature is, with its selector or topic.
type Declared = Vec<(String, String)>;

fn selector(selector: [u8; 4]) -> String {
    format!("0x{}", alloy::hex::encode(selector))
}

/// Of the calls.
fn calls() -> Declared {
    macro_rules! list {
        ($($call:path),* $(,)?) => { vec![$((<$call>::SIGNATURE.to_owned(), selector(<$call>::SELECTOR))),*] };
    }
    list![
        gateway::InputVerification::verifyProofRequestCall,
        gateway::InputVerification::isProofVerifiedCall,
        gateway::InputVerification::isProofRejectedCall,
        gateway::Decryption::publicDecryptionRequestCall,
        gateway::Decryption::userDecryptionRequestCall,
        gateway::Decryption::delegatedUserDecryptionRequestCall,
        gateway::Decryption::isPublicDecryptionReadyCall,
        gateway::Decryption::isUserDecryptionReadyCall,
        gateway::Decryption::isDecryptionDoneCall,
        gateway::GatewayConfig::getKmsSignersCall,
        gateway::GatewayConfig::getCoprocessorSignersCall,
        gateway::ProtocolPayment::getInputVerificationPriceCall,
        gateway::ProtocolPayment::getPublicDecryptionPriceCall,
        gateway::ProtocolPayment::getUserDecryptionPriceCall,
        host::Acl::multicallCall,
        host::Acl::isAllowedForDecryptionCall,
        host::Acl::isAllowedCall,
        host::Acl::isHandleDelegatedForUserDecryptionCall,
        host::ProtocolConfig::getCurrentKmsContextAndEpochCall,
        host::ProtocolConfig::getKmsContextAnchorCall,
        host::ProtocolConfig::getUserDecryptionThresholdForContextCall,
        host::KmsGeneration::getActiveKeyIdCall,
        host::KmsGeneration::getActiveCrsIdCall,
        host::KmsGeneration::getKeyMaterialsCall,
        host::KmsGeneration::getCrsMaterialsCall,
    ]
}

/// Of the events.
fn events() -> Declared {
    macro_rules! list {
        ($($event:path),* $(,)?) => {
            vec![$((<$event>::SIGNATURE.to_owned(), format!("{:?}", <$event>::SIGNATURE_HASH))),*]
        };
    }
    list![
        gateway::InputVerification::VerifyProofRequest,
        gateway::InputVerification::VerifyProofResponse,
        gateway::InputVerification::RejectProofResponse,
        gateway::Decryption::PublicDecryptionRequest,
        gateway::Decryption::PublicDecryptionResponse,
        gateway::Decryption::UserDecryptionRequest,
        gateway::Decryption::UserDecryptionResponse,
        with_materials::PublicDecryptionRequest,
        with_materials::UserDecryptionRequest,
        host::ProtocolConfig::NewKmsContext,
    ]
}

/// Of the reverts.
fn errors() -> Declared {
    macro_rules! list {
        ($($error:ident),* $(,)?) => {
            vec![$((reverts::$error::SIGNATURE.to_owned(), selector(reverts::$error::SELECTOR))),*]
        };
    }
    list![
        EnforcedPause,
        ERC20InsufficientBalance,
        ERC20InsufficientAllowance,
        InvalidUserSignature,
        ECDSAInvalidSignature,
        ECDSAInvalidSignatureLength,
        ECDSAInvalidSignatureS,
        CiphertextMaterialNotFound,
        EmptyCtHandles,
        EmptyCtHandleContractPairs,
        EmptyContractAddresses,
        ContractAddressesMaxLengthExceeded,
        ContractNotInContractAddresses,
        CtHandleChainIdDiffersFromContractChainId,
        DelegatorAddressInContractAddresses,
        UserAddressInContractAddresses,
        DifferentKeyIdsNotAllowed,
        HostChainNotRegistered,
        HostChainDisabled,
        InvalidExtraDataLength,
        UnsupportedExtraDataVersion,
        InvalidNullContextId,
        InvalidKmsContext,
        InvalidFHEType,
        UnsupportedFHEType,
        MaxDecryptionRequestBitSizeExceeded,
        InvalidNullDurationDays,
        MaxDurationDaysExceeded,
        StartTimestampInFuture,
        UserDecryptionRequestExpired,
    ]
}

/// Those of the types of this module, by signature.
fn declared() -> BTreeMap<String, String> {
    [calls(), events(), errors()].concat().into_iter().collect()
}

fn rows(table: &str) -> BTreeMap<String, String> {
    let row = |line: &str| line.split_once('\t').map(|(word, signature)| (signature.to_owned(), word.to_owned()));
    table.lines().filter_map(row).collect()
}

#[test]
fn selectors_and_topics_are_those_of_the_deployed_contracts() {
    assert_eq!(declared(), rows(FIXTURE));
}

/// Where the facts that the project was made from are at hand, the fixture is compared with them.
#[test]
fn the_fixture_agrees_with_the_facts() {
    let facts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fhevm/selectors.tsv");
    let Ok(facts) = std::fs::read_to_string(facts) else {
        return;
    };
    let fact = |line: &str| {
        let mut cells = line.split('\t').skip(1);
        Some((cells.next()?.to_owned(), cells.next()?.to_owned()))
    };
    let facts: BTreeMap<_, _> = facts.lines().filter_map(fact).collect();
    for (signature, word) in rows(FIXTURE) {
        assert_eq!(facts.get(&signature), Some(&word), "{signature}");
    }
}
