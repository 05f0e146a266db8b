//! The bodies of the service's answers: receipts, and problems (RFC 9457).

use reqwest::header::{CONTENT_TYPE, LOCATION};
use serde_json::{Map, Value};
use tidegate::{request::RequestError, stage::Receipt};

use super::service::Answer;

/// The database indexes references, and an index takes no long ones.
const LONGEST_REFERENCE: usize = 1024;
const LONGEST_MESSAGE: usize = 1000;
const LONGEST_CODE: usize = 64;

/// The receipt in a successful answer.
///
/// The reference is the body's `reference`, or else the header `Tidegate-Reference`, or else `Location`. A body that
/// is empty, or whose content type is not JSON, is ignored. A JSON body has to be an object.
pub(super) fn read_receipt(answer: &Answer) -> Result<Receipt, RequestError> {
    let body = answer.body.as_ref().map_err(|why| refusal(why))?;
    let mut fields = if body.is_empty() || !is_json(answer) {
        Map::new()
    } else {
        match serde_json::from_slice(body) {
            Ok(Value::Object(fields)) => fields,
            Ok(_) => return Err(refusal("is not a JSON object")),
            Err(_) => return Err(refusal("is not JSON")),
        }
    };
    let reference = match fields.remove("reference") {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(text),
        Some(Value::Number(number)) => Some(number.to_string()),
        Some(_) => return Err(refusal("has a reference that is neither text nor a number")),
    };
    let reference = reference
        .or_else(|| header(answer, "tidegate-reference"))
        .or_else(|| header(answer, LOCATION.as_str()))
        .filter(|reference| !reference.is_empty());
    if reference
        .as_ref()
        .is_some_and(|text| text.len() > LONGEST_REFERENCE || text.contains('\0'))
    {
        return Err(refusal("has a reference that is too long or holds a NUL character"));
    }
    let response = fields.remove("response").filter(|response| !response.is_null());
    if response.as_ref().is_some_and(holds_nul) {
        return Err(refusal("has a response with a NUL character, which cannot be stored"));
    }
    Ok(Receipt { reference, response })
}

fn refusal(why: &str) -> RequestError {
    let message = format!("the service took the request, but its answer {why}");
    RequestError::new("unreadable_receipt", message, true)
}

/// PostgreSQL stores no NUL character: one in a response would fail every settle of its batch.
fn holds_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(values) => values.iter().any(holds_nul),
        Value::Object(fields) => fields
            .iter()
            .any(|(name, value)| name.contains('\0') || holds_nul(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// The error in a refusal's body; where the body has none, `code` and the status.
pub(super) fn read_problem(answer: &Answer, code: &str) -> RequestError {
    let body = answer.body.as_deref().ok().filter(|_| is_json(answer));
    let fields: Option<Map<String, Value>> = body.and_then(|body| serde_json::from_slice(body).ok());
    let fields = fields.unwrap_or_default();
    let text = |name: &str| fields.get(name).and_then(Value::as_str);
    let is_word = |code: &&str| {
        let word = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        !code.is_empty() && code.len() <= LONGEST_CODE && code.bytes().all(word)
    };
    let message = match text("detail").or_else(|| text("title")) {
        Some(message) => message.chars().take(LONGEST_MESSAGE).collect(),
        None => format!("the service answered {}", answer.status),
    };
    let retryable = fields.get("retryable").and_then(Value::as_bool) == Some(true);
    RequestError::new(text("code").filter(is_word).unwrap_or(code), message, retryable)
}

/// Whether the content type is JSON; a body without a content type counts as JSON.
fn is_json(answer: &Answer) -> bool {
    let Some(media_type) = header(answer, CONTENT_TYPE.as_str()) else {
        return true;
    };
    let media_type = media_type.to_ascii_lowercase();
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    essence == "application/json" || essence.ends_with("+json")
}

fn header(answer: &Answer, name: &str) -> Option<String> {
    let value = answer.headers.get(name)?.to_str().ok()?;
    Some(value.to_owned())
}
