//! The bodies of the service's answers: receipts, and problems (RFC 9457).

use std::{collections::HashMap, fmt::Display, str::FromStr};

use base64::{Engine, prelude::BASE64_STANDARD};
use reqwest::{
    StatusCode,
    header::{CONTENT_TYPE, LOCATION},
};
use serde_json::{Value, json};
use tidegate::{
    request::{JsonText, RequestError},
    stage::Receipt,
};

use super::answer::{Answer, Unread};
use crate::ParseError;

/// The database indexes references, and an index takes no long ones.
const LONGEST_REFERENCE: usize = 1024;
const LONGEST_MESSAGE: usize = 1000;
const LONGEST_CODE: usize = 64;

/// Content types of text outside of `text/`.
const TEXTS: [&str; 7] = [
    "application/json",
    "application/xml",
    "application/yaml",
    "application/javascript",
    "application/x-ndjson",
    "application/jsonl",
    "application/x-www-form-urlencoded",
];

/// The members of a JSON object, each as its text: numbers keep all their digits.
type Members = HashMap<String, JsonText>;

/// The error of a request that the service took and whose answer cannot be stored: it was executed.
pub(super) const UNSTORABLE: &str = "unstorable_response";

/// What a successful answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerForm {
    /// Its body is the response; a 202 promises one for later.
    Body,
    /// Its body is the response, whatever the status.
    Final,
    /// A JSON object with the members `reference` and `response`.
    Envelope,
}

impl FromStr for AnswerForm {
    type Err = ParseError;

    fn from_str(word: &str) -> Result<Self, ParseError> {
        match word {
            "body" => Ok(Self::Body),
            "final" => Ok(Self::Final),
            "envelope" => Ok(Self::Envelope),
            _ => Err(ParseError(format!("\"{word}\" is not a form of answers: it is body, final or envelope"))),
        }
    }
}

/// The receipt in a successful answer.
pub(super) fn read_receipt(answer: &Answer, form: AnswerForm) -> Result<Receipt, RequestError> {
    let promised = form == AnswerForm::Body && answer.status == StatusCode::ACCEPTED;
    if form == AnswerForm::Envelope {
        return read_envelope(answer);
    }
    let reference = find_reference(answer, None);
    let response = if promised { None } else { Some(read_response(answer)?) };
    Ok(Receipt { reference, response })
}

/// A name for the request in the body, or else in the headers. None that cannot be one: the name of a service that knows
/// nothing of Tidegate makes no answer unreadable.
pub(super) fn find_reference(answer: &Answer, in_body: Option<String>) -> Option<String> {
    let names = ["tidegate-reference", LOCATION.as_str()].into_iter();
    let in_headers = names.filter_map(|name| header(answer, name).ok().flatten());
    in_body.into_iter().chain(in_headers).find(|reference| is_reference(reference))
}

/// The body, if it is JSON.
pub(super) fn json_of(answer: &Answer) -> Result<Option<JsonText>, RequestError> {
    let body = answer.body.as_ref().map_err(refusal)?;
    Ok(serde_json::from_slice(body).ok().filter(|_| is_json(answer)))
}

/// The body as a response: JSON as it is, an empty body as null, and any other with its content type, as text or base64.
pub(super) fn read_response(answer: &Answer) -> Result<JsonText, RequestError> {
    let body = answer.body.as_ref().map_err(|why| match why {
        Unread::TooLong(_) => RequestError::new(UNSTORABLE, taken_but(why), false),
        Unread::BrokeOff | Unread::TooSlow(_) => refusal(why),
    })?;
    if body.is_empty() {
        return Ok(Value::Null.into());
    }
    if is_json(answer)
        && let Ok(json) = serde_json::from_slice(body)
    {
        return Ok(json);
    }
    let content_type = header(answer, CONTENT_TYPE.as_str()).ok().flatten();
    let is_text = content_type.as_deref().is_none_or(is_utf8_text);
    let text = str::from_utf8(body).ok().filter(|text| is_text && !text.contains('\0'));
    Ok(match text {
        Some(text) => json!({ "content_type": content_type, "text": text }),
        None => json!({ "content_type": content_type, "base64": BASE64_STANDARD.encode(body) }),
    }
    .into())
}

/// The receipt in an envelope.
///
/// The reference is the body's `reference`, or else the header `Tidegate-Reference`, or else `Location`. A body that
/// is empty, or whose content type is not JSON, is ignored. A JSON body has to be an object. A reference that is a
/// number is its digits.
fn read_envelope(answer: &Answer) -> Result<Receipt, RequestError> {
    let body = answer.body.as_ref().map_err(refusal)?;
    let mut fields = if body.is_empty() || !is_json(answer) {
        Members::new()
    } else {
        serde_json::from_slice(body)
            .map_err(|error| refusal(if error.is_data() { "is not a JSON object" } else { "is not JSON" }))?
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
    if reference.as_deref().is_some_and(|text| !is_reference(text)) {
        return Err(refusal("has a reference that is too long or holds a NUL character"));
    }
    let response = member("response");
    Ok(Receipt { reference, response })
}

/// Whether the database can hold a text as a reference.
fn is_reference(text: &str) -> bool {
    (1..=LONGEST_REFERENCE).contains(&text.len()) && !text.contains('\0')
}

pub(super) fn text_or_digits(json: &JsonText) -> Option<String> {
    let is_number = json.get().starts_with(|first: char| first == '-' || first.is_ascii_digit());
    if is_number {
        return Some(json.to_string());
    }
    serde_json::from_str(json.get()).ok()
}

fn refusal(why: impl Display) -> RequestError {
    RequestError::new("unreadable_receipt", taken_but(why), true)
}

fn taken_but(why: impl Display) -> String {
    format!("the service took the request, but its answer {why}")
}

/// The error in a refusal's body; where the body has none, `code` and the status.
pub(super) fn read_problem(answer: &Answer, code: &str) -> RequestError {
    read_failure(answer, code, || format!("the service answered {}", answer.status))
}

/// The error in a body; where the body has none, `code` and `message`.
pub(super) fn read_failure(answer: &Answer, code: &str, message: impl FnOnce() -> String) -> RequestError {
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
        None => message(),
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
    let (essence, _) = parts(&media_type);
    essence == "application/json" || essence.ends_with("+json")
}

/// Whether bodies of a content type are text in UTF-8.
fn is_utf8_text(media_type: &str) -> bool {
    let (essence, charset) = parts(media_type);
    let is_text = essence.starts_with("text/")
        || ["+json", "+xml", "+yaml"].iter().any(|suffix| essence.ends_with(suffix))
        || TEXTS.contains(&essence.as_str());
    is_text && charset.is_none_or(|charset| ["utf-8", "utf8", "us-ascii"].contains(&charset.as_str()))
}

/// A content type without its parameters, and its charset, in lower case.
fn parts(media_type: &str) -> (String, Option<String>) {
    let media_type = media_type.to_ascii_lowercase();
    let mut parts = media_type.split(';').map(str::trim);
    let essence = parts.next().unwrap_or_default().to_owned();
    let charset = parts.find_map(|part| part.strip_prefix("charset="));
    (essence, charset.map(|charset| charset.trim_matches('"').to_owned()))
}

/// A header with a value that is no ASCII text.
struct NotAscii;

fn header(answer: &Answer, name: &str) -> Result<Option<String>, NotAscii> {
    let value = answer.headers.get(name).map(|value| value.to_str().map(str::to_owned));
    value.transpose().map_err(|_| NotAscii)
}
