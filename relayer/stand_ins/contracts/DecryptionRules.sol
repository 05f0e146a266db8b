// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.30;

import {CiphertextCommits} from "./CiphertextCommits.sol";
import {DecryptionTypes} from "./DecryptionTypes.sol";
import {GatewayConfig, ProtocolPayment, Requests, Signed} from "./Requests.sol";

/// What a decryption request must fulfil.
abstract contract DecryptionRules is DecryptionTypes, Requests {
    uint256 private constant MAX_CONTRACTS = 10;
    uint256 private constant MAX_BITS = 2048;

    CiphertextCommits internal immutable COMMITS;

    constructor(GatewayConfig config, ProtocolPayment payment, CiphertextCommits commits)
        Signed("Decryption")
        Requests(config, payment)
    {
        COMMITS = commits;
    }

    /// The KMS context that extra data names: the current one, unless it is a context id after version 1 or 2.
    function contextOf(bytes calldata extraData) internal view returns (uint256 id) {
        if (extraData.length == 0 || extraData[0] == 0) return CONFIG.getCurrentKmsContextId();
        uint8 version = uint8(extraData[0]);
        if (version > 2) revert UnsupportedExtraDataVersion(version);
        uint256 length = version == 1 ? 33 : 65;
        if (extraData.length < length) revert InvalidExtraDataLength(extraData.length, length);
        id = uint256(bytes32(extraData[1:33]));
        if (id == 0) revert InvalidNullContextId();
        if (!CONFIG.isKmsContext(id)) revert InvalidKmsContext(id);
    }

    /// Handles of allowed types, not too many bits in all, under one key.
    function checkedMaterials(bytes32[] memory handles) internal view returns (SnsCiphertextMaterial[] memory found) {
        found = new SnsCiphertextMaterial[](handles.length);
        uint256 bits = 0;
        for (uint256 i = 0; i < handles.length; ++i) {
            checkHostChain(chainOf(handles[i]));
            bits += bitsOf(uint8(handles[i][30]));
        }
        if (bits > MAX_BITS) revert MaxDecryptionRequestBitSizeExceeded(MAX_BITS, bits);
        for (uint256 i = 0; i < handles.length; ++i) {
            bytes32 handle = handles[i];
            if (!COMMITS.isCiphertextMaterialAdded(handle)) revert CiphertextMaterialNotFound(handle);
            found[i] = SnsCiphertextMaterial(
                handle, COMMITS.keyOf(handle), keccak256(abi.encode(handle)), CONFIG.getCoprocessorSigners()
            );
            if (found[i].keyId != found[0].keyId) revert DifferentKeyIdsNotAllowed(found[0], found[i]);
        }
    }

    function chainOf(bytes32 handle) internal pure returns (uint256) {
        return uint64(uint256(handle) >> 16);
    }

    function bitsOf(uint8 fheType) private pure returns (uint256) {
        if (fheType > 83) revert InvalidFHEType(fheType);
        if (fheType == 0) return 2;
        if (fheType >= 2 && fheType <= 6) return uint256(2) << fheType;
        if (fheType == 7) return 160;
        if (fheType == 8) return 256;
        revert UnsupportedFHEType(fheType);
    }

    function checkContracts(ContractsInfo calldata info, CtHandleContractPair[] calldata pairs) internal view {
        checkHostChain(info.chainId);
        if (info.addresses.length == 0) revert EmptyContractAddresses();
        checkLength(info.addresses);
        if (pairs.length == 0) revert EmptyCtHandleContractPairs();
        for (uint256 i = 0; i < pairs.length; ++i) {
            uint256 chain = chainOf(pairs[i].ctHandle);
            if (chain != info.chainId) {
                revert CtHandleChainIdDiffersFromContractChainId(pairs[i].ctHandle, chain, info.chainId);
            }
            if (!contains(info.addresses, pairs[i].contractAddress)) {
                revert ContractNotInContractAddresses(pairs[i].contractAddress, info.addresses);
            }
        }
    }

    function checkLength(address[] calldata contracts) internal pure {
        if (contracts.length > MAX_CONTRACTS) {
            revert ContractAddressesMaxLengthExceeded(MAX_CONTRACTS, contracts.length);
        }
    }

    function contains(address[] calldata addresses, address wanted) internal pure returns (bool) {
        for (uint256 i = 0; i < addresses.length; ++i) {
            if (addresses[i] == wanted) return true;
        }
        return false;
    }

    function checkValidity(RequestValidity calldata validity) internal view {
        if (validity.durationDays == 0) revert InvalidNullDurationDays();
        if (validity.durationDays > 365) revert MaxDurationDaysExceeded(365, validity.durationDays);
        checkStart(validity.startTimestamp);
        if (validity.startTimestamp + validity.durationDays * 1 days < block.timestamp) {
            revert UserDecryptionRequestExpired(block.timestamp, validity);
        }
    }

    function checkValidity(RequestValiditySeconds calldata validity) internal view {
        if (validity.durationSeconds == 0) revert InvalidNullDurationSeconds();
        if (validity.durationSeconds > 365 days) {
            revert MaxDurationSecondsExceeded(365 days, validity.durationSeconds);
        }
        checkStart(validity.startTimestamp);
        if (validity.startTimestamp + validity.durationSeconds < block.timestamp) {
            revert UserDecryptionRequestExpiredSeconds(block.timestamp, validity);
        }
    }

    function checkStart(uint256 start) private view {
        if (start > block.timestamp) revert StartTimestampInFuture(block.timestamp, start);
    }

    function checkSigner(address account, uint256 chainId, bytes32 structHash, bytes calldata signature)
        internal
        view
    {
        if (signer(chainId, structHash, signature) != account) revert InvalidUserSignature(signature);
    }
}
