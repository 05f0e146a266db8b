//! A receiver of webhooks that often fails: it answers with an error, or too late, and refuses a few permanently.

use std::{
    fs::{File, OpenOptions},
    io::Write,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{
    Router,
    extract::State,
    http::{HeaderMap, StatusCode, header::RETRY_AFTER},
    response::{IntoResponse, Response},
    routing::post,
};
use serde::{Deserialize, Serialize};
use tidegate::internals::shutdown;
use tokio::{net::TcpListener, time::sleep};

use crate::journal::now_us;

/// A late answer comes after this time, in which its caller has given up.
const LATE: Duration = Duration::from_secs(2);

/// The options of a receiver.
#[derive(Debug, clap::Args)]
pub struct Receiver {
    /// Where it listens
    #[arg(long)]
    listen: SocketAddr,
    /// Where it writes a line of JSON for each delivery, before it answers
    #[arg(long)]
    event_log: PathBuf,
}

/// A delivery as it arrived.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Arrival {
    /// When, in microseconds of Unix time.
    pub at_us: i64,
    /// `webhook-id`.
    pub delivery: String,
    /// `Tidegate-Attempt`.
    pub attempt: String,
    /// `webhook-timestamp`.
    pub second: String,
    /// `webhook-signature`.
    pub signature: String,
    /// The body.
    pub body: String,
    /// How it was answered, or would have been.
    pub answer: Answer,
}

/// An answer of the receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// 204.
    Accepted,
    /// 204, after the caller has given up; or nearly so.
    Late,
    /// 500.
    Failed,
    /// 429 with `Retry-After`.
    Busy,
    /// 410: no other attempt may follow.
    Gone,
}

impl Receiver {
    /// Receives until it is stopped.
    ///
    /// # Errors
    ///
    /// When it cannot listen, or not write its log.
    pub async fn run(self) -> anyhow::Result<()> {
        let stop = shutdown::on_signal()?;
        let log = OpenOptions::new().append(true).create(true).open(&self.event_log)?;
        let listener = TcpListener::bind(self.listen).await?;
        let _ = writeln!(std::io::stdout(), "listening on http://{}", listener.local_addr()?);
        let router = Router::new().route("/{name}", post(receive)).with_state(Arc::new(Mutex::new(log)));
        axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned()).await?;
        Ok(())
    }
}

async fn receive(State(log): State<Arc<Mutex<File>>>, headers: HeaderMap, body: String) -> Response {
    let text = |name: &str| {
        let value = headers.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().to_owned()
    };
    let answer = match rand::random_range(0..1000) {
        0..60 => Answer::Failed,
        60..80 => Answer::Busy,
        80..110 => Answer::Late,
        110..115 => Answer::Gone,
        _ => Answer::Accepted,
    };
    let arrival = Arrival {
        at_us: now_us(),
        delivery: text("webhook-id"),
        attempt: text("tidegate-attempt"),
        second: text("webhook-timestamp"),
        signature: text("webhook-signature"),
        body,
        answer,
    };
    let mut line = serde_json::to_vec(&arrival).unwrap_or_default();
    line.push(b'\n');
    // An answer promises that the line is there.
    if log.lock().unwrap_or_else(PoisonError::into_inner).write_all(&line).is_err() {
        return StatusCode::INSUFFICIENT_STORAGE.into_response();
    }
    match answer {
        Answer::Accepted => StatusCode::NO_CONTENT.into_response(),
        Answer::Late => {
            sleep(LATE).await;
            StatusCode::NO_CONTENT.into_response()
        }
        Answer::Failed => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        Answer::Busy => (StatusCode::TOO_MANY_REQUESTS, [(RETRY_AFTER, "1")]).into_response(),
        Answer::Gone => StatusCode::GONE.into_response(),
    }
}
