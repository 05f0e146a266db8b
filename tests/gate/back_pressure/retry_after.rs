//! When does a refusal ask its caller to come back?

use std::time::Instant;

use super::{batch, outcomes, stage};
use crate::support::race::Session;

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_told_when_there_is_room_for_all_of_it() {
    let database = stage().await;
    let mut session = Session::open(&database).await;
    session.execute("update tidegate.queue set per_seconds = 1 where name = 'tx'").await;
    outcomes(&mut session, &batch("direct", 20)).await;
    let told = |count: usize| format!("select distinct retry_after_seconds from tidegate.{}", batch("direct", count));
    // 20 + 15 - 30 have to go, with a margin of 0.2.
    for (count, seconds) in [(15, "6"), (11, "2"), (30, "24")] {
        assert_eq!(session.text(&told(count)).await, seconds, "{count}");
    }
    outcomes(&mut session, &batch("direct", 10)).await;
    // Closed at 30: to 15, or as far as the batch needs.
    for (count, seconds) in [(1, "18"), (15, "18"), (20, "24")] {
        assert_eq!(session.text(&told(count)).await, seconds, "{count}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_after_waits_for_snoozed_messages() {
    let database = stage().await;
    let began = Instant::now();
    let mut session = Session::open(&database).await;
    outcomes(&mut session, &batch("direct", 12)).await;
    for minutes in 1..=18 {
        outcomes(
            &mut session,
            &format!("submit('direct', '{{}}', not_before => clock_timestamp() + interval '{minutes} minutes')"),
        )
        .await;
    }
    session.execute("update tidegate.setting set max_seconds = 1000").await;
    // 15 have to go; 12 can now, and the third delayed one in three minutes.
    let told = "select retry_after_seconds from tidegate.submit('direct', '{}')";
    let copied = "select still_wait from tidegate.gate_copy() where name = 'tx'";
    for told in [told, copied] {
        // The minutes pass from the submission on.
        let seconds: u64 = session.text(told).await.parse().unwrap();
        let passed = began.elapsed().as_secs() + 1;
        assert!((180 - passed..=180).contains(&seconds), "{told}: {seconds}");
    }
    session.execute("update tidegate.setting set max_seconds = 100").await;
    assert_eq!(session.text(told).await, "100");
    session
        .execute("update pgmq.q_tx set vt = '-infinity' where vt < clock_timestamp() + interval '210 seconds'")
        .await;
    assert_eq!(session.text(told).await, "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_that_has_been_closed_for_a_while_tells_how_fast_it_is_served() {
    let database = stage().await;
    let mut session = Session::open(&database).await;
    session
        .execute("update tidegate.queue set per_seconds = 10 where name = 'tx'; select setval('tidegate.pacing_tx', 1)")
        .await;
    outcomes(&mut session, &batch("direct", 30)).await;
    let told = "select retry_after_seconds from tidegate.submit('direct', '{}')";
    // 15 at 10 per second, with a margin of 0.2.
    assert_eq!(session.text(told).await, "2");
    // In ten seconds 4 have gone, so 11 take 22 s at 0.5 per second: 4, and one that may be about to go.
    session
        .execute(
            "update tidegate.gate set changed_at = clock_timestamp() - interval '10 seconds' where name = 'tx';
             delete from pgmq.q_tx where msg_id in (select msg_id from pgmq.q_tx limit 4)",
        )
        .await;
    assert_eq!(session.text(told).await, "27");
    // As fast as the limit, give or take the margin: the limit it is.
    session.execute("update tidegate.queue set per_seconds = 0.55 where name = 'tx'").await;
    assert_eq!(session.text(told).await, "24");
}
