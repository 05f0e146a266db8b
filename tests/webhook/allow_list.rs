//! Do only hosts on the list get deliveries, and do database and client read the same host in a URL?

use reqwest::Url;

use super::{Deliverer, Receiver, quiet};
use crate::support::TestDatabase;

async fn allow(database: &TestDatabase, hosts: &[&str]) {
    for host in hosts {
        database.store.webhook_host_add(host, false).await.unwrap();
    }
}

/// Which entry of the list covers a URL; empty for none.
async fn listed(database: &TestDatabase, url: &str) -> String {
    let sql = "select coalesce(listed, '') from tidegate_internal.webhook_target($1)";
    sqlx::query_scalar(sql).bind(url).fetch_one(&database.pool).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_is_covered_by_its_own_entry_before_the_nearest_wildcard() {
    let database = TestDatabase::new().await;
    allow(
        &database,
        &[
            "hooks.example.com",
            "Upper.Example.com",
            "*.example.com",
            "*.deep.example.com",
            "ports.example.org:8443",
            "*.example.org:9000",
            "192.0.2.7:8080",
            "[2001:db8::7]",
        ],
    )
    .await;

    for (url, entry) in [
        ("https://hooks.example.com", "hooks.example.com"),
        ("http://hooks.example.com/a/b?c=d", "hooks.example.com"),
        ("HTTPS://HOOKS.example.COM:443/", "hooks.example.com"),
        ("https://upper.example.com/", "upper.example.com"),
        ("https://other.example.com/", "*.example.com"),
        ("https://a.b.example.com/", "*.example.com"),
        ("https://a.deep.example.com/", "*.deep.example.com"),
        ("https://deep.example.com/", "*.example.com"),
        ("https://ports.example.org:8443/x", "ports.example.org:8443"),
        ("http://ports.example.org:8443/x", "ports.example.org:8443"),
        ("http://any.example.org:9000", "*.example.org:9000"),
        ("http://192.0.2.7:8080/", "192.0.2.7:8080"),
        ("https://[2001:db8::7]/", "[2001:db8::7]"),
    ] {
        assert_eq!(listed(&database, url).await, entry, "{url}");
    }
    for url in [
        "https://example.com/",
        "https://hooks.example.com.evil.example/",
        "https://evilhooks-example.com/",
        "https://xexample.com/",
        "https://hooks.example.com:8443/",
        "http://hooks.example.com:443/",
        "https://hooks.example.com:80/",
        "https://ports.example.org/",
        "https://any.example.org/",
        "http://192.0.2.7/",
        "https://com/",
    ] {
        assert_eq!(listed(&database, url).await, "", "{url}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_url_that_programs_read_in_different_ways_is_none() {
    let database = TestDatabase::new().await;
    let long = format!("https://hooks.example.com/{}", "x".repeat(2000));

    for url in [
        "",
        "hooks.example.com",
        "//hooks.example.com/",
        "https:/hooks.example.com/",
        "https:///hooks.example.com/",
        "https://",
        "ftp://hooks.example.com/",
        "javascript:alert(1)",
        "https://user@hooks.example.com/",
        "https://user:password@hooks.example.com/",
        "https://hooks.example.com@evil.example/",
        "https://hooks.example.com\\@evil.example/",
        "https://hooks.example.com\\.evil.example/",
        "https://hooks.example.com/a\\b",
        "https://hooks.example.com/#fragment",
        "https://hooks.example.com#",
        "https://hooks.example.com./",
        "https://.example.com/",
        "https://hooks.example.com:/",
        "https://hooks.example.com:0/",
        "https://hooks.example.com:080/",
        "https://hooks.example.com:443443/",
        "https://hooks%2eexample.com/",
        "https://hooks_example.com/",
        "https://hooks.example.com/a b",
        " https://hooks.example.com/",
        "https://hooks.example.com/\n",
        "https://hooks.example.com\n/",
        "https://hooks.exam\tple.com/",
        "https://höoks.example.com/",
        "https://hooks.example.com/ü",
        "https://hooks。example.com/",
        "https://[::1/",
        "https://[hooks.example.com]/",
        "https://[fe80::1%25eth0]/",
        long.as_str(),
    ] {
        let read: Option<String> = sqlx::query_scalar("select tidegate_internal.webhook_host_port($1)")
            .bind(url)
            .fetch_one(&database.pool)
            .await
            .unwrap();
        // A port of six digits is not there at all; one of five may still be too large.
        assert_eq!(read, None, "{url:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_database_and_the_client_read_the_same_host() {
    let database = TestDatabase::new().await;
    for url in [
        "https://hooks.example.com",
        "http://HOOKS.example.com:8080?a=b",
        "https://hooks.example.com/..;/@x:1//y?z=http://evil.example/",
        "http://a--b.example/%00%2f%5c",
        "https://xn--hoks-5qa.example/",
        "http://127.0.0.1:1/",
        "http://[::1]:1/",
        "https://hooks.example.com:443/[]^{}|`'<>",
    ] {
        let read: String = sqlx::query_scalar("select tidegate_internal.webhook_host_port($1)")
            .bind(url)
            .fetch_one(&database.pool)
            .await
            .unwrap();
        let client = Url::parse(url).unwrap();
        let client = format!("{}:{}", client.host_str().unwrap(), client.port_or_known_default().unwrap());
        assert_eq!(read, client, "{url}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_is_no_host_is_refused() {
    let database = TestDatabase::new().await;
    for host in [
        "",
        "*",
        "*.com",
        "*.",
        "*.0.0.1",
        "a.*.example.com",
        "*example.com",
        "https://example.com",
        "example.com/",
        "user@example.com",
        "example.com:",
        "example.com:0",
        "example.com:123456",
        "example .com",
        "-example.com",
        "example.com.",
    ] {
        let refused = database.store.webhook_host_add(host, false).await;
        let error = refused.expect_err(host).to_string();
        assert!(error.contains("webhook host is a name"), "{host}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kinds_callback_has_to_be_on_the_list_too() {
    let database = TestDatabase::new().await;
    allow(&database, &["hooks.example.com"]).await;

    for (url, code) in [
        ("https://elsewhere.example/", "TG009"),
        ("https://u@hooks.example.com/", "TG009"),
        ("ftp://hooks.example.com/", "23514"),
    ] {
        let set = format!("update tidegate.kind set callback_url = '{url}' where name = 'direct'");
        assert_eq!(database.refused(&set).await.code, code, "{url}");
        let set = format!("select tidegate.set_kind_callback('direct', '{url}')");
        assert_eq!(database.refused(&set).await.code, code, "{url}");
    }
    let unknown = "select tidegate.set_kind_callback('nothing', null)";
    assert_eq!(database.refused(unknown).await.code, "TG002");
    let set = |url| format!("select tidegate.set_kind_callback('direct', {url})");
    database.execute(&set("'https://hooks.example.com/'")).await;
    assert_eq!(database.value(&set("null")).await, "https://hooks.example.com/");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_was_removed_meanwhile_gets_nothing_until_it_is_back() {
    let database = TestDatabase::unlimited().await;
    let receiver = Receiver::allowed(&database).await;
    let id = database.ended_telling(&receiver.url()).await;
    let host = format!("127.0.0.1:{}", receiver.port);
    assert!(database.store.webhook_host_remove(&host).await.unwrap());
    assert!(!database.store.webhook_host_remove(&host).await.unwrap());

    let _deliverer = Deliverer::of(&database);
    database.until_delivery_is(id, "failed").await;
    let error = database.delivery(id, "last_error").await.unwrap();
    assert!(error.contains("not on the allow-list"), "{error}");
    quiet().await;
    assert_eq!(receiver.count(), 0);

    receiver.allow(&database).await;
    let (redelivered, next) = database.store.webhook_redeliver_failed(10, None).await.unwrap();
    assert_eq!((redelivered, next), (1, None));
    database.until_delivery_is(id, "delivered").await;
    assert_eq!(receiver.count(), 1);
}
