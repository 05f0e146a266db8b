mod responses;

use tidegate::request::Request;
use tidegate::stage::{Check, Readiness, Sent, Transact};
use tokio::time::timeout;
use uuid::Uuid;

use super::*;

fn new_id() -> RequestId {
    RequestId(Uuid::now_v7())
}

fn chance(probability: f64) -> Chance {
    Chance::new(probability).unwrap()
}

/// Options that remember, with a fixed seed.
fn remembering() -> SimulateOptions {
    SimulateOptions {
        remember: true,
        seed: Some(1),
        ..SimulateOptions::default()
    }
}

fn downstream(options: SimulateOptions) -> Downstream {
    Downstream::new(options, None).unwrap()
}

#[tokio::test]
async fn a_repeated_send_gets_the_same_receipt_and_no_second_effect() {
    let downstream = downstream(remembering());
    let id = new_id();
    let first = downstream.send(id, "input_proof").await;
    assert_eq!(downstream.send(id, "input_proof").await, first);
    assert_ne!(downstream.send(new_id(), "input_proof").await, first);
    let stats = downstream.stats();
    assert_eq!((stats.sends, stats.taken, stats.duplicates), (3, 2, 1));
}

#[tokio::test]
async fn a_receipt_is_found_after_a_send_that_got_no_answer() {
    let downstream = downstream(SimulateOptions {
        drop_rate: chance(1.0),
        ..remembering()
    });
    let id = new_id();
    assert_eq!(downstream.find_receipt(id, "direct"), None);
    assert_eq!(downstream.send(id, "direct").await, SendAnswer::Silence);
    assert!(downstream.find_receipt(id, "direct").unwrap().response.is_some());
    assert_eq!(downstream.find_receipt(new_id(), "direct"), None);
    let stats = downstream.stats();
    assert_eq!((stats.dropped, stats.taken, stats.receipts_found), (1, 1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_caller_who_gives_up_leaves_the_effect_behind() {
    let options = SimulateOptions {
        send_latency: "10s".parse().unwrap(),
        ..remembering()
    };
    let downstream = downstream(options);
    let id = new_id();
    let send = downstream.send(id, "direct");
    assert!(timeout(Duration::from_secs(1), send).await.is_err());
    assert!(downstream.find_receipt(id, "direct").is_some());
}

#[tokio::test]
async fn half_of_the_server_errors_take_the_request() {
    let downstream = downstream(SimulateOptions {
        send_error_rate: chance(1.0),
        ..remembering()
    });
    for _ in 0..1000 {
        assert_eq!(downstream.send(new_id(), "direct").await, SendAnswer::Broken);
    }
    let stats = downstream.stats();
    assert_eq!(stats.send_errors, 1000);
    assert!((400..600).contains(&stats.taken), "{} taken", stats.taken);
}

#[tokio::test]
async fn a_rejection_is_final_and_leaves_no_receipt() {
    let downstream = downstream(SimulateOptions {
        reject_rate: chance(0.5),
        ..remembering()
    });
    for _ in 0..100 {
        let id = new_id();
        let first = downstream.send(id, "direct").await;
        assert_eq!(downstream.send(id, "direct").await, first);
        assert_eq!(
            downstream.find_receipt(id, "direct").is_none(),
            first == SendAnswer::Rejected
        );
    }
    assert!((60..140).contains(&downstream.stats().rejected));
}

#[tokio::test(start_paused = true)]
async fn sends_beyond_the_rate_are_counted_and_turned_away() {
    let options = SimulateOptions {
        rate: Some(10.0),
        burst: 2,
        ..remembering()
    };
    let downstream = downstream(options);
    let mut turned_away = 0;
    for _ in 0..20 {
        if let SendAnswer::TooMany { after } = downstream.send(new_id(), "direct").await {
            assert_eq!(after, Duration::from_secs(1));
            turned_away += 1;
        }
    }
    let stats = downstream.stats();
    assert_eq!((turned_away, stats.rate_violations, stats.taken), (7, 7, 13));
    assert_eq!(stats.max_sends_in_a_second, 20);
}

#[tokio::test(start_paused = true)]
async fn checks_beyond_the_limit_are_counted_and_abandoned_ones_end() {
    let options = SimulateOptions {
        check_concurrency: Some(2),
        readiness_latency: "1s".parse().unwrap(),
        ..remembering()
    };
    let downstream = downstream(options);
    let check = || downstream.check(None, "user_decrypt");
    let (a, b, c) = tokio::join!(check(), check(), check());
    assert_eq!((a, b), (Checked::Ready, Checked::Ready));
    assert!(matches!(c, Checked::TooMany { .. }));
    assert!(timeout(Duration::from_millis(1), check()).await.is_err());
    assert_eq!(tokio::join!(check(), check()), (Checked::Ready, Checked::Ready));
    let stats = downstream.stats();
    assert_eq!((stats.concurrency_violations, stats.max_checks_at_once), (1, 3));
}

#[tokio::test]
async fn checks_fail_as_often_as_they_are_told() {
    let downstream = downstream(SimulateOptions {
        not_yet_rate: chance(0.3),
        check_failure_rate: chance(0.2),
        not_yet_after: Duration::ZERO,
        ..remembering()
    });
    for _ in 0..1000 {
        let checked = downstream.check(None, "user_decrypt").await;
        assert!(matches!(
            checked,
            Checked::Ready | Checked::Never | Checked::Snooze { after: None }
        ));
    }
    let stats = downstream.stats();
    assert!((240..360).contains(&stats.checks_not_yet), "{stats:?}");
    assert!((150..250).contains(&stats.checks_failed), "{stats:?}");
}

#[tokio::test]
async fn the_log_tells_a_requests_life_in_lines_of_json() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("events.jsonl");
    let options = SimulateOptions {
        log: Some(path.clone()),
        seed: Some(1),
        ..SimulateOptions::default()
    };
    let downstream = downstream(options);
    let id = new_id();
    downstream.check(Some(id), "user_decrypt").await;
    downstream.send(id, "user_decrypt").await;
    downstream.send(id, "user_decrypt").await;
    let text = std::fs::read_to_string(path).unwrap();
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let events: Vec<_> = lines.iter().map(|line| line["event"].as_str().unwrap()).collect();
    assert_eq!(events, ["check", "ready", "send", "taken", "send", "duplicate"]);
    assert!(
        lines
            .iter()
            .all(|line| line["request_id"] == id.to_string() && line["us"].is_u64())
    );
}

#[test]
fn chances_that_exclude_each_other_cannot_exceed_one() {
    let options = SimulateOptions {
        send_error_rate: chance(0.6),
        drop_rate: chance(0.6),
        ..SimulateOptions::default()
    };
    let error = Downstream::new(options, None).err().unwrap().to_string();
    assert!(error.contains("--send-error-rate and --drop-rate"), "{error}");
}

#[tokio::test]
async fn stages_speak_the_engines_language() {
    let request = crate::request("direct");
    let over = |options| SimulatedStage(Arc::new(downstream(options)));
    let stage = over(remembering());
    assert_eq!(Readiness::check(&stage, &request).await, Check::Ready);
    assert!(matches!(stage.send(&request).await, Sent::Receipt(_)));
    assert!(stage.find_receipt(&request).await.unwrap().is_some());

    let stage = over(SimulateOptions {
        not_yet_rate: chance(1.0),
        ..remembering()
    });
    let second = Some(Duration::from_secs(1));
    assert_eq!(
        Readiness::check(&stage, &request).await,
        Check::Snooze { after: second }
    );

    let stage = over(SimulateOptions {
        drop_rate: chance(1.0),
        ..remembering()
    });
    let send = timeout(Duration::from_millis(20), stage.send(&request));
    assert!(send.await.is_err(), "the engine's timeout ends it");

    let stranger = Request {
        kind: "stranger".to_owned(),
        ..request
    };
    assert!(matches!(stage.send(&stranger).await, Sent::Rejected(error) if error.code == "unknown_kind"));
    let stages = format!("{:?}", stages(&stage.0));
    assert!(
        stages.contains(r#"readiness: ["public_decrypt", "user_decrypt"]"#),
        "{stages}"
    );
}
