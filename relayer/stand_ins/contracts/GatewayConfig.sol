// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.30;

/// Who may sign for the KMS and the coprocessors, how many must, and which host chains there are.
contract GatewayConfig {
    address[] private kmsSigners;
    address[] private coprocessorSigners;
    mapping(address account => bool) public isKmsSigner;
    mapping(address account => bool) public isCoprocessor;
    mapping(uint256 chainId => bool) public isHostChainRegistered;
    mapping(uint256 chainId => bool) public disabled;
    mapping(uint256 contextId => bool) public isKmsContext;
    uint256 public getCurrentKmsContextId;
    uint256 public publicThreshold;
    uint256 public userThreshold;
    uint256 public coprocessorThreshold;

    error NotKmsSigner(address account);
    error NotCoprocessor(address account);

    constructor(address[] memory kms, address[] memory coprocessors, uint256[] memory hostChains, uint256 contextId) {
        (kmsSigners, coprocessorSigners) = (kms, coprocessors);
        for (uint256 i = 0; i < kms.length; ++i) isKmsSigner[kms[i]] = true;
        for (uint256 i = 0; i < coprocessors.length; ++i) isCoprocessor[coprocessors[i]] = true;
        for (uint256 i = 0; i < hostChains.length; ++i) isHostChainRegistered[hostChains[i]] = true;
        setKmsContext(contextId, true);
    }

    function setThresholds(uint256 public_, uint256 user, uint256 coprocessor) external {
        (publicThreshold, userThreshold, coprocessorThreshold) = (public_, user, coprocessor);
    }

    function setHostChain(uint256 chainId, bool registered, bool disabled_) external {
        isHostChainRegistered[chainId] = registered;
        disabled[chainId] = disabled_;
    }

    /// Makes a context current, or ends one.
    function setKmsContext(uint256 contextId, bool valid) public {
        isKmsContext[contextId] = valid;
        if (valid) getCurrentKmsContextId = contextId;
    }

    function getKmsSigners() external view returns (address[] memory) {
        return kmsSigners;
    }

    function getCoprocessorSigners() external view returns (address[] memory) {
        return coprocessorSigners;
    }

    function getUserDecryptionThresholdForContext(uint256) external view returns (uint256) {
        return userThreshold;
    }

    function checkKmsSigner(address account) external view {
        if (!isKmsSigner[account]) revert NotKmsSigner(account);
    }

    function checkCoprocessor(address account) external view {
        if (!isCoprocessor[account]) revert NotCoprocessor(account);
    }
}
