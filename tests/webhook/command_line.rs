//! Can an operator manage hosts, callbacks, secrets and failed deliveries from the command line?

use std::process::{Output, Stdio};

use serde_json::Value;
use tokio::process::Command;

use super::{Deliverer, Receiver};
use crate::support::TestDatabase;

async fn tidegate(database: &TestDatabase, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(arguments)
        .env("DATABASE_URL", &database.url)
        .env_remove("RUST_LOG")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .unwrap()
}

/// What a command that succeeds prints.
async fn say(database: &TestDatabase, arguments: &[&str]) -> String {
    let output = tidegate(database, arguments).await;
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// What a command that fails says.
async fn complain(database: &TestDatabase, arguments: &[&str]) -> String {
    let output = tidegate(database, arguments).await;
    assert!(!output.status.success(), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_allows_a_host_names_a_callback_and_sees_what_came_of_it() {
    let database = TestDatabase::unlimited().await;
    let receiver = Receiver::start().await;
    receiver.then(axum::http::StatusCode::GONE);
    let host = format!("127.0.0.1:{}", receiver.port);
    let url = receiver.url();

    let refused = complain(&database, &["submit", "direct", "--callback-url", &url]).await;
    assert!(refused.contains("webhook hosts add"), "{refused}");
    for (host, is_warned_of) in [(&*host, true), ("localhost", true), ("[::1]", true), ("hooks.example.com", false)] {
        let added = tidegate(&database, &["webhook", "hosts", "add", host]).await;
        let warned = String::from_utf8_lossy(&added.stderr).contains("nothing will be delivered there");
        assert_eq!(warned, is_warned_of, "{host}: {added:?}");
        say(&database, &["webhook", "hosts", "remove", host]).await;
    }
    let added = say(&database, &["webhook", "hosts", "add", &host, "--allow-private"]).await;
    assert!(added.contains(&format!("allowed {host}")), "{added}");
    let listed = say(&database, &["webhook", "hosts", "list"]).await;
    assert!(listed.contains(&host) && listed.contains("private too"));
    let secret = say(&database, &["webhook", "secret", "rotate"]).await;
    let secret = secret.trim();
    let listed = say(&database, &["webhook", "secret", "list"]).await;
    assert!(!listed.contains("whsec"), "{listed}");

    let id = say(&database, &["submit", "direct", "--callback-url", &url]).await;
    let id = id.trim();
    let told = say(&database, &["webhook", "kind", "direct", &url]).await;
    assert!(told.contains("it was none"), "{told}");
    database.execute(&format!("select tidegate.cancel('{id}')")).await;
    let deliverer = Deliverer::of(&database);
    receiver.until(1).await;
    database.until_delivery_is(id.parse().unwrap(), "failed").await;

    let listed = say(&database, &["webhook", "list", "--failed", "--json"]).await;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed[0]["job_id"], id);
    assert_eq!(listed[0]["last_status"], 410);
    let again = say(&database, &["webhook", "redeliver", id]).await;
    assert!(again.contains("was failed"), "{again}");
    let received = receiver.until(2).await;
    assert!(received.iter().all(|one| one.is_signed_with(secret)));
    database.until_delivery_is(id.parse().unwrap(), "delivered").await;
    deliverer.stop().await;
    let listed = say(&database, &["webhook", "list"]).await;
    assert!(listed.contains("delivered"), "{listed}");

    let failed = say(&database, &["webhook", "redeliver", "--failed"]).await;
    assert!(failed.starts_with("0 "), "{failed}");
    say(&database, &["webhook", "kind", "direct", "none"]).await;
    say(&database, &["webhook", "hosts", "remove", &host]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_webhook_commands_are_refused_with_the_cause() {
    let database = TestDatabase::new().await;
    for (arguments, word) in [
        (&["webhook", "hosts", "add", "http://a.example.com/"][..], "webhook host is a name"),
        (&["webhook", "hosts", "remove", "a.example.com"][..], "not on the list"),
        (&["webhook", "secret", "rotate", "--host", "a.example.com"][..], "allow-list"),
        (&["webhook", "secret", "rotate", "--overlap-hours=-1"][..], "zero or more"),
        (&["webhook", "redeliver", "01890000-0000-7000-8000-000000000000"][..], "no delivery"),
        (&["webhook", "redeliver"][..], "required"),
        (&["webhook", "kind", "nothing", "https://a.example.com/"][..], "no kind"),
        (&["webhook", "kind", "direct", "https://a.example.com/"][..], "allow-list"),
    ] {
        let said = complain(&database, arguments).await;
        assert!(said.contains(word), "{arguments:?}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_that_failed_is_delivered_again_batch_by_batch() {
    let database = TestDatabase::unlimited().await;
    let receiver = Receiver::allowed(&database).await;
    for _ in 0..5 {
        database.ended_telling(&receiver.url()).await;
    }
    database
        .execute(
            "update tidegate.webhook_delivery
             set state = 'failed', finished_at = clock_timestamp(), attempt = 8",
        )
        .await;

    let mut after = None;
    let mut batches = Vec::new();
    loop {
        let (redelivered, next) = database.store.webhook_redeliver_failed(2, after).await.unwrap();
        batches.push(redelivered);
        // What fails again at once is not met again.
        database
            .execute(
                "update tidegate.webhook_delivery
                 set state = 'failed', finished_at = clock_timestamp() where state = 'pending'",
            )
            .await;
        after = next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(batches, [2, 2, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn serve_delivers_unless_it_is_told_not_to() {
    let database = TestDatabase::unlimited().await;
    let receiver = Receiver::allowed(&database).await;
    let id = database.ended_telling(&receiver.url()).await;
    let serve = |webhooks: &str| {
        Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .args(["serve", "--listen", "127.0.0.1:0", "--webhooks", webhooks])
            .env("DATABASE_URL", &database.url)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap()
    };
    let mut idle = serve("0");
    super::quiet().await;
    assert_eq!(receiver.count(), 0);
    idle.kill().await.unwrap();

    let _busy = serve("4");
    database.until_delivery_is(id, "delivered").await;
}
