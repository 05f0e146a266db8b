// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.30;

import {GatewayConfig, ProtocolPayment, Requests, Signed} from "./Requests.sol";

/// Has ciphertexts verified by the coprocessors.
contract InputVerification is Requests {
    bytes32 private constant VERIFICATION = keccak256(
        "CiphertextVerification(bytes32[] ctHandles,address userAddress,address contractAddress,uint256 contractChainId,bytes extraData)"
    );

    struct Proof {
        uint256 contractChainId;
        address contractAddress;
        address userAddress;
        uint256 rejections;
    }

    uint256 private lastId;
    mapping(uint256 zkProofId => Proof) private proofs;
    mapping(uint256 zkProofId => mapping(address signer => bool)) private answered;
    mapping(uint256 zkProofId => mapping(bytes32 digest => bytes[])) private signatures;
    mapping(uint256 zkProofId => bool) public isProofVerified;
    mapping(uint256 zkProofId => bool) public isProofRejected;

    event VerifyProofRequest(
        uint256 indexed zkProofId,
        uint256 indexed contractChainId,
        address contractAddress,
        address userAddress,
        bytes ciphertextWithZKProof,
        bytes extraData
    );
    event VerifyProofResponseCall(
        uint256 indexed zkProofId, bytes32[] ctHandles, bytes signature, address coprocessorTxSender, bytes extraData
    );
    event VerifyProofResponse(uint256 indexed zkProofId, bytes32[] ctHandles, bytes[] signatures);
    event RejectProofResponseCall(uint256 indexed zkProofId, bytes extraData);
    event RejectProofResponse(uint256 indexed zkProofId);

    error VerifyProofNotRequested(uint256 zkProofId);
    error CoprocessorAlreadyVerified(uint256 zkProofId, address txSender, address signer);
    error CoprocessorAlreadyRejected(uint256 zkProofId, address txSender, address signer);

    constructor(GatewayConfig config, ProtocolPayment payment) Signed("InputVerification") Requests(config, payment) {}

    function verifyProofRequest(
        uint256 contractChainId,
        address contractAddress,
        address userAddress,
        bytes calldata ciphertextWithZKProof,
        bytes calldata extraData
    ) external request faulty {
        checkHostChain(contractChainId);
        PAYMENT.payInputVerification(msg.sender);
        proofs[++lastId] = Proof(contractChainId, contractAddress, userAddress, 0);
        emit VerifyProofRequest(
            lastId, contractChainId, contractAddress, userAddress, ciphertextWithZKProof, extraData
        );
    }

    function verifyProofResponse(
        uint256 zkProofId,
        bytes32[] calldata ctHandles,
        bytes calldata signature,
        bytes calldata extraData
    ) external {
        Proof storage proof = requested(zkProofId);
        bytes32 digest = keccak256(
            abi.encode(
                VERIFICATION,
                hashed(ctHandles),
                proof.userAddress,
                proof.contractAddress,
                proof.contractChainId,
                keccak256(extraData)
            )
        );
        address by = signer(block.chainid, digest, signature);
        CONFIG.checkCoprocessor(by);
        if (answered[zkProofId][by]) revert CoprocessorAlreadyVerified(zkProofId, msg.sender, by);
        answered[zkProofId][by] = true;
        bytes[] storage agreeing = signatures[zkProofId][digest];
        agreeing.push(signature);
        emit VerifyProofResponseCall(zkProofId, ctHandles, signature, msg.sender, extraData);
        if (!isProofVerified[zkProofId] && agreeing.length >= CONFIG.coprocessorThreshold()) {
            isProofVerified[zkProofId] = true;
            emit VerifyProofResponse(zkProofId, ctHandles, agreeing);
        }
    }

    /// The sender is the coprocessor: a rejection is not signed.
    function rejectProofResponse(uint256 zkProofId, bytes calldata extraData) external {
        Proof storage proof = requested(zkProofId);
        CONFIG.checkCoprocessor(msg.sender);
        if (answered[zkProofId][msg.sender]) revert CoprocessorAlreadyRejected(zkProofId, msg.sender, msg.sender);
        answered[zkProofId][msg.sender] = true;
        proof.rejections += 1;
        emit RejectProofResponseCall(zkProofId, extraData);
        if (!isProofRejected[zkProofId] && proof.rejections >= CONFIG.coprocessorThreshold()) {
            isProofRejected[zkProofId] = true;
            emit RejectProofResponse(zkProofId);
        }
    }

    function requested(uint256 zkProofId) private view returns (Proof storage) {
        if (zkProofId == 0 || zkProofId > lastId) revert VerifyProofNotRequested(zkProofId);
        return proofs[zkProofId];
    }
}
