//! A worker whose receipts have an effect in the database: each booking is to be made exactly once.

use std::{io::Write, time::Duration};

use serde_json::Value;
use sqlx::PgConnection;
use tidegate::{
    internals::{
        database::{self, PoolSettings},
        shutdown,
        store::Store,
        worker::{self, WorkerOptions},
    },
    request::{Request, RequestError},
    stage::{Effect, Found, JsonText, Receipt, Sent, Stages, Transact},
};

use crate::fleet::LEASE;

/// The options of a booker.
#[derive(Debug, clap::Args)]
pub struct Booker {
    /// What it is called
    #[arg(long)]
    name: String,
    /// Where the downstream is
    #[arg(long)]
    downstream: String,
    /// The database
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    database_url: String,
}

impl Booker {
    /// Works until `stop`.
    ///
    /// # Errors
    ///
    /// When there is no database at the start.
    pub async fn run(self) -> anyhow::Result<()> {
        let stop = shutdown::on_signal()?;
        let pool = database::connect(&self.database_url, &PoolSettings::default()).await?;
        let stage = Stage {
            client: reqwest::Client::builder().no_proxy().connect_timeout(Duration::from_secs(1)).build()?,
            downstream: self.downstream,
        };
        let options = WorkerOptions {
            name: self.name,
            queues: vec!["bookings".to_owned()],
            lease: LEASE,
            grace: Duration::from_secs(5),
            batch: 32,
            ..WorkerOptions::default()
        };
        let _ = writeln!(std::io::stdout(), "working");
        let stages =
            Stages::new().transact_with_effect("booking", stage.clone()).transact_with_effect("hedged_booking", stage);
        worker::run(Store::new(pool), stages, options, stop).await?;
        Ok(())
    }
}

#[derive(Clone)]
struct Stage {
    client: reqwest::Client,
    downstream: String,
}

impl Stage {
    async fn answer(&self, call: reqwest::RequestBuilder) -> Result<(u16, Value), RequestError> {
        let told = |error: reqwest::Error| {
            let code = if error.is_connect() { "connect" } else { "connection_lost" };
            RequestError::new(code, error.without_url().to_string(), true)
        };
        let answer = call.send().await.map_err(told)?;
        let status = answer.status().as_u16();
        Ok((status, answer.json().await.map_err(told)?))
    }
}

fn receipt(body: &Value) -> Receipt {
    Receipt { reference: None, response: body.get("response").cloned().map(JsonText::from) }
}

impl Transact for Stage {
    type Payload = JsonText;

    async fn send(&self, request: &Request) -> Sent {
        let payload: Value = serde_json::from_str(request.payload.get()).unwrap_or_default();
        assert!(payload.get("poison").is_none(), "a poison payload");
        let call = self
            .client
            .post(format!("{}/send/{}", self.downstream, request.kind))
            .header("Idempotency-Key", request.send_id.to_string())
            .json(&payload);
        match self.answer(call).await {
            Ok((200 | 202, body)) => Sent::Receipt(receipt(&body)),
            Ok((422, _)) => Sent::Rejected(RequestError::new("rejected", "no", false)),
            Ok((status, _)) => Sent::Retry {
                error: RequestError::new(format!("http_{status}"), "the downstream fails", true),
                after: None,
                may_have_left: true,
            },
            Err(error) => Sent::Retry { may_have_left: error.code != "connect", error, after: None },
        }
    }

    async fn find_receipt(&self, request: &Request) -> Result<Found, RequestError> {
        let url = format!("{}/receipt/{}/{}", self.downstream, request.kind, request.send_id);
        match self.answer(self.client.get(url)).await? {
            (200 | 202, body) => Ok(Found::Receipt(receipt(&body))),
            (404, _) => Ok(Found::Nothing),
            (status, _) => Err(RequestError::new(format!("http_{status}"), "the downstream fails", true)),
        }
    }
}

impl Effect for Stage {
    async fn write(&self, transaction: &mut PgConnection, request: &Request, _: &Receipt) -> Result<(), sqlx::Error> {
        sqlx::query("insert into public.booking (request_id) values ($1)")
            .bind(request.id.0)
            .execute(transaction)
            .await?;
        Ok(())
    }
}
