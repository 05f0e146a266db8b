//! Does a quote say what the next submission is told, and store nothing?

use crate::support::TestDatabase;

/// A submission, and what it is told.
const SUBMIT: &str = "select concat_ws(' ', outcome, queue, queue_position, retry_after_seconds)
    from tidegate.submit('KIND', '{}', submitter => 'ann')";

const QUOTE: &str = "select concat_ws(' ', outcome, queue, queue_position, retry_after_seconds)
    from tidegate.quote('KIND', 'ann')";

const ROWS: &str = "select (select count(*) from tidegate.request) + (select last_value from pgmq.q_tx_msg_id_seq)
      + (select last_value from pgmq.q_readiness_msg_id_seq)";

#[tokio::test(flavor = "multi_thread")]
async fn it_is_what_the_next_submission_is_told_and_stores_nothing() {
    let database = TestDatabase::new().await;
    for kind in ["direct", "input_proof", "public_decrypt"] {
        for others in [0, 1, 50, 600] {
            let batch = format!("select tidegate.submit_batch('{kind}', array_fill('{{}}'::jsonb, array[{others}]))");
            database.execute(&batch).await;
            let before = database.number(ROWS).await;
            let quoted = database.value(&QUOTE.replace("KIND", kind)).await;
            assert_eq!(database.number(ROWS).await, before);
            assert_eq!(quoted, database.value(&SUBMIT.replace("KIND", kind)).await);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_a_closed_gate_or_a_full_quota_it_says_when_to_submit() {
    for close in [
        "select tidegate.gate_force('tx', 'too_many_requests')",
        "update tidegate.gate set high_water = 1, low_water = 0 where name = 'tx'; select tidegate.submit('direct', '{}')",
        "select tidegate.quota_set(submitter => 'ann', high_water => 1, low_water => 0); select tidegate.submit('direct', '{}', submitter => 'ann')",
        "select tidegate.quota_set(kind => 'direct', high_water => 1, low_water => 0); select tidegate.submit('direct', '{}')",
    ] {
        let database = TestDatabase::new().await;
        database.execute("update tidegate.setting set jitter = 0").await;
        assert!(database.value(&QUOTE.replace("KIND", "direct")).await.starts_with("accepted tx 0 "));
        database.execute(close).await;
        let quoted = database.value(&QUOTE.replace("KIND", "direct")).await;
        assert!(quoted.starts_with("refused tx "), "{close}: {quoted}");
        let seconds = quoted.rsplit(' ').next().unwrap();
        let refused = database.value(&SUBMIT.replace("KIND", "direct")).await;
        assert_eq!(refused, format!("refused {seconds}"), "{close}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_observed_time_is_quoted_with_its_p50_and_p90() {
    let database = TestDatabase::new().await;
    database
        .execute(
            "update tidegate.kind set eta = 'observed' where name = 'direct';
             update tidegate.setting set jitter = 0",
        )
        .await;
    let told = |call: &str| format!("select concat_ws(' ', queue_position, retry_after_seconds) from tidegate.{call}");
    let quoted = database.value(&told("quote('direct')")).await;
    assert_eq!(quoted, database.value(&told("submit('direct', '{}')")).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_is_unknown_or_has_no_times_is_refused_as_its_submission_is() {
    let database = TestDatabase::uninitialised().await;
    for kind in ["nope", "direct"] {
        let mut errors = Vec::new();
        for call in [format!("submit('{kind}', '{{}}')"), format!("quote('{kind}')")] {
            let error = sqlx::query(&format!("select * from tidegate.{call}")).fetch_all(&database.pool).await;
            errors.push(error.unwrap_err().to_string());
        }
        assert_eq!(errors[0], errors[1]);
    }
}
