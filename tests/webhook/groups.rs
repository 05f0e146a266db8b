//! Does an attempt that is settled in a group end as if it were settled alone, and delay no other?

use rand::{Rng, SeedableRng, rngs::StdRng, seq::SliceRandom};
use tidegate::request::RequestId;

use crate::support::{
    TestDatabase, campaign,
    race::{NOTHING, Session},
};

/// Requests that have ended, each with a pending delivery to one of three hosts, in attempt 1 to 3 of 3. Without randomness
/// in the waits.
async fn prepare(count: usize) -> (TestDatabase, Vec<RequestId>) {
    let database = TestDatabase::unlimited().await;
    database.execute("update tidegate.webhook_policy set attempts = 3, base_ms = 0, factor = 1, cap_ms = 60000").await;
    let mut ids = Vec::new();
    for place in 0..count {
        database.store.webhook_host_add(&format!("host{}.example.com", place % 3), false).await.unwrap();
        ids.push(database.ended_telling(&format!("https://host{}.example.com/", place % 3)).await);
    }
    (database, ids)
}

/// The call that settles these attempts: in a group, or one by one.
fn calls(attempts: &[String], grouped: bool) -> Vec<String> {
    let rows = |attempts: &[String]| {
        format!("(values {}) as a(request_id, nonce, outcome, status, error, wait_ms, place)", attempts.join(", "))
    };
    if grouped {
        return vec![format!(
            "select s.request_id || ' ' || coalesce(s.state, 'lost')
             from (
               select
                 array_agg(request_id order by place) as ids, array_agg(nonce order by place) as nonces,
                 array_agg(outcome order by place) as outcomes, array_agg(status order by place) as statuses,
                 array_agg(error order by place) as errors, array_agg(wait_ms order by place) as waits
               from {}
             ) as a
             cross join lateral tidegate.webhook_settle_many(ids, nonces, outcomes, statuses, errors, waits)
               with ordinality as s(request_id, state, place)
             order by s.place",
            rows(attempts)
        )];
    }
    let one = |attempt: &String| {
        format!(
            "select request_id || ' ' || coalesce(tidegate.webhook_settle(request_id, nonce, outcome, status, error,
               make_interval(secs => wait_ms / 1000.0)), 'lost')
             from {}",
            rows(std::slice::from_ref(attempt))
        )
    };
    attempts.iter().map(one).collect()
}

/// Outcomes of deliveries claimed by now, of random sorts; some under a lease that was lost.
fn attempts(random: &mut StdRng, ids: &[RequestId]) -> Vec<String> {
    let mut ids = ids.to_vec();
    ids.shuffle(random);
    let mut attempts = Vec::new();
    for (place, id) in ids.iter().enumerate() {
        let nonce = if random.random_ratio(1, 6) { 8 } else { 7 };
        let (outcome, status, error) = [
            ("delivered", "204", "null"),
            ("refused", "410", "'gone'"),
            ("retry", "503", "'busy'"),
            ("retry", "null", "'no answer'"),
            ("unsent", "null", "null"),
        ][random.random_range(0..5)];
        let wait = ["null", "2000", "90000"][random.random_range(0..3)];
        attempts.push(format!(
            "('{id}'::uuid, {nonce}::bigint, '{outcome}', {status}::integer, {error}::text, {wait}::bigint, {place})"
        ));
    }
    attempts
}

const DELIVERIES: &str = "
    select concat_ws(' ', request_id, state, attempt, nonce, last_status, last_error, due_at - tidegate.clock(),
      finished_at - tidegate.clock())
    from tidegate.webhook_delivery order by request_id";

const ANSWERS: &str =
    "select concat_ws(' ', host_port, answers, at - tidegate.clock()) from tidegate.webhook_answer order by 1";

#[tokio::test(flavor = "multi_thread")]
async fn a_group_ends_as_its_attempts_one_by_one() {
    let seed = rand::rng().random::<u64>();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let (database, ids) = prepare(12).await;
    database.stop_clock().await;
    let mut session = Session::open(&database).await;
    for round in 0..campaign(10, 100) {
        let attempts = attempts(&mut random, &ids);
        let mut results = Vec::new();
        for grouped in [true, false] {
            session
                .execute(
                    "begin;
                     update tidegate.webhook_delivery
                     set nonce = 7, attempt = 1 + abs(hashtext(request_id::text)) % 3, due_at = tidegate.clock()",
                )
                .await;
            let mut states = Vec::new();
            for call in calls(&attempts, grouped) {
                states.extend(session.texts(&call).await);
            }
            results.push((states, session.texts(DELIVERIES).await, session.texts(ANSWERS).await));
            session.execute("rollback").await;
        }
        assert_eq!(results[0], results[1], "seed {seed}, round {round}: {attempts:?}");
        assert!(results[0].2.len() <= 3);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_that_another_transaction_holds_delays_no_other_of_its_group() {
    let (database, ids) = prepare(3).await;
    database.execute("update tidegate.webhook_delivery set nonce = 7, attempt = 1").await;
    let mut operator = Session::begin(&database).await;
    operator.execute(&format!("select tidegate.webhook_redeliver('{}')", ids[1])).await;

    let settle = format!(
        "select coalesce(state, 'lost') from tidegate.webhook_settle_many(array['{}', '{}', '{}']::uuid[], '{{7,7,7}}',
           '{{delivered,delivered,delivered}}', '{{204,204,204}}')",
        ids[0], ids[1], ids[2]
    );
    let mut deliverer = Session::open(&database).await;
    assert_eq!(deliverer.texts(&settle).await, ["delivered", "locked", "delivered"]);
    // The same again: those two have no lease any more.
    assert_eq!(deliverer.texts(&settle).await, ["lost", "locked", "lost"]);
    operator.execute("rollback").await;
    assert_eq!(deliverer.texts(&settle).await, ["lost", "delivered", "lost"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_attempts_of_one_delivery_in_a_group_have_an_answer_each() {
    let (database, ids) = prepare(1).await;
    database.execute("update tidegate.webhook_delivery set nonce = 7, attempt = 2").await;
    let settle = format!(
        "select coalesce(state, 'lost') from tidegate.webhook_settle_many(array['{0}', '{0}']::uuid[], '{{8,7}}',
           '{{delivered,refused}}', '{{204,410}}')",
        ids[0]
    );
    let mut deliverer = Session::open(&database).await;
    assert_eq!(deliverer.texts(&settle).await, ["lost", "failed"]);
    assert_eq!(database.delivery(ids[0], "last_status").await.unwrap(), "410");
}

#[tokio::test(flavor = "multi_thread")]
async fn arrays_that_do_not_fit_change_nothing() {
    let (database, ids) = prepare(1).await;
    database.execute("update tidegate.webhook_delivery set nonce = 7, attempt = 1").await;
    let mut deliverer = Session::open(&database).await;
    let id = ids[0];
    for arguments in [
        format!("array['{id}']::uuid[], '{{7,7}}', '{{delivered}}'"),
        format!("array['{id}']::uuid[], '{{7}}', '{{}}'"),
        format!("array['{id}']::uuid[], '{{7}}', '{{delivered}}', '{{200,200}}'"),
        format!("array['{id}']::uuid[], '{{7}}', '{{lost}}'"),
        format!("array['{id}']::uuid[], '{{7}}', array[null]::text[]"),
        format!(
            "array_fill('{id}'::uuid, array[1001]), array_fill(7::bigint, array[1001]), array_fill('unsent'::text, array[1001])"
        ),
    ] {
        let (code, message) =
            deliverer.attempt(&format!("select tidegate.webhook_settle_many({arguments})")).await.unwrap_err();
        assert_eq!(code, "TG007", "{arguments}: {message}");
    }
    assert_eq!(deliverer.texts("select tidegate.webhook_settle_many(null, null, null)").await, NOTHING);
    assert_eq!(database.delivery(id, "nonce").await.unwrap(), "7");
}
