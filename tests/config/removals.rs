//! Does a kind go when its requests have ended, and no sooner, and its queue with it when it is asked?

use crate::support::{
    TestDatabase,
    race::{NOTHING, Session, settle, sound, submit_many},
};

const STEP: &str = "select removed, live, ended, queues_removed, queues_kept from tidegate.kind_remove";
const KEYS_AND_REQUESTS: &str =
    "select (select count(*) from tidegate.dedup) + (select count(*) from tidegate.request)";

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_is_removed_when_its_live_requests_have_ended() {
    let database = TestDatabase::unlimited().await;
    database.execute("select tidegate.kind_add('payout', 'direct')").await;
    let ids = submit_many(&database, "payout", 2).await;
    let mut session = Session::open(&database).await;

    let renamed = database.refused("update tidegate.kind set name = 'pay' where name = 'payout'").await;
    assert_eq!(renamed.code, "TG002");
    let refused = database.refused("select * from tidegate.kind_remove('payout')").await;
    assert_eq!(refused.code, "TG007");
    assert!(refused.message.contains("2 live requests"), "{}", refused.message);
    assert_eq!(session.texts(&format!("{STEP}('payout', drain => true)")).await, ["f 2 0 {} {}"]);
    let submitted = session.text("select outcome from tidegate.submit('payout', '{}')").await;
    assert_eq!(submitted, "refused");

    for id in &ids {
        database.execute(&format!("select tidegate.cancel('{id}')")).await;
    }
    let refused = database.refused("select * from tidegate.kind_remove('payout', drain => true)").await;
    assert!(refused.message.contains("2 requests that have ended"), "{}", refused.message);
    let step = format!("{STEP}('payout', true, requests => true, queues => true, batch => 1)");
    assert_eq!(session.texts(&step).await, ["f 0 1 {} {}"]);
    assert_eq!(session.texts(&step).await, ["t 0 0 {payout} {}"]);
    let left = "select name from tidegate.kind where name = 'payout'
                union all select name from tidegate.queue where name = 'payout'
                union all select name from tidegate.gate where name like '%payout'
                union all select kind from tidegate.request where kind = 'payout'";
    assert_eq!(session.texts(left).await, NOTHING);
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn results_and_keys_stay_unless_they_are_given_up() {
    let database = TestDatabase::unlimited().await;
    database.request_in("direct", "completed").await;
    let mut session = Session::open(&database).await;
    session.text("select id from tidegate.submit('direct', '{}', idempotency_key => 'k')").await;
    database.execute("select tidegate.cancel_requests('direct')").await;

    let refused = database.refused("select * from tidegate.kind_remove('direct')").await;
    assert_eq!(refused.code, "TG007");
    assert_eq!(database.number("select count(*) from tidegate.request").await, 2);
    let step = format!("{STEP}('direct', requests => true)");
    assert_eq!(session.texts(&step).await, ["t 0 0 {} {}"]);
    assert_eq!(database.number(KEYS_AND_REQUESTS).await, 0);
    sound(&database).await;
}

/// Keys of callers, of a batch and of the payload, whose requests have completed, were redriven, or may have been executed.
#[tokio::test(flavor = "multi_thread")]
async fn a_kind_goes_with_requests_that_keys_stand_for() {
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;
    database.execute("select tidegate.config_set('direct.key_after_unknown', 'resolved')").await;
    session.text("select id from tidegate.submit('direct', '1', idempotency_key => 'k')").await;
    session.texts("select id from tidegate.submit_batch_once('direct', '{2,3}', 'batch')").await;
    session.text("select id from tidegate.submit('direct', '4', idempotency_key => 'redriven')").await;
    database.execute("select tidegate.config_set('direct.key_mode', 'proxy')").await;
    session.text("select id from tidegate.submit('direct', '5')").await;
    let held = session.claim("tx", 5).await;
    database.execute(&format!("select tidegate.fail_internal('{{{}}}')", held[3].id)).await;
    assert_eq!(session.texts("select redriven from tidegate.redrive(may_repeat => true)").await, ["1"]);
    let responses = "responses => array_fill('{}'::jsonb, array[4])";
    session.texts(&settle("settle_receipt", held.iter().filter(|one| one.id != held[3].id), responses)).await;
    let again = session.claim("tx", 1).await;
    session.texts(&settle("settle_receipt", &again, "responses => array['{}'::jsonb]")).await;
    let completed = "select count(*) from tidegate.request where req_status = 'completed'";
    assert_eq!(database.number(completed).await, 5);
    sound(&database).await;

    // A submission has locked the batch's key: its first request stays, also with its own key, and nothing waits.
    let mut submitting = Session::begin(&database).await;
    submitting.texts("select key from tidegate.dedup where key ~ '^batch [^ ]*$' for update").await;
    let step = format!("{STEP}('direct', requests => true)");
    assert_eq!(session.texts(&step).await, ["f 0 1 {} {}"]);
    let left = "select regexp_replace(key, ' [0-9a-f]{64}', '') from tidegate.dedup order by length(key)";
    assert_eq!(session.texts(left).await, ["batch", "batch 1"]);
    submitting.commit().await;
    assert_eq!(session.texts(&step).await, ["t 0 0 {} {}"]);
    assert_eq!(database.number(KEYS_AND_REQUESTS).await, 0);
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_another_kind_uses_stays() {
    let database = TestDatabase::unlimited().await;
    database
        .execute(
            "select tidegate.kind_add('one', 'direct', 'shared'); select tidegate.kind_add('two', 'direct', 'shared')",
        )
        .await;
    let mut session = Session::open(&database).await;

    let unknown = database.refused("select * from tidegate.kind_remove('nope')").await;
    assert_eq!(unknown.code, "TG002");
    assert_eq!(session.texts(&format!("{STEP}('one', queues => true)")).await, ["t 0 0 {} {shared}"]);
    assert_eq!(session.texts(&format!("{STEP}('two', queues => true)")).await, ["t 0 0 {shared} {}"]);
    let changes = "select distinct operation, row_key from tidegate.config_change where row_key in ('one', 'shared')
                   and operation = 'delete' order by 2";
    assert_eq!(session.texts(changes).await, ["delete one", "delete shared"]);
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_is_made_with_its_marks_and_removed_when_it_is_free() {
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;
    let add = "select subject, name, value from tidegate.queue_add('bulk', 'tx', per_seconds => 5, high_water => 10)";

    let made = ["queue bulk stage tx", "queue bulk per_seconds 5", "queue bulk high_water/low_water 10/5"];
    assert_eq!(session.texts(add).await, made);
    assert_eq!(session.texts(add).await, NOTHING);
    for (arguments, word) in [
        ("'bulk', 'readiness'", "does not serve stage readiness"),
        ("'bulk-2', 'tx'", "lower snake case"),
        ("'other', 'send'", "refused"),
        ("'other', 'tx', max_concurrency => 2", "limited by rate"),
        ("'other', 'tx', high_water => 0", "refused"),
        ("null, 'tx'", "refused"),
        ("'other', null", "refused"),
    ] {
        let refused = database.refused(&format!("select * from tidegate.queue_add({arguments})")).await;
        assert_eq!(refused.code, "TG007", "{arguments}: {}", refused.message);
        assert!(refused.message.contains(word), "{arguments}: {}", refused.message);
    }
    assert_eq!(database.number("select count(*) from tidegate.queue where name = 'other'").await, 0);

    database.execute("update tidegate.kind set tx_queue = 'bulk' where name = 'direct'").await;
    let used = database.refused("select tidegate.queue_remove('bulk')").await;
    assert_eq!((&*used.code, &*used.message), ("TG007", "queue \"bulk\" is used by direct"));
    submit_many(&database, "direct", 1).await;
    database.execute("update tidegate.kind set tx_queue = 'tx' where name = 'direct'").await;
    let full = database.refused("select tidegate.queue_remove('bulk')").await;
    assert_eq!(full.code, "TG007");
    assert!(full.message.contains("holds requests"), "{}", full.message);
    database.execute("select tidegate.cancel_requests(queue => 'bulk')").await;
    database.execute("select tidegate.queue_remove('bulk')").await;
    let unknown = database.refused("select tidegate.queue_remove('bulk')").await;
    assert_eq!(unknown.code, "TG005");
    sound(&database).await;
}
