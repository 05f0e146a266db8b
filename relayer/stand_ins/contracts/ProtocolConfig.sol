// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.30;

/// The contexts of the KMS: its nodes and thresholds.
contract ProtocolConfig {
    struct KmsNodeParams {
        address txSenderAddress;
        address signerAddress;
        string ipAddress;
        string storageUrl;
        int32 partyId;
        string mpcIdentity;
        bytes caCert;
        string storagePrefix;
    }

    struct KmsThresholds {
        uint256 publicDecryption;
        uint256 userDecryption;
        uint256 kmsGen;
        uint256 mpc;
    }

    struct PcrValues {
        bytes pcr0;
        bytes pcr1;
        bytes pcr2;
    }

    struct Anchor {
        uint256 emissionBlockNumber;
        bytes32 contextInfoHash;
    }

    uint256 private currentContext;
    mapping(uint256 contextId => uint256) private userThresholds;
    mapping(uint256 contextId => Anchor) public getKmsContextAnchor;

    event NewKmsContext(
        uint256 indexed contextId,
        uint256 indexed previousContextId,
        KmsNodeParams[] kmsNodeParams,
        KmsThresholds thresholds,
        string softwareVersion,
        PcrValues[] pcrValues
    );

    error InvalidKmsContext(uint256 kmsContextId);

    function defineContext(uint256 contextId, KmsNodeParams[] calldata nodes, KmsThresholds calldata thresholds)
        external
    {
        getKmsContextAnchor[contextId] = Anchor(block.number, keccak256(abi.encode(nodes, thresholds)));
        userThresholds[contextId] = thresholds.userDecryption;
        emit NewKmsContext(contextId, currentContext, nodes, thresholds, "stand-in", new PcrValues[](0));
        currentContext = contextId;
    }

    function setUserThreshold(uint256 contextId, uint256 threshold) external {
        userThresholds[contextId] = threshold;
    }

    function getCurrentKmsContextAndEpoch() external view returns (uint256 contextId, uint256 epochId) {
        return (currentContext, (uint256(8) << 248) | 1);
    }

    function getUserDecryptionThresholdForContext(uint256 contextId) external view returns (uint256 threshold) {
        threshold = userThresholds[contextId];
        if (threshold == 0) revert InvalidKmsContext(contextId);
    }
}
