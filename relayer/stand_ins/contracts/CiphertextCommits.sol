// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.30;

/// Which ciphertexts the gateway has. It has each, but for those that are marked as missing.
contract CiphertextCommits {
    bool private allMissing;
    mapping(bytes32 ctHandle => bool) private missing;
    mapping(bytes32 ctHandle => uint256) private keyIds;

    function setMissing(bytes32 ctHandle, bool missing_) external {
        missing[ctHandle] = missing_;
    }

    function setAllMissing(bool missing_) external {
        allMissing = missing_;
    }

    /// Moves a ciphertext from key 1 to another one.
    function setKeyId(bytes32 ctHandle, uint256 keyId) external {
        keyIds[ctHandle] = keyId;
    }

    function isCiphertextMaterialAdded(bytes32 ctHandle) external view returns (bool) {
        return !allMissing && !missing[ctHandle];
    }

    function keyOf(bytes32 ctHandle) external view returns (uint256) {
        return keyIds[ctHandle] == 0 ? 1 : keyIds[ctHandle];
    }
}
