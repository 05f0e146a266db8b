//! Does an operator find requests by what is known of them?

use serde_json::{Value, json};

use crate::{
    cli::commands::{err, out, run},
    support::TestDatabase,
};

/// What a command prints as JSON.
async fn shown(database: &TestDatabase, arguments: &[&str]) -> Value {
    let output = run(&database.url, &[arguments, &["--json"]].concat()).await;
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{arguments:?}: {}", err(&output)))
}

fn ids(listed: &Value) -> Vec<String> {
    let requests = listed["requests"].as_array().unwrap();
    requests
        .iter()
        .map(|request| request["job_id"].as_str().unwrap().to_owned())
        .collect()
}

/// Submits a request of a submitter.
async fn submit(database: &TestDatabase, kind: &str, submitter: &str) -> String {
    let submit = format!("select id from tidegate.submit('{kind}', '{{}}', submitter => '{submitter}')");
    database.value(&submit).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_has_the_requests_that_pass_every_filter_newest_first() {
    let database = TestDatabase::new().await;
    let ann = submit(&database, "direct", "ann").await;
    let bob = submit(&database, "direct", "bob").await;
    let checked = submit(&database, "user_decrypt", "ann").await;
    let gone = submit(&database, "input_proof", "ann").await;
    database.execute(&format!("select tidegate.cancel('{gone}')")).await;

    for (filter, expected) in [
        (&[][..], &[&gone, &checked, &bob, &ann][..]),
        (&["--kind", "user-decrypt"], &[&checked]),
        (&["--submitter", "ann"], &[&gone, &checked, &ann]),
        (&["--queue", "tx"], &[&bob, &ann]),
        (&["--state", "failure", "--state", "queued"], &[&gone, &checked]),
        (&["--kind", "direct", "--submitter", "bob", "--queue", "tx"], &[&bob]),
        (&["--older-than", "1h"], &[]),
        (&["--since", "1h", "--state", "processing"], &[&bob, &ann]),
        (&["--limit", "3"], &[&gone, &checked, &bob]),
    ] {
        let listed = shown(&database, &[&["list"], filter].concat()).await;
        assert_eq!(
            ids(&listed),
            expected.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "{filter:?}"
        );
    }
    let listed = shown(&database, &["list", "--state", "failure"]).await;
    assert_eq!(listed["requests"][0]["code"], "cancelled", "{listed}");
    assert_eq!(listed["next"], Value::Null);

    let first = shown(&database, &["list", "--limit", "3"]).await;
    let rest = shown(&database, &["list", "--cursor", first["next"].as_str().unwrap()]).await;
    assert_eq!(ids(&rest), [ann]);
    let text = out(&run(&database.url, &["list", "--limit", "1"]).await);
    assert!(
        text.contains(&gone) && text.contains("input_proof") && text.contains("--cursor "),
        "{text}"
    );
    let none = out(&run(&database.url, &["list", "--submitter", "eve"]).await);
    assert_eq!(none, "there is no such request\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn those_that_wait_longest_are_found_in_all_queues_or_in_one() {
    let database = TestDatabase::new().await;
    let oldest = submit(&database, "direct", "ann").await;
    let checked = submit(&database, "user_decrypt", "ann").await;
    let newest = submit(&database, "direct", "ann").await;
    let later = "select id from tidegate.submit('direct', '{}', not_before => tidegate.clock() + interval '1 hour')";
    database.value(later).await;

    let waiting = shown(&database, &["list", "--waiting"]).await;
    assert_eq!(ids(&waiting), [&*oldest, &*checked, &*newest]);
    let two = shown(&database, &["list", "--waiting", "--queue", "tx", "--limit", "1"]).await;
    assert_eq!(ids(&two), [&*oldest]);
    assert!(two["requests"][0]["waiting_since"].is_string(), "{two}");
    let text = out(&run(&database.url, &["list", "--waiting", "--queue", "readiness"]).await);
    assert!(text.contains(&checked) && text.contains("waits since"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_what_does_not_exist_is_refused() {
    let database = TestDatabase::new().await;
    for (arguments, code, word) in [
        (&["list", "--kind", "nope"][..], 1, "there is no kind \"nope\""),
        (&["list", "--queue", "nope"], 1, "there is no queue \"nope\""),
        (
            &["list", "--waiting", "--queue", "nope"],
            1,
            "there is no queue \"nope\"",
        ),
        (&["list", "--waiting", "--kind", "direct"], 2, "cannot be used with"),
        (&["list", "--state", "lost"], 2, "lost"),
        (&["list", "--limit", "0"], 2, "limit"),
        (&["list", "--cursor", "next"], 2, "cursor"),
        (&["list", "--since", "yesterday"], 2, "2h"),
    ] {
        let output = run(&database.url, arguments).await;
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", err(&output));
        assert!(err(&output).contains(word), "{arguments:?}: {}", err(&output));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_database_lists_nothing() {
    let database = TestDatabase::uninitialised().await;
    assert_eq!(shown(&database, &["list"]).await, json!({"requests": [], "next": null}));
    let text = out(&run(&database.url, &["list", "--waiting"]).await);
    assert_eq!(text, "no request waits that a worker could take now\n");
}
