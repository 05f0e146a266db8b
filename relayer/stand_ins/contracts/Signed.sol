// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.30;

/// Checks signatures of typed data (EIP-712).
abstract contract Signed {
    bytes32 private constant DOMAIN =
        keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)");
    // Half the order of secp256k1: a greater s is the other form of the same signature.
    uint256 private constant MAX_S = 0x7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF5D576E7357A4501DDFE92F46681B20A0;

    bytes32 private immutable NAME;

    error ECDSAInvalidSignature();
    error ECDSAInvalidSignatureLength(uint256 length);
    error ECDSAInvalidSignatureS(bytes32 s);

    constructor(string memory name) {
        NAME = keccak256(bytes(name));
    }

    /// Who signed a struct for this contract, on a chain.
    function signer(uint256 chainId, bytes32 structHash, bytes calldata signature) internal view returns (address by) {
        if (signature.length != 65) revert ECDSAInvalidSignatureLength(signature.length);
        (bytes32 r, bytes32 s) = abi.decode(signature[:64], (bytes32, bytes32));
        if (uint256(s) > MAX_S) revert ECDSAInvalidSignatureS(s);
        bytes32 domain = keccak256(abi.encode(DOMAIN, NAME, keccak256("1"), chainId, address(this)));
        by = ecrecover(keccak256(abi.encodePacked("\x19\x01", domain, structHash)), uint8(signature[64]), r, s);
        if (by == address(0)) revert ECDSAInvalidSignature();
    }

    /// The hash of an array of words.
    function hashed(bytes32[] memory words) internal pure returns (bytes32) {
        return keccak256(abi.encodePacked(words));
    }

    /// The hash of an array of addresses, each in a word.
    function hashed(address[] calldata addresses) internal pure returns (bytes32) {
        return keccak256(abi.encodePacked(addresses));
    }
}
