//! Is what callers were told compared with what came, for every completed request?

use crate::support::TestDatabase;

/// A column of `eta_quality` of `direct`, as text.
async fn quality(database: &TestDatabase, what: &str) -> Option<String> {
    database.text(&format!("select {what} from tidegate.eta_quality where kind = 'direct'")).await
}

const LIVE: &str = "req_status not in ('completed', 'timed_out', 'failure')";

/// Puts the submission of every live request back in time, and answers it.
async fn ends_after(database: &TestDatabase, seconds: f64) {
    let submitted = format!("update tidegate.request set submitted_at = clock_timestamp() - interval '{seconds} s'");
    database.execute(&format!("{submitted} where {LIVE}")).await;
    database.answer_all().await;
    assert_eq!(database.number(&format!("select count(*) from tidegate.request where {LIVE}")).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_counts_early_late_and_on_time() {
    let database = TestDatabase::unlimited().await;
    assert_eq!(quality(&database, "mean_error_seconds").await, None);

    // Told 3 s each.
    for seconds in [1.0, 2.5, 3.5, 13.0] {
        database.submit("direct").await;
        ends_after(&database, seconds).await;
    }
    // An end without an answer says nothing about ETAs.
    database.request_in("direct", "failure").await;
    let cancelled = database.submit("direct").await.0;
    database.execute(&format!("select tidegate.cancel('{cancelled}')")).await;

    assert_eq!(quality(&database, "requests").await.as_deref(), Some("6"));
    assert_eq!(quality(&database, "predicted").await.as_deref(), Some("4"));
    // -2, -0.5, +0.5, +10 and a moment each.
    for within in ["mean_error_seconds between 2 and 2.5", "mean_abs_error_seconds between 3 and 3.5"] {
        let holds = quality(&database, &format!("({within})::text")).await;
        assert_eq!(holds.as_deref(), Some("true"), "{within}");
    }
    assert_eq!(quality(&database, "error_bins").await.as_deref(), Some("{0,0,1,1,1,0,1,0}"));
    assert_eq!(quality(&database, "p90_held_share").await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_share_of_p90s_that_held_counts_those_that_were_stated() {
    let database = TestDatabase::unlimited().await;
    for (stated, seconds) in [("null", 1.0), ("5000", 4.0), ("5000", 4.5), ("5000", 6.0)] {
        database.submit("direct").await;
        database
            .execute(&format!("update tidegate.request set eta_p90_ms = {stated} where req_status = 'processing'"))
            .await;
        ends_after(&database, seconds).await;
    }

    assert_eq!(quality(&database, "p90_held_share").await.as_deref(), Some("0.667"));
}

#[tokio::test(flavor = "multi_thread")]
async fn folding_what_is_old_changes_nothing_in_the_view() {
    let database = TestDatabase::unlimited().await;
    for seconds in [1.0, 2.5, 13.0] {
        database.submit("direct").await;
        ends_after(&database, seconds).await;
    }
    let whole = "row_to_json(eta_quality)";
    let before = quality(&database, whole).await;

    for _ in 0..2 {
        database
            .execute("update tidegate.finish_sample set at = at - interval '11 minutes' where ctid = '(0,2)'")
            .await;
        database.execute("select tidegate.take_samples()").await;
        assert_eq!(quality(&database, whole).await, before);
        assert_eq!(database.number("select count(*) from tidegate.finish_sample").await, 2);
    }
    database
        .execute("update tidegate.finish_sample set at = at - interval '11 minutes'; select tidegate.take_samples()")
        .await;

    assert_eq!(quality(&database, whole).await, before);
    assert_eq!(database.number("select count(*) from tidegate.finish_sample").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_a_month_late_or_before_its_submission_does_no_harm() {
    let database = TestDatabase::unlimited().await;
    for seconds in [40.0 * 86_400.0, -60.0] {
        let id = database.request_in("direct", "receipt_received").await;
        database
            .execute(&format!(
                "update tidegate.request
                 set tx_in_flight_at = clock_timestamp() - interval '{seconds} s',
                   submitted_at = clock_timestamp() - interval '{seconds} s'
                 where id = '{id}';
                 select tidegate.respond('true', id => '{id}')"
            ))
            .await;
        assert_eq!(database.status(tidegate::request::RequestId(id)).await, "completed");
    }
    database.execute("select tidegate.take_samples()").await;

    assert_eq!(quality(&database, "requests").await.as_deref(), Some("2"));
}

#[tokio::test(flavor = "multi_thread")]
async fn polls_of_two_nodes_add_up() {
    let database = TestDatabase::unlimited().await;
    database
        .execute(
            "select tidegate.count_polls('{direct,input_proof}', '{2,1}', '{5,1}', '{700,0}');
             select tidegate.count_polls('{direct}', '{2}', '{2}', '{300}')",
        )
        .await;

    assert_eq!(quality(&database, "polls_per_request").await.as_deref(), Some("1.75"));
    assert_eq!(quality(&database, "mean_lateness_seconds").await.as_deref(), Some("0.25"));
}
