// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.30;

import {Fault} from "./Fault.sol";

/// Counts its calls: what tests send transactions to that need no relayer.
contract Counter is Fault {
    uint256 public total;
    mapping(bytes32 order => uint256) public counts;

    event Counted(uint256 indexed number, bytes32 indexed order, address sender);

    error Refused(bytes32 order);

    function count(bytes32 order) external faulty {
        counts[order] += 1;
        total += 1;
        emit Counted(total, order, msg.sender);
    }

    function refuse(bytes32 order) external pure {
        revert Refused(order);
    }
}
