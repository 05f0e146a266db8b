//! Do the views of counters, of rate limits and of the room of gates show what claims and submissions go by?

use crate::support::{TestDatabase, race::Session};

#[tokio::test(flavor = "multi_thread")]
async fn each_counter_of_each_queue_is_shown_with_its_meaning() {
    let database = TestDatabase::new().await;
    let mut session = Session::open(&database).await;
    database.execute("select tidegate.queue_add('fair', 'tx', fair_by => 'kind')").await;
    let missing = "select q.name, c
        from tidegate.queue as q cross join unnest(tidegate_internal.queue_counters(q.fair_by is not null) || 'last'::text) as c
        except
        select v.queue, v.counter from tidegate.counter_overview as v where v.meaning <> ''";
    assert_eq!(session.texts(missing).await.len(), 0);

    database.execute("select tidegate.submit_batch('direct', array_fill('{}'::jsonb, array[7]))").await;
    assert_eq!(
        session.text("select value from tidegate.counter_overview where queue = 'tx' and counter = 'last'").await,
        "7"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_room_of_a_gate_is_what_the_next_submissions_find() {
    let database = TestDatabase::new().await;
    let mut session = Session::open(&database).await;
    database.execute("update tidegate.gate set high_water = 10, low_water = 5 where name = 'tx'").await;
    let room = "select state, room from tidegate.gate_room where queue = 'tx'";
    for left in (0..10).rev() {
        session.texts("select outcome from tidegate.submit('direct', '{}')").await;
        let state = if left == 0 { "too_many_requests" } else { "accepting" };
        assert_eq!(session.text(room).await, format!("{state} {left}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_limit_says_how_many_may_be_sent_now_and_when_the_next() {
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;
    let limit = "select sends_left, next_send_at > tidegate.clock() - interval '1 minute'
        from tidegate.rate_limit where queue = 'tx'";
    assert_eq!(session.texts(limit).await.len(), 0, "it has none");
    // One send in a minute, and a burst of three.
    database.execute("update tidegate.queue set per_seconds = 1 / 60.0, burst = 3 where name = 'tx'").await;
    assert_eq!(session.text(limit).await, "3 t");
    database.execute("select tidegate.submit_batch('direct', array_fill('{}'::jsonb, array[7]))").await;
    assert_eq!(session.claim("tx", 2).await.len(), 2);
    assert_eq!(session.text(limit).await, "1 t");
    assert_eq!(session.claim("tx", 7).await.len(), 1);
    let next =
        "select sends_left, next_send_at - tidegate.clock() between interval '50 seconds' and interval '1 minute'
        from tidegate.rate_limit where queue = 'tx'";
    assert_eq!(session.text(next).await, "0 t");

    database.execute("update tidegate.queue set per_seconds = 0 where name = 'tx'").await;
    assert_eq!(session.text("select sends_left, next_send_at is null from tidegate.rate_limit").await, "0 t");
}
