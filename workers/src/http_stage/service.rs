//! One call to the service, in phases: connect, first byte, body.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use chrono::{SecondsFormat, Utc};
use reqwest::{
    Client, Method, Proxy, Response, StatusCode, Url,
    header::{CONTENT_TYPE, HeaderMap},
    redirect,
};
use tidegate::{
    internals::traces::{TRACEPARENT, valid_traceparent},
    request::{Phases, Request},
};
use tokio::time::timeout;

use super::{
    HttpOptions, UrlTemplate,
    answer::{Answer, Limit, Unread},
    error::HttpStageError,
    header_map,
};

/// The longest body of an error that is read.
const LONGEST_EXPLANATION: usize = 64 << 10;

/// Many servers close a connection that was idle for five seconds. A send that meets the closing may have left or
/// not, so connections are closed here before.
const IDLE: Duration = Duration::from_secs(4);

/// How many connect timeouts besides the usual one have connections of their own.
const MOST_CLIENTS: usize = 8;

/// The limits on the parts of a call that have one.
#[derive(Clone, Copy)]
struct Limits {
    connect: Limit,
    first_byte: Option<Limit>,
    body: Option<Limit>,
}

impl Limits {
    fn of_options(options: &HttpOptions) -> Self {
        let limit = |time, name| Limit { time, name };
        Self {
            connect: limit(options.connect_timeout, "--connect-timeout"),
            first_byte: options.first_byte_timeout.map(|time| limit(time, "--first-byte-timeout")),
            body: options.body_timeout.map(|time| limit(time, "--body-timeout")),
        }
    }

    fn of_policy(phases: Phases) -> Self {
        let limit = |time, name| Limit { time, name };
        Self {
            connect: limit(phases.connect, "connect_ms"),
            first_byte: Some(limit(phases.first_byte, "first_byte_ms")),
            body: Some(limit(phases.body, "body_ms")),
        }
    }
}

/// A future within a limit, if there is one, or that limit. Before the limited part it may take the time `before`.
async fn within<F: Future>(limit: Option<Limit>, before: Duration, future: F) -> Result<F::Output, Limit> {
    let Some(limit) = limit else {
        return Ok(future.await);
    };
    let time = before.saturating_add(limit.time);
    timeout(time, future).await.map_err(|_| limit)
}

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoAnswer {
    /// No connection: nothing of the request has left. Perhaps none within this limit.
    NotConnected(Option<Limit>),
    /// The answer did not begin in time.
    TooSlow(Limit),
    /// The connection broke before the answer began.
    Broken,
}

/// The service, and the connections to it, which calls share.
pub(super) struct Service {
    headers: HeaderMap,
    proxy: Option<Proxy>,
    /// Those of kinds whose policy has none.
    limits: Limits,
    /// The usual client, and those with other connect timeouts: a client's connect timeout applies to all its
    /// connections.
    clients: Mutex<Vec<(Duration, Client)>>,
    longest_body: usize,
    /// The answers that were logged as unexpected, by kind and status, but for a credential that was accepted again.
    unexpected: Mutex<BTreeSet<(String, StatusCode)>>,
}

impl Service {
    pub(super) fn new(options: &HttpOptions) -> Result<Self, HttpStageError> {
        let headers = header_map(&options.headers)?;
        let proxy = options.proxy.clone();
        let usual = client(&headers, proxy.as_ref(), options.connect_timeout).map_err(HttpStageError::Client)?;
        Ok(Self {
            clients: Mutex::new(vec![(options.connect_timeout, usual)]),
            headers,
            proxy,
            unexpected: Mutex::default(),
            limits: Limits::of_options(options),
            longest_body: options.max_response_bytes,
        })
    }

    /// The client whose connections may take this long to be made.
    fn client(&self, connect: Duration) -> Client {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, client)) = clients.iter().find(|(other, _)| *other == connect) {
            return client.clone();
        }
        // It cannot fail here: a client with the same headers was made at the start.
        let Ok(client) = client(&self.headers, self.proxy.as_ref(), connect) else {
            return clients[0].1.clone();
        };
        if clients.len() > MOST_CLIENTS {
            clients.remove(1);
        }
        clients.push((connect, client.clone()));
        client
    }

    /// Calls `url` about `request`: a `POST` carries the payload.
    pub(super) async fn call(&self, method: Method, url: &UrlTemplate, request: &Request) -> Result<Answer, NoAnswer> {
        let id = request.send_id.to_string();
        let url = url.fill(&request.kind, &id).map_err(|error| {
            tracing::error!(request = id, kind = request.kind, %error, "the URL cannot be filled");
            NoAnswer::NotConnected(None)
        })?;
        self.call_at(method, url, request).await
    }

    /// As [`call`](Self::call), at a URL without placeholders.
    pub(super) async fn call_at(&self, method: Method, url: Url, request: &Request) -> Result<Answer, NoAnswer> {
        let id = request.send_id.to_string();
        let limits = request.phases.map_or(self.limits, Limits::of_policy);
        let mut call = self
            .client(limits.connect.time)
            .request(method.clone(), url)
            .header("idempotency-key", &id)
            .header("tidegate-job", request.id.to_string())
            .header("tidegate-kind", &request.kind)
            .header("tidegate-attempt", request.attempt)
            .header("tidegate-began-at", Utc::now().to_rfc3339_opts(SecondsFormat::Micros, true));
        if let Some(traceparent) = request.traceparent.as_deref().and_then(valid_traceparent) {
            call = call.header(TRACEPARENT, traceparent);
        }
        if method == Method::POST {
            call = call.header(CONTENT_TYPE, "application/json").body(request.payload.get().to_owned());
        }

        // The client limits the connect phase but does not report its end, so the first byte has the time of both
        // phases.
        match within(limits.first_byte, limits.connect.time, call.send()).await {
            Ok(Ok(response)) => Ok(self.read(response, request, limits.body).await),
            Ok(Err(error)) => {
                // An error of a connect timeout is a connect error, too.
                let not_connected = error.is_connect();
                let was_slow = error.is_timeout().then_some(limits.connect);
                let error = error.without_url();
                tracing::debug!(request = id, kind = request.kind, ?error, not_connected, "no answer");
                Err(if not_connected { NoAnswer::NotConnected(was_slow) } else { NoAnswer::Broken })
            }
            Err(limit) => Err(NoAnswer::TooSlow(limit)),
        }
    }

    /// Says once for each kind that a status is most often a mistake in the configuration rather than in the request,
    /// and that a credential is refused until it is accepted again.
    fn note(&self, status: StatusCode, request: &Request) {
        let kind = &request.kind;
        let mut unexpected = self.unexpected.lock().unwrap_or_else(PoisonError::into_inner);
        if is_of_credential(status) {
            if unexpected.insert((kind.clone(), status)) {
                tracing::warn!(
                    request = %request.id,
                    kind,
                    %status,
                    "the service refuses the credential of this worker: requests of the kind wait, if its retry_on \
                     lists unauthorized; renew the header, and start the worker again"
                );
            }
        } else if matches!(status.as_u16(), 300..=399 | 405) {
            if unexpected.insert((kind.clone(), status)) {
                tracing::warn!(request = %request.id, kind, %status, "unexpected answer");
            }
        } else if status.is_success() {
            let before = unexpected.len();
            unexpected.retain(|(of, status)| of != kind || !is_of_credential(*status));
            if unexpected.len() < before {
                tracing::info!(kind, "the service accepts the credential again");
            }
        }
    }

    async fn read(&self, mut response: Response, request: &Request, limit: Option<Limit>) -> Answer {
        let status = response.status();
        let headers = std::mem::take(response.headers_mut());
        self.note(status, request);
        let longest = if status.is_success() { self.longest_body } else { self.longest_body.min(LONGEST_EXPLANATION) };
        // Read to its end even when it is not used: only then can the connection be used again.
        let read = within(limit, Duration::ZERO, read_body(&mut response, longest)).await;
        let body = read.unwrap_or_else(|limit| Err(Unread::TooSlow(limit)));
        Answer { status, headers, body }
    }
}

/// Whether the status refuses the credential of the call, not the request: it may be renewed. The policy decides.
pub(super) fn is_of_credential(status: StatusCode) -> bool {
    matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
}

/// A client that calls the URLs of the options, and through no proxy of the environment.
fn client(headers: &HeaderMap, proxy: Option<&Proxy>, connect: Duration) -> Result<Client, reqwest::Error> {
    let builder = match proxy {
        None => Client::builder().no_proxy(),
        Some(proxy) => Client::builder().proxy(proxy.clone()),
    };
    builder
        .user_agent(concat!("tidegate-worker/", env!("CARGO_PKG_VERSION")))
        .default_headers(headers.clone())
        .redirect(redirect::Policy::none())
        .connect_timeout(connect)
        .pool_idle_timeout(IDLE)
        .build()
}

async fn read_body(response: &mut Response, longest: usize) -> Result<Vec<u8>, Unread> {
    if response.content_length().is_some_and(|length| length > longest as u64) {
        return Err(Unread::TooLong(longest));
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|_| Unread::BrokeOff)? {
        if body.len() + chunk.len() > longest {
            return Err(Unread::TooLong(longest));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}
