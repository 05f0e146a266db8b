//! A node in this process: enough of one to take transactions and to answer when a test wants it.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard},
};

use alloy::{
    consensus::{Transaction, TxEnvelope},
    eips::Decodable2718,
    primitives::{Address, B256, Bytes, U64, keccak256},
    rpc::types::Header,
};
use axum::{Json, Router, extract::State, routing::post};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;
use url::Url;

pub const CHAIN: u64 = 31337;

/// A chain of one node, whose contracts succeed.
pub struct Node {
    pub url: Url,
    chain: Arc<Mutex<Chain>>,
    _server: AbortOnDropHandle<()>,
}

#[derive(Default)]
struct Chain {
    mines_at_once: bool,
    block: u64,
    counts: HashMap<Address, u64>,
    pool: BTreeMap<(Address, u64), B256>,
    receipts: HashMap<B256, Value>,
    sent: Vec<B256>,
    /// What the next sends are answered.
    refusals: VecDeque<(i64, &'static str)>,
    reverts: Option<Bytes>,
}

impl Node {
    pub async fn start(mines_at_once: bool) -> Self {
        let chain = Arc::new(Mutex::new(Chain { mines_at_once, ..Chain::default() }));
        let app = Router::new().route("/", post(answer)).with_state(Arc::clone(&chain));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let server = tokio::spawn(async { axum::serve(listener, app).await.unwrap() });
        Self { url, chain, _server: AbortOnDropHandle::new(server) }
    }

    fn chain(&self) -> MutexGuard<'_, Chain> {
        self.chain.lock().unwrap()
    }

    /// Mines what can be mined.
    pub fn mine(&self) {
        self.chain().mine();
    }

    /// The hashes of what was sent, in the order of the sends.
    pub fn sent(&self) -> Vec<B256> {
        self.chain().sent.clone()
    }

    /// How many transactions of an account are mined.
    pub fn count(&self, account: Address) -> u64 {
        self.chain().counts.get(&account).copied().unwrap_or_default()
    }

    /// Answers the next send so.
    pub fn refuse_next(&self, code: i64, message: &'static str) {
        self.chain().refusals.push_back((code, message));
    }

    /// Makes calls and estimates revert.
    pub fn revert(&self, data: Option<Bytes>) {
        self.chain().reverts = data;
    }
}

impl Chain {
    fn mine(&mut self) {
        self.block += 1;
        let number = U64::from(self.block);
        while let Some((key, hash)) = self
            .pool
            .iter()
            .map(|(key, hash)| (*key, *hash))
            .find(|((account, nonce), _)| self.counts.get(account).copied().unwrap_or_default() == *nonce)
        {
            self.pool.remove(&key);
            *self.counts.entry(key.0).or_default() += 1;
            let receipt = json!({
                "type": "0x2", "status": "0x1", "transactionHash": hash, "transactionIndex": "0x0",
                "blockHash": keccak256(number.to_be_bytes::<8>()), "blockNumber": number, "from": key.0, "to": key.0,
                "cumulativeGasUsed": "0x1", "gasUsed": "0x1", "effectiveGasPrice": "0x1", "contractAddress": null,
                "logs": [], "logsBloom": alloy::primitives::Bloom::ZERO,
            });
            self.receipts.insert(hash, receipt);
        }
    }

    fn take(&mut self, raw: &Bytes) -> Result<Value, (i64, String)> {
        let transaction = TxEnvelope::decode_2718(&mut raw.as_ref()).unwrap();
        let hash = *transaction.tx_hash();
        self.sent.push(hash);
        if let Some((code, message)) = self.refusals.pop_front() {
            return Err((code, message.to_owned()));
        }
        let signer = transaction.signature().recover_address_from_prehash(&transaction.signature_hash());
        let key = (signer.unwrap(), transaction.nonce());
        if key.1 < self.counts.get(&key.0).copied().unwrap_or_default() {
            return Err((-32003, "nonce too low".to_owned()));
        }
        if self.pool.insert(key, hash) == Some(hash) {
            return Err((-32003, "transaction already imported".to_owned()));
        }
        if self.mines_at_once {
            self.mine();
        }
        Ok(json!(hash))
    }

    fn answer(&mut self, method: &str, params: &Value) -> Result<Value, (i64, String)> {
        let first = |value: &Value| value[0].clone();
        Ok(match method {
            "eth_chainId" => json!(U64::from(CHAIN)),
            "eth_blockNumber" => json!(U64::from(self.block)),
            "eth_getCode" => json!("0x00"),
            "eth_maxPriorityFeePerGas" => json!("0x1"),
            "eth_getBlockByNumber" => {
                let mut header = serde_json::to_value(Header::<alloy::consensus::Header>::default()).unwrap();
                header["number"] = json!(U64::from(self.block));
                header["baseFeePerGas"] = json!("0x7");
                header
            }
            "eth_estimateGas" | "eth_call" if self.reverts.is_some() => {
                return Err((3, "execution reverted".to_owned()));
            }
            "eth_estimateGas" => json!("0x5208"),
            "eth_call" => json!("0x"),
            "eth_getTransactionCount" => {
                let account: Address = serde_json::from_value(first(params)).unwrap();
                json!(U64::from(self.counts.get(&account).copied().unwrap_or_default()))
            }
            "eth_getTransactionReceipt" => {
                let hash: B256 = serde_json::from_value(first(params)).unwrap();
                self.receipts.get(&hash).cloned().unwrap_or_default()
            }
            "eth_sendRawTransaction" => return self.take(&serde_json::from_value(first(params)).unwrap()),
            other => panic!("the node of this test has no {other}"),
        })
    }

    fn respond(&mut self, call: &Value) -> Value {
        match self.answer(call["method"].as_str().unwrap(), &call["params"]) {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": call["id"], "result": result }),
            Err((code, message)) => {
                let error = json!({ "code": code, "message": message, "data": self.reverts });
                json!({ "jsonrpc": "2.0", "id": call["id"], "error": error })
            }
        }
    }
}

async fn answer(State(chain): State<Arc<Mutex<Chain>>>, Json(calls): Json<Value>) -> Json<Value> {
    let mut chain = chain.lock().unwrap();
    Json(match &calls {
        Value::Array(calls) => calls.iter().map(|call| chain.respond(call)).collect(),
        call => chain.respond(call),
    })
}
