//! What anvil answers to calls that it refuses, and how `node_error` classifies it.

use alloy::primitives::{Bytes, U256, address, bytes, keccak256};
use serde_json::{Value, json};
use tidegate_evm::node_error::{Class, NodeError};
use tidegate_fhevm_stand_ins::{chain::Anvil, rpc};

use super::{on_demand, pay, sent, signed};

/// The error of a call.
async fn refusal(chain: &Anvil, method: &str, params: Value) -> NodeError {
    let error = chain.rpc().call::<Value>(method, params).await.unwrap_err();
    let error = error.downcast::<rpc::NodeError>().unwrap();
    NodeError {
        code: error.code,
        message: error.message,
        data: error.data.map(|data| serde_json::value::to_raw_value(&data).unwrap()),
    }
}

/// Asserts that the chain refuses bytes with this code and text, which mean this.
async fn refuses(chain: &Anvil, raw: &Bytes, code: i64, text: &str, class: Class) {
    let error = refusal(chain, "eth_sendRawTransaction", json!([raw])).await;
    assert!(error.code == code && error.message.contains(text) && error.class() == class, "{error} is not {class:?}");
}

#[tokio::test]
async fn to_bytes_that_are_known_or_mined() {
    let chain = on_demand(31337).await;
    let first = signed(&chain, 0, |_| {});
    let newer = signed(&chain, 0, |transaction| transaction.max_fee_per_gas += 1);
    sent(&chain, &first).await;
    refuses(&chain, &first, -32003, "transaction already imported", Class::Accepted).await;
    let error = refusal(&chain, "eth_sendRawTransactionSync", json!([first])).await;
    assert_eq!(error.class(), Class::Accepted, "{error}");
    sent(&chain, &newer).await;
    chain.mine(1).await.unwrap();
    refuses(&chain, &newer, -32003, "nonce too low", Class::NonceTooLow).await;
    refuses(&chain, &first, -32003, "nonce too low", Class::NonceTooLow).await;
}

#[tokio::test]
async fn to_a_replacement_that_does_not_pay_more() {
    let chain = on_demand(31337).await;
    pay(&chain, 0..1).await;
    let text = "replacement transaction underpriced";
    let lower = signed(&chain, 0, |transaction| transaction.max_fee_per_gas -= 1);
    refuses(&chain, &lower, -32003, text, Class::Replaced).await;
    let higher_tip = signed(&chain, 0, |transaction| transaction.max_priority_fee_per_gas *= 2);
    refuses(&chain, &higher_tip, -32003, text, Class::Replaced).await;
}

#[tokio::test]
async fn to_fees_funds_and_gas_that_do_not_fit() {
    let chain = on_demand(31337).await;
    let cheap = signed(&chain, 0, |transaction| transaction.max_fee_per_gas = 1);
    refuses(&chain, &cheap, -32003, "max fee per gas less than block base fee", Class::FeeTooLow).await;
    let dear = signed(&chain, 0, |transaction| transaction.value = U256::MAX >> 100);
    refuses(&chain, &dear, -32003, "Insufficient funds for gas * price + value", Class::NoFunds).await;
    let little = signed(&chain, 0, |transaction| transaction.gas_limit = 20_999);
    refuses(&chain, &little, -32000, "intrinsic gas too low", Class::Gas).await;
    let much = signed(&chain, 0, |transaction| transaction.gas_limit = 1_000_000_001);
    refuses(&chain, &much, -32000, "tx.gas_limit > env.block.gas_limit", Class::Gas).await;
    let other = signed(&chain, 0, |transaction| transaction.chain_id = 1);
    refuses(&chain, &other, -32003, "invalid chain id for signer", Class::WrongChain).await;
    refuses(&chain, &bytes!("0102"), -32602, "Failed to decode transaction", Class::BadBytes).await;
}

#[tokio::test]
async fn to_calls_that_revert_or_need_too_much_gas() {
    let chain = on_demand(31337).await;
    let contracts = [
        // Reverts with four bytes; with nothing; with Error("hello"); never ends.
        (address!("00000000000000000000000000000000000000a1"), bytes!("63d93c066560e01b5f5260045ffd")),
        (address!("00000000000000000000000000000000000000a2"), bytes!("5f5ffd")),
        (
            address!("00000000000000000000000000000000000000a3"),
            bytes!("6308c379a060e01b5f526020600452600560245264 68656c6c6f 60d81b60445260645ffd"),
        ),
        (address!("00000000000000000000000000000000000000a4"), bytes!("5b5f56")),
    ];
    for (at, code) in &contracts {
        chain.set_code(*at, code.clone()).await.unwrap();
    }
    for method in ["eth_call", "eth_estimateGas"] {
        for ((at, _), (message, data)) in contracts.iter().zip([
            ("execution reverted: custom error 0xd93c0665", bytes!("d93c0665")),
            ("execution reverted", Bytes::new()),
            (
                "execution reverted: hello",
                bytes!(
                    "08c379a0"
                    "0000000000000000000000000000000000000000000000000000000000000020"
                    "0000000000000000000000000000000000000000000000000000000000000005"
                    "68656c6c6f000000000000000000000000000000000000000000000000000000"
                ),
            ),
        ]) {
            let error = refusal(&chain, method, json!([{ "to": at }])).await;
            assert_eq!((error.code, error.message.as_str()), (3, message));
            assert_eq!(error.revert_data(), Some(data));
        }
    }
    let endless = refusal(&chain, "eth_estimateGas", json!([{ "to": contracts[3].0 }])).await;
    assert!(endless.message.starts_with("Out of gas: gas required exceeds allowance: "), "{endless}");
    assert_eq!((endless.code, endless.class()), (-32003, Class::OutOfGas));

    let without_code = json!([{ "to": address!("00000000000000000000000000000000000000a5") }]);
    assert_eq!(chain.rpc().call::<Value>("eth_call", without_code).await.unwrap(), "0x");
}

#[tokio::test]
async fn to_reads_beyond_the_head() {
    let chain = on_demand(31337).await;
    chain.mine(1).await.unwrap();
    for (method, params) in [
        ("eth_getLogs", json!([{ "fromBlock": "0x2", "toBlock": "0x3" }])),
        ("eth_call", json!([{ "to": chain.keys()[0].address() }, "0x2"])),
    ] {
        let error = refusal(&chain, method, params).await;
        assert_eq!(error.message, "BlockOutOfRangeError: block height is 1 but requested was 2");
        assert_eq!((error.code, error.class()), (-32602, Class::Behind));
    }
    let call = |method: &'static str, params: Value| {
        let chain = &chain;
        async move { chain.rpc().call::<Value>(method, params).await.unwrap() }
    };
    assert_eq!(call("eth_getLogs", json!([{ "fromBlock": "0x1", "toBlock": "0x3" }])).await, json!([]));
    assert_eq!(call("eth_getBlockByNumber", json!(["0x2", false])).await, Value::Null);
    assert_eq!(call("eth_getTransactionReceipt", json!([keccak256("none")])).await, Value::Null);
}

#[tokio::test]
async fn to_methods_that_are_missing_and_calls_that_are_too_large() {
    let chain = on_demand(31337).await;
    let missing = refusal(&chain, "evm_unknown", json!([])).await;
    assert_eq!(
        (missing.code, missing.message.as_str(), missing.class()),
        (-32601, "Method not found", Class::NoMethod)
    );
    let batch = [("eth_chainId", json!([])), ("evm_unknown", json!([]))];
    let answers = chain.rpc().batch(&batch).await.unwrap();
    assert!(answers[0].is_ok());
    assert_eq!(answers[1].as_ref().unwrap_err().code, -32601);

    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "web3_sha3", "params": ["0".repeat(2_100_000)] });
    let answer = reqwest::Client::new().post(chain.url().clone()).json(&body).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let answer: Value = answer.json().await.unwrap();
    assert_eq!(answer["id"], Value::Null);
    let error: NodeError = serde_json::from_value(answer["error"].clone()).unwrap();
    assert_eq!((error.code, error.message.as_str(), error.class()), (-32600, "Invalid request", Class::Limited));
}
