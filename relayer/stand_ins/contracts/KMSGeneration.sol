// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.30;

/// The keys and CRSs that the KMS has made.
contract KMSGeneration {
    struct KeyDigest {
        uint8 keyType;
        bytes digest;
    }

    uint256 public getActiveKeyId;
    uint256 public getActiveCrsId;
    mapping(uint256 id => string[]) private urls;

    error KeyNotGenerated(uint256 keyId);
    error CrsNotGenerated(uint256 crsId);

    function activate(uint256 keyId, uint256 crsId, string[] calldata storageUrls) external {
        (getActiveKeyId, getActiveCrsId) = (keyId, crsId);
        (urls[keyId], urls[crsId]) = (storageUrls, storageUrls);
    }

    function getKeyMaterials(uint256 keyId) external view returns (string[] memory, KeyDigest[] memory digests) {
        if (urls[keyId].length == 0) revert KeyNotGenerated(keyId);
        digests = new KeyDigest[](1);
        digests[0] = KeyDigest(1, abi.encode(keyId));
        return (urls[keyId], digests);
    }

    function getCrsMaterials(uint256 crsId) external view returns (string[] memory, bytes memory) {
        if (urls[crsId].length == 0) revert CrsNotGenerated(crsId);
        return (urls[crsId], abi.encode(crsId));
    }
}
