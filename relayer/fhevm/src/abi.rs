//! What the relayer calls, reads and receives on the chains: interface facts, spelled as the contracts declare them.

#[cfg(test)]
mod tests;

use alloy::sol;

/// The contracts of the gateway chain.
pub mod gateway {
    use super::sol;

    sol! {
        interface InputVerification {
            event VerifyProofRequest(uint256 indexed zkProofId, uint256 indexed contractChainId, address contractAddress,
                address userAddress, bytes ciphertextWithZKProof, bytes extraData);
            event VerifyProofResponse(uint256 indexed zkProofId, bytes32[] ctHandles, bytes[] signatures);
            event RejectProofResponse(uint256 indexed zkProofId);

            function verifyProofRequest(uint256 contractChainId, address contractAddress, address userAddress,
                bytes ciphertextWithZKProof, bytes extraData);
            function isProofVerified(uint256 zkProofId) view returns (bool);
            function isProofRejected(uint256 zkProofId) view returns (bool);
        }

        struct CtHandleContractPair { bytes32 ctHandle; address contractAddress; }
        struct RequestValidity { uint256 startTimestamp; uint256 durationDays; }
        struct ContractsInfo { uint256 chainId; address[] addresses; }
        struct DelegationAccounts { address delegatorAddress; address delegateAddress; }

        interface Decryption {
            event PublicDecryptionRequest(uint256 indexed decryptionId, bytes32[] ctHandles, bytes extraData);
            event PublicDecryptionResponse(uint256 indexed decryptionId, bytes decryptedResult, bytes[] signatures,
                bytes extraData);
            event UserDecryptionRequest(uint256 indexed decryptionId, bytes32[] ctHandles, address userAddress,
                bytes publicKey, bytes extraData);
            event UserDecryptionResponse(uint256 indexed decryptionId, uint256 indexShare, bytes userDecryptedShare,
                bytes signature, bytes extraData);

            function publicDecryptionRequest(bytes32[] ctHandles, bytes extraData);
            function userDecryptionRequest(CtHandleContractPair[] ctHandleContractPairs,
                RequestValidity requestValidity, ContractsInfo contractsInfo, address userAddress, bytes publicKey,
                bytes signature, bytes extraData);
            function delegatedUserDecryptionRequest(CtHandleContractPair[] ctHandleContractPairs,
                RequestValidity requestValidity, DelegationAccounts delegationAccounts, ContractsInfo contractsInfo,
                bytes publicKey, bytes signature, bytes extraData);
            function isPublicDecryptionReady(bytes32[] ctHandles, bytes extraData) view returns (bool);
            function isUserDecryptionReady(CtHandleContractPair[] ctHandleContractPairs, bytes extraData)
                view returns (bool);
            function isDecryptionDone(uint256 decryptionId) view returns (bool);
        }

        interface GatewayConfig {
            function getKmsSigners() view returns (address[]);
            function getCoprocessorSigners() view returns (address[]);
        }

        interface ProtocolPayment {
            function getInputVerificationPrice() view returns (uint256);
            function getPublicDecryptionPrice() view returns (uint256);
            function getUserDecryptionPrice() view returns (uint256);
        }
    }
}

/// The request events in the layout that carries ciphertext materials. Contracts emit it beside the layout of
/// [`gateway`], or only one of the two.
pub mod with_materials {
    use super::sol;

    sol! {
        struct SnsCiphertextMaterial {
            bytes32 ctHandle; uint256 keyId; bytes32 snsCiphertextDigest; address[] coprocessorTxSenderAddresses;
        }

        event PublicDecryptionRequest(uint256 indexed decryptionId, SnsCiphertextMaterial[] snsCtMaterials,
            bytes extraData);
        event UserDecryptionRequest(uint256 indexed decryptionId, SnsCiphertextMaterial[] snsCtMaterials,
            address userAddress, bytes publicKey, bytes extraData);
    }
}

/// The contracts of the host chains.
pub mod host {
    use super::sol;

    sol! {
        interface Acl {
            function multicall(bytes[] data) returns (bytes[] results);
            function isAllowedForDecryption(bytes32 handle) view returns (bool);
            function isAllowed(bytes32 handle, address account) view returns (bool);
            function isHandleDelegatedForUserDecryption(address delegator, address delegate, address contractAddress,
                bytes32 handle) view returns (bool);
        }

        struct KmsNodeParams {
            address txSenderAddress; address signerAddress; string ipAddress; string storageUrl; int32 partyId;
            string mpcIdentity; bytes caCert; string storagePrefix;
        }
        struct KmsThresholds { uint256 publicDecryption; uint256 userDecryption; uint256 kmsGen; uint256 mpc; }
        struct PcrValues { bytes pcr0; bytes pcr1; bytes pcr2; }

        interface ProtocolConfig {
            event NewKmsContext(uint256 indexed contextId, uint256 indexed previousContextId,
                KmsNodeParams[] kmsNodeParams, KmsThresholds thresholds, string softwareVersion,
                PcrValues[] pcrValues);

            function getCurrentKmsContextAndEpoch() view returns (uint256 contextId, uint256 epochId);
            function getKmsContextAnchor(uint256 contextId)
                view returns (uint256 emissionBlockNumber, bytes32 contextInfoHash);
            function getUserDecryptionThresholdForContext(uint256 contextId) view returns (uint256);
        }

        struct KeyDigest { uint8 keyType; bytes digest; }

        interface KmsGeneration {
            function getActiveKeyId() view returns (uint256);
            function getActiveCrsId() view returns (uint256);
            function getKeyMaterials(uint256 keyId) view returns (string[], KeyDigest[]);
            function getCrsMaterials(uint256 crsId) view returns (string[], bytes);
        }
    }
}

/// What the contracts revert with, as far as it has a meaning for a caller.
pub mod reverts {
    use super::sol;

    sol! {
        error EnforcedPause();
        error ERC20InsufficientBalance(address sender, uint256 balance, uint256 needed);
        error ERC20InsufficientAllowance(address spender, uint256 allowance, uint256 needed);
        error InvalidUserSignature(bytes signature);
        error ECDSAInvalidSignature();
        error ECDSAInvalidSignatureLength(uint256 length);
        error ECDSAInvalidSignatureS(bytes32 s);
        error CiphertextMaterialNotFound(bytes32 ctHandle);
        error EmptyCtHandles();
        error EmptyCtHandleContractPairs();
        error EmptyContractAddresses();
        error ContractAddressesMaxLengthExceeded(uint256 maxLength, uint256 actualLength);
        error ContractNotInContractAddresses(address contractAddress, address[] contractAddresses);
        error CtHandleChainIdDiffersFromContractChainId(bytes32 ctHandle, uint256 chainId, uint256 contractChainId);
        error DelegatorAddressInContractAddresses(address delegatorAddress, address[] contractAddresses);
        error UserAddressInContractAddresses(address userAddress, address[] contractAddresses);
        error DifferentKeyIdsNotAllowed((bytes32,uint256,bytes32,address[]) firstSnsCtMaterial,
            (bytes32,uint256,bytes32,address[]) invalidSnsCtMaterial);
        error HostChainNotRegistered(uint256 chainId);
        error HostChainDisabled(uint256 chainId);
        error InvalidExtraDataLength(uint256 length, uint256 minimumLength);
        error UnsupportedExtraDataVersion(uint8 version);
        error InvalidNullContextId();
        error InvalidKmsContext(uint256 kmsContextId);
        error InvalidFHEType(uint8 fheTypeUint8);
        error UnsupportedFHEType(uint8 fheType);
        error MaxDecryptionRequestBitSizeExceeded(uint256 maxBitSize, uint256 totalBitSize);
        error InvalidNullDurationDays();
        error MaxDurationDaysExceeded(uint256 maxValue, uint256 actualValue);
        error StartTimestampInFuture(uint256 currentTimestamp, uint256 startTimestamp);
        error UserDecryptionRequestExpired(uint256 currentTimestamp, (uint256,uint256) requestValidity);
    }
}

/// What KMS nodes sign, by EIP-712.
pub mod signed {
    use super::sol;

    sol! {
        struct UserDecryptResponseVerification {
            bytes publicKey; bytes32[] ctHandles; bytes userDecryptedShare; bytes extraData;
        }
        struct PublicDecryptVerification { bytes32[] ctHandles; bytes decryptedResult; bytes extraData; }
        struct CiphertextVerification {
            bytes32[] ctHandles; address userAddress; address contractAddress; uint256 contractChainId; bytes extraData;
        }
    }
}
