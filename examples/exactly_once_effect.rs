//! Books each amount exactly once, in the transaction that stores its receipt, although a send may be repeated.

use std::{env, time::Duration};

use serde::{Deserialize, Serialize};
use sqlx::{Executor, PgConnection};
use tidegate::{
    Kind, Stages, Submitted, Tidegate,
    request::Request,
    stage::{Effect, Receipt, Sent, Transact},
};

#[derive(Serialize, Deserialize)]
struct Booking {
    cents: i64,
}

struct Ledger;

impl Transact for Ledger {
    type Payload = Booking;

    async fn send(&self, request: &Request<Booking>) -> Sent {
        if request.attempt == 1 {
            return Sent::retry("timeout", "no answer: it may have arrived");
        }
        Sent::response("booked")
    }
}

impl Effect for Ledger {
    async fn write(
        &self,
        transaction: &mut PgConnection,
        request: &Request<Booking>,
        _: &Receipt,
    ) -> Result<(), sqlx::Error> {
        sqlx::query("insert into public.ledger (cents) values ($1)")
            .bind(request.payload.cents)
            .execute(transaction)
            .await?;
        Ok(())
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let tidegate = Tidegate::connect(&env::var("DATABASE_URL")?).await?;
    tidegate.migrate().await?;
    tidegate.register(Kind::direct("booking")).await?;
    // A worker whose stage for this kind has no effect does not start.
    tidegate.store().config_set("booking.tx.semantics", "exactly_once").await?;
    let pool = tidegate.store().pool();
    pool.execute("create table if not exists public.ledger (cents bigint not null)").await?;

    let stages = Stages::new().transact_with_effect("booking", Ledger);
    let worker = tidegate.worker(stages).start().await?;
    for cents in [100, 250, 400] {
        let Submitted::Accepted(ticket) = tidegate.submit("booking", &Booking { cents }).await? else {
            anyhow::bail!("refused");
        };
        println!("{cents}: {}", tidegate.wait(ticket.id, Duration::from_secs(60)).await?.status);
    }
    let (rows, cents): (i64, i64) =
        sqlx::query_as("select count(*), sum(cents)::bigint from public.ledger").fetch_one(pool).await?;
    println!("{rows} rows, {cents} cents");
    Ok(worker.stop().await?)
}
