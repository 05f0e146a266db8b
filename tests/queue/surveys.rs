//! Is the position of a message deep in a queue, which is told from a survey, the one that a count would give?

use proptest::{collection::vec, prelude::*};

use crate::support::{
    TestDatabase, campaign,
    property::{Asked, for_all},
    race::{Session, settle, submit_many},
    server::DEEP,
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

#[tokio::test(flavor = "multi_thread")]
async fn maintenance_surveys_deep_queues_and_forgets_those_that_are_deep_no_more() {
    let database = TestDatabase::unlimited().await;
    submit_many(&database, "direct", 400).await;
    let maintain = "update tidegate.maintenance set ran_at = '-infinity'; call tidegate.maintain()";
    for statement in maintain.split("; ") {
        database.execute(statement).await;
    }
    assert_eq!(rows(&database).await, 0, "400 are counted when asked for");

    fill(&database, 19).await;
    for statement in maintain.split("; ") {
        database.execute(statement).await;
    }
    assert_eq!(rows(&database).await, 2);
    assert_exact(&database).await;

    let mut session = Session::open(&database).await;
    loop {
        let held = session.claim("tx", 5000).await;
        if held.is_empty() {
            break;
        }
        session.texts(&settle("settle_rejected", &held, "null")).await;
    }
    submit_many(&database, "direct", 100).await;
    assert_exact(&database).await;
    for statement in maintain.split("; ") {
        database.execute(statement).await;
    }
    assert_eq!(rows(&database).await, 0);
    assert_exact(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_surveys_at_once_one_has_nothing_to_do() {
    let database = TestDatabase::deep().await;
    let mut first = Session::begin(&database).await;
    assert_eq!(first.text("select tidegate.survey_queue('tx')").await, "3", "every chunk was new");

    assert_eq!(database.text("tidegate.survey_queue('tx')").await, None, "it does not wait for the other either");
    first.commit().await;

    assert_eq!(database.number("tidegate.survey_queue('tx')").await, 0);
    assert_exact(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_survey_that_is_killed_leaves_the_one_before() {
    let database = TestDatabase::deep().await;
    survey(&database).await;
    let mut session = Session::open(&database).await;
    let held = session.claim("tx", 500).await;
    session.texts(&settle("settle_rejected", &held, "null")).await;
    let before = "select md5(string_agg(s::text, ' ' order by s.chunk)) from tidegate.queue_survey as s";
    let untouched = database.value(before).await;

    let mut killed = Session::begin(&database).await;
    killed.texts("select tidegate.survey_queue('tx')").await;
    assert_ne!(killed.text(before).await, untouched, "it had something to write");
    database.execute(&format!("select pg_terminate_backend({}, 10000)", killed.pid)).await;

    assert_eq!(database.value(before).await, untouched);
    assert_exact(&database).await;
    survey(&database).await;
    assert_exact(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_stays_open_changes_no_position() {
    let database = TestDatabase::deep().await;
    survey(&database).await;
    let mut old = Session::open(&database).await;
    old.execute("begin isolation level repeatable read").await;
    let seen = old.text("select count(*) from pgmq.q_tx").await;

    let mut session = Session::open(&database).await;
    for _ in 0..campaign(2, 5) {
        let held = session.claim("tx", 3000).await;
        session.texts(&settle("settle_rejected", &held, "null")).await;
        submit_many(&database, "direct", 3000).await;
        session.texts("select tidegate.survey_queue('tx', 8)").await;
    }

    assert_exact(&database).await;
    assert_eq!(old.text("select count(*) from pgmq.q_tx").await, seen);
    old.commit().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submission_that_commits_late_is_counted_in_its_place() {
    let database = TestDatabase::deep().await;
    let mut late = Session::begin(&database).await;
    late.texts("select count(*) from tidegate.submit_batch('direct', array_fill('{}'::jsonb, array[700]))").await;
    fill(&database, 2).await;
    survey(&database).await;
    assert_exact(&database).await;

    late.commit().await;

    for _ in 0..5 {
        database.execute("select tidegate.survey_queue('tx', 1)").await;
    }
    assert_exact(&database).await;
    assert_eq!(database.violations().await, NO_ROWS);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_far_below_the_head_raises_every_later_position_by_one() {
    let database = TestDatabase::deep().await;
    let mut holder = Session::open(&database).await;
    let held = holder.claim("tx", 1).await;
    let mut session = Session::open(&database).await;
    for _ in 0..4 {
        let held = session.claim("tx", 5000).await;
        session.texts(&settle("settle_rejected", &held, "null")).await;
        session.texts("select tidegate.survey_queue('tx', 8)").await;
    }
    let mark = database.number("select pg_sequence_last_value('tidegate.watermark_tx')").await;
    assert!(mark > held[0].msg_id + 4000, "{mark}");
    let last = "select w.waiting
                from (select max(msg_id) as msg_id from pgmq.q_tx) as m
                cross join tidegate_internal.waiting_before('tx', array[m.msg_id], 4000) as w";
    let before = database.number(last).await;

    holder.texts(&settle("settle_released", &held, "")).await;

    assert_eq!(database.number(last).await, before + 1);
    assert_exact(&database).await;
    survey(&database).await;
    assert_exact(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_that_come_due_far_below_the_mark_are_counted() {
    let database = TestDatabase::deep().await;
    database.execute("update pgmq.q_tx set vt = clock_timestamp() + interval '1 hour' where msg_id <= 2000").await;
    let mut session = Session::open(&database).await;
    for _ in 0..4 {
        let held = session.claim("tx", 5000).await;
        session.texts(&settle("settle_rejected", &held, "null")).await;
    }
    survey(&database).await;
    assert_exact(&database).await;

    // First few of them, then all.
    for due in [300, 2000] {
        database.execute(&format!("update pgmq.q_tx set vt = clock_timestamp() where msg_id <= {due}")).await;
        for _ in 0..3 {
            database.execute("select tidegate.survey_queue('tx', 8)").await;
        }
        assert_exact(&database).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_waits_for_one_instant_is_counted_once_it_has_come() {
    let database = TestDatabase::deep().await;
    database.execute("update pgmq.q_tx set vt = clock_timestamp() + interval '1 hour'").await;
    survey(&database).await;
    assert_exact(&database).await;

    database.execute("update pgmq.q_tx set vt = clock_timestamp()").await;

    survey(&database).await;
    assert_exact(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_emptied_by_hand_or_made_again_has_the_positions_of_what_it_holds() {
    let database = TestDatabase::deep().await;
    survey(&database).await;

    database.execute("truncate pgmq.q_tx restart identity").await;
    submit_many(&database, "direct", 300).await;
    assert_exact(&database).await;
    survey(&database).await;
    assert_eq!(rows(&database).await, 0);
    fill(&database, DEEP / 1000).await;
    survey(&database).await;
    assert_exact(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_goes_takes_its_survey_with_it_and_waits_for_one_under_way() {
    let database = TestDatabase::unlimited().await;
    database
        .execute(
            "insert into tidegate.queue (name, stage) values ('extra', 'tx');
             insert into pgmq.q_extra (vt, message) select '-infinity', '{}' from generate_series(1, 5000)",
        )
        .await;
    let mut surveyor = Session::begin(&database).await;
    assert_eq!(surveyor.text("select tidegate.survey_queue('extra')").await, "1");
    surveyor.execute("truncate pgmq.q_extra").await;
    let removal = Session::open(&database).await.start("delete from tidegate.queue where name = 'extra'");
    removal.until_blocked_by(&database, &surveyor).await;
    surveyor.commit().await;
    let (mut remover, _) = removal.finish().await;

    assert_eq!(rows(&database).await, 0);
    let (code, message) = remover.attempt("select tidegate.survey_queue('extra')").await.unwrap_err();
    assert_eq!((code.as_str(), message.as_str()), ("TG005", "there is no queue \"extra\""));
    remover.execute("insert into tidegate.queue (name, stage) values ('extra', 'tx')").await;
    assert_eq!(
        remover.text("select waiting from tidegate_internal.waiting_before('extra', '{null}', null)").await,
        "0"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submission_to_a_drained_queue_is_told_that_it_is_first_whatever_the_last_survey_counted() {
    let database = TestDatabase::unlimited().await;
    fill(&database, 10).await;
    survey(&database).await;
    let mut session = Session::open(&database).await;
    let told = "select queue_position from tidegate.submit('direct', '{}')";
    assert!(session.text(told).await.parse::<i64>().unwrap() > 9_000);
    while !session.claim("tx", 5_000).await.is_empty() {}
    // The watermark lags behind, by less than a step of claims.
    for waits in [0, 300, 1_000] {
        submit_many(&database, "direct", waits).await;
        while !session.claim("tx", 5_000).await.is_empty() {}
        assert_eq!(session.text(told).await, "0");
        assert_eq!(session.text(told).await, "1");
        while !session.claim("tx", 5_000).await.is_empty() {}
    }
}

/// A submission goes by the head that claims leave behind; nothing is claimed between a step and the position it tells.
#[tokio::test(flavor = "multi_thread")]
async fn a_submission_behind_hundreds_is_told_what_claims_and_releases_have_left() {
    let database = TestDatabase::unlimited().await;
    submit_many(&database, "direct", 2_000).await;
    survey(&database).await;
    let mut session = Session::open(&database).await;
    let told = "select queue_position from tidegate.submit('direct', '{}')";
    assert_eq!(session.text(told).await, "2000");

    let held = session.claim("tx", 700).await;
    assert_eq!(session.text(told).await, "1301");
    session.texts(&settle("settle_released", &held, "")).await;
    assert_eq!(session.text(told).await, "2002");

    let mut other = Session::begin(&database).await;
    assert_eq!(other.claim("tx", 700).await.len(), 700);
    other.rollback().await;
    survey(&database).await;
    assert_eq!(session.text(told).await, "2003");

    // Numbers that were drawn in vain, in a queue without a survey, are behind the head once it is claimed.
    let mut void = Session::begin(&database).await;
    void.execute("select tidegate.submit_batch('direct', array_fill('{}'::jsonb, array[3000]))").await;
    void.rollback().await;
    let mut held = Vec::new();
    while held.len() < 2_004 {
        held.extend(session.claim("tx", 500).await);
    }
    submit_many(&database, "direct", 400).await;
    assert_eq!(session.claim("tx", 100).await.len(), 100);
    assert_eq!(session.text(told).await, "300");
    assert_exact(&database).await;
}
