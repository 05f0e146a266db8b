//! Adaptive timeouts in the database: what is declared, what workers read, what operators see.

mod folds;

use serde_json::{Value, json};

use crate::{
    access::roles::{is_denied, login},
    cli::commands::{out, run},
    support::{
        TestDatabase,
        race::{Session, settle, submit_many},
        sql::column,
    },
};

/// A database whose `direct` sends have adaptive timeouts of up to 100 ms.
async fn adaptive() -> TestDatabase {
    let database = TestDatabase::unlimited().await;
    database
        .execute("update tidegate.policy set timeout_mode = 'adaptive', timeout_ms = 100 where kind = 'direct'")
        .await;
    database
}

/// The estimate of another process: a timeout of this many milliseconds.
fn estimate(timeout_ms: u64) -> Value {
    json!({
        "state": "normal", "srtt_ns": 20_000_000, "rttvar_ns": 2_500_000, "srto_ns": 30_000_000, "k_margin": 2,
        "timeout_ns": timeout_ms * 1_000_000, "failure_rate": 0.004, "load_rps": 812.5, "min_ns": 15_000_000,
        "min_before_ns": null, "usual_ns": 22_000_000, "usual_before_ns": 21_500_000, "min_age": 3, "high_load_intervals": 0, "high_load_rps": null, "interval_no": 3,
        "began_us": 1_780_000_000_123_456_i64, "requests": 7, "responses": 5, "failures": 1, "late": 2, "sum_ns": 110_000_000
    })
}

fn report(sequence: i64, load_rps: f64) -> Value {
    json!({
        "sequence": sequence, "requests": 4000, "responses": 3990, "failures": 12, "min_ns": 15_000_000,
        "mean_ns": 21_000_000, "deviation_ns": 2_000_000, "load_rps": load_rps, "in_flight": 10
    })
}

fn with(mut json: Value, member: &str, value: Value) -> Value {
    json[member] = value;
    json
}

/// The call that folds into the estimator of `direct` sends.
fn fold(version: i64, estimate: &Value, report: &Value, worker: &str) -> String {
    format!("select tidegate.fold_timeouts('direct', 'tx', {version}, '{estimate}', '{report}', '{worker}')")
}

/// One column of `read_timeouts` for `worker` and `direct` sends.
async fn read_column(database: &TestDatabase, member: &str, worker: &str) -> String {
    let sql = format!("select ({member})::text from tidegate.read_timeouts('{{direct}}', 'tx', '{worker}') as t");
    database.value(&sql).await
}

/// The estimator's version, its timeout, and the workers that have reported.
async fn stored(database: &TestDatabase) -> String {
    database
        .value(
            "select coalesce((select version || ' ' || timeout_ns / 1000000 from tidegate.timeout_estimator), 'none')
               || coalesce((select ' ' || string_agg(worker || ' ' || sequence, ' ' order by worker)
                            from tidegate.timeout_report), '')",
        )
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn before_a_fold_read_timeouts_returns_the_values_of_the_policy() {
    let database = adaptive().await;
    let rows = database
        .column(
            "select (to_jsonb(t) - 'now_us')::text
             from tidegate.read_timeouts('{input_proof,direct,nowhere,direct}', 'tx', 'w') as t",
        )
        .await;
    let rows: Vec<Value> = rows.iter().map(|row| serde_json::from_str(row).unwrap()).collect();
    let direct = json!({
        "kind": "direct", "adaptive": true, "timeout_ms": 100, "min_ms": 1, "slo": 0.01, "interval_ms": 5000,
        "k_margin": 1, "alarm_samples": 32, "best_case": "usual", "interval_calls": null, "estimate": null, "sequence": null, "others_rps": 0
    });
    let proof = with(direct.clone(), "kind", json!("input_proof"));
    let proof = with(proof, "adaptive", json!(false));
    let proof = with(proof, "timeout_ms", json!(10_000));
    let proof = with(proof, "interval_ms", json!(20_000));
    assert_eq!(rows, [direct, proof]);

    let now = "abs(now_us - extract(epoch from clock_timestamp()) * 1000000) < 60000000";
    assert_eq!(read_column(&database, now, "w").await, "true");
    assert_eq!(
        database.number("select count(*) from tidegate.read_timeouts('{direct}', 'readiness', 'w')").await,
        0,
        "it has no such stage"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn declared_values_are_read_and_longer_timeouts_have_longer_intervals() {
    let database = adaptive().await;
    for (set, declared_as) in [
        (
            "adaptive_min_ms = 7, adaptive_slo = 0.05, adaptive_interval_ms = 101, adaptive_k_margin = 9",
            "7 0.05 101 9 32 usual",
        ),
        ("adaptive_slo = null, adaptive_interval_ms = null, timeout_ms = 2500", "7  5000 9 32 usual"),
        ("timeout_ms = 2501", "7  5002 9 32 usual"),
        (
            "adaptive_alarm_samples = 1, adaptive_best_case = 'minimum', adaptive_interval_calls = 50",
            "7  5002 9 1 minimum 50",
        ),
    ] {
        database.execute(&format!("update tidegate.policy set {set} where kind = 'direct'")).await;
        let declared = "concat_ws(' ', min_ms, coalesce(slo::text, ''), interval_ms, k_margin, alarm_samples, best_case, interval_calls)";
        assert_eq!(read_column(&database, declared, "w").await, declared_as);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_overview_shows_adaptive_policies_before_and_after_they_have_learned() {
    let database = adaptive().await;
    let shown =
        "select (to_jsonb(o) - 'updated_at' || jsonb_build_object('is_updated', o.updated_at is not null))::text
                 from tidegate.estimator_overview as o";
    let read = async || -> Value { serde_json::from_str(&database.value(shown).await).unwrap() };
    let before = json!({
        "kind": "direct", "stage": "tx", "state": "normal", "srtt_ms": null, "rttvar_ms": null, "srto_ms": null,
        "k_margin": 1, "timeout_ms": 100.000, "min_rtt_ms": null, "usual_rtt_ms": null, "failure_rate": null, "slo": 0.01, "load_rps": null,
        "high_load_rps": null, "high_load_intervals": 0, "min_ms": 1, "max_ms": 100, "interval_ms": 5000, "intervals": 0,
        "processes": 0, "in_flight": 0, "version": 0, "is_updated": false
    });
    assert_eq!(read().await, before);

    let learned = with(estimate(30), "min_before_ns", json!(14_000_499));
    database.value(&fold(0, &learned, &report(1, 1.0), "a")).await;
    database.value(&fold(1, &learned, &report(1, 1.0), "b")).await;
    database.value(&fold(2, &learned, &report(1, 1.0), "gone")).await;
    database.execute("update tidegate.timeout_report set at = at - interval '11 seconds' where worker = 'gone'").await;
    let after = json!({
        "kind": "direct", "stage": "tx", "state": "normal", "srtt_ms": 20.000, "rttvar_ms": 2.500, "srto_ms": 30.000,
        "k_margin": 2, "timeout_ms": 30.000, "min_rtt_ms": 14.000, "usual_rtt_ms": 21.500, "failure_rate": 0.004, "slo": 0.01, "load_rps": 812.5,
        "high_load_rps": null, "high_load_intervals": 0, "min_ms": 1, "max_ms": 100, "interval_ms": 5000, "intervals": 3,
        "processes": 2, "in_flight": 20, "version": 3, "is_updated": true
    });
    assert_eq!(read().await, after);

    // The policy's bounds hold at once, whatever was learned.
    let timeout = "select timeout_ms from tidegate.estimator_overview";
    for (set, bounded) in [("timeout_ms = 25", "25.000"), ("adaptive_min_ms = 90, timeout_ms = 100", "90.000")] {
        database.execute(&format!("update tidegate.policy set {set} where kind = 'direct'")).await;
        assert_eq!(database.value(timeout).await, bounded);
    }
    database.execute("update tidegate.policy set timeout_mode = 'fixed' where kind = 'direct'").await;
    assert!(database.column(timeout).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_return_whether_a_timeout_is_adaptive_and_its_longest_value() {
    let database = TestDatabase::unlimited().await;
    for (mode, adaptive) in [("fixed", "f 100"), ("adaptive", "t 100"), ("fixed", "f 100")] {
        database.execute(&format!("update tidegate.policy set timeout_mode = '{mode}', timeout_ms = 100")).await;
        for (kind, function, queue) in
            [("direct", "claim_tx", "tx"), ("public_decrypt", "claim_readiness", "readiness")]
        {
            database.submit(kind).await;
            let claimed =
                format!("select adaptive || ' ' || timeout_ms from tidegate.{function}('{queue}', 'w', 1, '30 s')");
            let expected = adaptive.replace("t ", "true ").replace("f ", "false ");
            assert_eq!(database.value(&claimed).await, expected, "{function}, {mode}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_percentile_that_was_learned_does_not_bound_an_adaptive_timeout() {
    let database = TestDatabase::unlimited().await;
    let in_force = "select timeout_mode || ' ' || timeout_ms from tidegate.policy_in_force where kind = 'direct'";
    database
        .execute(
            "update tidegate.policy set timeout_mode = 'percentile', timeout_ms = 100 where kind = 'direct';
             update tidegate.policy_in_force set timeout_ms = 30 where kind = 'direct'",
        )
        .await;
    assert_eq!(database.value(in_force).await, "percentile 30");
    database.execute("update tidegate.policy set timeout_mode = 'adaptive' where kind = 'direct'").await;
    assert_eq!(database.value(in_force).await, "adaptive 100");
    // It distinguishes versions, too.
    assert_eq!(
        database
            .value(
                "select string_agg(in_force ->> 'timeout_mode', ' ' order by version)
                 from tidegate.policy_change where kind = 'direct'"
            )
            .await,
        "fixed percentile adaptive"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_with_invalid_adaptive_bounds_is_refused_with_the_reason() {
    let database = adaptive().await;
    for (change, said, allowed) in [
        (
            json!({"direct.tx.adaptive_interval_ms": 100}),
            "direct.tx.adaptive_interval_ms = 100 is refused: policy adaptive interval is above the timeout up to an hour",
            "adaptive_interval_ms > timeout_ms",
        ),
        (
            json!({"direct.tx.adaptive_interval_ms": 3_600_001}),
            "policy adaptive interval is above the timeout up to an hour",
            "3600000",
        ),
        (
            json!({"direct.tx.timeout_ms": 6000, "direct.tx.adaptive_interval_ms": 6000}),
            "policy adaptive interval is above the timeout up to an hour",
            "adaptive_interval_ms > timeout_ms",
        ),
        (
            json!({"direct.tx.adaptive_min_ms": 101}),
            "policy adaptive min is one to the timeout",
            "adaptive_min_ms <= timeout_ms",
        ),
        (json!({"direct.tx.adaptive_slo": 0}), "policy adaptive slo is a share up to a half", "adaptive_slo > 0"),
        (json!({"direct.tx.adaptive_k_margin": "none"}), "direct.tx.adaptive_k_margin is a number, and not none", ""),
    ] {
        let refusal = database.refused(&format!("select tidegate.config_set_many('{change}')")).await;
        assert_eq!(refusal.code, "TG007");
        assert!(refusal.message.contains(said), "{change}: {refusal:?}");
        assert!(refusal.hint.contains(allowed), "{change}: {refusal:?}");
    }
    // What another mode has no use for bounds nothing.
    database
        .execute(
            r#"select tidegate.config_set_many('{"direct.tx.timeout_mode": "fixed", "direct.tx.adaptive_interval_ms": 100}')"#,
        )
        .await;
    let refusal = database.refused("select tidegate.config_set('direct.tx.timeout_mode', 'adaptive')").await;
    assert_eq!(refusal.constraint, "policy_adaptive_interval_is_above_the_timeout_up_to_an_hour");
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_read_and_fold_all_roles_read_and_none_writes() {
    let database = adaptive().await;
    let read = "select count(*) from tidegate.read_timeouts('{direct}', 'tx', 'w')";
    for (version, role, may) in [(0, "worker", true), (1, "admin", true), (2, "api", false), (2, "reader", false)] {
        let mut session = login(&database, role).await;
        let fold = fold(version, &estimate(40), &report(1, 1.0), role);
        if may {
            assert_eq!(column(&mut session, read).await, ["1"], "{role}");
            assert_eq!(column(&mut session, &fold).await, ["t"], "{role}");
        } else {
            is_denied(&mut session, read).await;
            is_denied(&mut session, &fold).await;
        }
        for table in ["timeout_estimator", "timeout_report"] {
            column(&mut session, &format!("select kind from tidegate.{table}")).await;
            is_denied(&mut session, &format!("delete from tidegate.{table}")).await;
            is_denied(&mut session, &format!("insert into tidegate.{table} default values")).await;
        }
        let version = "select version::text from tidegate.estimator_overview";
        assert_eq!(column(&mut session, version).await.len(), 1, "{role}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn status_shows_adaptive_timeouts_when_there_are_any() {
    let database = TestDatabase::unlimited().await;
    let status = run(&database.url, &["status"]).await;
    assert!(!out(&status).contains("adaptive timeout"));

    database
        .execute("update tidegate.policy set timeout_mode = 'adaptive', timeout_ms = 100 where kind = 'direct'")
        .await;
    let shown = async || {
        let status = run(&database.url, &["status"]).await;
        let all = out(&status).to_owned();
        let row = all.lines().skip_while(|line| !line.contains("adaptive timeout")).nth(1);
        row.unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(shown().await, "direct.tx normal - - 1 100.0 ms - 1.0 % - 0");

    let overloaded = with(estimate(30), "state", json!("high_load"));
    database.value(&fold(0, &overloaded, &report(1, 1.0), "w")).await;
    assert_eq!(shown().await, "direct.tx high load 20.0 ms 2.5 ms 2 30.0 ms 0.4 % 1.0 % 812.5 1");
    let status = run(&database.url, &["status", "--json"]).await;
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    let shown = &status["adaptive_timeouts"][0];
    assert_eq!(
        (&shown["kind"], &shown["state"], &shown["timeout_ms"], &shown["in_flight"]),
        (&json!("direct"), &json!("high_load"), &json!(30.0), &json!(10))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_learned_timeout_learns_nothing_of_connections_that_are_refused_at_once() {
    let database = TestDatabase::unlimited().await;
    database
        .execute(
            "update tidegate.policy set timeout_mode = 'percentile', base_ms = 0, jitter_ms = 0 where kind = 'direct'",
        )
        .await;
    submit_many(&database, "direct", 160).await;
    let mut session = Session::open(&database).await;
    for _ in 0..16 {
        let held = session.claim("tx", 10).await;
        session
            .execute(&settle(
                "settle_retry",
                &held,
                r#"array_fill('{"code": "connect"}'::jsonb, array[10]), null, null, array_fill(1, array[10])"#,
            ))
            .await;
    }
    // Of each second a few are kept.
    database
        .execute(
            "update tidegate.call_sample as c set at = c.at - n.number * interval '1 second'
             from (select ctid, row_number() over () as number from tidegate.call_sample) as n where n.ctid = c.ctid",
        )
        .await;
    database.execute("select tidegate.fold_calls()").await;
    database.execute("select tidegate.adjust_policies()").await;
    assert_eq!(
        database.value("select timeout_ms from tidegate.policy_in_force where kind = 'direct'").await,
        "10000",
        "or all calls would be cut off when the downstream is back"
    );
}
