//! The bodies of the service's answers: receipts, and problems (RFC 9457).

use std::collections::HashMap;

use reqwest::header::{CONTENT_TYPE, LOCATION};
use tidegate::{
    request::{JsonText, RequestError},
    stage::Receipt,
};

use super::service::Answer;

/// The database indexes references, and an index takes no long ones.
const LONGEST_REFERENCE: usize = 1024;
const LONGEST_MESSAGE: usize = 1000;
const LONGEST_CODE: usize = 64;

/// The members of a JSON object, each as its text: numbers keep all their digits.
type Members = HashMap<String, JsonText>;

/// The receipt in a successful answer.
///
/// The reference is the body's `reference`, or else the header `Tidegate-Reference`, or else `Location`. A body that
/// is empty, or whose content type is not JSON, is ignored. A JSON body has to be an object. A reference that is a
/// number is its digits.
pub(super) fn read_receipt(answer: &Answer) -> Result<Receipt, RequestError> {
    let body = answer.body.as_ref().map_err(|why| refusal(why))?;
    let mut fields = if body.is_empty() || !is_json(answer) {
        Members::new()
    } else {
        serde_json::from_slice(body).map_err(|error| {
            refusal(if error.is_data() {
                "is not a JSON object"
            } else {
                "is not JSON"
            })
        })?
    };
    let mut member = |name| fields.remove(name).filter(|json| json.get() != "null");
    let mut reference = match member("reference") {
        None => None,
        Some(json) => {
            let reference = text_or_digits(&json);
            Some(reference.ok_or_else(|| refusal("has a reference that is neither text nor a number"))?)
        }
    };
    for name in ["tidegate-reference", LOCATION.as_str()] {
        if reference.is_none() {
            reference =
                header(answer, name).map_err(|NotAscii| refusal("has a reference in a header that is not ASCII"))?;
        }
    }
    let reference = reference.filter(|reference| !reference.is_empty());
    if reference
        .as_ref()
        .is_some_and(|text| text.len() > LONGEST_REFERENCE || text.contains('\0'))
    {
        return Err(refusal("has a reference that is too long or holds a NUL character"));
    }
    let response = member("response");
    Ok(Receipt { reference, response })
}

fn text_or_digits(json: &JsonText) -> Option<String> {
    let is_number = json
        .get()
        .starts_with(|first: char| first == '-' || first.is_ascii_digit());
    if is_number {
        return Some(json.to_string());
    }
    serde_json::from_str(json.get()).ok()
}

fn refusal(why: &str) -> RequestError {
    let message = format!("the service took the request, but its answer {why}");
    RequestError::new("unreadable_receipt", message, true)
}

/// The error in a refusal's body; where the body has none, `code` and the status.
pub(super) fn read_problem(answer: &Answer, code: &str) -> RequestError {
    let body = answer.body.as_deref().ok().filter(|_| is_json(answer));
    let fields: Option<Members> = body.and_then(|body| serde_json::from_slice(body).ok());
    let fields = fields.unwrap_or_default();
    let text = |name: &str| serde_json::from_str::<String>(fields.get(name)?.get()).ok();
    let is_word = |code: &String| {
        let word = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        !code.is_empty() && code.len() <= LONGEST_CODE && code.bytes().all(word)
    };
    let message = match text("detail").or_else(|| text("title")) {
        Some(message) => message.chars().take(LONGEST_MESSAGE).collect(),
        None => format!("the service answered {}", answer.status),
    };
    let retryable = fields.get("retryable").is_some_and(|json| json.get() == "true");
    let code = text("code").filter(is_word).unwrap_or_else(|| code.to_owned());
    RequestError::new(code, message, retryable)
}

/// Whether the content type is JSON; a body without a content type counts as JSON.
fn is_json(answer: &Answer) -> bool {
    let media_type = match header(answer, CONTENT_TYPE.as_str()) {
        Ok(Some(media_type)) => media_type,
        Ok(None) => return true,
        Err(NotAscii) => return false,
    };
    let media_type = media_type.to_ascii_lowercase();
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    essence == "application/json" || essence.ends_with("+json")
}

/// A header with a value that is no ASCII text.
struct NotAscii;

fn header(answer: &Answer, name: &str) -> Result<Option<String>, NotAscii> {
    let value = answer.headers.get(name).map(|value| value.to_str().map(str::to_owned));
    value.transpose().map_err(|_| NotAscii)
}
