//! Does an operator find requests by what is known of them?

use std::process::Stdio;

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::{
    cli::commands::{err, out, run, tidegate},
    support::TestDatabase,
};

/// What a command prints as JSON.
async fn shown(database: &TestDatabase, arguments: &[&str]) -> Value {
    let output = run(&database.url, &[arguments, &["--json"]].concat()).await;
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{arguments:?}: {}", err(&output)))
}

fn ids(listed: &Value) -> Vec<String> {
    let requests = listed["requests"].as_array().unwrap();
    requests.iter().map(|request| request["job_id"].as_str().unwrap().to_owned()).collect()
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
        (&["--cause", "cancelled"], &[&gone]),
        (&["--executed", "no"], &[&gone]),
        (&["--executed", "unknown"], &[]),
        (&["--attempts", "0", "--submitter", "bob"], &[&bob]),
        (&["--attempts", "1"], &[]),
    ] {
        let listed = shown(&database, &[&["list"], filter].concat()).await;
        assert_eq!(ids(&listed), expected.iter().map(ToString::to_string).collect::<Vec<_>>(), "{filter:?}");
    }
    let listed = shown(&database, &["list", "--state", "failure"]).await;
    assert_eq!(listed["requests"][0]["code"], "cancelled", "{listed}");
    assert_eq!(listed["next"], Value::Null);

    let first = shown(&database, &["list", "--limit", "3"]).await;
    let rest = shown(&database, &["list", "--cursor", first["next"].as_str().unwrap()]).await;
    assert_eq!(ids(&rest), [ann]);
    let text = out(&run(&database.url, &["list", "--limit", "1"]).await);
    assert!(text.contains(&gone) && text.contains("input_proof") && text.contains("--cursor "), "{text}");
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
        (&["list", "--waiting", "--queue", "nope"], 1, "there is no queue \"nope\""),
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

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_cancelled_by_filter_after_a_look_at_them() {
    let database = TestDatabase::new().await;
    let ann = submit(&database, "direct", "ann").await;
    let bob = submit(&database, "direct", "bob").await;
    let checked = submit(&database, "user_decrypt", "bob").await;

    let dry = shown(&database, &["cancel", "--submitter", "bob", "--dry-run"]).await;
    assert_eq!((&dry["cancelled"], &dry["dry_run"]), (&json!(2), &json!(true)));
    let text = out(&run(&database.url, &["cancel", "--submitter", "bob", "--dry-run"]).await);
    assert!(text.starts_with("2 would be cancelled\n") && text.contains(&bob), "{text}");
    assert_eq!(database.number("select count(*) from tidegate.request where finished_at is null").await, 3);

    let done = shown(&database, &["cancel", "--submitter", "bob", "--batch", "1"]).await;
    assert_eq!(done["requests"], json!([checked, bob]), "{done}");
    let text = out(&run(&database.url, &["cancel", "--kind", "direct", "--limit", "5"]).await);
    assert_eq!(text, format!("1 cancelled\n  {ann}\n"));
    let text = out(&run(&database.url, &["cancel", "--older-than", "0s"]).await);
    assert_eq!(text, "0 cancelled\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn named_requests_are_cancelled_and_those_that_cannot_be_are_told() {
    let database = TestDatabase::new().await;
    let ended = database.request_in("direct", "completed").await.to_string();
    let live = submit(&database, "direct", "ann").await;
    let none = "00000000-0000-7000-8000-000000000000";

    let output = run(&database.url, &["cancel", &live, &ended, none]).await;

    assert_eq!(output.status.code(), Some(3));
    let expected =
        format!("1 cancelled\n  {live}\n{ended} is completed, and is not cancelled\nthere is no request {none}\n");
    assert_eq!(out(&output), expected);
    assert!(run(&database.url, &["cancel", &live]).await.status.success());
    for arguments in [&["cancel"][..], &["cancel", &live, "--kind", "direct"], &["cancel", &live, "--dry-run"]] {
        assert_eq!(run(&database.url, arguments).await.status.code(), Some(2), "{arguments:?}");
    }
    let refused = run(&database.url, &["cancel", "--state", "completed"]).await;
    assert_eq!(refused.status.code(), Some(1));
    assert!(err(&refused).contains("completed is not cancelled"), "{}", err(&refused));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redrive_takes_those_of_a_submitter_that_ended_in_time() {
    let database = TestDatabase::new().await;
    for submitter in ["ann", "bob"] {
        let id = submit(&database, "direct", submitter).await;
        database.execute(&format!("select tidegate.fail_internal(array['{id}']::uuid[])")).await;
    }

    let early = shown(&database, &["redrive", "--submitter", "ann", "--until", "1h", "--dry-run"]).await;
    assert_eq!(early["redriven"], 0, "{early}");
    let others = shown(&database, &["redrive", "--state", "timed_out"]).await;
    assert_eq!(others["redriven"], 0, "{others}");
    let done = shown(&database, &["redrive", "--submitter", "ann"]).await;
    assert_eq!(done["redriven"], 1, "{done}");
    assert_eq!(
        database.value("select r.submitter from tidegate.request as r where r.finished_at is null").await,
        "ann"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redrive_of_named_requests_says_which_it_has_left() {
    let database = TestDatabase::new().await;
    let live = submit(&database, "direct", "ann").await;
    let [cancelled, other] = [submit(&database, "direct", "bob").await, submit(&database, "direct", "cid").await];
    for id in [&cancelled, &other] {
        database.execute(&format!("select tidegate.cancel('{id}')")).await;
    }

    let output = run(&database.url, &["redrive", "--json", &live, &cancelled]).await;
    assert_eq!(output.status.code(), Some(3), "{}", err(&output));
    let done: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((ids(&done), &done["left"]), (vec![cancelled.clone()], &json!([live])));
    let again = run(&database.url, &["redrive", &cancelled]).await;
    assert!(out(&again).contains("1 stay as they are"), "{}", out(&again));
    let refused = run(&database.url, &["redrive", "--state", "queued"]).await;
    assert!(err(&refused).contains("queued is not redriven"), "{}", err(&refused));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_fills_the_queues_is_shown_by_submitter() {
    let database = TestDatabase::new().await;
    let none = run(&database.url, &["status", "--submitters"]).await;
    assert_eq!(out(&none), "no request is in a queue\n", "{}", err(&none));
    for (kind, submitter) in
        [("direct", "ann"), ("direct", "bob"), ("direct", "ann"), ("user_decrypt", "ann"), ("direct", "ann")]
    {
        submit(&database, kind, submitter).await;
    }
    database.submit("direct").await;
    let later = "select id from tidegate.submit('direct', '{}', submitter => 'bob',
                   not_before => tidegate.clock() + interval '1 hour')";
    database.value(later).await;
    database.execute("select tidegate.quota_set(submitter => 'ann', high_water => 50)").await;
    database.execute("select tidegate.claim_tx('tx', 'w', 1, '30 seconds')").await;

    let counts = shown(&database, &["status", "--submitters"]).await;
    let counts = counts.as_array().unwrap().iter().map(|count| {
        let cells = ["queue", "submitter", "requests", "waiting", "held", "high_water"];
        cells.map(|cell| count[cell].clone())
    });
    let expected = [
        ("tx", Some("ann"), [3, 2, 1], Some(50)),
        ("tx", Some("bob"), [2, 1, 0], None),
        ("readiness", Some("ann"), [1, 1, 0], Some(50)),
        ("tx", None, [1, 1, 0], None),
    ];
    let expected = expected.map(|(queue, submitter, [requests, waiting, held], quota)| {
        [json!(queue), json!(submitter), json!(requests), json!(waiting), json!(held), json!(quota)]
    });
    assert_eq!(counts.collect::<Vec<_>>(), expected);
    let text = run(&database.url, &["status", "--submitters", "--queue", "readiness"]).await;
    assert_eq!(out(&text).lines().count(), 2, "{}{}", out(&text), err(&text));
    let unknown = run(&database.url, &["status", "--submitters", "--queue", "nope"]).await;
    assert!(err(&unknown).contains("there is no queue"), "{}", err(&unknown));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watched_status_follows_what_changes_until_it_is_interrupted() {
    let database = TestDatabase::new().await;
    let mut watching =
        tidegate(&database.url).args(["status", "--watch", "0.2"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    let mut until = async |word: &str| {
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.contains(word) {
                return;
            }
        }
        panic!("the output ends before {word}");
    };

    until("drained/s").await;
    database.execute("select tidegate.pause('tx')").await;
    until("paused").await;
    let pid = Pid::from_raw(i32::try_from(watching.id().unwrap()).unwrap());
    kill(pid, Signal::SIGINT).unwrap();
    assert!(watching.wait().await.unwrap().success());

    for interval in ["0", "-1", "2h", "soon"] {
        let refused = run(&database.url, &["status", "--watch", interval]).await;
        assert_eq!(refused.status.code(), Some(2), "{interval}");
    }
}
