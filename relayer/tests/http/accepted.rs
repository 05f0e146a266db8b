//! Spellings that are accepted, and what is stored of them.

use serde_json::{Value, json};
use tidegate_fhevm::request::Family::{self, DelegatedUserDecrypt, InputProof, PublicDecrypt, UserDecrypt};

use super::node::{ADDRESS, HANDLE, Node, body, database, with};

#[tokio::test]
async fn s2_every_spelling_of_a_value_is_accepted() {
    let database = database().await;
    let node = Node::start(&database).await;
    let upper = |text: &str| format!("0x{}", text[2..].to_uppercase());
    let context = format!("0x0107{}", "ab".repeat(31));
    let epoch = format!("0x0207{}08{}", "AB".repeat(31), "cd".repeat(31));
    let mut cases: Vec<(Family, &str, Value)> = Vec::new();
    for chain_id in [json!("31337"), json!(31337), json!("0x7a69"), json!("0x7A69"), json!("0"), json!(u64::MAX)] {
        cases.push((InputProof, "/contractChainId", chain_id.clone()));
        cases.push((UserDecrypt, "/contractsChainId", chain_id.clone()));
        cases.push((DelegatedUserDecrypt, "/contractsChainId", chain_id));
    }
    for family in [PublicDecrypt, UserDecrypt, DelegatedUserDecrypt] {
        cases.push((family, "/extraData", json!(context)));
        cases.push((family, "/extraData", json!(epoch)));
    }
    cases.extend([
        (InputProof, "/contractAddress", json!(upper(ADDRESS))),
        (InputProof, "/ciphertextWithInputVerification", json!("3ADE")),
        (PublicDecrypt, "/ciphertextHandles/0", json!(upper(HANDLE))),
        (PublicDecrypt, "/ciphertextHandles", json!([HANDLE, HANDLE, HANDLE])),
        (UserDecrypt, "/publicKey", json!("00")),
        (UserDecrypt, "/requestValidity/startTimestamp", json!("0")),
        (UserDecrypt, "/requestValidity/startTimestamp", json!("0x6553f100")),
        (UserDecrypt, "/requestValidity/durationDays", json!("0")),
        (UserDecrypt, "/requestValidity/durationDays", json!("4294967295")),
        (DelegatedUserDecrypt, "/startTimestamp", json!("0x6553f100")),
        (DelegatedUserDecrypt, "/contractAddresses", json!([ADDRESS, ADDRESS])),
    ]);
    for (family, pointer, value) in cases {
        let said = format!("{family:?} {pointer} = {value}");
        let mut body = with(family, pointer, value);
        // Only the last family checks unknown fields.
        body["further"] = json!({"field": 1});
        let answer = node.post(family, &body).await;
        assert_eq!(answer.status, 202, "{said}: {answer:?}");
    }
}

#[tokio::test]
async fn what_is_stored_is_canonical() {
    let database = database().await;
    let node = Node::start(&database).await;
    for family in Family::ALL {
        let job = node.post(family, &body(family)).await.job();
        let payload = format!("select payload::text from tidegate.request where id = '{job}'");
        let payload: Value = serde_json::from_str(&database.text(&payload).await.unwrap()).unwrap();
        let kind = family.kind();
        let of_kind = format!("select count(*) from tidegate.request where id = '{job}' and kind = '{kind}'");
        assert_eq!(database.number(&of_kind).await, 1);
        match family {
            InputProof => {
                assert_eq!(payload["family"], "input_proof");
                assert_eq!(payload["contractChainId"], "31337");
                assert_eq!(payload["ciphertextWithInputVerification"], "0x3adeb676b47ad813");
            }
            PublicDecrypt => {
                assert_eq!(payload["family"], "public_decrypt");
                assert_eq!(payload["ciphertextHandles"], body(family)["ciphertextHandles"]);
            }
            UserDecrypt | DelegatedUserDecrypt => {
                let variant = if family == UserDecrypt { "user" } else { "delegated" };
                assert_eq!((&payload["family"], &payload["variant"]), (&json!("user_decrypt"), &json!(variant)));
                assert_eq!(payload["requestValidity"]["startTimestamp"], "1700000000");
                assert_eq!(payload["signature"], format!("0x{}", "f3".repeat(65)));
            }
        }
    }
}
