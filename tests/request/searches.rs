//! What do workers search for after the end of a request, how often, and what follows from what they find?

use crate::support::{
    TestDatabase,
    race::{Session, against, sound},
};

const CLAIM: &str = "select id from tidegate.search_claim('{direct}', 10)";

/// A request of `direct` under a key that failed during its only send.
async fn lost(database: &TestDatabase, key: &str) -> String {
    let id = database.value(&format!("select id from tidegate.submit('direct', '1', '{key}')")).await;
    database.claim_tx(10).await;
    database.execute(&format!("select tidegate.fail_request('{id}', 'lost')")).await;
    id
}

/// Lets time pass in a database whose clock stands still.
async fn wait(database: &TestDatabase, time: &str) {
    database.execute(&format!("update public.test_clock set at = at + interval '{time}'")).await;
}

/// What is known of a request: executed, source, its reference, and what its key does now.
async fn known(database: &TestDatabase, id: &str, key: &str) -> String {
    let known = database
        .value(&format!(
            "select concat_ws(' ', o.executed, o.source, r.reference)
             from tidegate.outcome as o join tidegate.request as r on r.id = o.request_id where r.id = '{id}'"
        ))
        .await;
    let again = database.value(&format!("select outcome from tidegate.submit('direct', '1', '{key}')")).await;
    format!("{known} {again}")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_is_due_a_second_after_the_end_and_then_ever_more_seldom() {
    let database = TestDatabase::unlimited().await;
    database.stop_clock().await;
    // Each search has its own time besides.
    database.execute("update tidegate.policy set timeout_ms = 3000 where kind = 'direct' and stage = 'tx'").await;
    let id = lost(&database, "k").await;
    assert!(database.column(CLAIM).await.is_empty());
    wait(&database, "1 second").await;
    for seconds in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600] {
        assert_eq!(database.column(CLAIM).await, [&*id], "{seconds}");
        assert!(database.column(CLAIM).await.is_empty());
        wait(&database, &format!("{} seconds", seconds + 2)).await;
        assert!(database.column(CLAIM).await.is_empty(), "{seconds}");
        wait(&database, "1 second").await;
    }
    assert_eq!(database.value("select searches from tidegate.outcome").await, "12");
    // A key that stands for a day is searched for that long, and no longer.
    wait(&database, "24 hours").await;
    assert!(database.column(CLAIM).await.is_empty());
    assert_eq!(database.text("select search_at::text from tidegate.unresolved").await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_may_have_another_time_for_searches() {
    for (columns, later, found) in [
        ("resolve_for = '1 minute'", "59 seconds", true),
        ("resolve_for = '1 minute'", "1 minute", false),
        ("resolve_for = '0'", "1 second", false),
        ("key_after_unknown = 'resolved'", "90 days", true),
        ("key_after_unknown = 'resolved', resolve_for = '30 days'", "31 days", false),
        ("key_after_unknown = 'free'", "1 hour", true),
    ] {
        let database = TestDatabase::unlimited().await;
        database.execute(&format!("update tidegate.kind set {columns} where name = 'direct'")).await;
        database.stop_clock().await;
        lost(&database, "k").await;
        wait(&database, later).await;
        assert_eq!(database.column(CLAIM).await.len(), usize::from(found), "{columns} {later}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_search_finds_decides_about_the_key() {
    for (found, outcome, expected) in [
        ("'receipt', 'r', '7'", "resolved", "yes search r replayed"),
        ("'receipt', null, '7'", "resolved", "yes search replayed"),
        ("'receipt', 'r'", "recorded", "unknown attempts r replayed"),
        ("'receipt'", "recorded", "unknown attempts replayed"),
        ("'answered'", "resolved", "yes search replayed"),
        ("'never'", "resolved", "no search accepted"),
    ] {
        let database = TestDatabase::unlimited().await;
        let id = lost(&database, "k").await;
        let settle = format!("select tidegate.search_settle('{id}', {found})");
        assert_eq!(database.value(&settle).await, outcome, "{found}");
        let again = if outcome == "resolved" { "dropped" } else { outcome };
        assert_eq!(database.value(&settle).await, again, "{found}");
        assert_eq!(known(&database, &id, "k").await, expected, "{found}");
        sound(&database).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_under_a_reference_that_a_search_has_found_resolves_the_request() {
    let database = TestDatabase::unlimited().await;
    let id = lost(&database, "k").await;
    database.execute(&format!("select tidegate.search_settle('{id}', 'receipt', 'r')")).await;
    let late = "select request_id || ' ' || outcome from tidegate.respond('7', reference => 'r')";
    assert_eq!(database.value(late).await, format!("{id} late"));
    assert_eq!(known(&database, &id, "k").await, "yes response r replayed");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_searched_for_that_is_known_or_was_repeated_or_behind_an_open_breaker() {
    let database = TestDatabase::unlimited().await;
    database.stop_clock().await;
    let due = lost(&database, "due").await;
    let known = lost(&database, "known").await;
    let repeated = lost(&database, "repeated").await;
    database
        .execute(&format!(
            "select tidegate.resolve('{known}', 'yes');
             select tidegate.resolve('{due}', 'yes')"
        ))
        .await;
    database.execute("select tidegate.redrive(may_repeat => true, code => 'internal_error')").await;
    let found = format!("select tidegate.search_settle('{repeated}', 'never')");
    assert_eq!(database.value(&found).await, "dropped");
    assert!(database.column("select id from tidegate.unresolved").await.is_empty());
    wait(&database, "1 second").await;
    assert!(database.column(CLAIM).await.is_empty());

    let late = lost(&database, "late").await;
    wait(&database, "1 second").await;
    database
        .execute(
            "insert into tidegate.breaker (kind, stage) values ('direct', 'tx') on conflict do nothing;
             update tidegate.breaker set state = 'open', open_until = tidegate.clock() + '1 minute'
             where kind = 'direct' and stage = 'tx'",
        )
        .await;
    assert!(database.column(CLAIM).await.is_empty());
    database.execute("update tidegate.breaker set state = 'closed', open_until = null").await;
    assert_eq!(database.column(CLAIM).await, [late]);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_workers_that_search_at_once_each_has_requests_of_its_own() {
    let database = TestDatabase::unlimited().await;
    let mut ids = Vec::new();
    for key in 0..4 {
        ids.push(lost(&database, &key.to_string()).await);
    }
    database.execute("update tidegate.outcome set search_at = tidegate.clock()").await;
    let claim = "select id from tidegate.search_claim('{direct}', 2)";
    let mut first = Session::begin(&database).await;
    let mut found = first.texts(claim).await;
    found.extend(database.column(claim).await);
    assert!(database.column(claim).await.is_empty());
    first.commit().await;
    found.sort();
    assert_eq!(found, ids);
    // One that dies delays its searches.
    let mut first = Session::begin(&database).await;
    database.execute("update tidegate.outcome set search_at = tidegate.clock()").await;
    assert_eq!(first.texts(claim).await.len(), 2);
    first.rollback().await;
    assert_eq!(database.column(claim).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finding_waits_for_a_redrive_and_is_dropped() {
    let database = TestDatabase::unlimited().await;
    for (commits, expected) in [(true, "dropped"), (false, "resolved")] {
        let id = lost(&database, expected).await;
        let mut first = Session::begin(&database).await;
        first.execute("select tidegate.redrive(may_repeat => true)").await;
        let settle = format!("select tidegate.search_settle('{id}', 'never')");
        let found = against(&database, &mut first, commits, &settle).await;
        assert_eq!(found, [expected]);
    }
    sound(&database).await;
}
