//! Do claims pass over the requests of a paused kind, in every queue that has any, and find them in their places again?

use crate::support::{
    TestDatabase,
    race::{NOTHING, Session, sound, submit_many},
};

const LISTED: &str = "select name, paused_kinds from tidegate.queue where paused_kinds <> '{}' order by name";

async fn sharing() -> TestDatabase {
    let database = TestDatabase::unlimited().await;
    database
        .execute(
            "select tidegate.kind_add('one', 'direct', 'shared'); select tidegate.kind_add('two', 'direct', 'shared')",
        )
        .await;
    database
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_kind_keeps_its_places_while_another_is_served() {
    let database = sharing().await;
    let mut session = Session::open(&database).await;
    let ones = submit_many(&database, "one", 3).await;
    let twos = submit_many(&database, "two", 2).await;
    let wait = "select tidegate.claim_wait_ms('shared')";

    let paused = session.texts("select tidegate.pause(kind => 'one')").await;
    assert_eq!(paused, ["one"]);
    assert_eq!(session.texts("select tidegate.pause(kind => 'one')").await, NOTHING);
    let claimed = session.claim("shared", 10).await;
    assert_eq!(claimed.iter().map(|held| held.id).collect::<Vec<_>>(), twos);
    assert!(session.claim("shared", 10).await.is_empty());
    // A submission of the other kind behind them does not notify.
    assert_eq!(session.text(wait).await, "200");
    let reasons = format!("select reason, sentence from tidegate.explain('{}') where reason = 'paused'", ones[0]);
    assert_eq!(session.texts(&reasons).await, ["paused kind one is paused: `tidegate resume --kind one`"]);
    let told =
        format!("select tidegate.request_retry_after('{}') = (select max_seconds from tidegate.setting)", ones[0]);
    assert_eq!(session.text(&told).await, "t");

    let resumed = session.texts("select tidegate.pause(kind => 'one', paused => false)").await;
    assert_eq!(resumed, ["one"]);
    assert_eq!(session.text(wait).await, "0");
    let claimed = session.claim("shared", 10).await;
    assert_eq!(claimed.iter().map(|held| held.id).collect::<Vec<_>>(), ones);
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_of_paused_kinds_takes_nothing_and_rests() {
    let database = sharing().await;
    let mut session = Session::open(&database).await;
    submit_many(&database, "one", 2).await;
    submit_many(&database, "two", 2).await;
    let claim =
        |kinds: &str| format!("select kind from tidegate.claim_tx('shared', 'w', 1, '30 seconds', kinds => '{kinds}')");

    database.execute("select tidegate.pause(kind => 'one')").await;
    assert_eq!(session.texts(&claim("{one}")).await, NOTHING);
    assert_eq!(session.text("select tidegate.claim_wait_ms('shared', '{one}')").await, "60000");
    assert_eq!(session.texts(&claim("{one,two}")).await, ["two"]);
    database.execute("select tidegate.pause(kind => 'two')").await;
    assert_eq!(session.texts(&claim("{one,two}")).await, NOTHING);
    assert!(session.claim("shared", 10).await.is_empty());
    assert_eq!(session.text("select tidegate.claim_wait_ms('shared')").await, "60000");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_follows_the_kind_to_each_of_its_queues() {
    let database = sharing().await;
    let mut session = Session::open(&database).await;
    let left = submit_many(&database, "one", 1).await;
    database.execute("select tidegate.pause(kind => 'one'); select tidegate.queue_add('bulk', 'tx')").await;

    database.execute("update tidegate.kind set tx_queue = 'bulk' where name = 'one'").await;
    submit_many(&database, "one", 1).await;
    assert_eq!(session.texts(LISTED).await, ["bulk {one}", "shared {one}"]);
    for queue in ["bulk", "shared"] {
        assert!(session.claim(queue, 10).await.is_empty(), "{queue}");
    }
    database.execute("select tidegate.pause(kind => 'one', paused => false)").await;
    assert_eq!(session.texts(LISTED).await, NOTHING);
    assert_eq!(session.claim("shared", 10).await[0].id, left[0]);

    let history = "select old_value, new_value from tidegate.config_change
                   where row_key = 'one' and column_name = 'paused' and operation = 'update' order by id";
    assert_eq!(session.texts(history).await, ["false true", "true false"]);
    for (arguments, code) in [("kind => 'nope'", "TG002"), ("'nope'", "TG005"), ("'shared', kind => 'one'", "TG007")] {
        let refused = database.refused(&format!("select tidegate.pause({arguments})")).await;
        assert_eq!(refused.code, code, "{}", refused.message);
    }
    sound(&database).await;

    database.execute("select tidegate.pause(kind => 'two')").await;
    database.execute("select * from tidegate.kind_remove('two')").await;
    assert_eq!(session.texts(LISTED).await, NOTHING);
    database.execute("select tidegate.kind_add('two', 'direct', 'shared')").await;
    assert_eq!(session.texts(LISTED).await, NOTHING);
}
