//! Calls of the stand-in contracts, in Rust. The real ABI is checked against the compiled contracts by a test.

alloy::sol! {
    #![sol(all_derives)]

    /// Switches that every contract of the gateway has.
    interface Fault {
        function setFault(bytes revertData, uint256 block_, bool mined);
        function clearFault();
    }

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
        function approve(address spender, uint256 value) returns (bool);
        function balanceOf(address account) returns (uint256);
        function allowance(address owner, address spender) returns (uint256);
    }
}
