//! What a poll gets for each state of a request, and for each way in which it ends.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tidegate::{
    internals::store::Response,
    request::{RequestError, RequestId},
    stage::{Check, Sent},
};
use tidegate_fhevm::{
    labels::{Detail, Label},
    request::Family::{self, InputProof, PublicDecrypt, UserDecrypt},
};

use super::{
    node::{Node, body, database, taken, with, work},
    support::{TestDatabase, eventually, raw},
};

fn id_of(job: &str) -> RequestId {
    job.parse().unwrap()
}

/// Another body with each call.
fn another(family: Family) -> Value {
    static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    match family {
        InputProof => with(family, "/ciphertextWithInputVerification", json!(format!("{number:08x}"))),
        PublicDecrypt => with(family, "/extraData", json!(format!("0x0107{number:062x}"))),
        _ => with(family, "/publicKey", json!(format!("{number:08x}"))),
    }
}

async fn until(database: &TestDatabase, job: &str, status: &str) {
    eventually(status, || async { database.status(id_of(job)).await == status }).await;
}

#[tokio::test]
async fn a_request_that_goes_on_is_queued_with_the_seconds_of_its_outlook() {
    let database = database().await;
    database.execute("update tidegate.setting set jitter = 0").await;
    let node = Node::start(&database).await;
    let outlook = async |job: &str, status: &str| {
        until(&database, job, status).await;
        let seconds = format!("select retry_after_seconds from tidegate.request_outlook('{job}')");
        let seconds = u64::try_from(database.number(&seconds).await).unwrap();
        let answer = node.poll(PublicDecrypt, job).await;
        assert_eq!((answer.status, &answer.body["status"]), (202, &json!("queued")), "{status}");
        assert!(answer.retry_after().abs_diff(seconds) <= 1, "{status}: {answer:?}, {seconds}");
    };
    let submitted = node.post(PublicDecrypt, &body(PublicDecrypt)).await;
    let job = submitted.job();
    outlook(&job, "queued").await;

    database.execute("select tidegate.pause('fhevm_public_decrypt')").await;
    let worker = work(&database, || Check::Ready, taken).await;
    outlook(&job, "processing").await;
    worker.stop().await.unwrap();

    database.execute("select tidegate.pause('fhevm_public_decrypt', false)").await;
    let claim = "select (c.lease).token from tidegate.claim_tx('fhevm_public_decrypt', 'w', 1, '1 minute') as c";
    let token = database.number(claim).await;
    outlook(&job, "tx_in_flight").await;
    let settle = format!(
        "select from tidegate.settle(array[row('fhevm_public_decrypt', {token}, '{job}')::tidegate.lease], '{{receipt}}')"
    );
    database.execute(&settle).await;
    outlook(&job, "receipt_received").await;
}

#[tokio::test]
async fn a_caller_waits_as_long_as_the_last_requests_took() {
    let database = database().await;
    let node = Node::start(&database).await;
    let submit = async || node.post(PublicDecrypt, &another(PublicDecrypt)).await.retry_after();
    assert!(submit().await >= 8, "the nominal times");
    // Nothing takes other samples here: no worker runs.
    database
        .execute(
            "insert into tidegate.kind_pace (kind, observed_at, samples, answer_ms, in_flight)
             values ('fhevm_public_decrypt', tidegate.clock() + interval '1 hour', 40,
               array_fill(1000::float8, array[40]), 0);
             insert into tidegate.queue_pace (queue, observed_at, held_ms)
             values ('fhevm_public_ready', tidegate.clock() + interval '1 hour', 200)",
        )
        .await;
    let observed = submit().await;
    assert!(observed <= 2, "{observed}");
}

#[tokio::test]
async fn a_result_has_the_form_of_its_family() {
    let database = database().await;
    database.execute("update tidegate.kind set response_threshold = 3 where name = 'fhevm_user_decrypt'").await;
    let node = Node::start(&database).await;
    let _worker = work(&database, || Check::Ready, taken).await;
    let respond = async |family: Family, parts: &[(Option<&str>, Value)]| {
        let job = node.post(family, &another(family)).await.job();
        for (part, response) in parts {
            let response = Response {
                id: Some(id_of(&job)),
                reference: None,
                part: part.map(str::to_owned),
                accept: None,
                response: raw(response),
            };
            database.store.respond(&response).await.unwrap();
        }
        node.wait(family, &job).await
    };
    let hex = |byte: &str, count: usize| byte.repeat(count);
    let signature = hex("d4", 65);

    let accepted = json!({
        "accepted": true, "extraData": "0x00", "handles": [format!("0x{}", hex("d9", 32))],
        "signatures": [format!("0x{signature}")],
    });
    let rejected = json!({"accepted": false, "extraData": "0x00"});
    let public = json!({"decryptedValue": hex("2a", 32), "signatures": [signature], "extraData": "0x"});
    for (family, response) in [(InputProof, accepted), (InputProof, rejected), (PublicDecrypt, public)] {
        let answer = respond(family, &[(None, response.clone())]).await;
        assert_eq!((answer.status, &answer.body["result"]), (200, &response), "{family:?}");
    }

    let share = |payload: &str, index: Option<&str>| {
        let mut share = json!({"payload": payload, "signature": signature, "extraData": "0x00"});
        if let Some(index) = index {
            share["index"] = json!(index);
        }
        share
    };
    // The fourth comes too late.
    let shares = [("k1", "bb", "10"), ("k2", "aa", "2"), ("k3", "cc", "11"), ("k4", "dd", "0")];
    let parts = shares.map(|(node, payload, index)| (Some(node), share(payload, Some(index))));
    for family in [UserDecrypt, Family::DelegatedUserDecrypt] {
        let answer = respond(family, &parts).await;
        let shares = ["aa", "bb", "cc"].map(|payload| share(payload, None));
        let result = json!({ "result": shares });
        assert_eq!((answer.status, &answer.body["result"]), (200, &result), "{family:?}");
    }
}

#[tokio::test]
async fn a_response_that_is_none_of_the_relayer_s_is_an_internal_error() {
    let database = database().await;
    let node = Node::start(&database).await;
    let _worker = work(&database, || Check::Ready, || Sent::response("nonsense")).await;
    let job = node.post(UserDecrypt, &body(UserDecrypt)).await.job();
    let answer = node.wait(UserDecrypt, &job).await;
    assert_eq!((answer.status, answer.label()), (500, "internal_server_error"));
}

/// Workers whose next check and send answer as it is set.
struct Script(Arc<Mutex<(Check, Sent)>>);

impl Script {
    async fn run(database: &TestDatabase) -> (Self, tidegate::RunningWorker) {
        let script = Arc::new(Mutex::new((Check::Ready, taken())));
        let (check, send) = (Arc::clone(&script), Arc::clone(&script));
        let check = move || check.lock().unwrap().0.clone();
        let send = move || send.lock().unwrap().1.clone();
        let worker = work(database, check, send).await;
        (Self(script), worker)
    }

    fn set(&self, check: Check, sent: Sent) {
        *self.0.lock().unwrap() = (check, sent);
    }
}

#[tokio::test]
async fn a_request_that_a_stage_has_failed_has_the_stage_s_label() {
    let database = database().await;
    let node = Node::start(&database).await;
    let (script, _worker) = Script::run(&database).await;

    for (label, status) in [(Label::NotAllowedOnHostAcl, 400), (Label::HostAclFailed, 500)] {
        script.set(Check::Failed(label.error()), taken());
        for family in [PublicDecrypt, UserDecrypt] {
            let job = node.post(family, &another(family)).await.job();
            let answer = node.wait(family, &job).await;
            assert_eq!((answer.status, answer.label()), (status, label.as_str()), "{family:?}");
        }
    }

    for (label, status) in [
        (Label::InternalServerError, 500),
        (Label::ReadinessCheckTimedOut, 503),
        (Label::ProtocolPaused, 503),
        (Label::InsufficientBalance, 503),
        (Label::InsufficientAllowance, 503),
        (Label::GatewayNotReachable, 503),
    ] {
        script.set(Check::Ready, Sent::Rejected(label.error()));
        let family = PublicDecrypt;
        let job = node.post(family, &another(family)).await.job();
        let answer = node.wait(family, &job).await;
        assert_eq!((answer.status, answer.label()), (status, label.as_str()));
        assert_eq!(answer.body["error"]["message"], label.message());
    }

    script.set(Check::Ready, Sent::rejected("http_418", "a stage's own words"));
    let job = node.post(InputProof, &another(InputProof)).await.job();
    let answer = node.wait(InputProof, &job).await;
    assert_eq!((answer.status, answer.label()), (500, "internal_server_error"));
    assert_eq!(answer.body["error"]["message"], "Internal server error");
}

#[tokio::test]
async fn a_revert_that_blames_the_request_names_its_field() {
    let database = database().await;
    let node = Node::start(&database).await;
    let (script, _worker) = Script::run(&database).await;
    let details = [Detail::new("signature", "Signature is invalid")];
    script.set(Check::Ready, Sent::Rejected(Label::ValidationFailed.error().with_details(json!(details))));
    for family in Family::ALL {
        let job = node.post(family, &another(family)).await.job();
        let answer = node.wait(family, &job).await;
        assert_eq!((answer.status, answer.label()), (400, "validation_failed"));
        let message = "Validation failed for 1 field in the request: signature";
        assert_eq!(answer.body["error"]["message"], message);
        let details = json!([{"field": "signature", "issue": "Signature is invalid"}]);
        assert_eq!(answer.body["error"]["details"], details);
    }
}

#[tokio::test]
async fn a_request_without_attempts_has_the_label_of_its_last_error() {
    let database = database().await;
    database.execute("update tidegate.policy set attempts = 1 where stage = 'tx'").await;
    let node = Node::start(&database).await;
    let (script, _worker) = Script::run(&database).await;
    for (code, label) in [
        (Label::InsufficientBalance.code(), "insufficient_balance"),
        (Label::GatewayNotReachable.code(), "gateway_not_reachable"),
        (Label::InternalServerError.code(), "response_timed_out"),
        ("timeout".to_owned(), "response_timed_out"),
    ] {
        let error = RequestError::new(&*code, "a stage's own words", true);
        script.set(Check::Ready, Sent::Retry { error, after: None, may_have_left: true });
        let job = node.post(InputProof, &another(InputProof)).await.job();
        let answer = node.wait(InputProof, &job).await;
        assert_eq!((answer.status, answer.label()), (503, label), "{code}");
        assert!(!answer.body.to_string().contains("own words"), "{answer:?}");
    }
}

#[tokio::test]
async fn a_request_that_has_run_out_of_time_says_of_which() {
    let database = database().await;
    let node = Node::start(&database).await;
    let ends = async |family: Family, end: &str, status: u16, label: &str| {
        let job = node.post(family, &another(family)).await.job();
        if end.contains("receipt_received") {
            until(&database, &job, "receipt_received").await;
        }
        database.execute(&end.replace("JOB", &job)).await;
        let answer = node.poll(family, &job).await;
        assert_eq!((answer.status, answer.label()), (status, label), "{end}");
    };
    let time_out = "select tidegate.time_out(array['JOB'::uuid])";
    ends(PublicDecrypt, time_out, 503, "readiness_check_timed_out").await;
    ends(InputProof, "select tidegate.cancel('JOB')", 500, "internal_server_error").await;
    ends(InputProof, "select tidegate.fail_request('JOB', 'by hand')", 500, "internal_server_error").await;
    let deadline = "update tidegate.request set deadline_at = clock_timestamp() - interval '1 second'
                    where id = 'JOB';
                    select tidegate.expire_by_deadline()";
    ends(InputProof, deadline, 503, "response_timed_out").await;

    let _worker = work(&database, || Check::Ready, taken).await;
    let time_out = format!("{time_out} /* receipt_received */");
    ends(UserDecrypt, &time_out, 503, "response_timed_out").await;
}

#[tokio::test]
async fn a_closed_gate_refuses_new_requests_until_it_opens() {
    let database = database().await;
    let node = Node::start(&database).await;
    let job = node.post(InputProof, &body(InputProof)).await.job();
    database.execute("select tidegate.gate_force('fhevm_input_proof', 'too_many_requests')").await;

    let refused = node.post(InputProof, &another(InputProof)).await;
    assert_eq!((refused.status, refused.label()), (429, "rate_limited"));
    let message = refused.body["error"]["message"].as_str().unwrap();
    assert!(message.starts_with("Server is experiencing high processing load: "), "{message}");
    assert_eq!(refused.body["requestId"], json!(null));

    // A duplicate is never refused, and neither is a poll.
    assert_eq!(node.post(InputProof, &body(InputProof)).await.job(), job);
    assert_eq!(node.poll(InputProof, &job).await.status, 202);

    database.execute("select tidegate.gate_force('fhevm_input_proof', null)").await;
    eventually("the gate is open", || async { node.post(InputProof, &another(InputProof)).await.status == 202 }).await;
}
