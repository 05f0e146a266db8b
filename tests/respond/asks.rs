//! Which requests do workers ask for the response of, and when?

use crate::support::TestDatabase;

const NONE: [&str; 0] = [];

const CLAIM: &str =
    "select id || coalesce(' ' || reference, '') from tidegate.ask_claim('{direct,public_decrypt}', 10)";

/// Lets time pass in a database whose clock stands still.
async fn wait(database: &TestDatabase, milliseconds: i64) {
    let later = format!("update public.test_clock set at = at + {milliseconds} * interval '1 ms'");
    database.execute(&later).await;
}

/// A database whose clock stands still, and in which an ask may take three seconds.
async fn database() -> TestDatabase {
    let database = TestDatabase::unlimited().await;
    database.execute("update tidegate.policy set timeout_ms = 3000 where kind = 'direct' and stage = 'tx'").await;
    database.stop_clock().await;
    database
}

#[tokio::test(flavor = "multi_thread")]
async fn only_direct_requests_that_await_a_response_are_asked_for() {
    let database = database().await;
    let id = database.request_in("direct", "receipt_received").await;
    for (kind, status) in [("public_decrypt", "receipt_received"), ("direct", "completed"), ("direct", "tx_in_flight")]
    {
        database.request_in(kind, status).await;
    }
    assert_eq!(database.column(CLAIM).await, NONE);
    wait(&database, 1000).await;
    let other = "select id from tidegate.ask_claim('{input_proof}')";
    assert_eq!(database.column(other).await, NONE);
    assert_eq!(database.column(CLAIM).await, [format!("{id} ref-{id}")]);

    let responded = format!("select outcome from tidegate.respond('1', '{id}')");
    assert_eq!(database.value(&responded).await, "completed");
    wait(&database, 60_000).await;
    assert_eq!(database.column(CLAIM).await, NONE);
    assert_eq!(database.violations().await, NONE);
}

#[tokio::test(flavor = "multi_thread")]
async fn asks_are_ever_more_seldom_and_each_has_its_time() {
    let database = database().await;
    let id = database.request_in("direct", "receipt_received").await;
    let due = [format!("{id} ref-{id}")];
    let settle = |after: &str| format!("select tidegate.ask_settle('{id}', {after})");
    wait(&database, 1000).await;
    // A worker that dies delays the next one by the time that it had, and a second.
    assert_eq!(database.column(CLAIM).await, due);
    wait(&database, 3999).await;
    assert_eq!(database.column(CLAIM).await, NONE);
    wait(&database, 1).await;
    assert_eq!(database.column(CLAIM).await, due);

    // Five seconds after the receipt, then fifty, then a thousand.
    for (waits, next) in [(0, 1000), (44_000, 5000), (945_000, 60_000)] {
        wait(&database, waits).await;
        database.execute(&settle("null")).await;
        wait(&database, next - 1).await;
        assert_eq!(database.column(CLAIM).await, NONE, "{next}");
        wait(&database, 1).await;
        assert_eq!(database.column(CLAIM).await, due, "{next}");
    }
    // The downstream may want more time, but no less.
    for (after, next) in [("interval '2 minutes'", 120_000), ("interval '0'", 60_000)] {
        database.execute(&settle(after)).await;
        wait(&database, next - 1).await;
        assert_eq!(database.column(CLAIM).await, NONE, "{after}");
        wait(&database, 1).await;
        assert_eq!(database.column(CLAIM).await, due, "{after}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_asked_while_the_breaker_is_open() {
    let database = database().await;
    let id = database.request_in("direct", "receipt_received").await;
    wait(&database, 1000).await;
    database
        .execute(
            "update tidegate.policy set breaker_error_rate = 1 where kind = 'direct' and stage = 'tx';
             update tidegate.breaker set state = 'open', open_until = tidegate.clock() + interval '1 hour'
             where kind = 'direct' and stage = 'tx'",
        )
        .await;
    assert_eq!(database.column(CLAIM).await, NONE);
    database.execute("update tidegate.breaker set state = 'closed', open_until = null where kind = 'direct'").await;
    assert_eq!(database.column(CLAIM).await, [format!("{id} ref-{id}")]);
}
