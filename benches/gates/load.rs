//! The load on a node: as many requests as it answers, over connections that stay open, one after the other on each. It has a
//! minimal HTTP client, to leave the processor to the node.

use std::{collections::BTreeMap, net::SocketAddr, process::Stdio, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    process::Command,
    sync::Barrier,
    task::JoinSet,
    time::Instant,
};

/// Argument that makes this program the load.
pub(crate) const COMMAND: &str = "load";

/// Argument that makes this program a server that answers each request with the same 429, to find the load's own limit.
pub(crate) const NOTHING_COMMAND: &str = "answer-nothing";

/// About the answer of a node to a refused submission.
const ANSWER: &str = "HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/problem+json\r\nretry-after: 10\r\n\
    ratelimit-policy: \"tx\";q=2000;w=67\r\nratelimit: \"tx\";r=0;t=10\r\ncontent-length: 149\r\n\
    date: Fri, 20 Nov 2026 17:00:00 GMT\r\n\r\n";

#[derive(Serialize, Deserialize)]
pub(crate) struct Load {
    pub(crate) address: SocketAddr,
    pub(crate) connections: usize,
    pub(crate) seconds: f64,
    pub(crate) call: Call,
    /// The API keys, which the connections use in turn.
    pub(crate) api_keys: Vec<String>,
}

/// The call that each connection makes again and again.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) enum Call {
    Submit,
    /// With a new idempotency key each time.
    SubmitKeyed,
    /// For a request of the connection's own that waits.
    Poll,
    /// For one that has ended: it was cancelled.
    PollEnded,
}

#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// Answers by status.
    pub(crate) statuses: BTreeMap<u16, u64>,
    pub(crate) per_second: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
}

impl Load {
    /// Runs the load in a process of its own.
    pub(crate) async fn put(&self) -> Outcome {
        let output = Command::new(std::env::current_exe().unwrap())
            .args([COMMAND, &serde_json::to_string(self).unwrap()])
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .output()
            .await
            .unwrap();
        assert!(output.status.success(), "the load broke off");
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

/// Runs the load that the argument describes in JSON, and prints the outcome as JSON.
pub(crate) async fn run(load: &str) {
    let load: Load = serde_json::from_str(load).unwrap();
    let barrier = Arc::new(Barrier::new(load.connections));
    let time = Duration::from_secs_f64(load.seconds);
    let mut connections = JoinSet::new();
    for number in 0..load.connections {
        let barrier = Arc::clone(&barrier);
        let (address, call) = (load.address, load.call);
        let api_key = load.api_keys[number % load.api_keys.len()].clone();
        connections.spawn(async move {
            let mut connection = Connection::to(address, api_key).await;
            let request = match call {
                Call::Submit | Call::SubmitKeyed => String::new(),
                Call::Poll | Call::PollEnded => connection.submitted().await,
            };
            if call == Call::PollEnded {
                connection.ask("DELETE", &request).await;
            }
            barrier.wait().await;
            let (begun, mut seen) = (Instant::now(), Vec::new());
            while begun.elapsed() < time {
                let asked = Instant::now();
                let status = match call {
                    Call::Submit => connection.submit(None).await,
                    Call::SubmitKeyed => {
                        let key = format!("{}-{number}-{}", std::process::id(), seen.len());
                        connection.submit(Some(&key)).await
                    }
                    Call::Poll | Call::PollEnded => connection.ask("GET", &request).await,
                };
                seen.push((status, asked.elapsed()));
            }
            (begun, Instant::now(), seen)
        });
    }
    let all = connections.join_all().await;

    let begun = all.iter().map(|(begun, ..)| *begun).min().unwrap();
    let ended = all.iter().map(|(_, ended, _)| *ended).max().unwrap();
    let mut outcome = Outcome::default();
    let mut times = Vec::new();
    for (status, time) in all.iter().flat_map(|(.., seen)| seen) {
        *outcome.statuses.entry(*status).or_default() += 1;
        times.push(time.as_secs_f64() * 1000.0);
    }
    times.sort_by(f64::total_cmp);
    let count = u32::try_from(times.len()).unwrap();
    outcome.per_second = f64::from(count) / (ended - begun).as_secs_f64();
    outcome.p50_ms = times[(times.len() - 1) / 2];
    outcome.p99_ms = times[(times.len() - 1) * 99 / 100];
    println!("{}", serde_json::to_string(&outcome).unwrap());
}

/// A connection that stays open.
pub(crate) struct Connection {
    stream: TcpStream,
    api_key: String,
    received: Vec<u8>,
    sent: Vec<u8>,
}

impl Connection {
    pub(crate) async fn to(address: SocketAddr, api_key: String) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, api_key, received: Vec::with_capacity(4096), sent: Vec::with_capacity(512) }
    }

    /// Submits a `direct` request; returns the status of the answer.
    pub(crate) async fn submit(&mut self, key: Option<&str>) -> u16 {
        self.sent.clear();
        self.sent.extend_from_slice(
            b"POST /v1/direct HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n",
        );
        self.sent.extend_from_slice(format!("Authorization: Bearer {}\r\n", self.api_key).as_bytes());
        if let Some(key) = key {
            self.sent.extend_from_slice(format!("Idempotency-Key: {key}\r\n").as_bytes());
        }
        self.sent.extend_from_slice(b"\r\n{\"to\":\"");
        self.sent.extend_from_slice(&[b'x'; 91]);
        self.sent.extend_from_slice(b"\"}");
        self.answer().await
    }

    /// Submits a request; returns its path.
    async fn submitted(&mut self) -> String {
        self.submit(None).await;
        header(&self.received, "location").expect("it was accepted").to_owned()
    }

    /// Calls a request's path; returns the status of the answer.
    async fn ask(&mut self, method: &str, path: &str) -> u16 {
        self.sent.clear();
        let head =
            format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\r\n", self.api_key);
        self.sent.extend_from_slice(head.as_bytes());
        self.answer().await
    }

    async fn answer(&mut self) -> u16 {
        self.stream.write_all(&self.sent).await.unwrap();
        self.received.clear();
        let head = self.receive(end_of_head).await;
        let length = head + content_length(&self.received[..head]);
        self.receive(|received| (received.len() >= length).then_some(length)).await;
        assert_eq!(self.received.len(), length, "more than one answer");
        let status = std::str::from_utf8(&self.received[9..12]).unwrap();
        status.parse().unwrap()
    }

    async fn receive(&mut self, complete: impl Fn(&[u8]) -> Option<usize>) -> usize {
        loop {
            if let Some(length) = complete(&self.received) {
                return length;
            }
            let read = self.stream.read_buf(&mut self.received).await.unwrap();
            assert!(read > 0, "the connection was closed");
        }
    }
}

fn end_of_head(received: &[u8]) -> Option<usize> {
    let end = received.windows(4).position(|four| four == b"\r\n\r\n");
    end.map(|at| at + 4)
}

fn content_length(head: &[u8]) -> usize {
    header(head, "content-length").unwrap().parse().unwrap()
}

fn header<'a>(head: &'a [u8], wanted: &str) -> Option<&'a str> {
    let head = std::str::from_utf8(head).unwrap();
    head.lines()
        .filter_map(|line| line.split_once(": "))
        .find(|(name, _)| name.eq_ignore_ascii_case(wanted))
        .map(|(_, value)| value)
}

/// Prints its address, and answers one request after the other.
pub(crate) async fn serve_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("listening on http://{}", listener.local_addr().unwrap());
    let mut answer = ANSWER.as_bytes().to_vec();
    answer.extend_from_slice(&[b'x'; 149]);
    let answer: Arc<[u8]> = answer.into();
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let answer = Arc::clone(&answer);
        tokio::spawn(async move {
            let mut received = Vec::with_capacity(4096);
            loop {
                match stream.read_buf(&mut received).await {
                    Ok(0) | Err(_) => return,
                    Ok(_) => {}
                }
                let head = end_of_head(&received);
                if head.is_some_and(|head| received.len() >= head + content_length(&received[..head])) {
                    received.clear();
                    if stream.write_all(&answer).await.is_err() {
                        return;
                    }
                }
            }
        });
    }
}
