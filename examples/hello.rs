//! Submits a salary, sends it with a stage, and waits for its response.

use std::{env, time::Duration};

use serde::{Deserialize, Serialize};
use tidegate::{Kind, Stages, Submitted, Tidegate, request::Request, stage::Sent};

#[derive(Serialize, Deserialize)]
struct Salary {
    to: String,
    cents: u64,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let tidegate = Tidegate::connect(&env::var("DATABASE_URL")?).await?;
    tidegate.migrate().await?;
    tidegate.register(Kind::direct("salary").rate(20)).await?;

    let stages = Stages::new().send("salary", |request: Request<Salary>| async move {
        // Call the downstream here, with `request.send_id` as its idempotency key.
        let Salary { to, cents } = request.payload;
        Sent::response(format!("paid {cents} cents to {to}"))
    });
    let worker = tidegate.worker(stages).start().await?;

    let (to, cents) = ("Ann".to_owned(), 700);
    let salary = Salary { to, cents };
    match tidegate.submit("salary", &salary).key("invoice 42").await? {
        Submitted::Accepted(ticket) | Submitted::Replayed(ticket) => {
            let ended = tidegate.wait(ticket.id, Duration::from_secs(30)).await?;
            println!("{}", ended.response::<String>()?);
        }
        Submitted::Refused { retry_after } => println!("submit again in {} s", retry_after.as_secs()),
    }
    Ok(worker.stop().await?)
}
