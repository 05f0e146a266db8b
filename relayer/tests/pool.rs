//! The pool of a chain that makes blocks on demand.

use alloy::primitives::B256;
use serde_json::Value;
use tidegate::request::RequestId;
use tidegate_fhevm_stand_ins::workload::Work;

use crate::{scene::Scene, support::eventually};

impl Scene {
    /// Submits a request and returns it once its transaction is in the pool.
    pub async fn pooled(&self, work: &Work) -> (RequestId, B256) {
        let id = self.submit(work).await;
        let sent = "select a.hash from evm.tx as t join evm.attempt as a using (wallet, nonce)
                    where t.order_id = $1 and a.sent_at is not null";
        let sent = || sqlx::query_scalar::<_, Vec<u8>>(sent).bind(id.0).fetch_optional(&self.database.pool);
        eventually("its transaction is sent", || async { sent().await.unwrap().is_some() }).await;
        let hash = B256::from_slice(&sent().await.unwrap().unwrap());
        self.in_pool(hash).await;
        (id, hash)
    }

    /// Waits until a transaction is in the pool.
    pub async fn in_pool(&self, hash: B256) {
        eventually("the transaction is in the pool", || async {
            let found: Value = self.network.chain.rpc().call("eth_getTransactionByHash", (hash,)).await.unwrap();
            found.is_object() && found["blockNumber"].is_null()
        })
        .await;
    }

    /// Makes a block of what waits, if anything does: so few blocks that a reorganisation of all is none of final ones.
    pub async fn mine_pool(&self) {
        let pool: Value = self.network.chain.rpc().call("txpool_status", ()).await.unwrap();
        if pool["pending"] != "0x0" {
            self.network.chain.mine(1).await.unwrap();
        }
    }
}
