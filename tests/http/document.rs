//! The API and its document (`/openapi.json`): every operation is documented, and says how it fails.

pub(super) mod conformance;

use std::{collections::BTreeSet, fs, sync::LazyLock};

use reqwest::Method;
use serde_json::{Value, json};

use super::{Api, answer};
use crate::support::TestDatabase;

static DOCUMENT: LazyLock<Value> =
    LazyLock::new(|| serde_json::to_value(tidegate_node::internals::document()).unwrap());

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
