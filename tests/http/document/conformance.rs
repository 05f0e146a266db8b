//! Does the document have this answer for its call? Every answer that any test gets is compared with it.

use reqwest::{Method, StatusCode, header::HeaderMap};
use serde_json::{Value, json};

use super::DOCUMENT;

/// The headers that tell something about a request, or how to go on.
const TELLING: [&str; 8] = [
    "Retry-After",
    "Location",
    "Link",
    "Idempotency-Replayed",
    "Preference-Applied",
    "RateLimit-Policy",
    "RateLimit",
    "WWW-Authenticate",
];

/// Checks that an answer is one that the document says this call may have.
pub(in crate::http) fn assert_documented(
    method: &Method,
    path: &str,
    status: StatusCode,
    headers: &HeaderMap,
    body: &Value,
) {
    let at = format!("{method} {path}: {status}");
    let header = |name| headers.get(name).map(|value| value.to_str().unwrap());
    let media_type = header("content-type").map(|media_type| media_type.split(';').next().unwrap());
    if path == "/docs" || path.starts_with("/docs/") {
        return;
    }
    let Some((template, item)) = path_item(path) else {
        assert_eq!(body["code"], "unknown_path", "{at} is not documented");
        return;
    };
    let method = if method == Method::HEAD { &Method::GET } else { method };
    let Some(operation) = item.get(method.as_str().to_ascii_lowercase()) else {
        assert_eq!(body["code"], "method_not_allowed", "{at} is not documented");
        assert!(header("allow").is_some(), "{at} does not say what is allowed");
        return;
    };
    let response = &operation["responses"][status.as_str()];
    assert!(!response.is_null(), "{at} is not documented for {template}: {body}");
    if let Some(content) = response["content"].as_object() {
        let schema = media_type.and_then(|media_type| content.get(media_type));
        let schema = &schema.unwrap_or_else(|| panic!("{at} is not documented as {media_type:?}"))["schema"];
        let events = (media_type == Some("text/event-stream")).then(|| events(body));
        for body in events.as_deref().unwrap_or(std::slice::from_ref(body)) {
            if let Err(objection) = conforms(body, schema) {
                panic!("{at}: {body} is not as documented: {objection}");
            }
        }
    } else {
        assert_eq!(body, "", "{at} is documented without a body");
    }
    for (name, _) in response["headers"].as_object().into_iter().flatten() {
        // A batch of more than 100 has no address.
        let has_address = name == "Location" && status == 202 && !path.ends_with("/batch");
        let promised = ["Retry-After", "WWW-Authenticate"].contains(&name.as_str()) || has_address;
        assert!(!promised || header(name).is_some(), "{at} has no {name}");
    }
    for name in TELLING {
        assert!(header(name).is_none() || !response["headers"][name].is_null(), "{at} is not documented with {name}");
    }
}

/// The events of a stream, as objects of their fields; `retry` and comments are not told as events.
fn events(stream: &Value) -> Vec<Value> {
    let blocks = stream.as_str().unwrap().split("\n\n");
    let fields = |block: &str| {
        let lines = block.lines().filter_map(|line| line.split_once(": "));
        let known = lines.filter(|(name, _)| !name.is_empty() && *name != "retry");
        known.map(|(name, value)| (name.to_owned(), Value::from(value))).collect::<serde_json::Map<_, _>>()
    };
    blocks.map(fields).filter(|fields| !fields.is_empty()).map(Value::Object).collect()
}

/// The documented path that a path is of: one that says it literally, before one with parameters.
fn path_item(path: &str) -> Option<(&'static str, &'static Value)> {
    let words: Vec<_> = path.split('/').collect();
    let paths = DOCUMENT["paths"].as_object().unwrap();
    let matching = paths.iter().filter(|(template, _)| {
        let template: Vec<_> = template.split('/').collect();
        template.len() == words.len()
            // No kind is called `admin`.
            && (words.get(2) != Some(&"admin") || template[2] == "admin")
            && template
                .iter()
                .zip(&words)
                .all(|(named, word)| named == word || (named.starts_with('{') && !word.is_empty()))
    });
    matching.min_by_key(|(template, _)| template.matches('{').count()).map(|(template, item)| (template.as_str(), item))
}

/// Whether a value is what a schema says: as much of JSON Schema as the document uses and a mistake would break.
fn conforms(value: &Value, schema: &Value) -> Result<(), String> {
    if let Some(reference) = schema["$ref"].as_str() {
        return conforms(value, DOCUMENT.pointer(&reference[1..]).unwrap());
    }
    for part in schema["allOf"].as_array().into_iter().flatten() {
        conforms(value, part)?;
    }
    if let Some(either) = schema["oneOf"].as_array() {
        let fit = either.iter().filter(|part| conforms(value, part).is_ok());
        let count = fit.count();
        if count != 1 {
            return Err(format!("{value} fits {count} of {schema}"));
        }
    }
    let types: Vec<_> = match &schema["type"] {
        Value::String(one) => vec![one.as_str()],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let is = |kind: &str| match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        _ => value.is_object(),
    };
    if !types.is_empty() && !types.iter().any(|kind| is(kind)) {
        return Err(format!("{value} is not {types:?}"));
    }
    if let Some(words) = schema["enum"].as_array()
        && !words.contains(value)
    {
        return Err(format!("{value} is none of {words:?}"));
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        if value.is_object() && value.get(name.as_str().unwrap()).is_none() {
            return Err(format!("{name} is missing"));
        }
    }
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(value) = value.get(name) {
            conforms(value, schema).map_err(|objection| format!("{name}: {objection}"))?;
        }
    }
    if let (Some(elements), false) = (value.as_array(), schema["items"].is_null()) {
        for element in elements {
            conforms(element, &schema["items"])?;
        }
    }
    Ok(())
}

#[test]
fn an_undocumented_answer_is_noticed() {
    let noticed = |method: Method, path: &str, status: u16, media_type: &'static str, body: Value| {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", media_type.parse().unwrap());
        if status == 503 {
            headers.insert("retry-after", "1".parse().unwrap());
        }
        let status = StatusCode::from_u16(status).unwrap();
        std::panic::catch_unwind(|| assert_documented(&method, path, status, &headers, &body)).is_err()
    };
    let alive = json!({"status": "alive"});
    let full = |code: &str| {
        json!({
            "type": format!("urn:problem-type:tidegate:{code}"), "title": "This node serves as many calls as it can",
            "status": 503, "detail": "x", "code": code, "retryable": true, "retry_after_seconds": 1,
        })
    };
    let ended = |status: &str| {
        json!({
            "status": status, "job_id": "x", "state": "completed", "executed": "yes",
            "finished_at": "2026-11-28T12:00:00Z", "result": 1,
        })
    };
    let (plain, problem) = ("application/json", "application/problem+json");

    assert!(!noticed(Method::GET, "/livez", 200, plain, alive.clone()));
    assert!(noticed(Method::GET, "/livez", 201, plain, alive.clone()));
    assert!(noticed(Method::GET, "/livez", 200, "text/plain", alive.clone()));
    assert!(noticed(Method::GET, "/livez", 200, plain, json!({"status": "undead"})));
    assert!(noticed(Method::GET, "/livez", 200, plain, json!({})));
    assert!(noticed(Method::PUT, "/livez", 200, plain, alive.clone()));
    assert!(noticed(Method::GET, "/v1/nowhere/to/be/found", 200, plain, alive));
    assert!(!noticed(Method::GET, "/v1/direct/x", 200, plain, ended("succeeded")));
    assert!(noticed(Method::GET, "/v1/direct/x", 200, plain, ended("failed")));
    assert!(!noticed(Method::POST, "/v1/direct", 503, problem, full("overloaded")));
    assert!(noticed(Method::POST, "/v1/direct", 503, problem, full("gate_closed")));
    assert!(noticed(Method::GET, "/livez", 503, problem, full("database_unavailable")));
}
