//! Reads the body of a submission, of any content type.

use std::time::Duration;

use axum::body::Body;
use futures_util::StreamExt;
use tokio::time::timeout;

use crate::labels::{Label, Refusal};

/// The largest body.
const LIMIT: usize = 2 * 1024 * 1024;

/// How much of a larger body is read and discarded, so that its sender gets the answer instead of a reset.
const DISCARD_MAX: usize = 64 * 1024 * 1024;

/// How long a body may take.
const TIME: Duration = Duration::from_secs(30);

/// The whole body.
///
/// # Errors
///
/// [`Label::RequestError`]: it is too large, or ends early.
pub(super) async fn read(body: Body) -> Result<Vec<u8>, Refusal> {
    let reading = async {
        let mut stream = body.into_data_stream();
        let (mut bytes, mut length) = (Vec::new(), 0);
        while let Some(chunk) = stream.next().await {
            let chunk = chunk.ok()?;
            length += chunk.len();
            if length <= LIMIT {
                bytes.extend_from_slice(&chunk);
            } else {
                bytes = Vec::new();
            }
            if length > DISCARD_MAX {
                break;
            }
        }
        (length <= LIMIT).then_some(bytes)
    };
    let read = timeout(TIME, reading).await;
    read.ok().flatten().ok_or_else(|| Label::RequestError.into())
}
