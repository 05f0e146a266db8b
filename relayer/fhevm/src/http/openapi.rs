//! `GET /openapi.json`: Tidegate's document with the relayer's calls.

use axum::{
    extract::State,
    http::header::CONTENT_TYPE,
    response::{IntoResponse, Response},
};
use serde_json::{Map, Value, json};

use super::Relayer;
use crate::{
    labels::Label,
    request::Family::{self, DelegatedUserDecrypt, InputProof, PublicDecrypt, UserDecrypt},
};

/// The name of the security scheme.
const KEY: &str = "relayer_key";

pub(super) async fn openapi(State(relayer): State<Relayer>) -> Response {
    ([(CONTENT_TYPE, "application/json")], relayer.0.document.clone()).into_response()
}

/// The whole document, as text. Its examples have handles of this chain.
pub(super) fn document(chain_id: u64) -> String {
    let mut document = json!(tidegate_node::internals::document());
    let key = json!({"type": "apiKey", "in": "header", "name": "X-API-Key"});
    document["components"]["securitySchemes"][KEY] = key;
    let mut add = |path: &str, method: &str, operation: Value| document["paths"][path][method] = operation;
    for family in Family::ALL {
        add(family.path(), "post", submission(family, chain_id));
        add(&format!("{}/{{job_id}}", family.path()), "get", poll(family));
    }
    let probe = |summary: &str, answers: Value| json!({"tags": ["relayer"], "summary": summary, "responses": answers});
    let internal = failure(&[Label::InternalServerError]);
    let urls = json!({"type": "array", "items": {"type": "string"}});
    let place = object(json!({"dataId": hex("^0x[0-9a-f]{64}$"), "urls": urls}));
    let keys = object(json!({
        "fheKeyInfo": {"type": "array", "items": object(json!({"fhePublicKey": place}))},
        "crs": {"type": "object", "additionalProperties": place},
    }));
    let keys = content("Where the public key is", object(json!({"status": word("succeeded"), "response": keys})));
    add("/v2/keyurl", "get", probe("Find the public key", json!({"200": keys, "500": internal})));
    let alive = content("It is", object(json!({"status": word("alive")})));
    add("/liveness", "get", probe("Whether this node is alive", json!({"200": alive})));
    let health = |status| {
        let dependency = json!({"type": "string", "enum": ["ok", "fail"]});
        let dependencies = json!({"type": "object", "additionalProperties": dependency});
        content(status, object(json!({"status": word(status), "dependencies": dependencies})))
    };
    let health = json!({"200": health("healthy"), "503": health("unhealthy")});
    add("/healthz", "get", probe("Whether what this node depends on answers", health));
    let text = json!({"type": "string"});
    let version = object(json!({"name": text, "version": text, "build": text}));
    add("/version", "get", probe("The version", json!({"200": content("It", version)})));
    document.to_string()
}

fn submission(family: Family, chain_id: u64) -> Value {
    let mut invalid = vec![Label::MalformedJson, Label::MissingFields, Label::ValidationFailed, Label::RequestError];
    if family != InputProof {
        invalid.push(Label::HostChainIdNotSupported);
    }
    let job = object(json!({"jobId": uuid()}));
    let request = json!({"schema": body(family), "example": example(family, chain_id)});
    let job_id = json!({"job_id": "$response.body#/result/jobId"});
    let poll = json!({"operationId": operation_id(family, "get"), "parameters": job_id});
    let accepted = object(json!({"status": word("queued"), "requestId": uuid(), "result": job}));
    let mut accepted = later(content("It is stored", accepted));
    accepted["links"] = json!({ "poll": poll });
    json!({
        "tags": ["relayer"],
        "operationId": operation_id(family, "post"),
        "summary": "Submit a request",
        "description": "A request that is the same as one that goes on, or has a result, gets the job of that one.",
        "security": [{}, {KEY: []}],
        "requestBody": {"required": true, "content": {"application/json": request}},
        "responses": {
            "202": accepted,
            "400": failure(&invalid),
            "401": failure(&[Label::Unauthorized]),
            "429": later(failure(&[Label::RateLimited])),
            "500": failure(&[Label::InternalServerError]),
        },
    })
}

fn poll(family: Family) -> Value {
    let mut invalid = vec![Label::ValidationFailed];
    let mut internal = vec![Label::InternalServerError];
    let mut unavailable = vec![
        Label::ResponseTimedOut,
        Label::ProtocolPaused,
        Label::InsufficientBalance,
        Label::InsufficientAllowance,
        Label::GatewayNotReachable,
    ];
    if family != InputProof {
        invalid.push(Label::NotAllowedOnHostAcl);
        internal.push(Label::HostAclFailed);
        unavailable.push(Label::ReadinessCheckTimedOut);
    }
    let queued = object(json!({"status": word("queued"), "requestId": uuid()}));
    let succeeded = object(json!({"status": word("succeeded"), "requestId": uuid(), "result": result(family)}));
    json!({
        "tags": ["relayer"],
        "operationId": operation_id(family, "get"),
        "summary": "Poll a request",
        "security": [{}, {KEY: []}],
        "parameters": [{"name": "job_id", "in": "path", "required": true, "schema": uuid()}],
        "responses": {
            "200": content("Its result", succeeded),
            "202": later(content("It goes on: poll again", queued)),
            "400": failure(&invalid),
            "401": failure(&[Label::Unauthorized]),
            "404": failure(&[Label::NotFound]),
            "500": failure(&internal),
            "503": failure(&unavailable),
        },
    })
}

/// The body of a submission.
fn body(family: Family) -> Value {
    let address = hex("^0x[0-9a-fA-F]{40}$");
    let handle = hex("^0x[0-9a-fA-F]{64}$");
    let plain = hex("^([0-9a-fA-F]{2})+$");
    let chain_id = json!({"anyOf": [
        {"type": "string", "pattern": "^([0-9]{1,19}|0x[0-9a-fA-F]{1,16})$"},
        {"type": "integer", "minimum": 0, "maximum": u64::MAX},
    ]});
    let list = |items: &Value| json!({"type": "array", "items": items, "minItems": 1});
    let context = "0x0107[0-9a-fA-F]{62}|0x0207[0-9a-fA-F]{62}08[0-9a-fA-F]{62}";
    let extra_data = hex(&format!("^(0x00|{context})$"));
    let (start, days) = (hex("^[0-9]{1,9}$"), hex("^[0-9]{1,9}$"));
    let mut user = json!({
        "handleContractPairs": list(&object(json!({"handle": handle, "contractAddress": address}))),
        "contractsChainId": chain_id,
        "contractAddresses": list(&address),
        "signature": hex("^[0-9a-fA-F]{130}$"),
        "publicKey": plain,
        "extraData": extra_data,
    });
    let more = match family {
        InputProof => {
            return object(json!({
                "contractChainId": chain_id,
                "contractAddress": address,
                "userAddress": address,
                "ciphertextWithInputVerification": plain,
                "extraData": word("0x00"),
            }));
        }
        PublicDecrypt => return object(json!({"ciphertextHandles": list(&handle), "extraData": extra_data})),
        UserDecrypt => json!({
            "requestValidity": object(json!({"startTimestamp": start, "durationDays": days})),
            "userAddress": address,
        }),
        DelegatedUserDecrypt => json!({
            "startTimestamp": start,
            "durationDays": days,
            "delegatorAddress": address,
            "delegateAddress": address,
        }),
    };
    if let (Some(user), Value::Object(more)) = (user.as_object_mut(), more) {
        user.extend(more);
    }
    object(user)
}

fn operation_id(family: Family, method: &str) -> String {
    family.path().replace(['/', '-'], "_") + "_" + method
}

/// A body that the relayer accepts.
fn example(family: Family, chain_id: u64) -> Value {
    let address = format!("0x{}", "63".repeat(20));
    let handle = format!("0x{}{chain_id:016x}0500", "1c".repeat(22));
    let mut user = json!({
        "handleContractPairs": [{"handle": handle, "contractAddress": address}],
        "contractsChainId": chain_id.to_string(),
        "contractAddresses": [address],
        "signature": "f3".repeat(65),
        "publicKey": "dd1d",
        "extraData": "0x00",
    });
    match family {
        InputProof => {
            return json!({
                "contractChainId": chain_id.to_string(),
                "contractAddress": address,
                "userAddress": address,
                "ciphertextWithInputVerification": "3ade",
                "extraData": "0x00",
            });
        }
        PublicDecrypt => return json!({"ciphertextHandles": [handle], "extraData": "0x00"}),
        UserDecrypt => {
            user["requestValidity"] = json!({"startTimestamp": "1700000000", "durationDays": "10"});
            user["userAddress"] = json!(address);
        }
        DelegatedUserDecrypt => {
            user["startTimestamp"] = json!("1700000000");
            user["durationDays"] = json!("10");
            user["delegatorAddress"] = json!(address);
            user["delegateAddress"] = json!(address);
        }
    }
    user
}

/// The result of a request.
fn result(family: Family) -> Value {
    let prefixed = hex("^0x([0-9a-f]{2})*$");
    let plain = hex("^([0-9a-f]{2})*$");
    let list = |items: &Value| json!({"type": "array", "items": items});
    match family {
        InputProof => json!({
            "type": "object",
            "required": ["accepted", "extraData"],
            "properties": {
                "accepted": {"type": "boolean"},
                "extraData": prefixed,
                "handles": list(&prefixed),
                "signatures": list(&prefixed),
            },
        }),
        PublicDecrypt => object(json!({"decryptedValue": plain, "signatures": list(&plain), "extraData": prefixed})),
        UserDecrypt | DelegatedUserDecrypt => {
            let share = object(json!({"payload": plain, "signature": plain, "extraData": prefixed}));
            object(json!({"result": list(&share)}))
        }
    }
}

/// An answer that has failed, with one of these labels.
fn failure(labels: &[Label]) -> Value {
    let words: Vec<_> = labels.iter().map(|label| label.as_str()).collect();
    let detail = object(json!({"field": {"type": "string"}, "issue": {"type": "string"}}));
    let error = json!({
        "type": "object",
        "required": ["label", "message"],
        "properties": {
            "label": {"type": "string", "enum": words},
            "message": {"type": "string"},
            "details": {"type": "array", "items": detail},
        },
    });
    let schema = json!({
        "type": "object",
        "required": ["status", "error"],
        "properties": {"status": word("failed"), "requestId": uuid(), "error": error},
    });
    content(&format!("Failed: {}", words.join(", ")), schema)
}

/// The same answer with the seconds of the next call.
fn later(mut answer: Value) -> Value {
    let seconds = json!({"type": "integer", "minimum": 1});
    answer["headers"] = json!({"Retry-After": {"description": "In how many seconds to call again", "schema": seconds}});
    answer
}

fn content(description: &str, schema: Value) -> Value {
    let mut answer = json!({ "description": description });
    answer["content"]["application/json"]["schema"] = schema;
    answer
}

/// An object that has all of these members.
fn object(properties: Value) -> Value {
    let names: Vec<_> = properties.as_object().map(Map::keys).into_iter().flatten().collect();
    let mut schema = json!({"type": "object", "required": names});
    schema["properties"] = properties;
    schema
}

fn word(word: &str) -> Value {
    json!({"type": "string", "enum": [word]})
}

fn hex(pattern: &str) -> Value {
    json!({"type": "string", "pattern": pattern})
}

fn uuid() -> Value {
    json!({"type": "string", "format": "uuid"})
}
