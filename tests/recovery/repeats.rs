//! Under which id is a request sent that repeats one which may have been executed, and who answers it?

use crate::support::{
    TestDatabase,
    race::{Session, against, sound},
};

/// A request of `direct` under the key `k` that failed during its only send.
async fn lost(database: &TestDatabase) -> String {
    let id = database.value("select id from tidegate.submit('direct', '1', 'k')").await;
    database.claim_tx(1).await;
    database.execute(&format!("select tidegate.fail_request('{id}', 'lost')")).await;
    id
}

/// Such a request, and the one that it was redriven as.
async fn repeated(database: &TestDatabase) -> [String; 2] {
    [lost(database).await, redrive(database).await]
}

async fn redrive(database: &TestDatabase) -> String {
    database.value("select unnest(new_ids) from tidegate.redrive(may_repeat => true)").await
}

/// The id under which the next request is sent; null: its own.
async fn sent_under(database: &TestDatabase) -> Option<String> {
    database.text("select send_id from tidegate.claim_tx('tx', 'w', 1, '1 minute')").await
}

const SETTLE: &str = "tidegate_internal.settle_receipt(array[row('tx', r.lease, r.id)::tidegate.lease], array['r'])";

async fn receive(database: &TestDatabase, id: &str) {
    database.execute(&format!("select {SETTLE} from tidegate.request as r where r.id = '{id}'")).await;
}

async fn ends(database: &TestDatabase) -> Vec<String> {
    database
        .column("select concat_ws(' ', r.req_status, tidegate.executed(r), r.response) from tidegate.request as r order by r.id")
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_is_sent_under_the_id_of_the_first_however_often_it_is_repeated() {
    let database = TestDatabase::unlimited().await;
    let [first, second] = repeated(&database).await;
    assert_eq!(sent_under(&database).await.as_ref(), Some(&first));
    database.execute(&format!("select tidegate.fail_request('{second}', 'lost')")).await;
    let third = redrive(&database).await;
    assert_eq!(sent_under(&database).await.as_ref(), Some(&first));
    // A repeat that was certainly not executed says nothing of the first.
    database
        .execute(&format!("select tidegate.fail_request('{third}', 'lost'); select tidegate.resolve('{third}', 'no')"))
        .await;
    assert_eq!(database.value("select redriven from tidegate.redrive()").await, "0");
    redrive(&database).await;
    assert_eq!(sent_under(&database).await.as_ref(), Some(&first));
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_to_either_answers_the_repeat() {
    for (before, address) in [
        ("", "id => '$first'"),
        ("", "id => '$second'"),
        ("received", "reference => 'r'"),
        ("received", "id => '$first'"),
        ("received", "id => '$second'"),
    ] {
        let database = TestDatabase::unlimited().await;
        let [first, second] = repeated(&database).await;
        sent_under(&database).await;
        if before == "received" {
            receive(&database, &second).await;
        }
        let address = address.replace("$first", &first).replace("$second", &second);
        let respond = format!("select request_id || ' ' || outcome from tidegate.respond('7', {address})");
        let outcome = if before == "received" { "completed" } else { "early" };
        assert_eq!(database.value(&respond).await, format!("{second} {outcome}"), "{address}");
        if before != "received" {
            receive(&database, &second).await;
        }
        let first_is = if address.contains(&first) { "yes" } else { "unknown" };
        assert_eq!(ends(&database).await, [format!("failure {first_is}"), "completed yes 7".to_owned()], "{address}");
        // A caller that repeats the key gets the answer.
        let again = "select id || ' ' || outcome from tidegate.submit('direct', '1', 'k')";
        assert_eq!(database.value(again).await, format!("{second} replayed"));
        sound(&database).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reference_of_the_first_leads_to_the_repeat_that_gets_it_too() {
    let database = TestDatabase::unlimited().await;
    database.execute("select tidegate.submit('direct', '1', 'k')").await;
    database.claim_tx(1).await;
    let first = database.value("select id from tidegate.request").await;
    receive(&database, &first).await;
    database.execute(&format!("select tidegate.fail_request('{first}', 'no answer')")).await;
    let second = redrive(&database).await;
    sent_under(&database).await;
    let respond = "select request_id || ' ' || outcome from tidegate.respond('7', reference => 'r')";
    assert_eq!(database.value(respond).await, format!("{second} early"));
    receive(&database, &second).await;
    assert_eq!(ends(&database).await, ["failure yes", "completed yes 7"]);
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_waits_for_a_redrive_under_way_and_answers_the_repeat() {
    for commits in [true, false] {
        let database = TestDatabase::unlimited().await;
        let first = lost(&database).await;
        let mut session = Session::begin(&database).await;
        session.execute("select tidegate.redrive(may_repeat => true)").await;
        // The redrive holds the row of the first.
        let respond = format!("select outcome from tidegate.respond('7', id => '{first}')");
        let outcome = against(&database, &mut session, commits, &respond).await;
        assert_eq!(outcome, [if commits { "early" } else { "late" }]);
        sound(&database).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_becomes_known_during_a_redrive_is_not_submitted_again() {
    for (late, known) in [("", ""), ("select tidegate.respond('7', id => '$id')", "yes")] {
        let database = TestDatabase::unlimited().await;
        let id = database.value("select id from tidegate.submit('direct', '1', 'k')").await;
        database.claim_tx(1).await;
        database
            .execute(&format!("select tidegate.fail_request('{id}', 'lost'); select tidegate.resolve('{id}', 'no')"))
            .await;
        // Its row is locked while the downstream contradicts the operator.
        let mut session = Session::begin(&database).await;
        session.execute(&format!("select from tidegate.request where id = '{id}' for update")).await;
        if !late.is_empty() {
            session.execute(&late.replace("$id", &id)).await;
        }
        let redriven = against(&database, &mut session, true, "select redriven from tidegate.redrive()").await;
        assert_eq!(redriven, [if known.is_empty() { "1" } else { "0" }]);
        assert_eq!(
            database.number("select count(*) from tidegate.request").await,
            if known.is_empty() { 2 } else { 1 }
        );
        sound(&database).await;
    }
}
