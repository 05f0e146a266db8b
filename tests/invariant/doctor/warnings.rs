//! Does `doctor` warn of a configuration that is legal and does not fit the traffic?

use serde_json::Value;

use super::lived_in;
use crate::{
    cli::commands::{out, run},
    support::{
        TestDatabase,
        race::{NOTHING, Session},
    },
};

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_that_full_queues_would_take_up_is_a_warning_and_no_violation() {
    let (database, mut session) = lived_in().await;
    let warnings = "select subject || ': ' || message from tidegate.configuration_warning";
    // The limits of the example.
    session
        .execute(
            "update tidegate.queue set per_seconds = 10 where name = 'tx';
             update tidegate.queue set max_concurrency = 50 where name = 'readiness';
             update tidegate.gate set high_water = 2000, low_water = 1000 where queue is not null",
        )
        .await;
    assert_eq!(session.texts(warnings).await, NOTHING);

    // 2245250 ms of attempts leave 1354.75 s of the hour to the queue.
    for (high_water, expected) in
        [(13_547, None), (13_548, Some("1354800 (queues: tx at 13548) + 2245250 (W_retry) = 3600050 > 3600000 ms"))]
    {
        session.execute(&format!("update tidegate.gate set high_water = {high_water} where queue = 'tx'")).await;
        let told = session.texts(&format!("{warnings} where subject = 'kind direct'")).await;
        assert_eq!(told.len(), usize::from(expected.is_some()), "{told:?}");
        assert!(told.iter().all(|told| told.ends_with(expected.unwrap())), "{told:?}");
    }
    // Both queues of a decrypt count: 2000 checks of 2 s, 50 at once, take 80 s.
    let both = session.text(&format!("{warnings} where subject = 'kind public_decrypt'")).await;
    assert!(both.contains(" 1434800 (queues: readiness at 2000, tx at 13548) + "), "{both}");

    let told = run(&database.url, &["doctor"]).await;
    assert_eq!(told.status.code(), Some(0), "{}", out(&told));
    let warning = "warning: deadline_taken_up_by_full_queues: kind direct\n  the waits in full queues";
    assert!(out(&told).contains(warning), "{}", out(&told));
    assert!(out(&told).contains("invariants hold"), "{}", out(&told));
    let told = run(&database.url, &["doctor", "--json"]).await;
    let told: Value = serde_json::from_slice(&told.stdout).unwrap();
    assert_eq!(told["sound"], true);
    assert_eq!(told["warnings"].as_array().unwrap().len(), 4);

    // The largest mark that a gate may have.
    session.execute("update tidegate.gate set high_water = 1000000000 where queue = 'tx'").await;
    assert_eq!(session.texts(warnings).await.len(), 4);

    // A queue without a limit, or one that is stopped, is no matter of configuration.
    for rate in ["null", "0"] {
        session.execute(&format!("update tidegate.queue set per_seconds = {rate} where name = 'tx'")).await;
        assert_eq!(session.texts(warnings).await, NOTHING, "{rate}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_traffic_shows_of_a_kind_is_a_warning() {
    let database = TestDatabase::unlimited().await;
    database.stop_clock().await;
    let mut session = Session::open(&database).await;
    let warnings = "select name || ': ' || message from tidegate.configuration_warning where subject = 'kind direct'";
    assert_eq!(session.texts(warnings).await, NOTHING);

    for (timeouts, calls, warns) in [(2, 2, false), (3, 3, true), (27, 30, true), (26, 30, false)] {
        session
            .execute(&format!(
                "delete from tidegate.call_second;
                 insert into tidegate.call_second (kind, stage, at, requests, calls, failures, timeouts, retries, slow, hedges, latency_ms)
                 values ('direct', 'tx', tidegate.clock(), 1, {calls}, {timeouts}, {timeouts}, 0, 0, 0, '{{}}')"
            ))
            .await;
        let told = session.texts(warnings).await.join("\n");
        let said =
            format!("attempts_time_out: {timeouts} of {calls} calls of stage tx in the last five minutes were cut");
        assert_eq!(told.starts_with(&said), warns, "{timeouts} {calls}: {told}");
        assert_eq!(told.ends_with("raise direct.tx.timeout_ms"), warns, "{told}");
    }
    session.execute("delete from tidegate.call_second").await;

    // The nominal 2.1 s, against what the last responses took.
    for (ms, samples, eta, warns) in [
        (30_000, 19, "nominal", false),
        (30_000, 20, "nominal", true),
        (30_000, 20, "observed", false),
        (4_200, 20, "nominal", false),
        (4_300, 20, "nominal", true),
        (1_100, 20, "nominal", false),
        (1_000, 20, "nominal", true),
    ] {
        session
            .execute(&format!(
                "update tidegate.kind set eta = '{eta}' where name = 'direct';
                 delete from tidegate.finish_sample;
                 insert into tidegate.finish_sample (
                   kind, requests, answer_ms, predicted, error_ms, error_abs_ms, error_bins, p90_stated, p90_held
                 )
                 values ('direct', 1, array_fill({ms}, array[{samples}]), 0, 0, 0, array_fill(0, array[8]), 0, 0)"
            ))
            .await;
        let told = session.texts(warnings).await.join("\n");
        let said = "nominal_time_is_not_measured: callers are told the nominal 2.1 s from the send to the response";
        assert_eq!(told.starts_with(said), warns, "{ms} {samples} {eta}: {told}");
    }
    session.execute("delete from tidegate.finish_sample").await;

    let settle = "select from tidegate.submit('direct', '1');
                  select tidegate_internal.settle_receipt(array_agg(c.lease)) from tidegate.claim_tx('tx', 'w', 1, '1 minute') as c";
    session.execute(settle).await;
    let later = "update public.test_clock set at = at + interval '61 s'";
    assert_eq!(session.texts(warnings).await, NOTHING);
    session.execute(later).await;
    let told = session.texts(warnings).await.join("\n");
    assert!(told.starts_with("responses_never_come: 1 requests await"), "{told}");
    let status = run(&database.url, &["status"]).await;
    assert!(out(&status).contains("kind direct: 1 requests await"), "{}", out(&status));
    session.execute("select tidegate.respond('1', id => id) from tidegate.request").await;
    session.execute(settle).await;
    session.execute(later).await;
    assert_eq!(session.texts(warnings).await, NOTHING);
}
