//! Is the position of a message deep in a queue, which is told from a survey, the one that a count would give?

mod making;
mod movements;

use proptest::{collection::vec, prelude::*};

use crate::support::{
    TestDatabase, campaign,
    property::{Asked, for_all},
    race::{Session, submit_many},
    server::templates::DEEP,
};

const NO_ROWS: [&str; 0] = [];

/// Submits so many thousands.
async fn fill(database: &TestDatabase, thousands: i32) {
    for first in (0..thousands).step_by(10) {
        submit_many(database, "direct", 1000 * (thousands - first).min(10)).await;
    }
}

/// Messages whose position is not told as the count of those before, for one number in so many: exactly for each alone,
/// and as polls tell it for all of them together.
fn differing(queue: &str, one_in: i32) -> String {
    format!(
        "with asked as materialized (
           select p.msg_id, p.queue_position
           from tidegate.queue_position as p
           where p.queue = '{queue}' and not p.held and p.msg_id % {one_in} = 0
         ), polled as (
           select t.msg_id, t.waiting
           from (select array_agg(a.msg_id order by a.msg_id) as msg_ids from asked as a) as a
           cross join tidegate_internal.waiting_before('{queue}', a.msg_ids, 4000) as t
         )
         select format('%s: %s is told as %s or %s', a.msg_id, a.queue_position, e.waiting, p.waiting)
         from asked as a
         cross join lateral tidegate_internal.waiting_before('{queue}', array[a.msg_id], null) as e
         left join polled as p on p.msg_id = a.msg_id
         where e.waiting is distinct from a.queue_position or p.waiting is distinct from a.queue_position
         union all
         select format('Q: %s is told as %s', w.waiting, t.waiting)
         from (select count(*) filter (where p.waiting) as waiting from tidegate.queue_position as p where p.queue = '{queue}') as w
         cross join tidegate_internal.waiting_before('{queue}', '{{null}}', 256) as t
         where t.waiting <> w.waiting"
    )
}

async fn assert_exact(database: &TestDatabase) {
    let mut session = Session::open(database).await;
    assert_eq!(session.texts(&differing("tx", 613)).await, NO_ROWS);
}

async fn survey(database: &TestDatabase) {
    let sql = "coalesce(tidegate.survey_queue('tx'), -1)";
    assert!(database.number(sql).await >= 0, "it was not surveyed");
}

async fn rows(database: &TestDatabase) -> i64 {
    database.number("select count(*) from tidegate.queue_survey").await
}

/// What happens to a deep queue. The numbers are thousandths of the queue, or how many.
#[derive(Debug, Clone, Copy)]
enum Event {
    Submit(i32),
    SubmitLater(i32),
    Cancel { from: i32, one_in: i32 },
    Claim(i32),
    Settle,
    Release,
    Retry,
    ComeDue,
    Survey,
    Step,
    Rescan,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        3 => (1..3000).prop_map(Event::Submit),
        1 => (1..2000).prop_map(Event::SubmitLater),
        3 => (0..1000, 1..50).prop_map(|(from, one_in)| Event::Cancel { from, one_in }),
        5 => (1..6000).prop_map(Event::Claim),
        2 => Just(Event::Settle),
        1 => Just(Event::Release),
        2 => Just(Event::Retry),
        1 => Just(Event::ComeDue),
        1 => Just(Event::Survey),
        3 => Just(Event::Step),
        1 => Just(Event::Rescan),
    ];
    vec(event, 5..25)
}

const HELD: &str =
    "array(select row('tx', l.token, l.id)::tidegate.lease from tidegate.leased_request as l where l.in_force)";

impl Event {
    fn sql(self) -> String {
        match self {
            Self::Submit(count) => format!(
                "select count(*) from tidegate.submit_batch('direct', array_fill('{{}}'::jsonb, array[{count}]))"
            ),
            // They come due, all at once, when the test says so.
            Self::SubmitLater(count) => format!(
                "select count(*) from tidegate.submit_batch('direct', array_fill('{{}}'::jsonb, array[{count}]));
                 update pgmq.q_tx set vt = clock_timestamp() + interval '1 hour'
                 where msg_id > pg_sequence_last_value('pgmq.q_tx_msg_id_seq') - {count}"
            ),
            Self::Cancel { from, one_in } => format!(
                "select tidegate.cancel(tidegate.message_request_id(m.message))
                 from pgmq.q_tx as m,
                   (select min(msg_id) + (max(msg_id) - min(msg_id)) * {from} / 1000 as low from pgmq.q_tx) as span
                 where m.msg_id between span.low and span.low + 5000 and m.msg_id % {one_in} = 0"
            ),
            Self::Claim(count) => {
                format!("select count(*) from tidegate.claim_tx('tx', 'w', {count}, '1 hour')")
            }
            Self::Settle => format!("select count(*) from tidegate_internal.settle_rejected({HELD}, null)"),
            Self::Release => format!("select count(*) from tidegate_internal.settle_released({HELD})"),
            Self::Retry => format!(
                "select count(*) from tidegate_internal.settle_retry({HELD}, null, array_fill(interval '1 hour', array[cardinality({HELD})]))"
            ),
            Self::ComeDue => "update pgmq.q_tx set vt = clock_timestamp() where vt > clock_timestamp()".to_owned(),
            Self::Survey => "select tidegate.survey_queue('tx')".to_owned(),
            Self::Step => "select tidegate.survey_queue('tx', 1)".to_owned(),
            Self::Rescan => "select tidegate.rescan_queue('tx')".to_owned(),
        }
    }
}

#[test]
fn whatever_happens_to_a_queue_its_positions_are_exact_after_one_survey_and_never_absurd_before() {
    let database = Asked::new();
    database.run("update tidegate.queue set per_seconds = null");
    for_all(4, &events(), |events| {
        // Not rolled back, because marks and counters are not: each case goes on with those of the one before.
        database.run("truncate pgmq.q_tx");
        database.run(
            "select tidegate.submit_batch('direct', array_fill('{}'::jsonb, array[9000])) from generate_series(1, 3)",
        );
        for event in events {
            database.run(&event.sql());
            let absurd = database.column(
                "select format('%s: %s', s.msg_id, t.told)
                 from (select m.msg_id from pgmq.q_tx as m where m.msg_id % 4001 = 0) as s
                 cross join (values (null), (300)) as c(counted)
                 cross join lateral (
                   select w.waiting from tidegate_internal.waiting_before('tx', array[s.msg_id], c.counted::integer) as w
                 ) as t(told)
                 where t.told < 0 or t.told > s.msg_id",
            );
            prop_assert_eq!(absurd, NO_ROWS, "after {:?}", event);
        }
        database.run("select tidegate.rescan_queue('tx'); select tidegate.survey_queue('tx')");
        prop_assert_eq!(database.column(&differing("tx", 211)), NO_ROWS);

        // The same from maintenance's small steps, once they have been round.
        database.run("delete from tidegate.queue_survey where chunk % 2 = 0");
        database.run("update tidegate.queue_survey set waiting = 0, waiting_by_block = '{0}'");
        for _ in 0..12 {
            database.run("select tidegate.survey_queue('tx', 1)");
        }
        prop_assert_eq!(database.column(&differing("tx", 211)), NO_ROWS);
        Ok(())
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn the_view_the_poll_the_position_and_the_submission_agree_at_depth() {
    let database = TestDatabase::deep().await;
    survey(&database).await;

    let told = database.value("select id || ' ' || queue_position from tidegate.submit('direct', '{}')").await;

    assert_exact(&database).await;
    let (id, told) = told.split_once(' ').unwrap();
    assert_eq!(told, DEEP.to_string());
    let mut nodes = Vec::new();
    for _ in 0..campaign(1, 3) {
        nodes.push(
            Session::open(&database)
                .await
                .text(&format!(
                    "select tidegate.request_position('{id}'), o.queue_position, e.position
                     from tidegate.request_outlook('{id}') as o join tidegate.request_eta as e on e.id = o.id"
                ))
                .await,
        );
    }
    assert_eq!(nodes, vec![format!("{DEEP} {DEEP} {DEEP}"); campaign(1, 3)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decrypt_is_told_the_size_of_a_deep_tx_queue() {
    let database = TestDatabase::deep().await;
    survey(&database).await;
    database.execute("update tidegate.queue set per_seconds = 1000 where name = 'tx'").await;

    // (40,000 / 1000 + 4.1 s) × 1.2.
    let told = "select retry_after_seconds from tidegate.submit('public_decrypt', '{}')";
    assert_eq!(database.number(told).await, 53);
    let polled = "select tidegate.request_retry_after(id) from tidegate.request where req_status = 'queued'";
    assert_eq!(database.number(polled).await, 53);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_maintenance_a_position_is_exact_all_the_same_and_a_poll_tells_no_less() {
    let database = TestDatabase::deep().await;
    let last = "(select r.id from tidegate.request as r order by r.msg_id desc nulls last limit 1)";
    // A hole in the middle, so that numbers tell too much.
    database
        .execute("select tidegate.cancel(r.id) from tidegate.request as r where r.msg_id between 10001 and 11000")
        .await;

    assert_eq!(database.number(&format!("tidegate.request_position({last})")).await, 38_999);
    let polled = format!("select queue_position from tidegate.request_outlook({last})");
    assert_eq!(database.number(&polled).await, 39_999);

    // Surveyed once, and then no more.
    survey(&database).await;
    database
        .execute(
            "select setval('tidegate.surveyed_at_tx', (extract(epoch from now() - interval '1 hour') * 1000000)::bigint);
             update tidegate.queue_survey set waiting = 1",
        )
        .await;
    assert_eq!(database.number(&format!("tidegate.request_position({last})")).await, 38_999);
}
