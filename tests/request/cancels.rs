//! Does a cancel by filter end the requests that it names, once, a batch at a time, and no others?

use crate::support::{
    TestDatabase,
    race::{Session, against, in_flight, receipt, settle, sound, submit_many},
};

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_cancels_what_waits_and_what_is_sent_unless_that_succeeds() {
    let database = TestDatabase::unlimited().await;
    let (sent, held) = in_flight(&database).await;
    let answered = receipt(&database, "direct", Some("ref")).await;
    submit_many(&database, "direct", 3).await;
    submit_many(&database, "user_decrypt", 2).await;
    let mut session = Session::open(&database).await;

    let dry = "select cancelled, cancelling, cardinality(ids) from tidegate.cancel_requests('direct', dry_run => true)";
    assert_eq!(session.texts(dry).await, ["3 1 4"]);
    let cancel = "select cancelled, cancelling, cardinality(ids), next_before from tidegate.cancel_requests('direct')";
    assert_eq!(session.texts(cancel).await, ["3 1 4 "]);

    assert_eq!(database.status(sent).await, "tx_in_flight");
    assert_eq!(database.status(answered).await, "receipt_received");
    let ended = "select count(*) || ' ' || min(error ->> 'message') from tidegate.request
                 where kind = 'direct' and req_status = 'failure' and error ->> 'code' = 'cancelled'";
    assert_eq!(session.texts(ended).await, ["3 cancelled by an operator before it was sent"]);
    assert_eq!(database.number("select count(*) from tidegate.request where req_status = 'queued'").await, 2);
    // It is not tried again.
    session.texts(&settle("settle_retry", &held, "null, array[interval '0']")).await;
    assert_eq!(database.causes(sent).await.last().unwrap(), "cancelled");
    assert_eq!(session.texts(cancel).await, ["0 0 0 "]);
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_reach_every_request_of_a_submitter_and_none_that_comes_meanwhile() {
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;
    let submit = |submitter: &str| {
        format!(
            "select s.id from generate_series(1, 10) as n, tidegate.submit('direct', to_jsonb(n), submitter => '{submitter}') as s"
        )
    };
    session.texts(&submit("shop")).await;
    session.texts(&submit("other")).await;

    let (mut before, mut cancelled) = ("null".to_owned(), 0);
    loop {
        let rows = session
            .texts(&format!(
                "select cancelled, next_before from tidegate.cancel_requests(
                   submitter => 'shop', batch => 4, before => {before})"
            ))
            .await;
        let (count, next) = rows[0].split_once(' ').unwrap();
        cancelled += count.parse::<i32>().unwrap();
        // What comes now is newer than the next batch.
        session.text("select id from tidegate.submit('direct', '{}', submitter => 'shop')").await;
        if next.is_empty() {
            break;
        }
        before = format!("'{next}'");
    }

    assert_eq!(cancelled, 10);
    let live = "select submitter, count(*) from tidegate.request where req_status = 'processing' group by 1 order by 1";
    assert_eq!(session.texts(live).await, ["other 10", "shop 3"]);
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_ends_meanwhile_stays_as_it_ended() {
    let database = TestDatabase::unlimited().await;
    let (sent, held) = in_flight(&database).await;
    let mut settling = Session::begin(&database).await;
    settling.texts(&settle("settle_receipt", &held, "array['ref']")).await;

    let cancel = "select cancelled, cancelling, cardinality(ids) from tidegate.cancel_requests('direct')";
    assert_eq!(against(&database, &mut settling, true, cancel).await, ["0 0 0"]);

    assert_eq!(database.status(sent).await, "receipt_received");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_of_everything_says_so_and_one_of_nothing_is_refused() {
    let database = TestDatabase::unlimited().await;
    submit_many(&database, "direct", 2).await;
    submit_many(&database, "user_decrypt", 2).await;
    for (arguments, code, word) in [
        ("", "TG007", "which requests"),
        ("kind => 'nope'", "TG002", "no kind"),
        ("queue => 'nope'", "TG005", "no queue"),
        ("states => '{queued,completed}'", "TG007", "completed is not cancelled"),
        ("'direct', batch => 0", "TG007", "1 to 1000"),
        ("'direct', batch => 1001", "TG007", "1 to 1000"),
        ("'direct', batch => null", "TG007", "1 to 1000"),
    ] {
        let refused = database.refused(&format!("select * from tidegate.cancel_requests({arguments})")).await;
        assert_eq!(refused.code, code, "{arguments}");
        assert!(refused.message.contains(word), "{arguments}: {}", refused.message);
    }
    assert_eq!(database.value("select cancelled from tidegate.cancel_requests(until => 'infinity')").await, "4");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn those_that_are_named_are_cancelled_and_no_others() {
    let database = TestDatabase::unlimited().await;
    let (sent, _) = in_flight(&database).await;
    let answered = receipt(&database, "direct", Some("ref")).await;
    let waiting = submit_many(&database, "direct", 3).await;
    let mut session = Session::open(&database).await;
    let named = format!("requests => array['{sent}', '{answered}', '{}', '{}']::uuid[]", waiting[0], waiting[2]);
    let count = format!("select cancelled, cancelling, next_before from tidegate.cancel_requests({named}");
    assert_eq!(session.texts(&format!("{count}, dry_run => true)")).await, ["2 1 "]);
    assert_eq!(session.texts(&format!("{count}, states => '{{processing}}', dry_run => true)")).await, ["2 0 "]);
    assert_eq!(session.texts(&format!("{count})")).await, ["2 1 "]);
    assert_eq!(database.status(waiting[1]).await, "processing");
    assert_eq!(database.status(answered).await, "receipt_received");
    assert_eq!(session.texts("select cancelled from tidegate.cancel_requests(requests => '{}')").await, ["0"]);
    let many = "select * from tidegate.cancel_requests(
                  requests => array(select gen_random_uuid() from generate_series(1, 1001)))";
    assert_eq!(database.refused(many).await.code, "TG007");
    sound(&database).await;
}
