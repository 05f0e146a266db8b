// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.30;

import {FeeToken} from "./FeeToken.sol";

/// Takes the price of each request from its sender, in the fee token.
contract ProtocolPayment {
    FeeToken public immutable TOKEN;
    uint256 public getInputVerificationPrice;
    uint256 public getPublicDecryptionPrice;
    uint256 public getUserDecryptionPrice;

    constructor(FeeToken token, uint256 inputVerification, uint256 publicDecryption, uint256 userDecryption) {
        TOKEN = token;
        setPrices(inputVerification, publicDecryption, userDecryption);
    }

    function setPrices(uint256 inputVerification, uint256 publicDecryption, uint256 userDecryption) public {
        getInputVerificationPrice = inputVerification;
        getPublicDecryptionPrice = publicDecryption;
        getUserDecryptionPrice = userDecryption;
    }

    function payInputVerification(address sender) external {
        TOKEN.transferFrom(sender, address(this), getInputVerificationPrice);
    }

    function payPublicDecryption(address sender) external {
        TOKEN.transferFrom(sender, address(this), getPublicDecryptionPrice);
    }

    function payUserDecryption(address sender) external {
        TOKEN.transferFrom(sender, address(this), getUserDecryptionPrice);
    }
}
