//! What the nodes say, a test for each thing that is certain afterwards.

use serde_json::{Value, json};

use super::*;

macro_rules! says {
    ($($name:ident: $class:ident after [$(($code:literal, $message:literal)),+];)+) => {
        $(#[test]
        fn $name() {
            for (code, message) in [$(($code, $message)),+] {
                let error: NodeError = serde_json::from_value(json!({ "code": code, "message": message })).unwrap();
                assert_eq!(error.class(), $class, "{error}");
            }
        })+
    };
}

says! {
    bytes_in_the_pool: Accepted after [
        (-32000, "already known"), (-32003, "transaction already imported"), (-32000, "tx already exists in cache")
    ];
    a_receipt_that_did_not_come: Accepted after [
        (-32603, "Transaction confirmation timeout"), (4, "The transaction was added to the mempool but wasn't processed")
    ];
    a_nonce_that_is_mined: NonceTooLow after [
        (-32003, "nonce too low"), (-32000, "nonce too low: next nonce 7, tx nonce 3")
    ];
    a_predecessor_that_is_missing: NonceTooHigh after [
        (-32000, "nonce too high: address 0xab, tx: 9 state: 3"), (-32000, "nonce gap")
    ];
    another_transaction_in_the_pool: Replaced after [(-32003, "replacement transaction underpriced")];
    a_fee_below_the_base_fee: FeeTooLow after [
        (-32003, "max fee per gas less than block base fee"), (-32000, "transaction underpriced: tip needed 1"),
        (-32000, "fee too low")
    ];
    a_sender_without_funds: NoFunds after [
        (-32003, "Insufficient funds for gas * price + value"),
        (-32000, "insufficient funds for gas * price + value: balance 0, tx cost 42")
    ];
    a_gas_limit_that_cannot_be: Gas after [
        (-32000, "intrinsic gas too low"), (-32000, "intrinsic gas too high -- tx.gas_limit > env.block.gas_limit"),
        (-32000, "exceeds block gas limit"), (-32000, "gas limit too high")
    ];
    an_endpoint_of_another_chain: WrongChain after [
        (-32003, "invalid chain id for signer"), (-32000, "invalid chain id for signer: have 2 want 1")
    ];
    a_revert: Revert after [
        (3, "execution reverted"), (3, "execution reverted: hello"), (-32000, "execution reverted"),
        (3, "execution reverted: custom error 0xd93c0665"), (3, "a text of this node's own")
    ];
    gas_that_is_not_there: OutOfGas after [
        (-32003, "Out of gas: gas required exceeds allowance: 30000000"), (-32000, "gas required exceeds allowance (0)")
    ];
    bytes_that_are_too_many: TooLarge after [
        (-32000, "oversized data: transaction size 131073, limit 131072"), (-32000, "transaction size exceeds the limit")
    ];
    an_endpoint_that_limits: Limited after [
        (-32005, "daily request count exceeded"), (-32000, "Rate limit exceeded"), (-32600, "Invalid request")
    ];
    bytes_that_are_no_transaction: BadBytes after [
        (-32602, "Failed to decode transaction"), (-32602, "invalid argument 0")
    ];
    anything_else: Unknown after [(-32603, "Internal error"), (0, ""), (-32000, "already")];
    a_block_beyond_the_head: Behind after [
        (-32602, "BlockOutOfRangeError: block height is 19 but requested was 20"), (-32000, "header not found")
    ];
    a_method_that_is_missing: NoMethod after [
        (-32601, "Method not found"), (-32601, "the method eth_x does not exist/is not available")
    ];
}

#[test]
fn a_revert_returns_the_data_of_the_contract() {
    let data = |error: Value| serde_json::from_value::<NodeError>(error).unwrap().revert_data();
    let bytes = Some(Bytes::from_static(&[0xd9, 0x3c, 0x06, 0x65]));
    let message = "execution reverted";
    assert_eq!(data(json!({ "code": 3, "message": message, "data": "0xd93c0665" })), bytes);
    assert_eq!(data(json!({ "code": -32000, "message": message, "data": { "data": "0xd93c0665" } })), bytes);
    assert_eq!(data(json!({ "code": -32015, "message": "VM execution error.", "data": "Reverted 0xd93c0665" })), bytes);
    let with_number = r#"{"code": 3, "message": "execution reverted", "data": {"gas": 1e400, "data": "0xd93c0665"}}"#;
    let error: NodeError = serde_json::from_str(with_number).unwrap();
    assert_eq!(error.revert_data(), bytes);
    assert_eq!(data(json!({ "code": 3, "message": "execution reverted: custom error 0xd93c0665: 0x7" })), bytes);
    assert_eq!(data(json!({ "code": 3, "message": message, "data": "0x" })), Some(Bytes::new()));
    assert_eq!(data(json!({ "code": 3, "message": message })), Some(Bytes::new()));
    assert_eq!(data(json!({ "code": -32000, "message": "nonce too low", "data": "0xd93c0665" })), None);
}
