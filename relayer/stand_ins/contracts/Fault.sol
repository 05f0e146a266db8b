// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.30;

/// A switch that makes a contract's requests revert.
abstract contract Fault {
    bool private armed;
    bool private onlyMined;
    uint256 private fromBlock;
    bytes private data;

    /// From a block on, requests revert with the data. `mined` spares calls and estimates that name no gas price, so
    /// that the revert shows in the receipt only.
    function setFault(bytes calldata revertData, uint256 block_, bool mined) external {
        (armed, data, fromBlock, onlyMined) = (true, revertData, block_, mined);
    }

    function clearFault() external {
        armed = false;
    }

    modifier faulty() {
        if (armed && block.number >= fromBlock && (!onlyMined || tx.gasprice > 0)) {
            bytes memory revertData = data;
            assembly ("memory-safe") {
                revert(add(revertData, 32), mload(revertData))
            }
        }
        _;
    }
}
