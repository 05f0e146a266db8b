//! Do concurrent changes follow each other without a deadlock, and does a reader get the old values or the new ones?

use crate::support::{TestDatabase, campaign, race::Session};

#[tokio::test(flavor = "multi_thread")]
async fn two_concurrent_changes_are_serialised_and_both_are_recorded() {
    let database = TestDatabase::new().await;
    let mut first = Session::begin(&database).await;
    first
        .texts("select * from tidegate.config_set_many('{\"tx.burst\": 2, \"min_seconds\": 2, \"direct.eta\": \"observed\"}', 'ann')")
        .await;
    // The other way round, and through the backoff's table: one order of locks for all.
    let second = Session::open(&database).await.start(
        "select setting, old_value, new_value from tidegate.config_set_many('{\"direct.eta\": \"nominal\", \"tx.burst\": 3}', 'bob')",
    );
    second.until_blocked_by(&database, &first).await;
    first.commit().await;
    let (_, mut said) = second.finish().await;
    said.sort();

    assert_eq!(said, ["direct.eta observed nominal", "tx.burst 2 3"]);
    assert_eq!(
        database
            .column(
                "select concat_ws(' ', on_behalf_of, setting, old_value, new_value)
                 from tidegate.config_history('tx.burst')"
            )
            .await,
        ["bob tx.burst 2 3", "ann tx.burst 1 2"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn many_concurrent_changes_of_many_settings_never_deadlock() {
    let database = TestDatabase::new().await;
    // Any number of attempts is within the budget.
    database.execute("update tidegate.policy set timeout_ms = 1, base_ms = 0, jitter_ms = 0").await;
    let mut tasks = Vec::new();
    for worker in 1..=6 {
        let mut session = Session::open(&database).await;
        tasks.push(tokio::spawn(async move {
            for round in 1..=campaign(5, 15) {
                let n = worker * 100 + round;
                session
                    .texts(&format!(
                        "select * from tidegate.config_set_many(
                           '{{\"tx.burst\": {n}, \"max_seconds\": {n}, \"direct.tx.attempts\": {n}, \"tx.high_water\": {},
                              \"tx_confirmation_ms\": {n}, \"response_backoff\": \"0s={n},{n}s=9\"}}')",
                        n + 1_000_000
                    ))
                    .await;
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    // The row holds all settings of the last writer.
    assert_eq!(
        database
            .value(
                "select s.max_seconds = q.burst and q.burst = p.attempts and g.high_water = q.burst + 1000000
                   and b.backoff = array['00:00:00=' || q.burst, make_interval(secs => q.burst) || '=9']
                 from tidegate.setting as s, tidegate.queue as q, tidegate.policy as p, tidegate.gate as g,
                   (select array_agg(from_elapsed || '=' || seconds order by from_elapsed) as backoff
                    from tidegate.response_backoff) as b
                 where q.name = 'tx' and p.kind = 'direct' and g.queue = 'tx'"
            )
            .await,
        "t"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_gets_the_old_response_backoff_or_the_new_one() {
    let database = TestDatabase::new().await;
    let mut setter = Session::begin(&database).await;
    setter.texts("select * from tidegate.config_set('response_backoff', '0s=7,10s=8')").await;

    let asked = "select tidegate.response_backoff_seconds('60 s')";
    assert_eq!(database.value(asked).await, "10");
    setter.commit().await;
    assert_eq!(database.value(asked).await, "8");
}
