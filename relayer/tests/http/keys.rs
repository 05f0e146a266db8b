//! API keys, where callers need them.

use serde_json::json;
use tidegate::internals::api_key::ApiKey;
use tidegate_fhevm::request::Family;
use tidegate_node::Scope;

use super::{
    node::{Node, answer, body, database},
    support::TestDatabase,
};

async fn key(database: &TestDatabase, name: &str, scope: Scope) -> String {
    let key = ApiKey::generate().unwrap();
    database.store.key_create(&key, name, &[scope], None).await.unwrap();
    key.expose().to_owned()
}

#[tokio::test]
async fn calls_need_a_key_where_keys_are_required() {
    let database = database().await;
    let node = Node::start_with(&database, "keys = \"required\"").await;
    let (submits, responds) = (key(&database, "a", Scope::Submit).await, key(&database, "b", Scope::Respond).await);
    let client = reqwest::Client::new();
    for family in Family::ALL {
        let post = || client.post(format!("{}{}", node.url, family.path())).json(&body(family));
        let mut jobs = Vec::new();
        for (header, value, status) in [
            ("x-api-key", submits.clone(), 202),
            ("authorization", format!("Bearer {submits}"), 202),
            ("x-other", submits.clone(), 401),
            ("x-api-key", String::new(), 401),
            ("x-api-key", "tg_nonsense".to_owned(), 401),
            ("x-api-key", responds.clone(), 401),
        ] {
            let answered = answer("POST", family.path(), post().header(header, &value)).await;
            assert_eq!(answered.status, status, "{family:?} {header}");
            if status == 202 {
                jobs.push(answered.job());
            }
        }
        assert_eq!(jobs[0], jobs[1], "{family:?}");
        let path = format!("{}/{}", family.path(), jobs[0]);
        let get = || client.get(format!("{}{path}", node.url));
        assert_eq!(answer("GET", &path, get()).await.status, 401);
        assert_eq!(answer("GET", &path, get().header("x-api-key", &submits)).await.status, 202);
        // The key comes first, whatever the body.
        let empty = client.post(format!("{}{}", node.url, family.path())).json(&json!({}));
        assert_eq!(answer("POST", family.path(), empty).await.label(), "unauthorized");
    }
    assert_eq!(node.get("/liveness").await.status, 200);
}

#[tokio::test]
async fn s3_duplicates_of_other_keys_are_one_job_unless_they_are_kept_apart() {
    let database = database().await;
    let keys = [key(&database, "a", Scope::Submit).await, key(&database, "b", Scope::Submit).await];
    for (duplicates, are_one) in [("shared", true), ("per_key", false)] {
        let lines = format!("keys = \"required\"\nduplicates = \"{duplicates}\"");
        let node = Node::start_with(&database, &lines).await;
        for family in Family::ALL {
            let mut jobs = Vec::new();
            for key in &keys {
                let call = reqwest::Client::new().post(format!("{}{}", node.url, family.path()));
                let call = call.json(&body(family)).header("x-api-key", key);
                jobs.push(answer("POST", family.path(), call).await.job());
            }
            assert_eq!(jobs[0] == jobs[1], are_one, "{duplicates} {family:?}");
        }
    }
}
