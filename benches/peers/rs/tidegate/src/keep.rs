//! Keeps the tx queue about as deep as it is told: claims and settles what is more, and maintains, as a worker does, until a
//! line comes.

use std::time::Duration;

use peercommon as pc;
use sqlx::{Connection, PgConnection};
use tidegate::internals::maintenance;
use tokio_util::sync::CancellationToken;

/// How often it looks.
const LOOK: Duration = Duration::from_millis(20);

/// How much deeper or less deep than told the queue may be.
const BAND: i64 = 100;

/// At most that many are claimed at once.
const BATCH: i64 = 500;

pub async fn keep() {
    let depth = i64::try_from(pc::option("depth", 1500)).unwrap();
    let mut session = PgConnection::connect(&pc::url()).await.unwrap();
    sqlx::query("set jit = off").execute(&mut session).await.unwrap();
    let store = crate::store().await;
    pc::ready_go();
    tokio::spawn(maintenance::run(store, CancellationToken::new()));
    tokio::spawn(async move {
        loop {
            let now = now_deep(&mut session).await;
            if now > depth + BAND {
                serve(&mut session, (now - depth + BAND).min(BATCH)).await;
            }
            tokio::time::sleep(LOOK).await;
        }
    });
    pc::serve().await;
}

async fn now_deep(session: &mut PgConnection) -> i64 {
    sqlx::query_scalar("select depth from tidegate.queue_counts() where queue = 'tx'").fetch_one(session).await.unwrap()
}

/// Leases go back as they came, whatever is in them.
async fn serve(session: &mut PgConnection, requests: i64) {
    let (leases, claimed): (Option<String>, i64) = sqlx::query_as(
        "select array_agg(c.lease)::text, count(*) from tidegate.claim_tx('tx', 'keeper', $1, interval '30 s') as c",
    )
    .bind(i32::try_from(requests).unwrap())
    .fetch_one(&mut *session)
    .await
    .unwrap();
    let Some(leases) = leases else { return };
    let moved: i64 = sqlx::query_scalar(
        "select count(*) from tidegate.settle(
           $1::tidegate.lease[], '{receipt}', responses => array_fill('true'::jsonb, array[$2::integer])
         )",
    )
    .bind(leases)
    .bind(i32::try_from(claimed).unwrap())
    .fetch_one(session)
    .await
    .unwrap();
    assert_eq!(moved, claimed);
    for _ in 0..moved {
        pc::hit();
    }
}
