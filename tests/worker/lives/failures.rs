//! Does a stage that panics, or an outcome that cannot be stored, harm its own request only?

use serde_json::json;
use tidegate::{
    request::{Request, RequestError},
    stage::{Check, JsonText, Receipt, Sent, Transact},
};

use super::{Checks, Running, Sends, all_stages, options, until};
use crate::support::TestDatabase;

#[tokio::test(flavor = "multi_thread")]
async fn a_panicking_stage_harms_only_its_own_request_and_not_for_ever() {
    let database = TestDatabase::unlimited().await.with_short_policies().await;
    database.execute("update tidegate.policy set base_ms = 1, cap_ms = 1, jitter_ms = 0").await;
    let stages = all_stages()
        .readiness("user_decrypt", Checks(|_: &Request| -> Check { panic!("poison") }))
        .transact("input_proof", Sends(|_: &Request| -> Sent { panic!("poison") }));
    let running = Running::start(&database.store, stages, options());

    let poisoned_check = database.submit("user_decrypt").await;
    let poisoned_send = database.submit("input_proof").await;
    let healthy = database.submit("direct").await;

    until(&database, healthy, "completed").await;
    until(&database, poisoned_check, "failure").await;
    until(&database, poisoned_send, "failure").await;
    for id in [poisoned_check, poisoned_send] {
        let error = database.store.outlook(id).await.unwrap().unwrap().error.unwrap();
        assert!(error.message.contains("poison"), "{error:?}");
    }
    let causes = database.causes(poisoned_send).await;
    assert_eq!(causes.iter().filter(|cause| *cause == "claimed").count(), 5);
    assert_eq!(causes.last().unwrap(), "attempts_exhausted");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_cannot_be_stored_ends_its_request_and_no_other() {
    let database = TestDatabase::unlimited().await;
    let stages = all_stages().transact(
        "direct",
        Sends(|request: &Request| {
            let poison = request.payload.get().contains("poison");
            Sent::Receipt(Receipt {
                reference: None,
                response: Some(json!({ "text": if poison { "\0" } else { "fine" } }).into()),
            })
        }),
    );
    let mut ids = Vec::new();
    for payload in [json!({}), json!("poison"), json!({})] {
        let submitted = database.store.submit(&crate::support::submission("direct", &payload)).await;
        let tidegate::internals::store::Submitted::Accepted(ticket) = submitted.unwrap() else {
            panic!("not accepted");
        };
        ids.push(ticket.id);
    }

    let running = Running::start(&database.store, stages, options());

    until(&database, ids[0], "completed").await;
    until(&database, ids[1], "failure").await;
    until(&database, ids[2], "completed").await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stage_that_panics_before_it_returns_its_future_is_contained_too() {
    struct Rash;
    impl Transact for Rash {
        type Payload = JsonText;

        fn send(&self, _: &Request) -> impl Future<Output = Sent> + Send {
            panic!("rash");
            #[expect(unreachable_code, reason = "gives the function its type")]
            async {
                Sent::Rejected(RequestError::new("never", "never", false))
            }
        }
    }
    let database = TestDatabase::unlimited().await;
    database.execute("update tidegate.policy set base_ms = 1, cap_ms = 1, jitter_ms = 0").await;
    let running = Running::start(&database.store, all_stages().transact("direct", Rash), options());

    let id = database.submit("direct").await;

    until(&database, id, "failure").await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_that_cannot_be_stored_as_it_is_takes_no_other_outcome_with_it() {
    let database = TestDatabase::unlimited().await;
    let stages = all_stages().transact(
        "direct",
        Sends(|request: &Request| {
            let poison = request.payload.get().contains("poison");
            let (code, message) = if poison { ("\0", "a\0b") } else { ("refused", "no") };
            Sent::Rejected(RequestError::new(code, message, false))
        }),
    );
    let mut ids = Vec::new();
    for payload in [json!({}), json!("poison"), json!({})] {
        let submission = crate::support::submission("direct", &payload);
        let tidegate::internals::store::Submitted::Accepted(ticket) = database.store.submit(&submission).await.unwrap()
        else {
            panic!("not accepted");
        };
        ids.push(ticket.id);
    }

    let running = Running::start(&database.store, stages, options());

    for id in ids {
        until(&database, id, "failure").await;
        assert_eq!(database.causes(id).await, ["submitted", "claimed", "rejected"]);
    }
    running.stop().await;
}
