//! What stand-ins and tests call, receive and sign. A test compares the compiled contracts with the real ABI.

alloy::sol! {
    #![sol(all_derives)]

    interface Counter {
        function count(bytes32 order);
        function refuse(bytes32 order);
        function total() returns (uint256);
        function counts(bytes32 order) returns (uint256);
        event Counted(uint256 indexed number, bytes32 indexed order, address sender);
        error Refused(bytes32 order);
    }

    interface FeeToken {
        function mint(address account, uint256 value);
        function burn(address account, uint256 value);
        function setAllowance(address owner, address spender, uint256 value);
        function balanceOf(address account) returns (uint256);
        function allowance(address owner, address spender) returns (uint256);
    }

    interface ProtocolPayment {
        function setPrices(uint256 inputVerification, uint256 publicDecryption, uint256 userDecryption);
    }

    interface GatewayConfig {
        function setThresholds(uint256 public_, uint256 user, uint256 coprocessor);
        function setHostChain(uint256 chainId, bool registered, bool disabled_);
        function setKmsContext(uint256 contextId, bool valid);
    }

    interface CiphertextCommits {
        function setMissing(bytes32 ctHandle, bool missing_);
        function setAllMissing(bool missing_);
        function setKeyId(bytes32 ctHandle, uint256 keyId);
    }

    /// Switches of both contracts that take requests.
    interface Requests {
        function pause();
        function unpause();
        function setFault(bytes revertData, uint256 block_, bool mined);
        function clearFault();
    }

    interface InputVerification {
        function verifyProofRequest(uint256 contractChainId, address contractAddress, address userAddress,
            bytes ciphertextWithZKProof, bytes extraData);
        function verifyProofResponse(uint256 zkProofId, bytes32[] ctHandles, bytes signature, bytes extraData);
        function rejectProofResponse(uint256 zkProofId, bytes extraData);
        event VerifyProofRequest(uint256 indexed zkProofId, uint256 indexed contractChainId, address contractAddress,
            address userAddress, bytes ciphertextWithZKProof, bytes extraData);
        event VerifyProofResponse(uint256 indexed zkProofId, bytes32[] ctHandles, bytes[] signatures);
        event RejectProofResponse(uint256 indexed zkProofId);
    }

    struct SnsCiphertextMaterial {
        bytes32 ctHandle; uint256 keyId; bytes32 snsCiphertextDigest; address[] coprocessorTxSenderAddresses;
    }
    struct CtHandleContractPair { bytes32 ctHandle; address contractAddress; }
    struct RequestValidity { uint256 startTimestamp; uint256 durationDays; }
    struct DelegationAccounts { address delegatorAddress; address delegateAddress; }
    struct ContractsInfo { uint256 chainId; address[] addresses; }

    interface Decryption {
        function setLayouts(bool materials, bool handles_);
        function setRepeats(bool allowed);
        function publicDecryptionRequest(bytes32[] ctHandles, bytes extraData);
        function publicDecryptionResponse(uint256 decryptionId, bytes decryptedResult, bytes signature,
            bytes extraData);
        function userDecryptionRequest(CtHandleContractPair[] ctHandleContractPairs, RequestValidity requestValidity,
            ContractsInfo contractsInfo, address userAddress, bytes publicKey, bytes signature, bytes extraData);
        function delegatedUserDecryptionRequest(CtHandleContractPair[] ctHandleContractPairs,
            RequestValidity requestValidity, DelegationAccounts delegationAccounts, ContractsInfo contractsInfo,
            bytes publicKey, bytes signature, bytes extraData);
        function userDecryptionResponse(uint256 decryptionId, bytes userDecryptedShare, bytes signature,
            bytes extraData);
        event PublicDecryptionRequest(uint256 indexed decryptionId, bytes32[] ctHandles, bytes extraData);
        event PublicDecryptionResponse(uint256 indexed decryptionId, bytes decryptedResult, bytes[] signatures,
            bytes extraData);
        event UserDecryptionRequest(uint256 indexed decryptionId, bytes32[] ctHandles, address userAddress,
            bytes publicKey, bytes extraData);
        event UserDecryptionResponse(uint256 indexed decryptionId, uint256 indexShare, bytes userDecryptedShare,
            bytes signature, bytes extraData);
        event UserDecryptionResponseThresholdReached(uint256 indexed decryptionId);
    }

    /// The older layout of the request events.
    interface WithMaterials {
        event PublicDecryptionRequest(uint256 indexed decryptionId, SnsCiphertextMaterial[] snsCtMaterials,
            bytes extraData);
        event UserDecryptionRequest(uint256 indexed decryptionId, SnsCiphertextMaterial[] snsCtMaterials,
            address userAddress, bytes publicKey, bytes extraData);
    }

    interface ACL {
        function deny(bytes32 handle, address account, bool denied_);
        function denyDecryption(bytes32 handle, bool denied_);
        function denyDelegation(bytes32 handle, address delegate, bool denied_);
    }

    struct KmsNodeParams {
        address txSenderAddress; address signerAddress; string ipAddress; string storageUrl; int32 partyId;
        string mpcIdentity; bytes caCert; string storagePrefix;
    }
    struct KmsThresholds { uint256 publicDecryption; uint256 userDecryption; uint256 kmsGen; uint256 mpc; }

    interface ProtocolConfig {
        function defineContext(uint256 contextId, KmsNodeParams[] nodes, KmsThresholds thresholds);
        function setUserThreshold(uint256 contextId, uint256 threshold);
    }

    interface KMSGeneration {
        function activate(uint256 keyId, uint256 crsId, string[] storageUrls);
    }

    /// What a coprocessor signs.
    struct CiphertextVerification {
        bytes32[] ctHandles; address userAddress; address contractAddress; uint256 contractChainId; bytes extraData;
    }

    /// What a node of the KMS signs for a public decryption.
    struct PublicDecryptVerification { bytes32[] ctHandles; bytes decryptedResult; bytes extraData; }

    /// What a node of the KMS signs for its share of a user decryption.
    struct UserDecryptResponseVerification {
        bytes publicKey; bytes32[] ctHandles; bytes userDecryptedShare; bytes extraData;
    }

    /// What a user signs to have ciphertexts decrypted.
    struct UserDecryptRequestVerification {
        bytes publicKey; address[] contractAddresses; uint256 startTimestamp; uint256 durationDays; bytes extraData;
    }

    /// What a delegate signs to have ciphertexts of the delegator decrypted.
    struct DelegatedUserDecryptRequestVerification {
        bytes publicKey; address[] contractAddresses; address delegatorAddress; uint256 startTimestamp;
        uint256 durationDays; bytes extraData;
    }
}
