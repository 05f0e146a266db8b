//! Does the simulated downstream fail, limit and remember as its options say?

mod responses;

use tidegate::stage::{Check, Found, Readiness, Sent, Transact};
use tokio::time::timeout;
use uuid::Uuid;

use super::*;
use crate::{from_flags, testing};

fn new_id() -> RequestId {
    RequestId(Uuid::now_v7())
}

/// The options with these flags, a memory and a fixed seed.
fn remembering(flags: &str) -> SimulateOptions {
    from_flags(&format!("--remember --seed 1 {flags}"))
}

fn downstream(flags: &str) -> Downstream {
    Downstream::new(remembering(flags), None).unwrap()
}

#[tokio::test]
async fn a_repeated_send_gets_the_same_receipt_and_no_second_effect() {
    let downstream = downstream("");
    let id = new_id();
    let first = downstream.send(id, "input_proof").await;
    assert_eq!(downstream.send(id, "input_proof").await, first);
    assert_ne!(downstream.send(new_id(), "input_proof").await, first);
    let stats = downstream.stats();
    assert_eq!((stats.sends, stats.taken, stats.duplicates), (3, 2, 1));
}

#[tokio::test]
async fn a_receipt_is_found_after_a_send_that_got_no_answer() {
    let downstream = downstream("--drop-rate 1");
    let id = new_id();
    assert_eq!(downstream.find_receipt(id, "direct"), None);
    assert_eq!(downstream.send(id, "direct").await, Err(Refusal::Silence));
    assert!(downstream.find_receipt(id, "direct").unwrap().response.is_some());
    assert_eq!(downstream.find_receipt(new_id(), "direct"), None);
    let stats = downstream.stats();
    assert_eq!((stats.dropped, stats.taken, stats.receipts_found), (1, 1, 1));
}

#[tokio::test]
async fn the_answers_of_a_lossy_kind_are_lost_and_half_of_its_sends_are_taken() {
    let downstream = downstream("--lossy direct=1");
    for _ in 0..1000 {
        let id = new_id();
        assert_eq!(downstream.send(id, "direct").await, Err(Refusal::Silence));
        assert_eq!(downstream.find_receipt(id, "direct"), None);
    }
    assert!(downstream.send(new_id(), "input_proof").await.is_ok());
    let stats = downstream.stats();
    assert_eq!(stats.dropped, 1000);
    assert!((400..600).contains(&stats.taken), "{} taken", stats.taken);
}

#[tokio::test]
async fn a_repeated_send_may_be_refused_and_stays_taken() {
    let downstream = downstream("--repeat-reject-rate 1");
    let id = new_id();
    let first = downstream.send(id, "direct").await;
    assert_eq!(downstream.send(id, "direct").await, Err(Refusal::Rejected));
    assert_eq!(downstream.find_receipt(id, "direct"), first.ok());
    assert_eq!(downstream.stats().taken, 1);
}

#[tokio::test(start_paused = true)]
async fn a_send_has_its_effect_even_if_the_caller_gives_up() {
    let downstream = downstream("--send-latency 10s");
    let id = new_id();
    let send = downstream.send(id, "direct");
    assert!(timeout(Duration::from_secs(1), send).await.is_err());
    assert!(downstream.find_receipt(id, "direct").is_some());
}

#[tokio::test]
async fn half_of_the_sends_that_end_in_a_server_error_are_accepted() {
    let downstream = downstream("--send-error-rate 1");
    for _ in 0..1000 {
        assert_eq!(downstream.send(new_id(), "direct").await, Err(Refusal::Broken));
    }
    let stats = downstream.stats();
    assert_eq!(stats.send_errors, 1000);
    assert!((400..600).contains(&stats.taken), "{} taken", stats.taken);
}

#[tokio::test]
async fn a_rejection_is_final_and_leaves_no_receipt() {
    let downstream = downstream("--reject-rate 0.5");
    for _ in 0..100 {
        let id = new_id();
        let first = downstream.send(id, "direct").await;
        assert_eq!(downstream.send(id, "direct").await, first);
        let rejected = first == Err(Refusal::Rejected);
        assert_eq!(downstream.find_receipt(id, "direct").is_none(), rejected);
    }
    assert!((60..140).contains(&downstream.stats().rejected));
}

#[tokio::test(start_paused = true)]
async fn sends_beyond_the_rate_are_counted_and_refused() {
    let downstream = downstream("--rate 10 --burst 2");
    let mut refused = 0;
    for _ in 0..20 {
        if let Err(Refusal::TooMany { after }) = downstream.send(new_id(), "direct").await {
            assert_eq!(after, Duration::from_secs(1));
            refused += 1;
        }
    }
    let stats = downstream.stats();
    assert_eq!((refused, stats.rate_violations, stats.taken), (7, 7, 13));
    assert_eq!(stats.max_sends_in_a_second, 20);
}

#[tokio::test(start_paused = true)]
async fn checks_beyond_the_limit_are_counted_and_abandoned_ones_end() {
    let downstream = downstream("--check-concurrency 2 --readiness-latency 1s");
    let check = || downstream.check(None, "user_decrypt");
    let (a, b, c) = tokio::join!(check(), check(), check());
    assert_eq!((a, b), (Ok(()), Ok(())));
    assert!(matches!(c, Err(Refusal::TooMany { .. })));
    assert!(timeout(Duration::from_millis(1), check()).await.is_err());
    assert_eq!(tokio::join!(check(), check()), (Ok(()), Ok(())));
    let stats = downstream.stats();
    assert_eq!((stats.concurrency_violations, stats.max_checks_at_once), (1, 3));
}

#[tokio::test]
async fn checks_fail_at_the_configured_rates() {
    let downstream = downstream("--not-yet-rate 0.3 --check-failure-rate 0.2 --not-yet-after 0s");
    for _ in 0..1000 {
        let checked = downstream.check(None, "user_decrypt").await;
        assert!(matches!(checked, Ok(()) | Err(Refusal::NotPossible | Refusal::NotYet { after: None })));
    }
    let stats = downstream.stats();
    assert!((240..360).contains(&stats.checks_not_yet), "{stats:?}");
    assert!((150..250).contains(&stats.checks_failed), "{stats:?}");
}

#[tokio::test]
async fn the_log_has_the_events_of_a_request_as_lines_of_json() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("events.jsonl");
    let options = SimulateOptions {
        event_log: Some(path.clone()),
        event_log_key: Some("mark".to_owned()),
        seed: Some(1),
        ..SimulateOptions::default()
    };
    let downstream = Downstream::new(options, None).unwrap();
    let id = new_id();
    downstream.check(Some(id), "user_decrypt").await.unwrap();
    let key = downstream.key_in(br#"{"mark": "m"}"#);
    let send = downstream.send_under(id, "user_decrypt", key.as_deref(), Instant::now());
    send.await.unwrap();
    downstream.send(id, "user_decrypt").await.unwrap();
    let text = std::fs::read_to_string(path).unwrap();
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let events: Vec<_> = lines.iter().map(|line| line["event"].as_str().unwrap()).collect();
    assert_eq!(events, ["check", "ready", "send", "taken", "send", "duplicate"]);
    assert_eq!(lines[3]["key"], "m");
    for line in lines {
        assert!(line["request_id"] == id.to_string() && line["us"].is_u64(), "{line}");
    }
}

#[test]
fn chances_that_exclude_each_other_cannot_exceed_one() {
    let options = remembering("--send-error-rate 0.6 --drop-rate 0.6");
    let error = Downstream::new(options, None).err().unwrap().to_string();
    assert!(error.contains("--send-error-rate and --drop-rate"), "{error}");
}

#[tokio::test]
async fn stages_translate_answers_for_the_engine() {
    let request = testing::request("direct");
    let over = |flags| SimulatedStage(Arc::new(downstream(flags)));
    let stage = over("");
    assert_eq!(Readiness::check(&stage, &request).await, Check::Ready);
    assert!(matches!(stage.send(&request).await, Sent::Receipt(_)));
    assert!(matches!(stage.find_receipt(&request).await, Ok(Found::Receipt(_))));

    let stage = over("--not-yet-rate 1");
    let after = Some(Duration::from_secs(1));
    assert_eq!(Readiness::check(&stage, &request).await, Check::Snooze { after });

    let stage = over("--drop-rate 1");
    let send = timeout(Duration::from_millis(20), stage.send(&request));
    assert!(send.await.is_err(), "a send that is dropped is never answered");

    let stranger = testing::request("stranger");
    assert!(matches!(stage.send(&stranger).await, Sent::Rejected(error) if error.code == "unknown_kind"));
    let stages = format!("{:?}", stages(&stage.0));
    let readiness = r#"readiness: ["public_decrypt", "user_decrypt"]"#;
    assert!(stages.contains(readiness), "{stages}");
}
