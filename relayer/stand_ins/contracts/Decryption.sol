// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.30;

import {CiphertextCommits, DecryptionRules, GatewayConfig, ProtocolPayment} from "./DecryptionRules.sol";

/// Has ciphertexts decrypted by the KMS.
contract Decryption is DecryptionRules {
    bytes32 private constant USER = keccak256(
        "UserDecryptRequestVerification(bytes publicKey,address[] contractAddresses,uint256 startTimestamp,uint256 durationDays,bytes extraData)"
    );
    bytes32 private constant DELEGATED = keccak256(
        "DelegatedUserDecryptRequestVerification(bytes publicKey,address[] contractAddresses,address delegatorAddress,uint256 startTimestamp,uint256 durationDays,bytes extraData)"
    );
    bytes32 private constant UNIFIED = keccak256(
        "UserDecryptRequestVerification(address userAddress,bytes publicKey,address[] allowedContracts,uint256 startTimestamp,uint256 durationSeconds,bytes extraData)"
    );
    bytes32 private constant PUBLIC_RESPONSE =
        keccak256("PublicDecryptVerification(bytes32[] ctHandles,bytes decryptedResult,bytes extraData)");
    bytes32 private constant USER_RESPONSE = keccak256(
        "UserDecryptResponseVerification(bytes publicKey,bytes32[] ctHandles,bytes userDecryptedShare,bytes extraData)"
    );

    /// Which layouts of its event a request emits.
    bool private withMaterials = true;
    bool private withHandles = true;

    /// Whether a node may answer more than once.
    bool private repeats;

    uint256 private lastPublicId = 1 << 248;
    uint256 private lastUserId = 1 << 249;
    /// Hashes of what the signatures of the KMS are over, and the context that must sign.
    mapping(uint256 decryptionId => bytes32) private handles;
    mapping(uint256 decryptionId => bytes32) private publicKeys;
    mapping(uint256 decryptionId => uint256) private contexts;
    mapping(uint256 decryptionId => mapping(address signer => bool)) private signed;
    mapping(uint256 decryptionId => mapping(bytes32 digest => bytes[])) private signatures;
    mapping(uint256 decryptionId => uint256) private shares;
    mapping(uint256 decryptionId => bool) public isDecryptionDone;

    constructor(GatewayConfig config, ProtocolPayment payment, CiphertextCommits commits)
        DecryptionRules(config, payment, commits)
    {}

    function setLayouts(bool materials, bool handles_) external {
        (withMaterials, withHandles) = (materials, handles_);
    }

    function setRepeats(bool allowed) external {
        repeats = allowed;
    }

    function publicDecryptionRequest(bytes32[] calldata ctHandles, bytes calldata extraData) external request faulty {
        if (ctHandles.length == 0) revert EmptyCtHandles();
        SnsCiphertextMaterial[] memory materials = checkedMaterials(ctHandles);
        PAYMENT.payPublicDecryption(msg.sender);
        uint256 id = ++lastPublicId;
        (handles[id], contexts[id]) = (hashed(ctHandles), contextOf(extraData));
        if (withMaterials) emit PublicDecryptionRequest(id, materials, extraData);
        if (withHandles) emit PublicDecryptionRequest(id, ctHandles, extraData);
    }

    function userDecryptionRequest(
        CtHandleContractPair[] calldata ctHandleContractPairs,
        RequestValidity calldata requestValidity,
        ContractsInfo calldata contractsInfo,
        address userAddress,
        bytes calldata publicKey,
        bytes calldata signature,
        bytes calldata extraData
    ) external request faulty {
        checkContracts(contractsInfo, ctHandleContractPairs);
        checkValidity(requestValidity);
        if (contains(contractsInfo.addresses, userAddress)) {
            revert UserAddressInContractAddresses(userAddress, contractsInfo.addresses);
        }
        bytes32 structHash = keccak256(
            abi.encode(
                USER,
                keccak256(publicKey),
                hashed(contractsInfo.addresses),
                requestValidity.startTimestamp,
                requestValidity.durationDays,
                keccak256(extraData)
            )
        );
        checkSigner(userAddress, contractsInfo.chainId, structHash, signature);
        acceptUser(handlesOf(ctHandleContractPairs), userAddress, publicKey, extraData);
    }

    function delegatedUserDecryptionRequest(
        CtHandleContractPair[] calldata ctHandleContractPairs,
        RequestValidity calldata requestValidity,
        DelegationAccounts calldata delegationAccounts,
        ContractsInfo calldata contractsInfo,
        bytes calldata publicKey,
        bytes calldata signature,
        bytes calldata extraData
    ) external request faulty {
        checkContracts(contractsInfo, ctHandleContractPairs);
        checkValidity(requestValidity);
        if (contains(contractsInfo.addresses, delegationAccounts.delegatorAddress)) {
            revert DelegatorAddressInContractAddresses(delegationAccounts.delegatorAddress, contractsInfo.addresses);
        }
        bytes32 structHash = keccak256(
            abi.encode(
                DELEGATED,
                keccak256(publicKey),
                hashed(contractsInfo.addresses),
                delegationAccounts.delegatorAddress,
                requestValidity.startTimestamp,
                requestValidity.durationDays,
                keccak256(extraData)
            )
        );
        checkSigner(delegationAccounts.delegateAddress, contractsInfo.chainId, structHash, signature);
        acceptUser(handlesOf(ctHandleContractPairs), delegationAccounts.delegateAddress, publicKey, extraData);
    }

    function userDecryptionRequest(
        HandleEntry[] calldata handles_,
        address userAddress,
        bytes calldata publicKey,
        address[] calldata allowedContracts,
        RequestValiditySeconds calldata requestValidity,
        bytes calldata signature,
        bytes calldata extraData
    ) external request faulty {
        if (handles_.length == 0) revert EmptyHandles();
        checkLength(allowedContracts);
        checkValidity(requestValidity);
        bytes32[] memory ctHandles = new bytes32[](handles_.length);
        for (uint256 i = 0; i < handles_.length; ++i) ctHandles[i] = handles_[i].handle;
        // Contracts that approved beforehand sign nothing.
        if (signature.length != 0) {
            bytes32 structHash = keccak256(
                abi.encode(
                    UNIFIED,
                    userAddress,
                    keccak256(publicKey),
                    hashed(allowedContracts),
                    requestValidity.startTimestamp,
                    requestValidity.durationSeconds,
                    keccak256(extraData)
                )
            );
            checkSigner(userAddress, chainOf(ctHandles[0]), structHash, signature);
        }
        (uint256 id, SnsCiphertextMaterial[] memory materials) = registerUser(ctHandles, publicKey, extraData);
        Payload memory payload =
            Payload(userAddress, publicKey, allowedContracts, requestValidity, extraData, signature);
        if (withMaterials) emit UserDecryptionRequest(id, materials, handles_, payload);
        if (withHandles) emit UserDecryptionRequest(id, handles_, payload);
    }

    function publicDecryptionResponse(
        uint256 decryptionId,
        bytes calldata decryptedResult,
        bytes calldata signature,
        bytes calldata extraData
    ) external {
        bytes32 digest = keccak256(
            abi.encode(PUBLIC_RESPONSE, handles[decryptionId], keccak256(decryptedResult), keccak256(extraData))
        );
        noteSigner(decryptionId, digest, signature, extraData);
        bytes[] storage agreeing = signatures[decryptionId][digest];
        agreeing.push(signature);
        emit PublicDecryptionResponseCall(decryptionId, decryptedResult, signature, msg.sender, extraData);
        if (!isDecryptionDone[decryptionId] && agreeing.length >= CONFIG.publicThreshold()) {
            isDecryptionDone[decryptionId] = true;
            emit PublicDecryptionResponse(decryptionId, decryptedResult, agreeing, extraData);
        }
    }

    function userDecryptionResponse(
        uint256 decryptionId,
        bytes calldata userDecryptedShare,
        bytes calldata signature,
        bytes calldata extraData
    ) external {
        bytes32 digest = keccak256(
            abi.encode(
                USER_RESPONSE,
                publicKeys[decryptionId],
                handles[decryptionId],
                keccak256(userDecryptedShare),
                keccak256(extraData)
            )
        );
        noteSigner(decryptionId, digest, signature, extraData);
        uint256 index = shares[decryptionId]++;
        emit UserDecryptionResponse(decryptionId, index, userDecryptedShare, signature, extraData);
        if (!isDecryptionDone[decryptionId] && index + 1 >= CONFIG.userThreshold()) {
            isDecryptionDone[decryptionId] = true;
            emit UserDecryptionResponseThresholdReached(decryptionId);
        }
    }

    function isPublicDecryptionReady(bytes32[] calldata ctHandles, bytes calldata) external view returns (bool) {
        return ready(ctHandles);
    }

    function isUserDecryptionReady(CtHandleContractPair[] calldata ctHandleContractPairs, bytes calldata)
        external
        view
        returns (bool)
    {
        return ready(handlesOf(ctHandleContractPairs));
    }

    function isDelegatedUserDecryptionReady(CtHandleContractPair[] calldata ctHandleContractPairs, bytes calldata)
        external
        view
        returns (bool)
    {
        return ready(handlesOf(ctHandleContractPairs));
    }

    function isUserDecryptionReady(HandleEntry[] calldata handles_, bytes calldata) external view returns (bool) {
        for (uint256 i = 0; i < handles_.length; ++i) {
            if (!COMMITS.isCiphertextMaterialAdded(handles_[i].handle)) return false;
        }
        return true;
    }

    function ready(bytes32[] memory ctHandles) private view returns (bool) {
        for (uint256 i = 0; i < ctHandles.length; ++i) {
            if (!COMMITS.isCiphertextMaterialAdded(ctHandles[i])) return false;
        }
        return true;
    }

    function handlesOf(CtHandleContractPair[] calldata pairs) private pure returns (bytes32[] memory ctHandles) {
        ctHandles = new bytes32[](pairs.length);
        for (uint256 i = 0; i < pairs.length; ++i) ctHandles[i] = pairs[i].ctHandle;
    }

    function acceptUser(
        bytes32[] memory ctHandles,
        address userAddress,
        bytes calldata publicKey,
        bytes calldata extraData
    ) private {
        (uint256 id, SnsCiphertextMaterial[] memory materials) = registerUser(ctHandles, publicKey, extraData);
        if (withMaterials) emit UserDecryptionRequest(id, materials, userAddress, publicKey, extraData);
        if (withHandles) emit UserDecryptionRequest(id, ctHandles, userAddress, publicKey, extraData);
    }

    function registerUser(bytes32[] memory ctHandles, bytes calldata publicKey, bytes calldata extraData)
        private
        returns (uint256 id, SnsCiphertextMaterial[] memory materials)
    {
        materials = checkedMaterials(ctHandles);
        PAYMENT.payUserDecryption(msg.sender);
        id = ++lastUserId;
        (handles[id], publicKeys[id]) = (hashed(ctHandles), keccak256(publicKey));
        contexts[id] = contextOf(extraData);
    }

    /// Notes that a node of the KMS has answered a request, in the context that the request named.
    function noteSigner(uint256 id, bytes32 digest, bytes calldata signature, bytes calldata extraData) private {
        if (handles[id] == 0) revert DecryptionNotRequested(id);
        uint256 context = contextOf(extraData);
        if (context != contexts[id]) revert DecryptionContextMismatch(id, contexts[id], context);
        address by = signer(block.chainid, digest, signature);
        CONFIG.checkKmsSigner(by);
        if (signed[id][by] && !repeats) revert KmsNodeAlreadySigned(id, by);
        signed[id][by] = true;
    }
}
