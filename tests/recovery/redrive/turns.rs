//! Does `redrive` go no faster than the gates allow, and does every request get its turn?

use serde_json::Value;

use super::{failed, redrive};
use crate::{
    cli::commands::{out, run},
    support::{
        TestDatabase,
        race::{Session, sound},
    },
};

#[tokio::test(flavor = "multi_thread")]
async fn one_that_cannot_be_submitted_any_more_says_why_and_keeps_none_from_its_turn() {
    for batch in ["1", "3", "100"] {
        let database = TestDatabase::unlimited().await;
        let mut session = Session::open(&database).await;
        database
            .execute("update tidegate.kind set key_mode = 'natural', key_paths = '{order}' where name = 'direct'")
            .await;
        // A caller's correction of the second, after the window of its key, failed, and it brought a key of their own for
        // the third.
        for (payload, key) in [
            (r#"{"order": 0}"#, "null"),
            (r#"{"order": 1, "v": 1}"#, "null"),
            (r#"{"order": 1, "v": 2}"#, "null"),
            (r#"{"v": 3}"#, "'mine'"),
            (r#"{"order": 4}"#, "null"),
        ] {
            session.texts("delete from tidegate.dedup").await;
            session.texts(&format!("select id from tidegate.submit('direct', '{payload}', {key})")).await;
            session
                .texts(
                    "select tidegate.fail_internal(array(select id from tidegate.request where finished_at is null))",
                )
                .await;
        }
        failed(&database, "input_proof", 1).await;

        let (code, summary) = redrive(&database, &["--batch", batch]).await;

        assert_eq!((code, &summary["redriven"]), (Some(3), &Value::from(4)), "batch {batch}");
        let reasons: Vec<_> =
            summary["unfit"].as_array().unwrap().iter().map(|unfit| unfit["reason"].as_str().unwrap()).collect();
        assert_eq!(reasons.len(), 2, "{reasons:?}");
        assert!(reasons[0].contains("with another payload"), "{reasons:?}");
        assert!(reasons[1].contains("has no \"order\""), "{reasons:?}");
        let said = run(&database.url, &["redrive"]).await;
        assert_eq!(said.status.code(), Some(3));
        assert!(out(&said).starts_with("0 submitted again\n2 cannot be submitted again:\n"), "{}", out(&said));
        sound(&database).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kinds_and_submitters_that_alternate_all_get_their_turn_whatever_the_batch() {
    for batch in ["1", "2", "5", "100"] {
        let database = TestDatabase::unlimited().await;
        let mut session = Session::open(&database).await;
        for number in 0..12 {
            let (kind, submitter) = [("direct", "'ann'"), ("direct", "'bob'"), ("input_proof", "null")][number % 3];
            session
                .texts(&format!("select id from tidegate.submit('{kind}', '{number}', submitter => {submitter})"))
                .await;
        }
        database.execute("select tidegate.fail_internal(array(select id from tidegate.request))").await;

        let (code, summary) = redrive(&database, &["--batch", batch]).await;

        assert_eq!((code, summary["redriven"].as_i64()), (Some(0), Some(12)));
        assert_eq!(
            database
                .number(
                    "select count(*) from tidegate.redrive as v
                     join tidegate.request as o on o.id = v.request_id join tidegate.request as n on n.id = v.redriven_as
                     where (o.kind, o.payload) = (n.kind, n.payload) and o.submitter is not distinct from n.submitter",
                )
                .await,
            12,
            "batch {batch}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gates_let_in_what_they_have_room_for_and_say_when_to_come_back() {
    let database = TestDatabase::new().await;
    failed(&database, "direct", 40).await;
    database.execute("update tidegate.gate set high_water = 30, low_water = 15").await;

    let (code, summary) = redrive(&database, &["--batch", "25"]).await;

    assert_eq!(code, Some(3), "{summary:#}");
    assert_eq!(summary["redriven"], 30);
    assert_eq!(summary["refused"], 10);
    assert!(summary["retry_after_seconds"].as_i64() > Some(0));
    assert_eq!(database.number("select count(*) from pgmq.q_tx").await, 30);
    let (code, summary) = redrive(&database, &[]).await;
    assert_eq!((code, summary["redriven"].as_i64()), (Some(3), Some(0)));
    let said = run(&database.url, &["redrive"]).await;
    assert!(out(&said).contains("the gates refuse 10: run it again in"), "{}", out(&said));

    // Once there is room, the rest goes in.
    database
        .execute(
            "select tidegate.cancel(id) from tidegate.request where req_status = 'processing';
             select tidegate.gates_evaluate()",
        )
        .await;
    let (code, summary) = redrive(&database, &[]).await;
    assert_eq!((code, summary["redriven"].as_i64()), (Some(0), Some(10)));
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_cap_keeps_none_of_others_from_their_turn() {
    for batch in ["1", "4", "100"] {
        let database = TestDatabase::unlimited().await;
        let mut session = Session::open(&database).await;
        for number in 0..12 {
            let submitter = if number % 2 == 0 { "ann" } else { "bob" };
            session
                .texts(&format!("select id from tidegate.submit('direct', '{number}', submitter => '{submitter}')"))
                .await;
        }
        database
            .execute(
                "select tidegate.fail_internal(array(select id from tidegate.request));
                 select tidegate.quota_set(submitter => 'ann', high_water => 2)",
            )
            .await;

        let (code, summary) = redrive(&database, &["--batch", batch]).await;

        assert_eq!(code, Some(3), "batch {batch}");
        assert_eq!((&summary["redriven"], &summary["refused"]), (&Value::from(8), &Value::from(4)), "batch {batch}");
        assert!(summary["retry_after_seconds"].as_i64() > Some(0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_reads_ten_thousand_requests_at_most_and_the_next_one_goes_on() {
    let database = TestDatabase::middling().await;
    let last = database.value("select id from tidegate.submit('direct', '{}')").await;
    database.execute(&format!("select from tidegate.fail_internal('{{{last}}}')")).await;

    let call = |after: &str| {
        format!("select redriven || ' ' || coalesce(next_after::text, 'all') from tidegate.redrive({after})")
    };
    let first = database.value(&call("")).await;
    let (redriven, next) = first.split_once(' ').unwrap();
    assert_eq!(redriven, "0");
    let second = database.value(&call(&format!("after => '{next}'"))).await;
    assert_eq!(second, "1 all");
}
