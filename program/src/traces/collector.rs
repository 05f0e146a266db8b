//! The connection to the collector.

use std::{
    env,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use anyhow::Context;
use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use tokio::runtime::Handle;

use crate::logs::with_causes;

/// The time limit of a call, if the environment has no other.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The variables with another one, in milliseconds; the first counts.
const TIMEOUTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"];

/// Calls the collector. The thread that exports has no runtime of its own, so the calls run in that of the program.
#[derive(Debug)]
pub(super) struct Collector {
    client: reqwest::Client,
    runtime: Handle,
    /// Whether the last call has failed: that is logged once.
    is_failing: AtomicBool,
}

impl Collector {
    /// For callers within a runtime.
    pub(super) fn new() -> anyhow::Result<Self> {
        let timeout = TIMEOUTS.into_iter().find_map(|name| env::var(name).ok()?.parse().ok());
        let client = reqwest::Client::builder()
            .user_agent(concat!("tidegate/", env!("CARGO_PKG_VERSION")))
            .timeout(timeout.map_or(TIMEOUT, Duration::from_millis))
            .no_proxy()
            .build()
            .context("cannot create the HTTP client of the exporter of traces")?;
        Ok(Self { client, runtime: Handle::current(), is_failing: AtomicBool::new(false) })
    }

    /// Logs a failure when it begins and when it ends.
    fn note(&self, failure: Option<&str>) {
        match (self.is_failing.swap(failure.is_some(), Ordering::Relaxed), failure) {
            (false, Some(error)) => tracing::warn!(error, "cannot export traces"),
            (true, None) => tracing::info!("traces are exported again"),
            _ => {}
        }
    }
}

#[async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        let calling = self.runtime.spawn(async move {
            let response = client.execute(request.try_into()?).await?;
            let (status, headers) = (response.status(), response.headers().clone());
            let mut answer = Response::new(response.bytes().await?);
            (*answer.status_mut(), *answer.headers_mut()) = (status, headers);
            Ok::<_, reqwest::Error>(answer)
        });
        let answer = calling.await.map_err(HttpError::from).and_then(|answer| answer.map_err(HttpError::from));
        match &answer {
            Ok(answer) if answer.status().is_success() => self.note(None),
            Ok(answer) => self.note(Some(&format!("the collector answered {}", answer.status()))),
            Err(error) => self.note(Some(&with_causes(&**error))),
        }
        answer
    }
}
