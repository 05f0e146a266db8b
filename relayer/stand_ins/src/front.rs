//! One address for several nodes, as a load balancer gives it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::{CONNECTION, TRANSFER_ENCODING};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use tokio::net::TcpSocket;
use tokio::task::JoinHandle;
use url::Url;

/// The longest body that the relayer takes.
const BODY_MAX: usize = 2 << 20;

/// Forwards calls in turn, until it is dropped. A call that a node does not answer goes to the next one: the relayer finds
/// the duplicate of a request that it has taken already.
#[derive(Debug)]
pub struct Front {
    url: Url,
    task: JoinHandle<()>,
}

struct Nodes {
    urls: Vec<Url>,
    next: AtomicUsize,
    client: reqwest::Client,
}

impl Front {
    /// Starts in front of nodes.
    ///
    /// # Errors
    ///
    /// When no port is free.
    pub async fn start(nodes: Vec<Url>) -> anyhow::Result<Front> {
        let socket = TcpSocket::new_v4()?;
        socket.bind("127.0.0.1:0".parse()?)?;
        // The system resets the connections of a burst beyond it.
        let listener = socket.listen(4096)?;
        let url = Url::parse(&format!("http://{}", listener.local_addr()?))?;
        let nodes = Arc::new(Nodes {
            urls: nodes,
            next: AtomicUsize::new(0),
            client: reqwest::Client::builder().no_proxy().build()?,
        });
        let router = axum::Router::new().fallback(forward).with_state(nodes);
        let task = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                tracing::warn!("the front has ended: {error}");
            }
        });
        Ok(Front { url, task })
    }

    /// Its address.
    pub fn url(&self) -> &Url {
        &self.url
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn forward(State(nodes): State<Arc<Nodes>>, request: Request) -> Response {
    let (mut head, body) = request.into_parts();
    remove_framing(&mut head.headers);
    let Ok(body) = to_bytes(body, BODY_MAX).await else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    let first = nodes.next.fetch_add(1, Ordering::Relaxed) % nodes.urls.len();
    let (last, turn) = nodes.urls.split_at(first);
    let mut errors = String::new();
    for node in turn.iter().chain(last) {
        let Ok(url) = node.join(path) else { continue };
        let call = nodes.client.request(head.method.clone(), url);
        let call = call.headers(head.headers.clone()).body(body.clone());
        match answer(call).await {
            Ok(response) => return response,
            Err(error) => errors += &format!("{:#}\n", anyhow::Error::new(error)),
        }
    }
    (StatusCode::BAD_GATEWAY, errors).into_response()
}

/// The whole answer of a node.
async fn answer(call: reqwest::RequestBuilder) -> reqwest::Result<Response> {
    let answer = call.send().await?;
    let mut response = Response::new(Body::empty());
    *response.status_mut() = answer.status();
    *response.headers_mut() = answer.headers().clone();
    remove_framing(response.headers_mut());
    *response.body_mut() = answer.bytes().await?.into();
    Ok(response)
}

/// The bodies are whole, whatever they came in.
fn remove_framing(headers: &mut HeaderMap) {
    headers.remove(TRANSFER_ENCODING);
    headers.remove(CONNECTION);
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::routing::post;
    use tokio::net::TcpListener;

    use super::*;

    async fn node(name: &'static str) -> (Url, JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let router = Router::new().route("/v2/{path}", post(async move |body: String| format!("{name} {body}")));
        (url, tokio::spawn(async move { axum::serve(listener, router).await.unwrap() }))
    }

    #[tokio::test]
    async fn calls_go_to_the_nodes_that_are_there() {
        let (first, killed) = node("first").await;
        let (second, _second) = node("second").await;
        let front = Front::start(vec![first, second]).await.unwrap();
        let call = async || {
            let url = front.url().join("/v2/x").unwrap();
            let answer = reqwest::Client::new().post(url).body("body").send().await.unwrap();
            answer.text().await.unwrap()
        };
        assert_eq!([call().await, call().await], ["first body", "second body"]);
        killed.abort();
        assert!(killed.await.unwrap_err().is_cancelled());
        assert_eq!([call().await, call().await], ["second body", "second body"]);
    }
}
