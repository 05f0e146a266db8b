// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.30;

import {Fault} from "./Fault.sol";
import {GatewayConfig} from "./GatewayConfig.sol";
import {ProtocolPayment} from "./ProtocolPayment.sol";
import {Signed} from "./Signed.sol";

/// What Decryption and InputVerification share. Anybody may pause them.
abstract contract Requests is Fault, Signed {
    GatewayConfig internal immutable CONFIG;
    ProtocolPayment internal immutable PAYMENT;
    bool public paused;

    event Paused(address account);
    event Unpaused(address account);

    error EnforcedPause();
    error HostChainNotRegistered(uint256 chainId);
    error HostChainDisabled(uint256 chainId);

    constructor(GatewayConfig config, ProtocolPayment payment) {
        (CONFIG, PAYMENT) = (config, payment);
    }

    function pause() external {
        paused = true;
        emit Paused(msg.sender);
    }

    function unpause() external {
        paused = false;
        emit Unpaused(msg.sender);
    }

    /// Guards every request. Responses are taken while the contract is paused, too.
    modifier request() {
        if (paused) revert EnforcedPause();
        _;
    }

    function checkHostChain(uint256 chainId) internal view {
        if (!CONFIG.isHostChainRegistered(chainId)) revert HostChainNotRegistered(chainId);
        if (CONFIG.disabled(chainId)) revert HostChainDisabled(chainId);
    }
}
