//! Checks that a report's data are there before the report is sent: until then, each check snoozes it.

use std::{env, time::Duration};

use tidegate::{
    Kind, Stages, Submitted, Tidegate,
    request::Request,
    stage::{Check, Readiness, Sent},
};

struct DataAreThere;

impl Readiness for DataAreThere {
    type Payload = String;

    async fn check(&self, request: &Request<String>) -> Check {
        println!("check {} of {}", request.attempt, request.payload);
        // Ask the source of the data here.
        if request.attempt < 3 {
            let after = Some(Duration::from_millis(50));
            return Check::Snooze { after };
        }
        Check::Ready
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let tidegate = Tidegate::connect(&env::var("DATABASE_URL")?).await?;
    tidegate.migrate().await?;
    // At most ten checks at once, and two sends per second, in the whole fleet.
    tidegate.register(Kind::decrypt("report").concurrency(10).rate(2)).await?;

    let stages =
        Stages::new().readiness("report", DataAreThere).send("report", |request: Request<String>| async move {
            println!("sent {}", request.payload);
            Sent::receipt(format!("print job of {}", request.id))
        });
    let worker = tidegate.worker(stages).start().await?;

    let Submitted::Accepted(ticket) = tidegate.submit("report", &"May").await? else {
        anyhow::bail!("refused");
    };
    // The response may come before the receipt: it is kept until then.
    let reference = format!("print job of {}", ticket.id);
    tidegate.respond(reference.as_str(), &"12 pages").await?;
    let ended = tidegate.wait(ticket.id, Duration::from_secs(30)).await?;
    println!("{}: {}", ended.status, ended.response::<String>()?);
    Ok(worker.stop().await?)
}
