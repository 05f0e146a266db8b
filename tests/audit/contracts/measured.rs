//! Does `contract_check` compare bounds with what was measured in the last five minutes?

use serde_json::{Value, json};

use super::{calls, check, judge};
use crate::support::TestDatabase;

#[tokio::test(flavor = "multi_thread")]
async fn the_chance_of_success_is_that_of_the_measured_drops() {
    let database = TestDatabase::new().await.with_short_policies().await;
    let target = json!({"type": "retry_success_prob", "p_ok_ge": 0.97});

    let (row, detail) = judge(&database, target.clone()).await;
    assert_eq!(row, "holds | p_ok 1 | p_ok_ge 0.97");
    assert!(detail.contains("judged by no drops"), "{detail}");

    calls(&database, 10, 20, 10, 0).await;
    let (row, detail) = judge(&database, target).await;
    assert_eq!(row, "NO | p_ok 0.96875 | p_ok_ge 0.97");
    assert!(detail.contains("10 / 20 calls = 0.5"), "{detail}");
    assert!(detail.contains("p_drop^5"), "{detail}");
}

#[tokio::test(flavor = "multi_thread")]
async fn indicators_are_those_of_the_last_five_minutes() {
    let database = TestDatabase::new().await;
    let sli = |member: &str, bound: f64| json!({"type": "sli", member: bound});

    let (row, detail) = judge(&database, sli("timeout_rate_le", 0.0)).await;
    assert_eq!(row, "holds | timeout_rate 0 | timeout_rate_le 0.0");
    assert!(detail.contains("nothing was measured"), "{detail}");

    calls(&database, 100, 125, 10, 5).await;
    database
        .execute(
            "insert into tidegate.submission_sample (kind, submitted, replayed) values ('direct', 200, 3);
             insert into tidegate.submission_sample (kind, at, submitted, replayed)
             values ('direct', clock_timestamp() - interval '6 minutes', 200, 200)",
        )
        .await;
    for (member, seen) in
        [("timeout_rate_le", 0.05), ("retry_rate_le", 0.25), ("error_ratio_le", 0.08), ("dup_drop_rate_le", 0.015)]
    {
        let name = member.strip_suffix("_le").unwrap();
        let (row, _) = judge(&database, sli(member, seen)).await;
        assert_eq!(row, format!("holds | {name} {seen} | {member} {seen}"));
        let below = seen - 0.005;
        let (row, detail) = judge(&database, sli(member, below)).await;
        assert!(row.starts_with(&format!("NO | {name} {seen} | ")), "{row}");
        assert!(detail.contains("in 5 minutes"), "{detail}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_latency_target_is_compared_with_the_percentile_of_the_last_five_minutes() {
    let database = TestDatabase::new().await;
    let bound = |bound: Value| json!({"type": "sli", "p99_ms_le": bound});
    let (row, detail) = judge(&database, bound("slo_p99_ms".into())).await;
    assert_eq!(row, "holds | p99_ms 0 | p99_ms_le slo_p99_ms = none");
    assert!(detail.contains("no latency target"), "{detail}");
    let (row, detail) = judge(&database, bound(0.into())).await;
    assert_eq!(row, "holds | p99_ms 0 | p99_ms_le 0");
    assert!(detail.contains("nothing was measured"), "{detail}");

    calls(&database, 100, 100, 0, 0).await;
    database.execute("update tidegate.call_sample set latency_ms = array_fill(20, array[98]) || '{900,1000}'").await;
    for (most, holds) in [(900.0, "holds"), (899.5, "NO")] {
        let (row, detail) = judge(&database, bound(most.into())).await;
        assert_eq!(row, format!("{holds} | p99_ms 900 | p99_ms_le {most:?}"));
        assert!(detail.contains("100 calls for 100 requests in 5 minutes"), "{detail}");
    }
    for (target, holds) in [(900, "holds"), (899, "NO")] {
        database
            .execute(&format!(
                "select tidegate.config_set_many('{{\"direct.slo_p99_ms\": {target}, \"direct.tx.timeout_ms\": 500}}')"
            ))
            .await;
        let (row, _) = judge(&database, bound("slo_p99_ms".into())).await;
        assert_eq!(row, format!("{holds} | p99_ms 900 | p99_ms_le slo_p99_ms = {target}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_measured_bound_may_be_relative_and_what_was_not_measured_holds() {
    let database = TestDatabase::new().await;
    let relative = json!({"baseline_times": 1});
    let contract = json!([
        {"type": "timeout_upper_bound", "W_retry_le": relative},
        {"type": "retry_success_prob", "p_ok_ge": relative},
        {"type": "sli", "timeout_rate_le": relative, "retry_rate_le": relative, "error_ratio_le": relative},
        {"type": "sli", "p99_ms_le": relative},
        {"type": "dedup_window", "span_reorder_le": relative},
        {"type": "sli", "dup_drop_rate_le": {"baseline_times": 0, "plus": -1}},
    ]);
    let unmeasured = check(&database, &contract).await;
    let violated: Vec<_> = unmeasured.iter().filter(|row| row.contains(": NO | ")).collect();
    let known = ["W_retry_le", "span_reorder_le"];
    assert!(violated.iter().all(|row| known.iter().any(|member| row.contains(member))), "{violated:#?}");
    assert_eq!(violated.len(), 10, "the policies are always known");

    calls(&database, 10, 30, 20, 7).await;
    database.execute("update tidegate.call_sample set latency_ms = '{900}'").await;
    // It compares with the baseline of before, of which there is none, and stores what it has observed.
    let recording = format!("from tidegate.contract_record('{contract}', actor => 'ann') where not holds");
    assert_eq!(database.number(&format!("select count(*) {recording}")).await, 15);
    assert_eq!(database.number(&format!("select count(*) {recording}")).await, 0);
    // What was recorded is within bounds that are equal to it, to the last digit.
    let recorded = check(&database, &contract).await;
    assert!(recorded.iter().all(|row| row.contains(": holds | ")), "{recorded:#?}");
    let actors = "select string_agg(distinct on_behalf_of, ' ') || ' ' || count(*) from tidegate.contract_baseline";
    assert_eq!(database.value(actors).await, "ann 15");
}
