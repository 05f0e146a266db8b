//! Bodies that no rule of a field is about, and job ids.

use std::process::Command;

use serde_json::{Value, json};
use tidegate_fhevm::request::Family;

use super::node::{Node, body, database, with};

#[tokio::test]
async fn s2_a_body_that_is_not_json_is_malformed() {
    let database = database().await;
    let node = Node::start(&database).await;
    for family in Family::ALL {
        let deep = "[".repeat(100_000);
        for text in ["", "{", "nonsense", "{\"a\":1,}", "{} {}", "\u{feff}{}", &deep] {
            let answer = node.post_text(family, text.to_owned(), "application/json").await;
            let message = answer.body["error"]["message"].as_str();
            assert_eq!((answer.status, answer.label()), (400, "malformed_json"), "{family:?}");
            assert_eq!(message, Some("Invalid JSON format"));
        }
        let not_text = node.post_text(family, vec![b'"', 0xff, b'"'], "application/json").await;
        assert_eq!((not_text.status, not_text.label()), (400, "malformed_json"));
    }
}

#[tokio::test]
async fn s2_a_body_that_is_no_object_is_of_the_wrong_type() {
    let database = database().await;
    let node = Node::start(&database).await;
    for family in Family::ALL {
        for value in [json!([]), json!("x"), json!(1), json!(null), json!(true)] {
            let answer = node.post(family, &value).await;
            assert_eq!((answer.status, answer.label()), (400, "validation_failed"), "{family:?} {value}");
            let details = json!([{"field": "request", "issue": "Invalid data type"}]);
            assert_eq!(answer.body["error"]["details"], details);
        }
    }
}

#[tokio::test]
async fn s2_a_body_of_two_mebibytes_is_read_and_a_larger_one_is_a_request_error() {
    let database = database().await;
    let node = Node::start(&database).await;
    let limit = 2 * 1024 * 1024;
    for family in Family::ALL {
        let body = body(family).to_string();
        let padded = |length: usize| format!("{}{body}", " ".repeat(length - body.len()));
        for (length, status, label) in
            [(limit, 202, ""), (limit + 1, 400, "request_error"), (5 * limit, 400, "request_error")]
        {
            let answer = node.post_text(family, padded(length), "application/json").await;
            assert_eq!((answer.status, answer.label()), (status, label), "{family:?} {length}");
        }
    }
}

#[tokio::test]
async fn s2_the_content_type_does_not_matter() {
    let database = database().await;
    let node = Node::start(&database).await;
    for content_type in ["text/plain", "application/octet-stream", "x", "multipart/form-data; boundary=x"] {
        for family in Family::ALL {
            let answer = node.post_text(family, body(family).to_string(), content_type).await;
            assert_eq!(answer.status, 202, "{family:?} {content_type}");
        }
    }
    let bare = reqwest::Client::new().post(format!("{}{}", node.url, Family::InputProof.path()));
    let answer = bare.body(body(Family::InputProof).to_string()).send().await.unwrap();
    assert_eq!(answer.status(), 202);
}

#[tokio::test]
async fn s2_a_handle_of_a_chain_that_is_not_configured_is_refused_after_all_rules() {
    let database = database().await;
    let node = Node::start(&database).await;
    // Chain 5, in bytes 22 to 29.
    let foreign = format!("0x{}00000000000000050500", "11".repeat(22));
    for (family, pointer) in [
        (Family::PublicDecrypt, "/ciphertextHandles/1"),
        (Family::UserDecrypt, "/handleContractPairs/0/handle"),
        (Family::DelegatedUserDecrypt, "/handleContractPairs/0/handle"),
    ] {
        let answer = node.post(family, &with(family, pointer, json!(foreign))).await;
        assert_eq!((answer.status, answer.label()), (400, "host_chain_id_not_supported"), "{family:?}");
        let message = answer.body["error"]["message"].as_str();
        assert_eq!(message, Some("Host chain ID 5 is not supported by this relayer"));

        let mut also_broken = with(family, pointer, json!(foreign));
        also_broken["extraData"] = json!("0x");
        assert_eq!(node.post(family, &also_broken).await.label(), "validation_failed");
    }
    // What the caller says about its contracts does not decide.
    let said = with(Family::UserDecrypt, "/contractsChainId", json!("5"));
    assert_eq!(node.post(Family::UserDecrypt, &said).await.status, 202);
    let said = with(Family::InputProof, "/contractChainId", json!("5"));
    assert_eq!(node.post(Family::InputProof, &said).await.status, 202);
}

#[tokio::test]
async fn s2_a_job_id_that_is_no_uuid_is_invalid_and_an_unknown_one_is_not_found() {
    let database = database().await;
    let node = Node::start(&database).await;
    for family in Family::ALL {
        for id in [
            "1",
            "nonsense",
            "%20",
            "%FF",
            "5d0c1f3a9b7e4c2d8a6f1e2d3c4b5a69",
            "%7B5d0c1f3a-9b7e-4c2d-8a6f-1e2d3c4b5a69%7D",
            "5d0c1f3a-9b7e-4c2d-8a6f-1e2d3c4b5a6",
            "5d0c1f3a-9b7e-4c2d-8a6f-1e2d3c4b5a6g",
        ] {
            let answer = node.poll(family, id).await;
            assert_eq!((answer.status, answer.label()), (400, "validation_failed"), "{family:?} {id}");
            let details = json!([{"field": "jobId", "issue": "Must be a UUID"}]);
            assert_eq!(answer.body["error"]["details"], details);
        }
        for id in ["5d0c1f3a-9b7e-4c2d-8a6f-1e2d3c4b5a69", "00000000-0000-0000-0000-000000000000"] {
            let answer = node.poll(family, id).await;
            assert_eq!((answer.status, answer.label()), (404, "not_found"), "{family:?} {id}");
            assert_eq!(answer.body["error"]["message"], "Request not found");
        }
    }
}

#[tokio::test]
async fn s2_a_job_is_found_by_the_families_of_its_kind_and_by_no_other() {
    let database = database().await;
    let node = Node::start(&database).await;
    for family in Family::ALL {
        let job = node.post(family, &body(family)).await.job();
        for other in Family::ALL {
            let found = node.poll(other, &job).await;
            let expected = if other.kind() == family.kind() { 202 } else { 404 };
            assert_eq!(found.status, expected, "{family:?} by {other:?}");
        }
    }
}

#[tokio::test]
async fn s2_other_methods_and_paths_are_answered_without_tricks() {
    let database = database().await;
    let node = Node::start(&database).await;
    let client = reqwest::Client::new();
    let status = |method: &str, path: &str| {
        let method = method.parse().unwrap();
        let call = client.request(method, format!("{}{path}", node.url));
        async { call.send().await.unwrap().status().as_u16() }
    };
    for family in Family::ALL {
        let path = family.path();
        assert_eq!(status("GET", path).await, 405, "{path}");
        assert_eq!(status("PUT", path).await, 405, "{path}");
        assert_eq!(status("POST", &format!("{path}/5d0c1f3a-9b7e-4c2d-8a6f-1e2d3c4b5a69")).await, 405, "{path}");
        assert_eq!(status("POST", &format!("{path}/")).await, 404, "{path}/");
    }
    for path in [
        "/v2",
        "/v2/",
        "/v2/keyurl/",
        "/v2/input-proof/",
        "/v2/input-proof/5d0c1f3a-9b7e-4c2d-8a6f-1e2d3c4b5a69/x",
        "/v2/unknown",
        "/v3",
        "/v3/user-decrypt",
        "/v3/user-decrypt/5d0c1f3a-9b7e-4c2d-8a6f-1e2d3c4b5a69",
    ] {
        for method in [reqwest::Method::GET, reqwest::Method::POST] {
            let answer = client.request(method, format!("{}{path}", node.url)).send().await.unwrap();
            assert_eq!(
                (answer.status().as_u16(), &answer.headers()["content-type"]),
                (404, &"application/json".parse().unwrap())
            );
            let body: Value = answer.json().await.unwrap();
            assert_eq!(body["status"], "failed", "{path}: {body}");
            assert!(body["requestId"].is_string(), "{path}: {body}");
            assert_eq!(body["error"], json!({"label": "not_found", "message": "No such path"}), "{path}");
        }
    }
    assert_eq!(status("POST", "/v1/input-proof").await, 401, "Tidegate's own API needs a key");
    assert_eq!(status("GET", "/livez").await, 200, "Tidegate's own API");
}

#[tokio::test]
async fn probes_have_the_form_of_the_original() {
    let database = database().await;
    let node = Node::start(&database).await;

    assert_eq!(node.get("/liveness").await.body, json!({"status": "alive"}));

    let version = node.get("/version").await.body;
    assert_eq!(version["name"], "relayer-service");
    let build = version["build"].as_str().unwrap();
    assert!(build.ends_with("-clean") || build.ends_with("-dirty"), "{build}");

    // What a release is built with.
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let printed = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).current_dir(root).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let steps = printed("make", &["--dry-run", "release-fhevm"]);
    let (_, variable) = steps.split_once("TIDEGATE_BUILD=").unwrap();
    let (revision, state) = variable.split(' ').next().unwrap().rsplit_once('-').unwrap();
    let head = printed("git", &["rev-parse", "HEAD"]);
    assert!(revision.len() >= 7 && head.starts_with(revision), "{steps}");
    assert!(["clean", "dirty"].contains(&state), "{steps}");

    // Nothing listens where the gateway's endpoint is.
    let health = node.get("/healthz").await;
    assert_eq!(health.status, 503);
    let dependencies = json!({"database": "ok", "gateway_http": "fail", "gateway_listener_0": "fail", "wallets": "ok"});
    assert_eq!(health.body, json!({"status": "unhealthy", "dependencies": dependencies}));
}

#[tokio::test]
async fn the_key_url_is_that_of_the_configuration_or_not_known_yet() {
    let database = database().await;
    let node = Node::start(&database).await;
    let answer = node.get("/v2/keyurl").await;
    assert_eq!((answer.status, answer.label()), (500, "internal_server_error"));
    assert_eq!(answer.body["error"]["message"], "Key URL not yet initialized");

    let known = json!({"fheKeyInfo": [], "crs": {}});
    database.execute(&format!("insert into fhevm.key_url (answer) values ('{known}')")).await;
    assert_eq!(node.get("/v2/keyurl").await.body["response"], known);
    database.cut().await;
    assert_eq!(node.get("/v2/keyurl").await.body["response"], known);
    database.restore().await;

    let (key, crs) = (format!("0x{}", "a8".repeat(32)), format!("0x{}", "67".repeat(32)));
    let lines = format!(
        "[keyurl.static]\npublic_key_id = \"{key}\"\npublic_key_url = \"https://kms.example/PublicKey/a8\"\n\
         crs_id = \"{crs}\"\ncrs_url = \"https://kms.example/CRS/67\""
    );
    let node = Node::start_with(&database, &lines).await;
    let response = node.get("/v2/keyurl").await.body["response"].clone();
    let urls = json!(["https://kms.example/PublicKey/a8"]);
    assert_eq!(response["fheKeyInfo"], json!([{"fhePublicKey": {"dataId": key, "urls": urls}}]));
    assert_eq!(response["crs"]["2048"], json!({"dataId": crs, "urls": ["https://kms.example/CRS/67"]}));
}
