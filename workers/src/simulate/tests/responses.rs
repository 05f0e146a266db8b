//! The delivery of responses.

use std::{collections::BTreeSet, sync::Mutex};

use tidegate::internals::store::Response;

use super::*;

/// Keeps responses; refuses the first few deliveries.
#[derive(Default)]
struct Mailbox {
    got: Mutex<Vec<Response>>,
    failures_left: Mutex<u32>,
    outcome: String,
}

impl Responder for Mailbox {
    fn respond<'a>(&'a self, response: &'a Response) -> Delivery<'a> {
        Box::pin(async move {
            let mut failures = self.failures_left.lock().unwrap();
            if *failures > 0 {
                *failures -= 1;
                return Err(NotDelivered::Retry { why: "not now".to_owned(), after: None });
            }
            self.got.lock().unwrap().push(response.clone());
            Ok(self.outcome.clone())
        })
    }

    fn at_once(&self) -> usize {
        2
    }
}

/// A downstream with these options and a mailbox, which has been sent one request of `kind`.
async fn sent(options: SimulateOptions, mailbox: &Arc<Mailbox>, kind: &str) -> Downstream {
    let downstream = Downstream::new(options, Some(mailbox.clone())).unwrap();
    downstream.send(new_id(), kind).await.unwrap();
    downstream
}

async fn answers_of(flags: &str, kind: &str) -> Vec<Response> {
    let mailbox = Arc::new(Mailbox::default());
    let downstream = sent(remembering(flags), &mailbox, kind).await;
    downstream.drain(Duration::from_secs(10)).await;
    mailbox.got.lock().unwrap().clone()
}

#[tokio::test(start_paused = true)]
async fn each_flow_is_answered_in_its_own_way() {
    let one = answers_of("", "public_decrypt").await;
    assert_eq!(one.len(), 1);
    assert!(one[0].reference.is_some() && one[0].id.is_none());
    assert_eq!((&one[0].part, one[0].accept), (&None, None));

    let shares = answers_of("--response-latency uniform:1ms-1s", "user_decrypt").await;
    let parts: Vec<_> = shares.iter().filter_map(|share| share.part.as_deref()).collect();
    assert_eq!(BTreeSet::from_iter(parts.clone()), ["1", "2", "3", "4", "5"].into());
    assert!(!parts.is_sorted(), "the seed shuffles them: {parts:?}");

    let verdict = answers_of("--verdict-reject-rate 1 --respond-by job-id", "input_proof").await;
    assert_eq!(verdict.len(), 1);
    assert_eq!((verdict[0].accept, verdict[0].id.is_some()), (Some(false), true));

    let direct = answers_of("", "direct").await;
    assert!(direct.is_empty(), "its receipt is the answer");
    assert!(answers_of("--silent-rate 1", "public_decrypt").await.is_empty());
}

#[tokio::test]
async fn without_options_there_is_no_bookkeeping_but_the_same_answers() {
    let mailbox = Arc::new(Mailbox::default());
    let downstream = sent(SimulateOptions::default(), &mailbox, "user_decrypt").await;
    let id = new_id();
    let bare = downstream.send(id, "direct").await;
    assert_eq!(bare, self::downstream("").send(id, "direct").await);
    assert_eq!(downstream.find_receipt(id, "direct"), None);
    downstream.drain(Duration::from_secs(10)).await;
    assert_eq!(mailbox.got.lock().unwrap().len(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_response_is_offered_until_it_is_taken_or_a_minute_has_passed() {
    for (failures, delivered) in [(3, 1), (1000, 0)] {
        let mailbox =
            Arc::new(Mailbox { failures_left: Mutex::new(failures), outcome: "late".to_owned(), ..Mailbox::default() });
        let downstream = sent(remembering(""), &mailbox, "public_decrypt").await;
        downstream.drain(Duration::from_secs(100)).await;
        let stats = downstream.stats();
        assert_eq!(stats.responses_delivered, delivered);
        assert_eq!(stats.responses_late, delivered);
        assert_eq!(stats.responses_lost, 1 - delivered);
    }
}

#[tokio::test(start_paused = true)]
async fn responses_that_outlast_the_grace_are_lost_and_counted() {
    let mailbox = Arc::new(Mailbox::default());
    let downstream = sent(remembering("--response-latency 1h"), &mailbox, "public_decrypt").await;
    downstream.drain(Duration::from_secs(1)).await;
    assert_eq!(downstream.stats().responses_lost, 1);
}
