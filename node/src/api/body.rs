//! Reads the bodies of calls: media type, size, JSON.

use std::{sync::Arc, time::Duration};

use axum::{
    body::{Body, BodyDataStream},
    extract::{FromRequest, Request},
    http::{
        HeaderMap,
        header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, EXPECT},
    },
};
use futures_util::StreamExt;
use serde::de::DeserializeOwned;
use tidegate::internals::json_text::{JsonText, objection};
use tokio::time::timeout;

use super::{
    context::Api,
    problem::{
        INCOMPLETE_BODY, INVALID_BODY, MALFORMED_JSON, PAYLOAD_TOO_LARGE, Problem, UNSTORABLE, UNSUPPORTED_MEDIA_TYPE,
    },
};

/// How much of a body that is too large is read and discarded, in bytes.
const DISCARD_MAX: usize = 64 * 1024 * 1024;

/// For how long a refused body is read.
const DISCARD_TIME: Duration = Duration::from_secs(5);

/// How long a refused body may pause: then its sender waits for the answer, or has left.
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// The largest buffer that is allocated for a `Content-Length`, in bytes: a false header costs its sender nothing.
const PREALLOCATED_MAX: usize = 64 * 1024;

/// A JSON body.
pub(super) struct Json<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<Arc<Api>> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, api: &Arc<Api>) -> Result<Self, Problem> {
        let bytes = read(request, api.node.options.http.body_limit).await?;
        let value = deserialize(&bytes)?;
        match objection(&bytes) {
            None => Ok(Self(value)),
            Some(why) => Err(UNSTORABLE.because(why)),
        }
    }
}

/// A JSON array, each element as it stands.
pub(super) struct JsonArray(pub(super) Vec<JsonText>);

impl FromRequest<Arc<Api>> for JsonArray {
    type Rejection = Problem;

    async fn from_request(request: Request, api: &Arc<Api>) -> Result<Self, Problem> {
        let bytes = read(request, api.node.options.http.body_limit).await?;
        let elements: Vec<JsonText> = deserialize(&bytes)?;
        // Each element has the limits of a whole body.
        for (index, element) in elements.iter().enumerate() {
            if let Some(why) = objection(element.get().as_bytes()) {
                return Err(UNSTORABLE.because(format!("element {index}: {why}")));
            }
        }
        Ok(Self(elements))
    }
}

fn require_json(headers: &HeaderMap) -> Result<(), Problem> {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    if let Some(coding) = text(CONTENT_ENCODING)
        && !coding.eq_ignore_ascii_case("identity")
    {
        let detail = format!("the body is encoded as {coding}; send it without an encoding");
        return Err(UNSUPPORTED_MEDIA_TYPE.because(detail));
    }
    let Some(media_type) = text(CONTENT_TYPE) else {
        return Err(UNSUPPORTED_MEDIA_TYPE.because("set Content-Type: application/json"));
    };
    let (essence, _parameters) = media_type.split_once(';').unwrap_or((media_type, ""));
    let essence = essence.trim().to_ascii_lowercase();
    if essence == "application/json" || essence.ends_with("+json") {
        Ok(())
    } else {
        Err(UNSUPPORTED_MEDIA_TYPE.because(format!("set Content-Type: application/json, not {media_type}")))
    }
}

/// The whole JSON body, if it is within the limit; never buffers more than that.
async fn read(request: Request, limit: usize) -> Result<Vec<u8>, Problem> {
    require_json(request.headers())?;
    let too_large = || PAYLOAD_TOO_LARGE.because(format!("a body has at most {limit} bytes"));
    let length = request.headers().get(CONTENT_LENGTH);
    let announced = length.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|announced| announced > limit) {
        discard(request, DISCARD_MAX).await;
        return Err(too_large());
    }

    let mut stream = Body::into_data_stream(request.into_body());
    let mut bytes = Vec::with_capacity(announced.unwrap_or(0).min(PREALLOCATED_MAX));
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|error| INCOMPLETE_BODY.because(error.to_string()))?;
        if bytes.len() + chunk.len() > limit {
            discard_stream(stream, DISCARD_MAX).await;
            return Err(too_large());
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// Reads and discards the body of a refused call, up to `most` bytes and for some seconds: a client that is still
/// sending when the connection closes gets a reset instead of the answer. Returns whether the body was read to its end.
pub(super) async fn discard(request: Request, most: usize) -> bool {
    // A client that sends `Expect: 100-continue` has not begun to send the body.
    !request.headers().contains_key(EXPECT) && discard_stream(Body::into_data_stream(request.into_body()), most).await
}

async fn discard_stream(mut stream: BodyDataStream, most: usize) -> bool {
    let reading = async {
        let mut read = 0;
        while read <= most {
            match timeout(PAUSE_MAX, stream.next()).await {
                Ok(None) => return true,
                Ok(Some(Ok(chunk))) => read += chunk.len(),
                Ok(Some(Err(_))) | Err(_) => break,
            }
        }
        false
    };
    timeout(DISCARD_TIME, reading).await.unwrap_or(false)
}

fn deserialize<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    serde_json::from_slice(bytes).map_err(|error| {
        // The message ends in the line and column.
        let class = if error.is_data() { &INVALID_BODY } else { &MALFORMED_JSON };
        class.because(error.to_string())
    })
}
