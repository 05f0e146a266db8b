//! What does the command `doctor` print, also when it does not come to the end?

use serde_json::Value;

use super::{interrupted, lived_in};
use crate::cli::commands::{err, out, run};

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_names_what_is_wrong_and_shows_the_query() {
    let (database, mut session) = lived_in().await;
    let fine = run(&database.url, &["doctor"]).await;
    assert_eq!(fine.status.code(), Some(0), "{}{}", out(&fine), err(&fine));
    assert!(out(&fine).contains("invariants hold"), "{}", out(&fine));

    session.texts("select pgmq.purge_queue('tx')").await;
    let wrong = run(&database.url, &["doctor"]).await;
    assert_eq!(wrong.status.code(), Some(3));
    for words in [
        "live_request_without_message: ",
        "rule: a request that is queued",
        "    select r.id::text as id",
        "from pgmq.q_tx",
        "1 of ",
        "`tidegate recover` repairs part of this",
    ] {
        assert!(out(&wrong).contains(words), "{words}: {}", out(&wrong));
    }
    let wrong = run(&database.url, &["doctor", "--json"]).await;
    assert_eq!(wrong.status.code(), Some(3));
    let said: Value = serde_json::from_slice(&wrong.stdout).unwrap();
    assert_eq!(said["sound"], false);
    assert_eq!(said["violations"][0]["name"], "live_request_without_message");
    assert!(said["violations"][0]["violations"].as_i64() > Some(0));

    run(&database.url, &["recover"]).await;
    let fine = run(&database.url, &["doctor", "--json"]).await;
    assert_eq!(fine.status.code(), Some(0), "{}", out(&fine));
    let said: Value = serde_json::from_slice(&fine.stdout).unwrap();
    assert_eq!(said["sound"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn violations_found_so_far_are_shown_at_the_time_limit_and_on_an_interrupt() {
    let (database, mut session) = lived_in().await;
    session.execute("insert into pgmq.q_tx (vt, message) values ('-infinity', '[]')").await;

    let hurried = run(&database.url, &["doctor", "--time-limit", "1ms"]).await;
    assert_eq!(hurried.status.code(), Some(1), "{}", out(&hurried));
    for words in [
        "no violation of ",
        "read: the newest 0 of about ",
        "not examined, or not to the end: ended_request_with_message, ",
        "`tidegate doctor --time-limit 0s` reads everything",
    ] {
        assert!(out(&hurried).contains(words), "{words}: {}", out(&hurried));
    }

    let broken_off = interrupted(&database, &["doctor", "--json"]).await;
    assert_eq!(broken_off.status.code(), Some(3));
    let said: Value = serde_json::from_slice(&broken_off.stdout).unwrap();
    assert_eq!(said["violations"][0]["name"], "message_without_request");
    assert_eq!(said["complete"], false);
    assert_eq!(said["requests_read"], 0);

    let whole = run(&database.url, &["doctor", "--json", "--time-limit", "0s"]).await;
    let said: Value = serde_json::from_slice(&whole.stdout).unwrap();
    assert_eq!(said["complete"], true, "{said}");
    assert_eq!(said["requests_read"], said["requests"]);
}
