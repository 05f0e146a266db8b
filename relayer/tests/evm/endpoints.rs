//! Endpoints that fail, lie and come back.

use alloy::{
    eips::BlockNumberOrTag,
    primitives::{Address, B256, Bytes, U256, address, bytes, keccak256},
    rpc::types::{Filter, TransactionReceipt},
};
use serde_json::{Value, json};
use tidegate_evm::{CallError, CallRequest, Chain, ChainError, RpcCall, RpcError, fees::FeeBounds, node_error::Class};
use tidegate_fhevm_stand_ins::{
    chain::Anvil,
    rpc_proxy::{Fault, RpcProxy, Rule},
};

use crate::{
    anvil::{on_demand, signed},
    support::eventually,
};

/// A chain with two endpoints.
struct Two {
    anvil: Anvil,
    first: RpcProxy,
    second: RpcProxy,
    chain: Chain,
}

impl Two {
    async fn new() -> Two {
        let anvil = on_demand(31337).await;
        let first = RpcProxy::start(anvil.url(), 1).await.unwrap();
        let second = RpcProxy::start(anvil.url(), 2).await.unwrap();
        let chain = Chain::connect(31337, &[first.url().clone(), second.url().clone()]).await.unwrap();
        Two { anvil, first, second, chain }
    }

    async fn gas_price(&self) -> Result<U256, RpcError> {
        self.chain.read("eth_gasPrice", ()).await
    }
}

#[tokio::test]
async fn an_endpoint_of_another_chain_is_not_used() {
    let (ours, other) = (on_demand(31337).await, on_demand(31338).await);
    let wrong = Chain::connect(31337, std::slice::from_ref(other.url())).await.unwrap_err();
    assert!(matches!(wrong, ChainError::WrongChain { chain: 31337, found: 31338, .. }), "{wrong}");
    assert!(matches!(Chain::connect(31337, &[]).await, Err(ChainError::NoUrl(31337))));

    let chain = Chain::connect(31337, &[other.url().clone(), ours.url().clone()]).await.unwrap();
    ours.mine(3).await.unwrap();
    assert_eq!(chain.block_number().await.unwrap(), 3);
    assert_eq!(chain.send_raw(&signed(&ours, 0, |_| {})).await.class, Class::Accepted);
    assert_eq!(chain.read_everywhere::<Value>("eth_chainId", ()).await.len(), 1);
}

#[tokio::test]
async fn a_read_goes_on_to_the_next_endpoint_and_a_revert_does_not() {
    let two = Two::new().await;
    for fault in [
        Fault::DropBefore,
        Fault::DropAfter,
        Fault::CloseMidBody,
        Fault::Status(500),
        Fault::Refuse(-32005, "slow down"),
        Fault::Refuse(-32603, "Internal error"),
        Fault::Answer(json!("not a number")),
    ] {
        two.first.add(Rule::new("eth_gasPrice", fault.clone()).times(1));
        two.gas_price().await.unwrap();
        // A healthy answer between them keeps the breaker closed.
        two.chain.block_number().await.unwrap();
    }
    assert_eq!((two.first.faults(), two.second.calls("eth_gasPrice")), (7, 7));

    let reverts = address!("00000000000000000000000000000000000000ee");
    // Reverts with the four bytes.
    two.anvil.set_code(reverts, bytes!("63d93c066560e01b5f5260045ffd")).await.unwrap();
    let call = CallRequest::default().to(reverts);
    for outcome in
        [two.chain.call(&call, BlockNumberOrTag::Latest).await.map(drop), two.chain.estimate_gas(&call).await.map(drop)]
    {
        assert!(matches!(outcome, Err(CallError::Reverted(data)) if data == bytes!("d93c0665")));
    }
    assert_eq!((two.second.calls("eth_call"), two.second.calls("eth_estimateGas")), (0, 0));
    let nothing = two.chain.call(&CallRequest::default().to(Address::ZERO), BlockNumberOrTag::Latest).await;
    assert_eq!(nothing.unwrap(), Bytes::new());
}

#[tokio::test]
async fn an_endpoint_that_fails_is_used_again_when_it_answers_for_the_right_chain() {
    let two = Two::new().await;
    two.first.add(Rule::all(Fault::DropBefore));
    for _ in 0..5 {
        two.gas_price().await.unwrap();
    }
    assert_eq!(two.first.calls("eth_gasPrice"), 3, "the breaker opens after three failures");

    two.first.clear();
    two.first.add(Rule::new("eth_chainId", Fault::Answer(json!("0x1"))));
    let surveyed = two.first.calls("eth_chainId");
    eventually("two surveys", || async { two.first.calls("eth_chainId") >= surveyed + 2 }).await;
    two.gas_price().await.unwrap();
    assert_eq!(two.first.calls("eth_gasPrice"), 3, "it is of another chain now");

    two.first.clear();
    eventually("the first endpoint is used again", || async {
        two.gas_price().await.unwrap();
        two.first.calls("eth_gasPrice") > 3
    })
    .await;

    two.first.add(Rule::all(Fault::DropBefore));
    two.second.add(Rule::all(Fault::DropBefore));
    eventually("none is healthy", || async { matches!(two.gas_price().await, Err(RpcError::NoEndpoint(31337))) }).await;
    two.second.clear();
    eventually("one is healthy", || async { two.gas_price().await.is_ok() }).await;
}

#[tokio::test]
async fn an_endpoint_far_behind_is_not_read_from_but_sends() {
    let two = Two::new().await;
    two.anvil.mine(100).await.unwrap();
    two.first.add(Rule::all(Fault::OldHead(30)));
    eventually("reads leave the first endpoint", || async { two.chain.block_number().await.unwrap() == 100 }).await;
    assert_eq!(two.chain.head(), 100);
    two.chain.send_raw(&signed(&two.anvil, 0, |_| {})).await;
    assert_eq!(two.first.calls("eth_sendRawTransaction"), 1);
}

#[tokio::test]
async fn a_batch_keeps_its_order_and_is_halved_when_it_is_too_large() {
    let two = Two::new().await;
    let slots: Vec<_> = (0..120_u64).map(|slot| keccak256(slot.to_be_bytes())).collect();
    let calls: Vec<_> = slots.iter().map(|slot| RpcCall::new("web3_sha3", (slot,))).collect();
    two.first.add(Rule::all(Fault::Reverse));
    let results = two.chain.batch(&calls).await.unwrap();
    for ((slot, call), result) in slots.iter().zip(&calls).zip(results) {
        assert_eq!(call.parse::<B256>(&result.unwrap()).unwrap(), keccak256(slot));
    }
    assert_eq!(two.first.calls("web3_sha3"), 120);

    // Two parts of at most a megabyte are one HTTP call each; a part that both endpoints refuse is halved.
    let large: Vec<_> = (0..2).map(|_| RpcCall::new("web3_sha3", (Bytes::from(vec![7; 400_000]),))).collect();
    assert!(two.chain.batch(&large).await.unwrap().iter().all(Result::is_ok));
    for endpoint in [&two.first, &two.second] {
        endpoint.add(Rule::new("web3_sha3", Fault::Status(413)).containing(slots[0].to_string()).times(1));
    }
    let halved = two.chain.batch(&calls[..4]).await.unwrap();
    assert!(halved.iter().all(Result::is_ok));
    assert_eq!((two.first.calls("web3_sha3"), two.second.calls("web3_sha3")), (120 + 2 + 8, 4));

    let mixed = [RpcCall::new("eth_chainId", ()), RpcCall::new("evm_unknown", ())];
    let results = two.chain.batch(&mixed).await.unwrap();
    assert!(results[0].is_ok());
    assert_eq!(results[1].as_ref().unwrap_err().class(), Class::NoMethod);
    assert!(two.chain.batch(&[]).await.unwrap().is_empty());
}

#[tokio::test]
async fn what_is_absent_everywhere_is_absent() {
    const METHOD: &str = "eth_getTransactionReceipt";
    let two = Two::new().await;
    let raw = signed(&two.anvil, 0, |_| {});
    let hash = keccak256(&raw);
    two.chain.send_raw(&raw).await;
    two.anvil.mine(1).await.unwrap();
    let find = |hash: B256| two.chain.find::<TransactionReceipt>(METHOD, (hash,), 1);

    assert!(find(B256::ZERO).await.unwrap().is_none());
    two.first.add(Rule::new(METHOD, Fault::Answer(Value::Null)));
    assert_eq!(find(hash).await.unwrap().unwrap().block_number, Some(1), "one endpoint has it");
    two.first.clear();
    two.first.add(Rule::new(METHOD, Fault::Refuse(-32000, "indexing is in progress")));
    let receipts = two.chain.receipts(&[hash]).await.unwrap();
    assert!(receipts[0].is_some(), "what one endpoint refuses is asked of the next");
    for endpoint in [&two.first, &two.second] {
        endpoint.clear();
        let refused = Fault::Refuse(-32005, "too many requests");
        endpoint.add(Rule::new(METHOD, refused).containing(B256::ZERO.to_string()));
    }
    let receipts = two.chain.receipts(&[B256::ZERO, hash]).await.unwrap();
    assert!(receipts[0].is_none() && receipts[1].is_some(), "the others count");
    assert!(two.chain.receipts(&[B256::ZERO]).await.is_err());
    two.second.clear();
    two.first.clear();
    two.first.add(Rule::new(METHOD, Fault::Answer(Value::Null)));
    two.second.add(Rule::all(Fault::OldHead(1)));
    assert!(matches!(find(hash).await, Err(RpcError::Behind { block: 1, .. })), "one is behind");
    two.second.clear();
    two.second.add(Rule::all(Fault::DropBefore));
    assert!(find(hash).await.unwrap().is_none(), "only endpoints that answer count");
    two.first.add(Rule::all(Fault::DropBefore));
    assert!(find(hash).await.unwrap_err().is_unreachable());

    let receipts = two.chain.receipts(&[hash, B256::ZERO]).await;
    assert!(receipts.unwrap_err().is_unreachable());
    two.first.clear();
    let receipts = two.chain.receipts(&[hash, B256::ZERO]).await.unwrap();
    assert!(receipts[0].as_ref().unwrap().status() && receipts[1].is_none());
}

#[tokio::test]
async fn the_same_bytes_go_to_the_next_endpoint_while_nothing_is_certain() {
    const METHOD: &str = "eth_sendRawTransaction";
    let two = Two::new().await;
    let raw = signed(&two.anvil, 0, |_| {});
    two.first.add(Rule::new(METHOD, Fault::DropAfter).times(1));
    assert_eq!(two.chain.send_raw(&raw).await.class, Class::Accepted, "the second says that it has them already");
    assert_eq!(two.second.calls(METHOD), 1);
    two.anvil.mine(1).await.unwrap();
    assert_eq!(two.chain.transaction_count(two.anvil.keys()[0].address(), BlockNumberOrTag::Latest).await.unwrap(), 1);

    assert_eq!(two.chain.send_raw(&raw).await.class, Class::NonceTooLow);
    assert_eq!(two.second.calls(METHOD), 1, "a certain answer is not asked for twice");

    two.first.add(Rule::new(METHOD, Fault::Swallow));
    let swallowed = signed(&two.anvil, 1, |_| {});
    assert_eq!(two.chain.send_raw(&swallowed).await.class, Class::Accepted);
    let known: Option<Value> = two.chain.read("eth_getTransactionByHash", (keccak256(&swallowed),)).await.unwrap();
    assert!(known.is_none());

    two.first.clear();
    two.first.add(Rule::new(METHOD, Fault::Status(500)));
    two.second.add(Rule::new(METHOD, Fault::Status(429)));
    let answer = two.chain.send_raw(&swallowed).await;
    assert_eq!(answer.class, Class::Limited);
    assert!(answer.message.contains("429"), "{}", answer.message);
}

#[tokio::test]
async fn a_repeat_of_the_same_bytes_goes_to_every_endpoint() {
    const METHOD: &str = "eth_sendRawTransaction";
    let two = Two::new().await;
    two.first.add(Rule::new(METHOD, Fault::Swallow));
    let raw = signed(&two.anvil, 0, |_| {});
    assert_eq!(two.chain.send_raw(&raw).await.class, Class::Accepted);
    assert_eq!(two.second.calls(METHOD), 0);
    assert_eq!(two.chain.send_raw_everywhere(&raw).await.class, Class::Accepted);
    let known: Option<Value> = two.anvil.rpc().call("eth_getTransactionByHash", (keccak256(&raw),)).await.unwrap();
    assert!(known.is_some());

    // One that takes them is enough, and what is about the bytes counts before what is about an endpoint.
    let refused = || Fault::Refuse(-32000, "nonce too low");
    for (first, second, class) in [
        (Fault::Status(500), Fault::Swallow, Class::Accepted),
        (refused(), Fault::Swallow, Class::Accepted),
        (Fault::Status(500), refused(), Class::NonceTooLow),
        (refused(), Fault::Status(500), Class::NonceTooLow),
        (Fault::Status(500), Fault::Status(500), Class::Unknown),
    ] {
        for (endpoint, fault) in [(&two.first, &first), (&two.second, &second)] {
            endpoint.clear();
            endpoint.add(Rule::new(METHOD, fault.clone()));
        }
        // A healthy answer between them keeps the breakers closed.
        assert!(two.chain.read_everywhere::<Value>("eth_chainId", ()).await.iter().all(Result::is_ok));
        assert_eq!(two.chain.send_raw_everywhere(&raw).await.class, class, "{first:?} {second:?}");
    }
}

#[tokio::test]
async fn fees_follow_the_chain_within_their_bounds() {
    let two = Two::new().await;
    let gwei = 1_000_000_000;
    two.anvil.set_next_base_fee(7 * gwei).await.unwrap();
    two.anvil.mine(1).await.unwrap();
    let fees = two.chain.suggested_fees().await.unwrap();
    assert_eq!((fees.base_fee, fees.block, fees.max_fee), (7 * gwei, 1, 14 * gwei + fees.tip));
    assert_eq!(two.chain.suggested_fees().await.unwrap(), fees);
    assert_eq!(two.first.calls("eth_maxPriorityFeePerGas"), 1, "once per block");

    let bounds = FeeBounds { floor: 2 * gwei, cap: 10 * gwei, tip: Some(1) };
    let fees = two.chain.clone().with_fee_bounds(bounds).suggested_fees().await.unwrap();
    assert_eq!((fees.max_fee, fees.tip), (10 * gwei, 2 * gwei));
    assert_eq!(two.first.calls("eth_maxPriorityFeePerGas"), 1, "a tip that is configured");
}

#[tokio::test]
async fn an_endpoint_behind_answers_for_the_blocks_that_it_has() {
    let two = Two::new().await;
    two.anvil.mine(50).await.unwrap();
    two.first.add(Rule::all(Fault::OldHead(10)));
    assert!(two.chain.header(45.into()).await.unwrap().is_none());
    let beyond = Filter::new().from_block(45).to_block(50);
    assert!(two.chain.logs(&beyond).await.unwrap().is_empty(), "the second endpoint is asked");
    assert_eq!((two.first.calls("eth_getLogs"), two.second.calls("eth_getLogs")), (1, 1));
    assert_eq!(two.chain.finalized().await.unwrap(), Some(30));
}

#[test]
fn no_url_is_shown() {
    let url = "http://127.0.0.1:1/secret-key".parse().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let chain = Chain::connect(1, &[url]).await.unwrap();
        let error = chain.block_number().await.unwrap_err();
        let shown = format!("{chain:?} {error} {:?}", chain.send_raw(&Bytes::new()).await);
        assert!(!shown.contains("secret-key"), "{shown}");
    });
}
