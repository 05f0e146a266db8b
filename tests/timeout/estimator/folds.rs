//! Folds into the one estimate of the whole fleet: does each count once, however many processes fold at the same time?

use serde_json::{Value, json};

use super::{adaptive, estimate, fold, read_column, report, stored, with};
use crate::support::{
    TestDatabase,
    race::{Running, Session},
};

#[tokio::test(flavor = "multi_thread")]
async fn a_folded_estimate_is_read_unchanged_with_the_next_version() {
    let database = adaptive().await;
    let high_load = with(
        with(with(estimate(60), "state", json!("high_load")), "high_load_rps", json!(1_234.567_890_123)),
        "high_load_intervals",
        json!(2),
    );
    let unknown = with(with(estimate(100), "srtt_ns", json!(null)), "rttvar_ns", json!(null));
    for (version, estimate) in [(0, estimate(40)), (1, high_load), (2, unknown)] {
        let mut folded = estimate.clone();
        // No process may set it.
        folded["version"] = json!(99);
        let sql = fold(version, &folded, &report(version + 5, 1.5), "w");
        assert_eq!(database.value(&sql).await, "t");

        let read: Value = serde_json::from_str(&read_column(&database, "t.estimate", "w").await).unwrap();
        assert_eq!(read, with(estimate, "version", json!(version + 1)));
        assert_eq!(read_column(&database, "t.sequence", "w").await, (version + 5).to_string());
    }
    assert_eq!(database.number("select count(*) from tidegate.timeout_report").await, 1, "one a process");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fold_that_is_repeated_or_comes_with_another_version_writes_nothing() {
    let database = adaptive().await;
    assert_eq!(database.value(&fold(1, &estimate(40), &report(1, 1.0), "w")).await, "f", "there is none yet");
    assert_eq!(stored(&database).await, "none");

    let first = fold(0, &estimate(40), &report(1, 1.0), "w");
    assert_eq!(database.value(&first).await, "t");
    assert_eq!(database.value(&first).await, "f", "the same once more, as after a lost answer");
    for version in ["0", "2", "-1", "null"] {
        let late = first.replace("'tx', 0,", &format!("'tx', {version},")).replace("'w'", "'late'");
        assert_eq!(database.value(&late).await, "f", "{version}");
    }
    assert_eq!(stored(&database).await, "1 40 w 1");
}

/// Starts a fold that is held at its critical point by another one, and lets it go on when that one has ended.
async fn fold_against(database: &TestDatabase, version: i64, end: &str) -> String {
    let mut first = Session::begin(database).await;
    first.texts(&fold(version, &estimate(41), &report(1, 1.0), "first")).await;
    let second = Session::open(database).await;
    let running: Running = second.start(&fold(version, &estimate(42), &report(1, 1.0), "second"));
    running.until_blocked_by(database, &first).await;
    first.execute(end).await;
    let (_, said) = running.finish().await;
    said.concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_concurrent_folds_one_wins_and_the_other_leaves_no_report() {
    let database = adaptive().await;
    // The very first, and then by version.
    assert_eq!(fold_against(&database, 0, "commit").await, "f");
    assert_eq!(stored(&database).await, "1 41 first 1");
    assert_eq!(fold_against(&database, 1, "commit").await, "f");
    assert_eq!(stored(&database).await, "2 41 first 1");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_fold_that_is_rolled_back_the_waiting_one_succeeds() {
    let database = adaptive().await;
    assert_eq!(fold_against(&database, 0, "rollback").await, "t");
    assert_eq!(stored(&database).await, "1 42 second 1");
    assert_eq!(fold_against(&database, 1, "rollback").await, "t");
    assert_eq!(stored(&database).await, "2 42 second 1");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_processes_that_fold_until_they_win_win_once_each() {
    let database = adaptive().await;
    let start = std::sync::Arc::new(tokio::sync::Barrier::new(8));
    let mut all = tokio::task::JoinSet::new();
    for worker in 0..8 {
        let mut session = Session::open(&database).await;
        let start = start.clone();
        all.spawn(async move {
            start.wait().await;
            loop {
                let version = session
                    .text("select coalesce((estimate ->> 'version')::bigint, 0) from tidegate.read_timeouts('{direct}', 'tx', 'w')")
                    .await;
                let sql = fold(version.parse().unwrap(), &estimate(50), &report(1, 2.5), &worker.to_string());
                if session.text(&sql).await == "t" {
                    break;
                }
            }
        });
    }
    all.join_all().await;
    assert_eq!(stored(&database).await, "8 50 0 1 1 1 2 1 3 1 4 1 5 1 6 1 7 1");
    assert_eq!(read_column(&database, "t.others_rps", "3").await, "17.5", "seven others");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_folded_for_a_deleted_or_not_adaptive_policy_and_the_estimator_stays() {
    let database = adaptive().await;
    let first = fold(0, &estimate(40), &report(1, 1.0), "w");
    for other in [("'direct'", "'nowhere'"), ("'tx'", "'readiness'"), ("'direct'", "'input_proof'")] {
        assert_eq!(database.value(&first.replace(other.0, other.1)).await, "f", "{other:?}");
    }
    assert_eq!(stored(&database).await, "none");

    assert_eq!(database.value(&first).await, "t");
    database.execute("update tidegate.policy set timeout_mode = 'fixed' where kind = 'direct'").await;
    let second = fold(1, &estimate(50), &report(2, 1.0), "w");
    assert_eq!(database.value(&second).await, "f");
    assert_eq!(stored(&database).await, "1 40 w 1");
    assert_eq!(read_column(&database, "adaptive", "w").await, "false");

    database.execute("update tidegate.policy set timeout_mode = 'adaptive' where kind = 'direct'").await;
    assert_eq!(database.value(&second).await, "t", "it goes on where it was");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_estimator_goes_with_its_kind_and_a_fold_waits_for_that_without_deadlock() {
    let database = adaptive().await;
    database.value(&fold(0, &estimate(40), &report(1, 1.0), "w")).await;
    let mut operator = Session::begin(&database).await;
    operator.execute("delete from tidegate.kind where name = 'direct'").await;
    let running = Session::open(&database).await.start(&fold(1, &estimate(50), &report(2, 1.0), "another"));
    running.until_blocked_by(&database, &operator).await;
    operator.commit().await;
    assert_eq!(running.finish().await.1, ["f"]);
    assert_eq!(stored(&database).await, "none");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_load_of_others_counts_for_two_intervals_and_their_reports_go_after_an_hour() {
    let database = adaptive().await;
    for (version, worker, load) in [(0, "a", 10.0), (1, "b", 200.0), (2, "c", 3000.5)] {
        let sql = fold(version, &estimate(40), &report(1, load), worker);
        assert_eq!(database.value(&sql).await, "t");
    }
    for (age, rps) in [
        ("0", "3200.5"),
        // The interval is five seconds.
        ("9 seconds", "3200.5"),
        ("11 seconds", "200"),
        ("90 minutes", "200"),
    ] {
        database
            .execute(&format!(
                "update tidegate.timeout_report set at = clock_timestamp() - interval '{age}' where worker = 'c'"
            ))
            .await;
        assert_eq!(read_column(&database, "t.others_rps", "a").await, rps, "{age}");
    }
    assert_eq!(read_column(&database, "t.others_rps", "no_worker").await, "210");
    database.execute("update tidegate.policy set adaptive_interval_ms = 3600000 where kind = 'direct'").await;
    assert_eq!(read_column(&database, "t.others_rps", "a").await, "3200.5");

    // With intervals as long as that they stay longer, and those of another policy are not looked at.
    database
        .execute(
            "insert into tidegate.timeout_report
             values ('input_proof', 'tx', 'c', 1, clock_timestamp() - interval '1 day', 1, 1, 0, null, null, null, 1, 0)",
        )
        .await;
    let reports = "select kind || ' ' || worker || ' ' || sequence from tidegate.timeout_report order by 1";
    let second = fold(3, &estimate(40), &report(2, 10.0), "a");
    assert_eq!(database.value(&second).await, "t");
    assert_eq!(database.column(reports).await, ["direct a 2", "direct b 1", "direct c 1", "input_proof c 1"]);
    database.execute("update tidegate.policy set adaptive_interval_ms = null where kind = 'direct'").await;
    let third = fold(4, &estimate(40), &report(3, 10.0), "a");
    assert_eq!(database.value(&third).await, "t");
    assert_eq!(database.column(reports).await, ["direct a 3", "direct b 1", "input_proof c 1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_or_invalid_members_are_refused_and_nothing_is_stored() {
    let database = adaptive().await;
    let (good, seen) = (estimate(40), report(1, 1.0));
    for member in good.as_object().unwrap().keys() {
        let mut short = good.clone();
        short.as_object_mut().unwrap().remove(member);
        let refusal = database.refused(&fold(0, &short, &seen, "w")).await;
        assert_eq!(refusal.code, "TG007");
        assert_eq!(refusal.message, format!("estimate has no {member}"));
    }
    for member in seen.as_object().unwrap().keys() {
        let mut short = seen.clone();
        short.as_object_mut().unwrap().remove(member);
        let refusal = database.refused(&fold(0, &good, &short, "w")).await;
        assert_eq!(refusal.code, "TG007");
        assert_eq!(refusal.message, format!("report has no {member}"));
    }
    for sql in [fold(0, &json!([1]), &seen, "w"), fold(0, &good, &json!(null), "w")] {
        assert_eq!(database.refused(&sql).await.code, "TG007", "{sql}");
    }
    for (estimate, report, code) in [
        (with(good.clone(), "k_margin", json!(0)), seen.clone(), "23514"),
        (with(good.clone(), "timeout_ns", json!(null)), seen.clone(), "23502"),
        (with(good.clone(), "srtt_ns", json!("soon")), seen.clone(), "22P02"),
        (with(good.clone(), "min_ns", json!(u64::MAX)), seen.clone(), "22003"),
        (good.clone(), with(seen.clone(), "load_rps", json!("NaN")), "23514"),
        (good.clone(), with(seen.clone(), "in_flight", json!(-1)), "23514"),
    ] {
        let sql = fold(0, &estimate, &report, "w");
        assert_eq!(database.refused(&sql).await.code, code, "{sql}");
    }
    assert_eq!(stored(&database).await, "none");
}
