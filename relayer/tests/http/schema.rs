//! The original's answers, as facts about their shape: `fixtures/answers.json`.

use std::{path::Path, sync::LazyLock};

use jsonschema::Validator;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};

use tidegate_fhevm::request::Family;

use super::node::{Node, database};

static FACTS: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("../fixtures/answers.json")).unwrap());

/// Labels that answers have, and the original's document does not name for them. It names no 401 at all.
const FURTHER: &[(&str, &str)] = &[("GET 503", "gateway_not_reachable")];

/// What the label of a 401 has to be.
const UNAUTHORIZED: &str = "unauthorized";

/// The name of a call in the facts.
fn name_of(method: &str, path: &str) -> String {
    let mut parts = path.split('/').collect::<Vec<_>>();
    if parts.len() == 4 {
        parts[3] = "{job_id}";
    }
    format!("{method} {}", parts.join("/"))
}

fn validator(schema: &str) -> Validator {
    // An error with details has the form of one without, too.
    let schemas = FACTS["schemas"].to_string().replace("\"oneOf\"", "\"anyOf\"");
    let schemas: Value = serde_json::from_str(&schemas).unwrap();
    jsonschema::validator_for(&json!({"$ref": format!("#/schemas/{schema}"), "schemas": schemas})).unwrap()
}

/// Checks an answer to a call of the API.
pub fn check(method: &str, path: &str, status: u16, headers: &HeaderMap, body: &Value) {
    let call = name_of(method, path);
    let said = format!("{call} {status}: {body}");
    let fact = &FACTS["answers"][&call][status.to_string()];
    let label = body["error"]["label"].as_str();
    let schema = match status {
        401 => {
            assert_eq!(label, Some(UNAUTHORIZED), "{said}");
            return;
        }
        // The original answers a bad job id in plain text.
        400 if fact.is_null() => "failed_job",
        _ => fact["schema"].as_str().unwrap_or_else(|| panic!("undocumented: {said}")),
    };
    let faults: Vec<_> = validator(schema).iter_errors(body).map(|error| error.to_string()).collect();
    assert!(faults.is_empty(), "{said}: {faults:?}");
    if let Some(label) = label {
        let further = (format!("{method} {status}"), label);
        let documented = fact["labels"].as_array().is_none_or(|labels| labels.contains(&json!(label)));
        let further = FURTHER.iter().any(|(call, word)| (*call, *word) == (further.0.as_str(), further.1));
        assert!(documented || further, "undocumented label: {said}");
        let detailed = ["missing_fields", "validation_failed"].contains(&label);
        assert_eq!(body["error"]["details"].is_array(), detailed, "{said}");
    }
    let status_word = match status {
        200 => Some("succeeded"),
        202 => Some("queued"),
        _ if label.is_some() => Some("failed"),
        _ => None,
    };
    if path.starts_with("/v2/") {
        assert_eq!(body["status"].as_str(), status_word, "{said}");
    }
    let retry_after = headers.get("retry-after").map(|seconds| seconds.to_str().unwrap());
    match status {
        202 | 429 => assert!(retry_after.unwrap().parse::<u64>().unwrap() >= 1, "{said}"),
        _ => assert_eq!(retry_after, None, "{said}"),
    }
}

/// A schema without names, prose and examples, with `$ref` replaced by what it refers to.
fn resolved(document: &Value, schema: &Value) -> Value {
    if let Some(reference) = schema["$ref"].as_str() {
        let target = document.pointer(reference.trim_start_matches('#')).unwrap();
        return resolved(document, target);
    }
    let mut plain = serde_json::Map::new();
    for (key, value) in schema.as_object().unwrap() {
        let value = match key.as_str() {
            "description" | "example" | "examples" | "title" | "propertyNames" => continue,
            "properties" => {
                let members = value.as_object().unwrap().iter();
                members.map(|(name, value)| (name.clone(), resolved(document, value))).collect()
            }
            "items" | "additionalProperties" if value.is_object() => resolved(document, value),
            "oneOf" => value.as_array().unwrap().iter().map(|of| resolved(document, of)).collect(),
            "required" => {
                let mut names: Vec<_> = value.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
                names.sort_unstable();
                json!(names)
            }
            _ => value.clone(),
        };
        plain.insert(key.clone(), value);
    }
    plain.into()
}

/// The words in backticks.
fn quoted(text: &str) -> Vec<&str> {
    let mut words: Vec<_> = text.split('`').skip(1).step_by(2).collect();
    words.sort_unstable();
    words
}

#[test]
fn the_facts_are_those_of_the_original_where_its_document_is_at_hand() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fhevm/openapi.yml");
    let Ok(text) = std::fs::read_to_string(&path) else {
        println!("not compared: there is no {}", path.display());
        return;
    };
    let original: Value = serde_yaml_ng::from_str(&text).unwrap();
    let mut compared = 0;
    for (path, item) in original["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let call = format!("{} {path}", method.to_uppercase());
            if path.starts_with("/v3/") {
                assert!(FACTS["answers"][&call].is_null(), "{call}");
                continue;
            }
            let responses = operation["responses"].as_object().unwrap();
            assert_eq!(FACTS["answers"][&call].as_object().unwrap().len(), responses.len(), "{call}");
            for (status, response) in responses {
                let fact = &FACTS["answers"][&call][status];
                let ours = &FACTS["schemas"][fact["schema"].as_str().unwrap()];
                let theirs = &response["content"]["application/json"]["schema"];
                assert_eq!(resolved(&FACTS, ours), resolved(&original, theirs), "{call} {status}");
                let labels = quoted(response["description"].as_str().unwrap());
                let empty = json!([]);
                let known = fact["labels"].as_array().unwrap_or(empty.as_array().unwrap());
                assert_eq!(known, &labels, "{call} {status}");
                compared += 1;
            }
        }
    }
    assert_eq!(compared, 46);
}

#[tokio::test]
async fn the_served_document_names_every_answer_of_the_original_with_its_labels() {
    let database = database().await;
    let node = Node::start(&database).await;
    let served: Value = reqwest::get(format!("{}/openapi.json", node.url)).await.unwrap().json().await.unwrap();
    assert!(served["paths"]["/v1/{kind}"]["post"].is_object(), "Tidegate's own calls");
    for (call, answers) in FACTS["answers"].as_object().unwrap() {
        let (method, path) = call.split_once(' ').unwrap();
        let operation = &served["paths"][path][method.to_lowercase()];
        if let Some(family) = Family::ALL.into_iter().find(|family| method == "POST" && family.path() == path) {
            let example = &operation["requestBody"]["content"]["application/json"]["example"];
            assert_eq!(node.post(family, example).await.status, 202, "{path}");
        }
        for (status, fact) in answers.as_object().unwrap() {
            let schema = &operation["responses"][status]["content"]["application/json"]["schema"];
            assert!(schema.is_object(), "{call} {status}");
            let label = &schema["properties"]["error"]["properties"]["label"]["enum"];
            for word in fact["labels"].as_array().into_iter().flatten() {
                assert!(label.as_array().unwrap().contains(word), "{call} {status}: {word}");
            }
        }
    }
}
