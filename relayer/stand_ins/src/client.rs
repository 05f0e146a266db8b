//! A caller of the relayer that follows the rules of the published SDK.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use reqwest::{Response, StatusCode};
use serde_json::Value;
use url::Url;

/// How long the SDK waits when an answer names no time.
const WAIT: Duration = Duration::from_millis(2500);

/// Calls one relayer.
#[derive(Clone, Debug)]
pub struct Client {
    base: Url,
    http: reqwest::Client,
}

/// How a request ended.
#[derive(Clone, Debug)]
pub enum Ended {
    /// It has succeeded, with this result.
    Succeeded(Value),
    /// It has failed, with this label.
    Failed(String),
}

/// What a call for a request came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The job that answered.
    pub job: String,
    /// How it ended.
    pub ended: Ended,
    /// From the first call to the last answer.
    pub took: Duration,
}

impl Client {
    /// A caller of the relayer at a URL.
    ///
    /// # Errors
    ///
    /// When the HTTP client cannot be made.
    pub fn new(base: Url) -> anyhow::Result<Client> {
        let http = reqwest::Client::builder().no_proxy().build()?;
        Ok(Client { base, http })
    }

    /// Submits a request to a path such as `v2/input-proof`, and polls until it has ended.
    ///
    /// # Errors
    ///
    /// When the SDK would give up: on an answer that it does not know, or none.
    pub async fn run(&self, path: &str, body: &Value) -> anyhow::Result<Outcome> {
        let begun = Instant::now();
        let url = self.base.join(path)?;
        let accepted: Value = loop {
            let answer = self.http.post(url.clone()).json(body).send().await?;
            match answer.status() {
                StatusCode::ACCEPTED => {
                    let wait = wait(&answer);
                    let body = answer.json().await?;
                    tokio::time::sleep(wait).await;
                    break body;
                }
                StatusCode::TOO_MANY_REQUESTS => tokio::time::sleep(wait(&answer)).await,
                _ => bail!("POST {path}: {}", described(answer).await),
            }
        };
        let job = accepted["result"]["jobId"].as_str().context("a 202 without a job id")?.to_owned();
        loop {
            let answer = self.http.get(format!("{url}/{job}")).send().await?;
            let ended = match answer.status() {
                StatusCode::ACCEPTED => {
                    tokio::time::sleep(wait(&answer)).await;
                    continue;
                }
                StatusCode::OK => Ended::Succeeded(answer.json::<Value>().await?["result"].take()),
                StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND => Ended::Failed(label(answer).await?),
                StatusCode::INTERNAL_SERVER_ERROR | StatusCode::SERVICE_UNAVAILABLE => {
                    Ended::Failed(label(answer).await?)
                }
                _ => bail!("GET {path}/{job}: {}", described(answer).await),
            };
            return Ok(Outcome { job, ended, took: begun.elapsed() });
        }
    }
}

async fn label(answer: Response) -> anyhow::Result<String> {
    let body: Value = answer.json().await?;
    Ok(body["error"]["label"].as_str().context("a failure without a label")?.to_owned())
}

async fn described(answer: Response) -> String {
    format!("{}: {}", answer.status(), answer.text().await.unwrap_or_default())
}

fn wait(answer: &Response) -> Duration {
    let header = answer.headers().get("retry-after").and_then(|value| value.to_str().ok());
    let seconds = header.and_then(|value| value.parse::<u64>().ok());
    seconds.map_or(WAIT, |seconds| Duration::from_secs(seconds.max(1)))
}
