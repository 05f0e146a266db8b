//! Is every delivery signed, with the secrets that are in force?

use std::time::Duration;

use super::{Deliverer, Receiver};
use crate::support::{TestDatabase, sql::column};

const DAY: Duration = Duration::from_secs(24 * 3600);

async fn rotate(database: &TestDatabase, host: Option<&str>, overlap: Duration) -> String {
    let rotated = database.store.webhook_secret_rotate(host, overlap).await;
    rotated.unwrap().1
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_is_signed_with_the_current_secret_and_the_one_before() {
    let database = TestDatabase::unlimited().await;
    let receiver = Receiver::allowed(&database).await;
    let _deliverer = Deliverer::of(&database);

    let first = rotate(&database, None, DAY).await;
    database.ended_telling(&receiver.url()).await;
    let delivery = receiver.until(1).await.pop().unwrap();
    assert!(delivery.is_signed_with(&first));
    assert!(!delivery.is_signed_with("whsec_YW5vdGhlcg=="));

    let second = rotate(&database, None, DAY).await;
    database.ended_telling(&receiver.url()).await;
    let delivery = receiver.until(2).await.pop().unwrap();
    assert!(delivery.is_signed_with(&first));
    assert!(delivery.is_signed_with(&second));

    let third = rotate(&database, None, DAY).await;
    database.ended_telling(&receiver.url()).await;
    let delivery = receiver.until(3).await.pop().unwrap();
    assert!(!delivery.is_signed_with(&first), "two at a time");
    assert!(delivery.is_signed_with(&second));
    assert!(delivery.is_signed_with(&third));

    let fourth = rotate(&database, None, Duration::ZERO).await;
    database.ended_telling(&receiver.url()).await;
    let delivery = receiver.until(4).await.pop().unwrap();
    assert!(!delivery.is_signed_with(&third), "an overlap of nothing ends it at once");
    assert!(delivery.is_signed_with(&fourth));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_with_a_secret_of_its_own_is_signed_to_with_that_alone() {
    let database = TestDatabase::unlimited().await;
    let own = Receiver::allowed(&database).await;
    let other = Receiver::allowed(&database).await;
    let _deliverer = Deliverer::of(&database);
    let common = rotate(&database, None, DAY).await;
    let host = format!("127.0.0.1:{}", own.port);
    let secret = rotate(&database, Some(&host), DAY).await;

    database.ended_telling(&own.url()).await;
    database.ended_telling(&other.url()).await;
    let to_own = own.until(1).await.pop().unwrap();
    assert!(to_own.is_signed_with(&secret));
    assert!(!to_own.is_signed_with(&common));
    let to_other = other.until(1).await.pop().unwrap();
    assert!(to_other.is_signed_with(&common));
    assert!(!to_other.is_signed_with(&secret));

    // With the host goes its secret.
    database.store.webhook_host_remove(&host).await.unwrap();
    own.allow(&database).await;
    database.ended_telling(&own.url()).await;
    assert!(own.until(2).await[1].is_signed_with(&common));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_host_brings_a_secret_and_each_is_another() {
    let database = TestDatabase::new().await;
    assert!(database.store.webhook_secrets().await.unwrap().is_empty());
    for host in ["a.example.com", "b.example.com"] {
        database.store.webhook_host_add(host, false).await.unwrap();
    }
    assert_eq!(database.store.webhook_secrets().await.unwrap().len(), 1);

    rotate(&database, None, DAY).await;
    rotate(&database, Some("a.example.com"), DAY).await;
    let secrets = database.column("select distinct secret from tidegate.webhook_secret").await;
    assert_eq!(secrets.len(), 3);
    assert!(secrets.iter().all(|secret| secret.len() == 70));
    let elsewhere = database.store.webhook_secret_rotate(Some("elsewhere.example"), DAY).await;
    assert!(elsewhere.unwrap_err().to_string().contains("allow-list"));
}

#[tokio::test(flavor = "multi_thread")]
async fn rotations_at_once_leave_one_current_secret() {
    let database = TestDatabase::new().await;
    let mut rotations = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let store = database.store.clone();
        rotations.spawn(async move { store.webhook_secret_rotate(None, DAY).await.unwrap() });
    }
    rotations.join_all().await;

    let active = database.store.webhook_secrets().await.unwrap();
    assert_eq!(active.len(), 2);
    let current = active.iter().filter(|secret| secret.expires_at.is_none());
    assert_eq!(current.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_sent_unsigned() {
    let database = TestDatabase::unlimited().await;
    let receiver = Receiver::allowed(&database).await;
    database.execute("delete from tidegate.webhook_secret").await;
    let id = database.ended_telling(&receiver.url()).await;
    let _deliverer = Deliverer::of(&database);
    crate::support::eventually("it says what is missing", || async {
        database.delivery(id, "last_error").await.is_some_and(|error| error.contains("no signing secret"))
    })
    .await;
    assert_eq!(receiver.count(), 0);

    let secret = rotate(&database, None, DAY).await;
    database.all_due().await;
    database.until_delivery_is(id, "delivered").await;
    assert!(receiver.received()[0].is_signed_with(&secret));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_owner_reads_a_secret_and_only_operators_allow_hosts() {
    let database = TestDatabase::unlimited().await;
    database.store.webhook_host_add("hooks.example.com", false).await.unwrap();
    for role in ["reader", "worker", "api", "node", "admin"] {
        let mut session = crate::access::roles::login(&database, role).await;
        for sql in [
            "select secret from tidegate.webhook_secret",
            "select * from tidegate.webhook_secret",
            "select tidegate_internal.webhook_secrets('x')",
            "select tidegate_internal.webhook_new_secret()",
            "update tidegate.webhook_delivery set state = 'pending'",
        ] {
            crate::access::roles::is_denied(&mut session, sql).await;
        }
        let ids = "select id, host, created_at, expires_at from tidegate.webhook_secret";
        assert_eq!(column(&mut session, ids).await.len(), 1);
        column(&mut session, "select o::text from tidegate.webhook_overview as o").await;

        let deliver = [
            "select * from tidegate.webhook_claim(1)",
            "select tidegate.webhook_settle(gen_random_uuid(), 1, 'retry')",
        ];
        let submit = ["select * from tidegate.submit_with_callback('direct', '{}', null)"];
        let operate = [
            "select tidegate.webhook_host_add('a.example.com')",
            "select tidegate.webhook_secret_rotate('a.example.com')",
            "select tidegate.webhook_host_remove('a.example.com')",
            "select tidegate.webhook_redeliver(gen_random_uuid())",
            "select * from tidegate.webhook_redeliver_failed()",
            "select tidegate.set_kind_callback('direct', null)",
            "update tidegate.webhook_policy set attempts = 8",
        ];
        for (calls, may) in [
            (&deliver[..], ["node", "admin"].contains(&role)),
            (&submit[..], ["api", "node", "admin"].contains(&role)),
            (&operate[..], role == "admin"),
        ] {
            for sql in calls {
                if may {
                    column(&mut session, sql).await;
                } else {
                    crate::access::roles::is_denied(&mut session, sql).await;
                }
            }
        }
    }
}
