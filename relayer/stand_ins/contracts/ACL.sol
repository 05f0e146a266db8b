// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.30;

/// Who may use which ciphertext on a host chain. Everybody may use each, but for what is denied.
contract ACL {
    mapping(bytes32 handle => mapping(address account => bool)) private denied;
    mapping(bytes32 handle => bool) private secret;
    mapping(bytes32 handle => mapping(address delegate => bool)) private undelegated;

    /// Denies a handle to an account, or no longer.
    function deny(bytes32 handle, address account, bool denied_) external {
        denied[handle][account] = denied_;
    }

    /// Denies a handle's public decryption, or no longer.
    function denyDecryption(bytes32 handle, bool denied_) external {
        secret[handle] = denied_;
    }

    /// Denies a handle to a delegate, or no longer.
    function denyDelegation(bytes32 handle, address delegate, bool denied_) external {
        undelegated[handle][delegate] = denied_;
    }

    function multicall(bytes[] calldata data) external returns (bytes[] memory results) {
        results = new bytes[](data.length);
        for (uint256 i = 0; i < data.length; ++i) {
            (bool ok, bytes memory result) = address(this).delegatecall(data[i]);
            if (!ok) {
                assembly ("memory-safe") {
                    revert(add(result, 32), mload(result))
                }
            }
            results[i] = result;
        }
    }

    function isAllowedForDecryption(bytes32 handle) external view returns (bool) {
        return !secret[handle];
    }

    function isAllowed(bytes32 handle, address account) external view returns (bool) {
        return !denied[handle][account];
    }

    function persistAllowed(bytes32 handle, address account) external view returns (bool) {
        return !denied[handle][account];
    }

    function isHandleDelegatedForUserDecryption(address, address delegate, address, bytes32 handle)
        external
        view
        returns (bool)
    {
        return !undelegated[handle][delegate];
    }
}
