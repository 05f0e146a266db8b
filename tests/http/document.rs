//! The API and its document (`/openapi.json`) agree: every answer that any test gets is held against it.

use std::{collections::BTreeSet, fs, sync::LazyLock};

use reqwest::{Method, StatusCode, header::HeaderMap};
use serde_json::{Value, json};

use super::{Api, answer};
use crate::support::TestDatabase;

static DOCUMENT: LazyLock<Value> =
    LazyLock::new(|| serde_json::to_value(tidegate_node::internals::document()).unwrap());

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
pub(super) fn assert_documented(method: &Method, path: &str, status: StatusCode, headers: &HeaderMap, body: &Value) {
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

/// Every operation: method, path, what is said of it.
fn operations() -> Vec<(Method, &'static str, &'static Value)> {
    let paths = DOCUMENT["paths"].as_object().unwrap();
    let operations: Vec<_> = paths
        .iter()
        .flat_map(|(path, item)| {
            item.as_object().unwrap().iter().map(move |(method, operation)| {
                let method = method.to_ascii_uppercase().parse().unwrap();
                (method, path.as_str(), operation)
            })
        })
        .collect();
    assert!(operations.len() >= 25);
    operations
}

/// The codes that the document knows of, with the statuses they come with.
fn codes() -> BTreeSet<(String, String)> {
    let mut codes = BTreeSet::new();
    for (_, _, operation) in operations() {
        for (status, response) in operation["responses"].as_object().unwrap() {
            let classes = &response["content"]["application/problem+json"]["schema"]["oneOf"];
            for class in classes.as_array().into_iter().flatten() {
                let schema = DOCUMENT.pointer(&class["$ref"].as_str().unwrap()[1..]).unwrap();
                let [code] = schema["allOf"][1]["properties"]["code"]["enum"].as_array().unwrap().as_slice() else {
                    panic!("{schema} is not of one code");
                };
                codes.insert((status.clone(), code.as_str().unwrap().to_owned()));
            }
        }
    }
    codes
}

/// The two problems that no operation has: they are for calls that are none.
fn codes_of_no_operation() -> BTreeSet<(String, String)> {
    [("404", "unknown_path"), ("405", "method_not_allowed")]
        .map(|(status, code)| (status.to_owned(), code.to_owned()))
        .into()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_document_is_served_as_it_is_made() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;

    let served = api.get("/openapi.json").await;

    assert_eq!(served.status, 200);
    assert_eq!(served.body, *DOCUMENT);
    assert!(served.body["openapi"].as_str().unwrap().starts_with("3.1."));
    let scheme = &served.body["components"]["securitySchemes"]["api_key"];
    assert_eq!(scheme, &json!({"type": "http", "scheme": "bearer", "description": scheme["description"]}));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_is_served_with_what_it_loads_and_leads_to_the_document() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;

    // The client follows the way from `/docs`.
    let page = api.get("/docs").await;

    assert_eq!(page.status, 200);
    assert!(page.header("content-type").starts_with("text/html"));
    let page = page.body.as_str().unwrap();
    let mut loaded = 0;
    for after in page.split(['"', '\'']).filter(|word| word.starts_with("./")) {
        assert_eq!(api.get(&format!("/docs/{}", &after[2..])).await.status, 200, "{after}");
        loaded += 1;
    }
    assert!(loaded >= 3, "{page}");
    let start = api.get("/docs/swagger-initializer.js").await;
    assert!(start.body.as_str().unwrap().contains("/openapi.json"), "{start:?}");
    assert_eq!(start.header("x-content-type-options"), "nosniff");
    assert_eq!(start.header("x-frame-options"), "DENY");
    assert!(start.header("content-security-policy").contains("frame-ancestors 'none'"));
    api.get("/docs/nothing.js").await.assert_problem(404, "unknown_path");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_documented_operation_answers() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;

    let mut jobs = Vec::new();
    for _ in operations() {
        jobs.push(api.submit("direct").await);
    }

    for ((method, path, _), job) in operations().into_iter().zip(jobs) {
        let id = job.rsplit('/').next().unwrap();
        let filled =
            [("{kind}", "direct"), ("{job_id}", id), ("{queue}", "tx"), ("{of}", "kind"), ("{name}", "min_seconds")];
        let filled = filled.iter().fold(path.to_owned(), |path, (name, value)| path.replace(name, value));
        assert!(!filled.contains('{'), "fill in what {path} needs");
        let path = filled;
        if path.ends_with("/events") {
            // A stream ends with its request.
            api.delete(&job).await;
        }
        let mut asking = api.client.request(method.clone(), api.url(&path));
        if method == Method::POST || method == Method::PATCH {
            asking = asking.json(&json!({}));
        }
        // That the answer is documented is checked wherever an answer is read.
        let answered = answer(asking).await;
        assert!(answered.status.as_u16() < 500, "{method} {path}: {answered:?}");
        let code = answered.body["code"].as_str().unwrap_or_default();
        assert!(!["unknown_path", "method_not_allowed"].contains(&code), "{method} {path}");
    }
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

#[test]
fn every_operation_says_what_it_is_and_how_it_fails() {
    let mut ids = BTreeSet::new();
    for (method, path, operation) in operations() {
        let at = format!("{method} {path}");
        let id = operation["operationId"].as_str().unwrap();
        assert!(ids.insert(id), "{id} is there twice");
        assert!(operation["summary"].is_string(), "{at} has no summary");
        assert!(operation["security"].is_array(), "{at} does not say who may call it");
        let tags = operation["tags"].as_array().unwrap();
        for tag in tags {
            let known = DOCUMENT["tags"].as_array().unwrap();
            assert!(known.iter().any(|known| known["name"] == *tag), "{at}: {tag}");
        }
        assert_eq!(tags.len(), 1, "{at}");
        let responses = operation["responses"].as_object().unwrap();
        assert!(responses.keys().any(|status| status.starts_with('2')), "{at} never succeeds");
        for status in ["414", "431", "500", "503"] {
            assert!(responses.contains_key(status), "{at} lacks {status}");
        }
        for (status, response) in responses {
            let problem = response["content"].get("application/problem+json").is_some();
            let error = status.as_str() >= "400" && !["414", "431"].contains(&status.as_str());
            assert_eq!(problem, error, "{at}: {status}");
            let comes_back = ["202", "429", "503"].contains(&status.as_str());
            assert_eq!(response["headers"].get("Retry-After").is_some(), comes_back, "{at}: {status}");
        }
        let body = operation.get("requestBody").is_some();
        for status in ["400", "413", "415"] {
            assert!(!body || responses.contains_key(status), "{at} lacks {status}");
        }
        for word in path.split('/').filter(|word| word.starts_with('{')) {
            let named = operation["parameters"].as_array().unwrap();
            let name = word.trim_matches(['{', '}']);
            assert!(named.iter().any(|known| known["name"] == name && known["in"] == "path"), "{at}: {name}");
        }
    }
}

#[test]
fn schemas_keep_what_generators_of_clients_need() {
    let submit = &DOCUMENT["paths"]["/v1/{kind}"]["post"];
    let parameters = submit["parameters"].as_array().unwrap();
    let not_before = parameters.iter().find(|known| known["name"] == "Tidegate-Not-Before");
    let payloads = &DOCUMENT["components"]["schemas"]["Payloads"];

    assert_eq!(not_before.unwrap()["schema"], json!({"type": "string", "allOf": [{"format": "date-time"}]}));
    assert_eq!(payloads["items"], json!({"not": {"type": "null"}}));
}

#[test]
fn every_problem_belongs_to_an_operation() {
    let declared = DOCUMENT["components"]["schemas"]["Code"]["enum"].as_array().unwrap();
    let declared: BTreeSet<_> = declared.iter().map(|code| code.as_str().unwrap().to_owned()).collect();
    let used = codes().union(&codes_of_no_operation()).map(|(_, code)| code.clone()).collect();

    assert_eq!(declared, used);
}

#[test]
fn no_route_is_made_without_its_documentation() {
    let mut files = vec![concat!(env!("CARGO_MANIFEST_DIR"), "/../node/src/api.rs").into()];
    let mut directories = vec![concat!(env!("CARGO_MANIFEST_DIR"), "/../node/src/api").into()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir::<std::path::PathBuf>(directory).unwrap() {
            let path = entry.unwrap().path();
            let to = if path.is_dir() { &mut directories } else { &mut files };
            to.push(path);
        }
    }
    assert!(files.len() > 30);
    // The page, what stands for everything else below a path, and the worker's figures.
    let known = ["/docs", "/docs/", "/docs/{*file}", "/v1/admin", "/v1/admin/{*rest}", "/metrics"];
    let mut seen = BTreeSet::new();

    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap();
        for route in code.split(".route(").skip(1) {
            let path = route.split('"').nth(1).unwrap();
            assert!(known.contains(&path), "{}: {path}: use `.routes(routes!(…))`", file.display());
            seen.insert(path.to_owned());
        }
        assert!(!code.contains("route_service(") && !code.contains(".nest("));
    }

    assert_eq!(seen, known.map(str::to_owned).into());
}

#[test]
fn the_http_page_lists_every_call_and_every_problem() {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/http.md")).unwrap();
    let rows = || page.lines().filter(|line| line.starts_with("| ")).map(|line| line.split('|').map(str::trim));
    let documented: BTreeSet<_> = operations().iter().map(|(method, path, _)| format!("{method} {path}")).collect();
    let listed: BTreeSet<_> = rows()
        .filter_map(|mut cells| cells.nth(1))
        .filter_map(|cell| cell.strip_prefix('`')?.strip_suffix('`'))
        .filter(|call| call.contains(" /") && !call.starts_with("GET /docs"))
        .map(str::to_owned)
        .collect();
    assert_eq!(listed, documented);

    let problems: BTreeSet<_> = rows()
        .filter_map(|mut cells| Some((cells.nth(1)?, cells.next()?)))
        .filter(|(status, _)| status.len() == 3 && status.parse::<u16>().is_ok())
        .flat_map(|(status, codes)| {
            let codes = codes.split('`').skip(1).step_by(2);
            codes.map(|code| (status.to_owned(), code.to_owned())).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(problems, codes().union(&codes_of_no_operation()).cloned().collect());
}
