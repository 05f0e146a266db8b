//! What passes a closed gate? Replays, and requests that were accepted elsewhere.

use super::{STATE, outcomes, serve, stage, with_quota};
use crate::support::race::Session;

#[tokio::test(flavor = "multi_thread")]
async fn replays_pass_and_take_no_room() {
    let database = stage().await;
    let mut session = Session::open(&database).await;
    let keyed = |from: i32, to: i32| {
        format!(
            "submit_batch('direct', array_fill('{{}}'::jsonb, array[{}]),
               array(select 'key ' || n from generate_series({from}, {to}) as n))",
            to - from + 1
        )
    };
    outcomes(&mut session, &keyed(1, 20)).await;
    // Ten new ones of thirty fit exactly; eleven do not.
    assert_eq!(outcomes(&mut session, &keyed(1, 31)).await, ["refused"; 31]);
    let outcomes_of = outcomes(&mut session, &keyed(1, 30)).await;
    assert_eq!(outcomes_of[..20], ["replayed"; 20]);
    assert_eq!(outcomes_of[20..], ["accepted"; 10]);
    assert_eq!(session.text(STATE).await, "too_many_requests 30 1");
    assert_eq!(outcomes(&mut session, &keyed(1, 30)).await, ["replayed"; 30]);
    assert_eq!(outcomes(&mut session, &keyed(2, 31)).await, ["refused"; 30]);
}

#[tokio::test(flavor = "multi_thread")]
async fn promised_work_goes_in_and_closes_the_gate() {
    let database = stage().await;
    let mut session = Session::open(&database).await;
    let promised = "submit_batch('direct', array_fill('{}'::jsonb, array[20]), admission => 'accepted')";
    for _ in 0..2 {
        assert_eq!(outcomes(&mut session, promised).await, ["accepted"; 20]);
    }
    assert_eq!(session.text(STATE).await, "too_many_requests 40 1");
    assert_eq!(outcomes(&mut session, promised).await, ["accepted"; 20]);
    assert_eq!(outcomes(&mut session, "submit('direct', '{}')").await, ["refused"]);
    // It does not wait for the lock of a submission that does not commit.
    serve(&mut session, 45).await;
    let mut other = Session::begin(&database).await;
    assert_eq!(outcomes(&mut other, "submit('direct', '{}')").await, ["accepted"]);
    assert_eq!(outcomes(&mut session, "submit('direct', '{}', admission => 'accepted')").await, ["accepted"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn replays_pass_no_gate() {
    let database = stage().await;
    let mut session = Session::open(&database).await;
    let keyed = "submit('direct', '{}', 'k')";
    outcomes(&mut session, keyed).await;
    // At another isolation level.
    session.execute("begin isolation level repeatable read").await;
    assert_eq!(outcomes(&mut session, keyed).await, ["replayed"]);
    session.commit().await;
    // While a quota's lock is kept.
    with_quota(&database).await;
    let mut holder = Session::begin(&database).await;
    outcomes(&mut holder, "submit('direct', '{}')").await;
    session.execute("set lock_timeout = '1s'").await;
    assert_eq!(outcomes(&mut session, keyed).await, ["replayed"]);
    assert_eq!(session.attempt("select * from tidegate.submit('direct', '{}', 'l')").await.unwrap_err().0, "55P03");
    holder.rollback().await;
}
