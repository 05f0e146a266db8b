//! What `/healthz` says of the gateway and of the wallets.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_fhevm_stand_ins::rpc_proxy::{Fault, RpcProxy, Rule};

use super::node::{Node, database};

/// Lets time pass: the node holds its answers for a while.
async fn later(seconds: u64) {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(seconds)).await;
    tokio::time::resume();
}

/// An endpoint of the configured chain whose newest block is the fortieth.
async fn endpoint() -> RpcProxy {
    let endpoint = RpcProxy::start(&"http://127.0.0.1:1".parse().unwrap(), 1).await.unwrap();
    endpoint.add(Rule::new("eth_chainId", Fault::Answer(json!("0xd431"))));
    endpoint.add(Rule::new("eth_blockNumber", Fault::Answer(json!("0x28"))));
    endpoint
}

#[tokio::test]
async fn a_listener_fails_when_the_watcher_has_been_elsewhere_for_minutes() {
    let database = database().await;
    let endpoint = endpoint().await;
    let node = Node::start_at(&database, endpoint.url()).await;
    let listener = async |seconds| {
        later(seconds).await;
        let health = node.get("/healthz").await;
        // It goes on to take requests and to answer polls.
        assert_eq!((health.status, &health.body["status"]), (200, &json!("healthy")));
        let dependencies = &health.body["dependencies"];
        assert_eq!((&dependencies["gateway_http"], &dependencies["database"]), (&json!("ok"), &json!("ok")));
        dependencies["gateway_listener_0"].clone()
    };
    // The chain that was read was another one, or is shorter now.
    database
        .execute(
            "insert into evm.cursor (name, chain_id, number, hash, epoch)
             values ('fhevm', 54321, 5914, decode(repeat('01', 32), 'hex'), 1)",
        )
        .await;
    for (seconds, health) in [(0, "ok"), (60, "ok"), (30, "ok"), (31, "fail"), (600, "fail")] {
        assert_eq!(listener(seconds).await, health, "{seconds} s later");
    }
    let moved = |number: u64| format!("update evm.cursor set number = {number}");
    // It cannot read what is new.
    database.execute(&moved(38)).await;
    for (seconds, health) in [(3, "ok"), (90, "ok"), (31, "fail")] {
        assert_eq!(listener(seconds).await, health, "{seconds} s later");
    }
    database.execute(&moved(40)).await;
    for seconds in [3, 600] {
        assert_eq!(listener(seconds).await, "ok", "{seconds} s later");
    }
}

#[tokio::test]
async fn wallets_fail_when_a_nonce_is_not_mined_for_half_a_minute() {
    let database = database().await;
    let endpoint = endpoint().await;
    let node = Node::start_at(&database, endpoint.url()).await;
    let wallets = async || {
        later(3).await;
        let health = node.get("/healthz").await;
        assert_eq!((health.status, &health.body["status"]), (200, &json!("healthy")));
        health.body["dependencies"]["wallets"].clone()
    };
    assert_eq!(wallets().await, "ok");
    database
        .execute(
            "insert into evm.wallet (chain_id, address, name, first_nonce, system_identifier, timeline_id)
             values (54321, decode(repeat('01', 20), 'hex'), 'a', 7, 1, 1);
             insert into evm.tx (wallet, nonce, recipient, gas_limit, state, signed_at)
             select w.id, n, w.address, 1, 'sent', now()
             from evm.wallet as w, generate_series(7, 8) as n",
        )
        .await;
    assert_eq!(wallets().await, Value::from("ok"));
    let older =
        |nonce: u64| format!("update evm.tx set signed_at = now() - interval '31 seconds' where nonce = {nonce}");
    database.execute(&older(8)).await;
    assert_eq!(wallets().await, "ok", "the lowest one is younger");
    database.execute(&older(7)).await;
    assert_eq!(wallets().await, "fail");
    database.execute("update evm.tx set state = 'mined', mined_hash = decode(repeat('07', 32), 'hex')").await;
    assert_eq!(wallets().await, "ok");
}
