//! Do claims and duties of fair queues keep out of each other's way, and find what a burst, a backlog, a step of the
//! clock or an old snapshot hides?

use super::fair_queues::{fair_queue, id_of, served, submit_names};
use crate::support::race::{Session, sound};

const FOLD: &str = "select tidegate.fold_turns('payf')";

/// Rows of a journal that change no count.
fn empty_rows(queue: &str, count: u32, is_urgent: bool) -> String {
    format!(
        "insert into tidegate.arrival_{queue} (at, key, n, urgent)
         select tidegate.clock(), key, 0, {is_urgent} from generate_series(1, {count}) as key"
    )
}

fn journal(queue: &str) -> String {
    format!("select count(*) from tidegate.arrival_{queue}")
}

#[tokio::test(flavor = "multi_thread")]
async fn no_duty_waits_for_a_claim_that_stays_open() {
    let database = fair_queue("submitter").await;
    let mut session = Session::open(&database).await;
    submit_names(&mut session, "pay", "a1 a2 b1").await;
    let mut claimer = Session::begin(&database).await;
    assert_eq!(served(&mut claimer, 1).await, "a1");
    session.execute("set statement_timeout = '30s'").await;
    for hidden in ["now()", "'2000-01-01'"] {
        session
            .execute(&format!(
                "insert into tidegate.arrival_payf (at, key, n, urgent) values ({hidden}, 1, 0, true), ({hidden}, 1, 0, false)"
            ))
            .await;
        assert_eq!(session.text(FOLD).await, "f", "{hidden}");
    }
    claimer.commit().await;
    assert_eq!(served(&mut session, 9).await, "b1 a2");
    session.execute(FOLD).await;
    session.execute(FOLD).await;
    assert_eq!(session.text(&journal("payf")).await, "0");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_call_of_maintenance_folds_the_backlog_of_each_fair_queue() {
    for backlog in ["another", "payf"] {
        let database = fair_queue("submitter").await;
        database.execute("select tidegate.queue_add('another', 'tx', fair_by => 'kind')").await;
        database.execute(&empty_rows(backlog, 5000, false)).await;
        database.execute("call tidegate.maintain()").await;
        assert_eq!(database.value(&journal(backlog)).await, "0", "{backlog}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_folds_a_part_of_a_burst_and_the_next_ones_the_rest() {
    let database = fair_queue("submitter").await;
    let mut session = Session::open(&database).await;
    database.execute(&empty_rows("payf", 23_000, true)).await;
    submit_names(&mut session, "pay", "a1").await;
    for (left, name) in [(13_001, ""), (3001, ""), (0, "a1")] {
        assert_eq!(served(&mut session, 1).await, name);
        assert_eq!(session.text(&journal("payf")).await, left.to_string());
    }
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submission_reads_a_part_of_a_long_journal() {
    let database = fair_queue("submitter").await;
    let mut session = Session::open(&database).await;
    submit_names(&mut session, "pay", "a1 a2 a3 b1 b2").await;
    assert_eq!(served(&mut session, 1).await, "a1");
    let submit = "select queue_position from tidegate.submit_group('pay', '{1}', submitters => '{c}')";
    // A key that becomes active starts at virtual time, where b is, and comes after it.
    assert_eq!(session.text(submit).await, "1");
    database.execute(&empty_rows("payf", 20_000, true)).await;
    database.execute(&empty_rows("payf", 20_000, false)).await;
    let reads = session.reads("arrival_payf", submit).await;
    assert!(reads.rows_by_index <= 600 && reads.scans == 0, "{reads:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_position_among_many_keys_is_none_below_zero_whatever_is_not_folded_yet() {
    let database = fair_queue("submitter").await;
    let mut session = Session::open(&database).await;
    let many = "select count(*) from tidegate.submit_group('pay', array_fill('1'::jsonb, array[140]),
                  submitters => array(select 'k' || n / 2 from generate_series(0, 139) as n))";
    assert_eq!(session.text(many).await, "140");
    assert_eq!(served(&mut session, 1).await, "1");
    session
        .execute(
            "update tidegate.turn_payf set waiting = -5 where key = tidegate_internal.fair_key('submitter', 'k7', '')",
        )
        .await;
    let submit = "select queue_position from tidegate.submit_group('pay', '{1,1,1}', submitters => '{k7,k7,k9}')";
    let positions = session.texts(submit).await;
    let positions: Vec<i64> = positions.iter().map(|position| position.parse().unwrap()).collect();
    assert!(positions[0] > 0 && positions[1] > positions[0] && positions[2] <= 142, "{positions:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_never_claims_raises_the_marks_that_it_folds_up_to() {
    let database = fair_queue("submitter").await;
    let mut session = Session::open(&database).await;
    submit_names(&mut session, "pay", "a1 b1").await;
    database.execute("call tidegate.maintain()").await;
    for mark in ["due_watermark", "folded"] {
        let behind = format!(
            "select extract(epoch from clock_timestamp()) - value / 1000000.0 < 60
             from tidegate.counter_overview where queue = 'payf' and counter = '{mark}'"
        );
        assert_eq!(session.text(&behind).await, "t", "{mark}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_arrived_before_the_clock_was_set_back_is_served_after_a_fold() {
    let database = fair_queue("submitter").await;
    let mut session = Session::open(&database).await;
    database.stop_clock().await;
    submit_names(&mut session, "pay", "a1").await;
    assert_eq!(served(&mut session, 9).await, "a1");
    session.execute("update public.test_clock set at = at + interval '1 second'").await;
    submit_names(&mut session, "pay", "a2 b1 b2").await;
    assert_eq!(served(&mut session, 1).await, "a2");
    // An urgent row, a quiet one, and one of a message that is to be taken later.
    submit_names(&mut session, "pay", "c1").await;
    submit_names(&mut session, "pay", "b3").await;
    session
        .execute(
            "select tidegate.submit_group('pay', '{\"\\\"d1\\\"\"}', submitters => '{d}',
               not_before => tidegate.clock() + interval '10 seconds')",
        )
        .await;
    session.execute("update public.test_clock set at = at - interval '1 minute'").await;
    session.execute(FOLD).await;

    submit_names(&mut session, "pay", "e1").await;
    assert_eq!(served(&mut session, 9).await, "b1 c1 e1 b2 b3");
    session.execute("update public.test_clock set at = at + interval '71 seconds'").await;
    assert_eq!(served(&mut session, 9).await, "d1");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_whose_only_message_was_cancelled_keeps_its_turn_until_a_claim_comes_to_it() {
    let database = fair_queue("submitter").await;
    let mut session = Session::open(&database).await;
    submit_names(&mut session, "pay", "a1 b1 c1").await;
    assert_eq!(served(&mut session, 1).await, "a1");
    session.execute(&format!("select tidegate.cancel({})", id_of("c1"))).await;
    assert_eq!(served(&mut session, 1).await, "b1");
    submit_names(&mut session, "pay", "d1").await;
    submit_names(&mut session, "pay", "c2").await;
    assert_eq!(served(&mut session, 9).await, "c2 d1");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_kind_costs_a_submitter_no_turn_and_claims_look_at_its_requests_twice_a_minute() {
    let database = fair_queue("submitter").await;
    let mut session = Session::open(&database).await;
    database.stop_clock().await;
    submit_names(&mut session, "refund", "a1 a2 b1").await;
    submit_names(&mut session, "pay", "a3 b2 b3").await;
    session.execute("select tidegate.pause(kind => 'refund')").await;
    assert_eq!(served(&mut session, 9).await, "a3 b2 b3");
    session.execute("update public.test_clock set at = at + interval '29 seconds'").await;
    let claims = session.reads("q_payf", "select id from tidegate.claim_tx('payf', 'w', 9, '1 hour')").await;
    assert_eq!((claims.rows_by_index, claims.scans), (0, 0), "{claims:?}");

    session.execute("select tidegate.pause(kind => 'refund', paused => false)").await;
    session.execute("update public.test_clock set at = at + interval '1 second'").await;
    assert_eq!(served(&mut session, 9).await, "a1 b1 a2");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fold_in_a_transaction_whose_snapshot_may_be_old_is_refused() {
    let database = fair_queue("submitter").await;
    let mut session = Session::open(&database).await;
    for level in ["repeatable read", "serializable"] {
        session.execute(&format!("begin isolation level {level}")).await;
        let refusal = session.attempt(FOLD).await.unwrap_err();
        assert_eq!(refusal.0, "TG007", "{level}: {refusal:?}");
        session.rollback().await;
    }
}

/// Blocks that a statement touches.
async fn blocks(session: &mut Session, statement: &str) -> i64 {
    let plan = session.texts(&format!("explain (analyze, buffers, timing off, format json) {statement}")).await;
    let plan: serde_json::Value = serde_json::from_str(&plan.join("\n")).unwrap();
    let plan = &plan[0]["Plan"];
    plan["Shared Hit Blocks"].as_i64().unwrap() + plan["Shared Read Blocks"].as_i64().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_cost_the_same_however_many_keys_have_come_and_gone_since_the_snapshot() {
    let database = fair_queue("submitter").await;
    let mut session = Session::open(&database).await;
    submit_names(&mut session, "pay", "y1").await;
    served(&mut session, 1).await;
    let mut old = Session::begin(&database).await;
    old.execute("set transaction isolation level repeatable read").await;
    old.texts("select count(*) from tidegate.request").await;

    let mut costs = Vec::new();
    for round in 0..120 {
        let submit = format!(
            "select count(*) from tidegate.submit_group('pay', array_fill('1'::jsonb, array[40]), submitters =>
               array(select format('k%s', {round} * 10 + n / 2) from generate_series(1, 40) as n))"
        );
        assert_eq!(session.text(&submit).await, "40");
        costs.push(blocks(&mut session, "select id from tidegate.claim_tx('payf', 'w', 40, '1 hour')").await);
        session
            .execute(
                "select tidegate.settle(array(select row(l.queue, l.token, l.id)::tidegate.lease
                                              from tidegate.leased_request as l), '{receipt}',
                   responses => array_fill('1'::jsonb, array[40]))
                 where exists (select from tidegate.leased_request)",
            )
            .await;
        session.execute(FOLD).await;
    }
    old.rollback().await;
    let average = |costs: &[i64]| costs.iter().sum::<i64>() / i64::try_from(costs.len()).unwrap();
    let (first, last) = (average(&costs[5..25]), average(&costs[100..]));
    assert!(last * 10 <= first * 15, "first {first}, last {last} blocks: {costs:?}");
}
