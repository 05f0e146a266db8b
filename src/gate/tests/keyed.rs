//! Kinds that make idempotency keys of their own.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_kind_that_makes_its_own_keys_is_refused_by_the_database_only() {
    let keyed = GateRow {
        kinds: vec!["direct".to_owned(), "orders".to_owned()],
        keyed: vec!["orders".to_owned()],
        ..closed(1)
    };
    let gates = reading(&Script::of([Some(vec![keyed])])).await;
    assert!(refuses(&gates));
    assert_eq!(gates.refuse("orders", None), None);
    // A refusal of the database describes the same gate.
    assert_eq!(gates.of_submission("orders", None, true).unwrap().name, "tx");
}
