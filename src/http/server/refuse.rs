//! What a connection hears when all places are taken.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// How long a refused connection may take to read its refusal.
const PATIENCE: Duration = Duration::from_secs(1);

const BODY: &str = concat!(
    r#"{"type":"urn:problem-type:tidegate:overloaded","title":"This node serves as many calls as it can","status":503,"#,
    r#""detail":"as many connections as this node takes are open","code":"overloaded","retryable":true}"#
);

/// Says 503 and closes: the caller may then choose another node, which it could not in a queue.
///
/// Written by hand, because HTTP served properly is what there is no place for. What cannot be written at once is not.
pub(super) fn refuse(stream: TcpStream) {
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\nretry-after: 1\r\n\
         cache-control: no-store\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{BODY}",
        BODY.len()
    );
    if !matches!(stream.try_write(answer.as_bytes()), Ok(written) if written == answer.len()) {
        return;
    }
    // Closing over unread bytes would reset the connection before its client has read the answer.
    tokio::spawn(tokio::time::timeout(PATIENCE, async move {
        let mut stream = stream;
        let _ = stream.shutdown().await;
        let mut heard = [0; 1024];
        for _ in 0..64 {
            if !matches!(stream.read(&mut heard).await, Ok(1..)) {
                return;
            }
        }
    }));
}
