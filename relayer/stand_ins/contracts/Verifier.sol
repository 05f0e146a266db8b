// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.30;

/// Tells the SDK who signs, and for which contract of the gateway.
abstract contract Verifier {
    string private name;
    uint256 private immutable GATEWAY_CHAIN;
    address private immutable GATEWAY_CONTRACT;
    uint256 public getThreshold;
    address[] internal signers;

    constructor(
        string memory name_,
        uint256 gatewayChain,
        address gatewayContract,
        uint256 threshold,
        address[] memory signers_
    ) {
        (name, GATEWAY_CHAIN, GATEWAY_CONTRACT) = (name_, gatewayChain, gatewayContract);
        (getThreshold, signers) = (threshold, signers_);
    }

    function eip712Domain()
        external
        view
        returns (bytes1, string memory, string memory, uint256, address, bytes32, uint256[] memory)
    {
        return (0x0f, name, "1", GATEWAY_CHAIN, GATEWAY_CONTRACT, 0, new uint256[](0));
    }
}

contract KMSVerifier is Verifier {
    uint256 public getCurrentKmsContextId;

    constructor(
        uint256 gatewayChain,
        address decryption,
        uint256 threshold,
        address[] memory signers_,
        uint256 contextId
    ) Verifier("Decryption", gatewayChain, decryption, threshold, signers_) {
        getCurrentKmsContextId = contextId;
    }

    function getKmsSigners() external view returns (address[] memory) {
        return signers;
    }
}

contract InputVerifier is Verifier {
    constructor(uint256 gatewayChain, address inputVerification, uint256 threshold, address[] memory signers_)
        Verifier("InputVerification", gatewayChain, inputVerification, threshold, signers_)
    {}

    function getCoprocessorSigners() external view returns (address[] memory) {
        return signers;
    }
}
