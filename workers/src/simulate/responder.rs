//! How responses are delivered to the relay.

use std::{pin::Pin, time::Duration};

use reqwest::{Url, header::HeaderMap, redirect};
use serde_json::Value;
use tidegate::internals::store::{Response, Store};
use tidegate_node::webhook::retry_after;

/// Why a response was not delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotDelivered {
    /// Another attempt may succeed.
    Retry {
        /// The error.
        why: String,
        /// The relay's Retry-After.
        after: Option<Duration>,
    },
    /// The relay refused it.
    Refused(String),
}

/// A delivery under way. It returns the relay's outcome, such as `early`; empty when that is unknown.
pub type Delivery<'a> = Pin<Box<dyn Future<Output = Result<String, NotDelivered>> + Send + 'a>>;

/// Brings responses to the relay.
pub trait Responder: Send + Sync + 'static {
    /// Delivers one response, once. The simulated downstream repeats a delivery that may succeed later.
    fn respond<'a>(&'a self, response: &'a Response) -> Delivery<'a>;

    /// How many deliveries may run at once.
    fn at_once(&self) -> usize;
}

/// Delivers through the database, for a downstream in the worker's own process.
#[derive(Debug, Clone)]
pub struct StoreResponder(pub Store);

impl StoreResponder {
    /// How many deliveries run at once, each on a connection of the store's pool.
    pub const AT_ONCE: usize = 4;
}

impl Responder for StoreResponder {
    fn respond<'a>(&'a self, response: &'a Response) -> Delivery<'a> {
        Box::pin(async move {
            match self.0.respond(response).await {
                Ok(responded) => Ok(responded.outcome),
                Err(error) if error.is_transient() => Err(NotDelivered::Retry { why: error.to_string(), after: None }),
                Err(error) => Err(NotDelivered::Refused(error.to_string())),
            }
        })
    }

    fn at_once(&self) -> usize {
        Self::AT_ONCE
    }
}

/// Delivers with `POST` requests to the relay's `/v1/responses`.
#[derive(Debug, Clone)]
pub struct CallbackResponder {
    client: reqwest::Client,
    url: Url,
}

impl CallbackResponder {
    /// Delivers to `url`, or to `/v1/responses` of it when it names no path, with `headers` on every request.
    ///
    /// # Errors
    ///
    /// When the machine cannot make an HTTP client, for example because it has no certificates.
    pub fn new(mut url: Url, headers: HeaderMap) -> Result<Self, reqwest::Error> {
        if url.path() == "/" {
            url.set_path("/v1/responses");
        }
        let client = reqwest::Client::builder()
            .default_headers(headers)
            .no_proxy()
            .redirect(redirect::Policy::none())
            .connect_timeout(Duration::from_secs(2))
            .timeout(Duration::from_secs(10))
            .build()?;
        Ok(Self { client, url })
    }

    async fn post(&self, response: &Response) -> Result<String, NotDelivered> {
        let call = self.client.post(self.url.clone()).json(response);
        let answer = call
            .send()
            .await
            .map_err(|error| NotDelivered::Retry { why: error.without_url().to_string(), after: None })?;
        let status = answer.status();
        let why = format!("the relay answered {status}");
        if status.is_success() {
            // The outcome in the body is for the statistics only.
            let body: Value = answer.json().await.unwrap_or_default();
            Ok(body["outcome"].as_str().unwrap_or_default().to_owned())
        } else if status.is_server_error() || matches!(status.as_u16(), 408 | 425 | 429) {
            let after = retry_after(answer.headers());
            Err(NotDelivered::Retry { why, after })
        } else {
            Err(NotDelivered::Refused(why))
        }
    }
}

impl Responder for CallbackResponder {
    fn respond<'a>(&'a self, response: &'a Response) -> Delivery<'a> {
        Box::pin(self.post(response))
    }

    fn at_once(&self) -> usize {
        64
    }
}
