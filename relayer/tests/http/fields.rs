//! Every rule of every field, in every family: what breaks it, and the issue that its caller gets.

use serde_json::{Value, json};
use tidegate_fhevm::request::Family::{self, DelegatedUserDecrypt, InputProof, PublicDecrypt, UserDecrypt};

use super::node::{ADDRESS, Answer, HANDLE, Node, body, database, with};

const NOT_A_STRING: &str = "Value must be a string";
const WRONG_TYPE: &str = "Invalid data type";
const EXTRA_DATA: &str = "Must be 0x00, or a versioned format: 0x01 + 32-byte contextId (0x07-tagged first byte), or \
                          0x02 + 32-byte contextId (0x07-tagged) + 32-byte epochId (0x08-tagged)";

#[derive(Debug, Clone, Copy)]
enum Rule {
    Address,
    Handle,
    ChainId,
    PlainHex,
    Signature,
    ExtraData,
    ProofExtraData,
    Timestamp,
    Days,
    List,
    Object,
}

/// Values that break a rule, each with its issue.
fn faults(rule: Rule) -> Vec<(Value, &'static str)> {
    let text = |text: &str, issue| (json!(text), issue);
    let zeros = |count: usize| "00".repeat(count);
    match rule {
        Rule::Address => vec![
            text(&ADDRESS[2..], "Must start with 0x"),
            text("", "Must start with 0x"),
            text(&format!("0X{}", &ADDRESS[2..]), "Must start with 0x"),
            text("0x", "Must be 42 characters long"),
            text(&ADDRESS[..41], "Must be 42 characters long"),
            text(&format!("{ADDRESS}00"), "Must be 42 characters long"),
            text(&format!("0x{}", "g".repeat(40)), "Contains invalid hex characters"),
            text(&format!("0x{}", "é".repeat(20)), "Contains invalid hex characters"),
            (json!(5), NOT_A_STRING),
            (json!(null), NOT_A_STRING),
        ],
        Rule::Handle => vec![
            text(&HANDLE[2..], "Must start with 0x"),
            text(&HANDLE[..65], "Invalid hex string"),
            text(&format!("0x{}", "zz".repeat(32)), "Invalid hex string"),
            text("0x", "Must be 64 characters long"),
            text(&HANDLE[..64], "Must be 64 characters long"),
            text(&format!("{HANDLE}00"), "Must be 64 characters long"),
            (json!({}), NOT_A_STRING),
        ],
        Rule::ChainId => {
            let issue = "Must be decimal number or 0x hex string";
            vec![
                text("", issue),
                text("0x", issue),
                text("0xzz", issue),
                text("abc", issue),
                text("-1", issue),
                text("+1", issue),
                text("18446744073709551616", issue),
                text("0x10000000000000000", issue),
                (json!(-1), issue),
                (json!(1.5), issue),
                (json!(true), WRONG_TYPE),
                (json!([1]), WRONG_TYPE),
            ]
        }
        Rule::PlainHex => vec![
            text("0xab", "Must not start with 0x"),
            text("abc", "Invalid hex string"),
            text("xy", "Invalid hex string"),
            text("", "Must not be empty"),
            (json!(["ab"]), NOT_A_STRING),
        ],
        Rule::Signature => vec![
            text("", "Must be 130 characters long"),
            text(&"ab".repeat(64), "Must be 130 characters long"),
            text(&format!("0x{}", "ab".repeat(65)), "Must be 130 characters long"),
            text(&format!("0x{}", "ab".repeat(64)), "Must not start with 0x"),
            text(&"zz".repeat(65), "Invalid hex string"),
            (json!(0), NOT_A_STRING),
        ],
        Rule::ExtraData => vec![
            text("", EXTRA_DATA),
            text("0x", EXTRA_DATA),
            text("00", EXTRA_DATA),
            text("0x01", EXTRA_DATA),
            text("0x0000", EXTRA_DATA),
            text(&format!("0x0107{}", zeros(30)), EXTRA_DATA),
            text(&format!("0x0107{}", zeros(32)), EXTRA_DATA),
            text(&format!("0x0108{}", zeros(31)), EXTRA_DATA),
            text(&format!("0x0107{}", "zz".repeat(31)), EXTRA_DATA),
            text(&format!("0x0207{}", zeros(31)), EXTRA_DATA),
            text(&format!("0x0207{}07{}", zeros(31), zeros(31)), EXTRA_DATA),
            text(&format!("0x0208{}08{}", zeros(31), zeros(31)), EXTRA_DATA),
            text(&format!("0x0307{}", zeros(31)), EXTRA_DATA),
            (json!(0), NOT_A_STRING),
        ],
        Rule::ProofExtraData => vec![
            text("0x", EXTRA_DATA),
            text("0x01", EXTRA_DATA),
            text(&format!("0x0107{}", zeros(31)), EXTRA_DATA),
            (json!(false), NOT_A_STRING),
        ],
        Rule::Timestamp => {
            let (invalid, future) = ("Value must be a valid U256 number", "Timestamp must not be in the future");
            vec![
                text("", invalid),
                text("soon", invalid),
                text("-1", invalid),
                text("1.5", invalid),
                text("0x", invalid),
                text(&format!("1{}", "0".repeat(78)), invalid),
                text(&format!("0x1{}", zeros(32)), invalid),
                text("99999999999", future),
                text(&format!("1{}", "0".repeat(70)), future),
                (json!(1_700_000_000), NOT_A_STRING),
            ]
        }
        Rule::Days => {
            let issue = "Value must be a valid u32 number";
            vec![
                text("", issue),
                text("-1", issue),
                text("0x1", issue),
                text("1.5", issue),
                text("4294967296", issue),
                (json!(10), NOT_A_STRING),
            ]
        }
        Rule::List => vec![
            (json!([]), "Must not be empty"),
            (json!({}), WRONG_TYPE),
            (json!("0x"), WRONG_TYPE),
            (json!(null), WRONG_TYPE),
        ],
        Rule::Object => vec![(json!([]), WRONG_TYPE), (json!("x"), WRONG_TYPE), (json!(null), WRONG_TYPE)],
    }
}

/// The places of a family's body, with the rules there. A fault is reported for the field at the top.
fn places(family: Family) -> Vec<(&'static str, Rule)> {
    let user = [
        ("/handleContractPairs", Rule::List),
        ("/handleContractPairs/0", Rule::Object),
        ("/handleContractPairs/0/handle", Rule::Handle),
        ("/handleContractPairs/0/contractAddress", Rule::Address),
        ("/contractsChainId", Rule::ChainId),
        ("/contractAddresses", Rule::List),
        ("/contractAddresses/0", Rule::Address),
        ("/signature", Rule::Signature),
        ("/publicKey", Rule::PlainHex),
        ("/extraData", Rule::ExtraData),
    ];
    match family {
        InputProof => vec![
            ("/contractChainId", Rule::ChainId),
            ("/contractAddress", Rule::Address),
            ("/userAddress", Rule::Address),
            ("/ciphertextWithInputVerification", Rule::PlainHex),
            ("/extraData", Rule::ProofExtraData),
        ],
        PublicDecrypt => vec![
            ("/ciphertextHandles", Rule::List),
            ("/ciphertextHandles/1", Rule::Handle),
            ("/extraData", Rule::ExtraData),
        ],
        UserDecrypt => {
            let mut places = user.to_vec();
            places.extend([
                ("/requestValidity", Rule::Object),
                ("/requestValidity/startTimestamp", Rule::Timestamp),
                ("/requestValidity/durationDays", Rule::Days),
                ("/userAddress", Rule::Address),
            ]);
            places
        }
        DelegatedUserDecrypt => {
            let mut places = user.to_vec();
            places.extend([
                ("/startTimestamp", Rule::Timestamp),
                ("/durationDays", Rule::Days),
                ("/delegatorAddress", Rule::Address),
                ("/delegateAddress", Rule::Address),
            ]);
            places
        }
    }
}

fn is_refused(answer: &Answer, label: &str, message: &str, details: &Value, said: &str) {
    assert_eq!(
        (answer.status, answer.label(), answer.body["error"]["message"].as_str(), &answer.body["error"]["details"]),
        (400, label, Some(message), details),
        "{said}"
    );
}

#[tokio::test]
async fn s2_a_field_that_breaks_its_rule_is_named_with_its_issue() {
    let database = database().await;
    let node = Node::start(&database).await;
    let mut cases = 0;
    for family in Family::ALL {
        for (pointer, rule) in places(family) {
            let field = pointer.split('/').nth(1).unwrap();
            for (value, issue) in faults(rule) {
                let said = format!("{family:?} {pointer} = {value}");
                let answer = node.post(family, &with(family, pointer, value)).await;
                let message = format!("Validation failed for 1 field in the request: {field}");
                let details = json!([{"field": field, "issue": issue}]);
                is_refused(&answer, "validation_failed", &message, &details, &said);
                cases += 1;
            }
        }
    }
    assert_eq!(database.number("select count(*) from tidegate.request").await, 0);
    assert!(cases >= 150, "{cases}");
}

#[tokio::test]
async fn s2_a_field_that_is_missing_is_named_wherever_it_is() {
    let database = database().await;
    let node = Node::start(&database).await;
    for family in Family::ALL {
        for (pointer, _) in places(family) {
            let (parent, field) = pointer.rsplit_once('/').unwrap();
            if field.parse::<usize>().is_ok() {
                continue;
            }
            let mut incomplete = body(family);
            incomplete.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(field);
            let answer = node.post(family, &incomplete).await;
            let message = format!("Missing 1 required field in the request: {field}");
            let details = json!([{"field": field, "issue": "Required but missing"}]);
            is_refused(&answer, "missing_fields", &message, &details, &format!("{family:?} without {pointer}"));
        }
        let answer = node.post(family, &json!({"unknown": 1})).await;
        let names: Vec<_> =
            places(family).into_iter().filter(|(pointer, _)| pointer.matches('/').count() == 1).collect();
        assert_eq!(answer.label(), "missing_fields");
        assert_eq!(answer.body["error"]["details"].as_array().unwrap().len(), names.len(), "{family:?}");
    }
}

#[tokio::test]
async fn a_body_that_asks_for_what_is_not_served_is_refused_by_its_field_before_all_rules() {
    let database = database().await;
    let node = Node::start(&database).await;
    for family in Family::ALL {
        for (field, refused, ignored) in [
            ("encryptedStores", vec![json!([]), json!(["0x01"]), json!({}), json!("")], vec![Value::Null]),
            (
                "attestationType",
                vec![json!("solana-srfc38-user-decrypt-v1"), json!("solana-ed25519-user-decrypt-v2")],
                vec![Value::Null, json!("eip712-unified-user-decrypt-v1"), json!(5)],
            ),
        ] {
            for value in refused {
                // A body for Solana has other fields.
                for mut said in [body(family), json!({})] {
                    said[field] = value.clone();
                    let answer = node.post(family, &said).await;
                    is_refused(
                        &answer,
                        "validation_failed",
                        &format!("Validation failed for 1 field in the request: {field}"),
                        &json!([{"field": field, "issue": "Not supported by this relayer"}]),
                        &said.to_string(),
                    );
                }
            }
            for value in ignored {
                let mut said = body(family);
                said[field] = value;
                assert_eq!(node.post(family, &said).await.status, 202, "{said}");
            }
        }
    }
}

#[tokio::test]
async fn s2_all_broken_fields_are_named_at_once_and_missing_ones_before_them() {
    let database = database().await;
    let node = Node::start(&database).await;
    let mut broken = with(InputProof, "/userAddress", json!("x"));
    broken["contractChainId"] = json!("y");

    let answer = node.post(InputProof, &broken).await;

    let message = "Validation failed for 2 fields in the request: contractChainId, userAddress";
    let details = json!([
        {"field": "contractChainId", "issue": "Must be decimal number or 0x hex string"},
        {"field": "userAddress", "issue": "Must start with 0x"},
    ]);
    is_refused(&answer, "validation_failed", message, &details, "two fields");

    broken.as_object_mut().unwrap().remove("extraData");
    let answer = node.post(InputProof, &broken).await;
    let details = json!([{"field": "extraData", "issue": "Required but missing"}]);
    is_refused(
        &answer,
        "missing_fields",
        "Missing 1 required field in the request: extraData",
        &details,
        "one missing",
    );
}
