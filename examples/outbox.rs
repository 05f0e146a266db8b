//! Submits a request in the transaction that writes the order it is for: the database has both, or neither.

use std::env;

use serde_json::json;
use sqlx::{Executor, PgPool};
use tidegate::{Kind, Submitted, Tidegate, request::RequestId};

/// Writes an order and submits its shipment; commits both, or rolls both back.
async fn order(tidegate: &Tidegate, pool: &PgPool, commits: bool) -> anyhow::Result<RequestId> {
    let mut transaction = pool.begin().await?;
    transaction.execute("insert into shop_order (item) values ('a book')").await?;
    let payload = json!({ "to": "Ann", "item": "a book" });
    let Submitted::Accepted(ticket) = tidegate.submit("shipment", &payload).within(&mut transaction).await? else {
        anyhow::bail!("refused: the transaction rolls back when it is dropped");
    };
    if commits {
        transaction.commit().await?;
    } else {
        transaction.rollback().await?;
    }
    Ok(ticket.id)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let pool = PgPool::connect(&env::var("DATABASE_URL")?).await?;
    pool.execute("create table if not exists shop_order (item text not null)").await?;
    let tidegate = Tidegate::from_pool(pool.clone());
    tidegate.migrate().await?;
    tidegate.register(Kind::direct("shipment")).await?;

    for commits in [false, true] {
        let id = order(&tidegate, &pool, commits).await?;
        let orders: i64 = sqlx::query_scalar("select count(*) from shop_order").fetch_one(&pool).await?;
        let request = tidegate.get(id).await?.map(|request| request.status);
        println!("committed: {commits}, orders: {orders}, request: {request:?}");
    }
    Ok(())
}
