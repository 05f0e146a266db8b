// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.30;

/// The structs, events and errors of Decryption.
interface DecryptionTypes {
    struct SnsCiphertextMaterial {
        bytes32 ctHandle;
        uint256 keyId;
        bytes32 snsCiphertextDigest;
        address[] coprocessorTxSenderAddresses;
    }

    struct CtHandleContractPair {
        bytes32 ctHandle;
        address contractAddress;
    }

    struct HandleEntry {
        bytes32 handle;
        address contractAddress;
        address ownerAddress;
    }

    struct RequestValidity {
        uint256 startTimestamp;
        uint256 durationDays;
    }

    struct RequestValiditySeconds {
        uint256 startTimestamp;
        uint256 durationSeconds;
    }

    struct DelegationAccounts {
        address delegatorAddress;
        address delegateAddress;
    }

    struct ContractsInfo {
        uint256 chainId;
        address[] addresses;
    }

    struct Payload {
        address userAddress;
        bytes publicKey;
        address[] allowedContracts;
        RequestValiditySeconds requestValidity;
        bytes extraData;
        bytes signature;
    }

    event PublicDecryptionRequest(
        uint256 indexed decryptionId, SnsCiphertextMaterial[] snsCtMaterials, bytes extraData
    );
    event PublicDecryptionRequest(uint256 indexed decryptionId, bytes32[] ctHandles, bytes extraData);
    event PublicDecryptionResponseCall(
        uint256 indexed decryptionId, bytes decryptedResult, bytes signature, address kmsTxSender, bytes extraData
    );
    event PublicDecryptionResponse(
        uint256 indexed decryptionId, bytes decryptedResult, bytes[] signatures, bytes extraData
    );
    event UserDecryptionRequest(
        uint256 indexed decryptionId,
        SnsCiphertextMaterial[] snsCtMaterials,
        address userAddress,
        bytes publicKey,
        bytes extraData
    );
    event UserDecryptionRequest(
        uint256 indexed decryptionId, bytes32[] ctHandles, address userAddress, bytes publicKey, bytes extraData
    );
    event UserDecryptionRequest(
        uint256 indexed decryptionId, SnsCiphertextMaterial[] snsCtMaterials, HandleEntry[] handles, Payload payload
    );
    event UserDecryptionRequest(uint256 indexed decryptionId, HandleEntry[] handles, Payload payload);
    event UserDecryptionResponse(
        uint256 indexed decryptionId, uint256 indexShare, bytes userDecryptedShare, bytes signature, bytes extraData
    );
    event UserDecryptionResponseThresholdReached(uint256 indexed decryptionId);

    error InvalidUserSignature(bytes signature);
    error CiphertextMaterialNotFound(bytes32 ctHandle);
    error EmptyCtHandles();
    error EmptyCtHandleContractPairs();
    error EmptyHandles();
    error EmptyContractAddresses();
    error ContractAddressesMaxLengthExceeded(uint256 maxLength, uint256 actualLength);
    error ContractNotInContractAddresses(address contractAddress, address[] contractAddresses);
    error CtHandleChainIdDiffersFromContractChainId(bytes32 ctHandle, uint256 chainId, uint256 contractChainId);
    error DelegatorAddressInContractAddresses(address delegatorAddress, address[] contractAddresses);
    error UserAddressInContractAddresses(address userAddress, address[] contractAddresses);
    error InvalidExtraDataLength(uint256 length, uint256 minimumLength);
    error UnsupportedExtraDataVersion(uint8 version);
    error InvalidNullContextId();
    error InvalidKmsContext(uint256 kmsContextId);
    error InvalidFHEType(uint8 fheTypeUint8);
    error UnsupportedFHEType(uint8 fheType);
    error MaxDecryptionRequestBitSizeExceeded(uint256 maxBitSize, uint256 totalBitSize);
    error InvalidNullDurationDays();
    error MaxDurationDaysExceeded(uint256 maxValue, uint256 actualValue);
    error InvalidNullDurationSeconds();
    error MaxDurationSecondsExceeded(uint256 maxValue, uint256 actualValue);
    error StartTimestampInFuture(uint256 currentTimestamp, uint256 startTimestamp);
    error UserDecryptionRequestExpired(uint256 currentTimestamp, RequestValidity requestValidity);
    error UserDecryptionRequestExpiredSeconds(uint256 currentTimestamp, RequestValiditySeconds requestValidity);
    error DecryptionNotRequested(uint256 decryptionId);
    error KmsNodeAlreadySigned(uint256 decryptionId, address signer);
    error DifferentKeyIdsNotAllowed(
        SnsCiphertextMaterial firstSnsCtMaterial, SnsCiphertextMaterial invalidSnsCtMaterial
    );
    error DecryptionContextMismatch(uint256 decryptionId, uint256 requestContextId, uint256 responseContextId);
}
