//! Claims stay cheap while another session holds an old snapshot: in blocks touched, not in time.

use serde_json::Value;

use crate::support::{
    TestDatabase, campaign,
    race::{Session, submit_many},
};

const BATCH: i32 = 200;

/// Claims and settles; returns the number of blocks that the claim touched.
async fn claim_cost(session: &mut Session, batch: i32) -> u64 {
    let plan = session
        .texts(&format!(
            "explain (analyze, buffers, timing off, format json) select id from tidegate.claim_tx('tx', 'w', {batch}, '1 hour')"
        ))
        .await
        .join("\n");
    let plan: Value = serde_json::from_str(&plan).unwrap();
    let plan = &plan[0]["Plan"];
    assert_eq!(plan["Actual Rows"].as_f64(), Some(f64::from(batch)), "{plan}");
    plan["Shared Hit Blocks"].as_u64().unwrap() + plan["Shared Read Blocks"].as_u64().unwrap()
}

async fn settle_all_but(session: &mut Session, spared: i64) {
    session
        .texts(&format!(
            "select count(*) from tidegate_internal.settle_receipt(
               array(select row('tx', l.token, l.id)::tidegate.lease
                     from tidegate.leased_request as l where l.msg_id <> {spared}),
               null, array_fill('{{}}'::jsonb, array[{BATCH}]))"
        ))
        .await;
}

/// The costs of draining the queue batch by batch.
async fn drain(session: &mut Session, batches: usize, spared: i64) -> Vec<u64> {
    let mut costs = Vec::new();
    for _ in 0..batches {
        costs.push(claim_cost(session, BATCH).await);
        settle_all_but(session, spared).await;
    }
    costs
}

async fn old_snapshot(database: &TestDatabase) -> Session {
    let mut old = Session::open(database).await;
    old.execute("begin isolation level repeatable read").await;
    old.texts("select count(*) from tidegate.request").await;
    old
}

fn average(costs: &[u64]) -> u64 {
    costs.iter().sum::<u64>() / u64::try_from(costs.len()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_cost_the_same_however_many_were_served_since_the_snapshot() {
    let database = TestDatabase::unlimited().await;
    for _ in 0..4 {
        submit_many(&database, "direct", 5000).await;
    }
    database.execute("analyze pgmq.q_tx; analyze tidegate.request").await;
    let mut session = Session::open(&database).await;
    let mut old = old_snapshot(&database).await;

    let costs = drain(&mut session, 100, 0).await;
    old.rollback().await;

    // Dead entries between the watermark and the first message come and go like the teeth of a saw, about twenty
    // claims long: whole teeth are compared.
    let first = average(&costs[2..24]);
    let last = average(&costs[78..]);
    assert!(last * 10 <= 15 * first, "first {first}, last {last} blocks: {costs:?}");
    // The mark stays up to 4,000 numbers behind, each a dead entry to step over: more than nothing, but bounded.
    let usual = usual_cost().await;
    assert!(last * 10 <= 25 * usual, "without a snapshot {usual}, with one {last} blocks: {costs:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_cost_the_same_however_many_have_ended_since_the_snapshot() {
    let database = TestDatabase::unlimited().await;
    submit_many(&database, "direct", 5000).await;
    let mut session = Session::open(&database).await;
    let mut old = old_snapshot(&database).await;
    let ends = campaign(200, 400);
    let one = format!(
        "do $$
      declare v_leases tidegate.lease[];
      begin
        for i in 1 .. {ends} loop
          v_leases := array(select c.lease from tidegate.claim_tx('tx', 'w', 1, '10 milliseconds') as c);
          perform from tidegate_internal.settle_receipt(v_leases);
          commit;
        end loop;
      end $$"
    );
    let mut costs = Vec::new();
    for _ in 0..6 {
        session.execute(&one).await;
        costs.push(claim_cost(&mut session, 1).await);
    }
    old.rollback().await;
    assert!(costs[5] <= costs[1] + 100, "{costs:?}");
}

/// The cost of a claim without an old snapshot and without dead messages in front.
async fn usual_cost() -> u64 {
    let database = TestDatabase::unlimited().await;
    submit_many(&database, "direct", 5000).await;
    database.execute("analyze pgmq.q_tx; analyze tidegate.request").await;
    let mut session = Session::open(&database).await;
    let costs = drain(&mut session, 4, 0).await;
    average(&costs[1..])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_head_and_thousands_of_delayed_messages_in_front_cost_nothing_after_the_first_claim() {
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;
    let head = database.submit("direct").await;
    claim_cost(&mut session, 1).await;
    let spared = database.number(&format!("select msg_id from tidegate.request where id = '{head}'")).await;
    session
        .texts(
            "select count(*) from generate_series(1, 20000)
             cross join lateral tidegate.submit('direct', '{}', not_before => clock_timestamp() + interval '1 day')",
        )
        .await;
    for _ in 0..2 {
        submit_many(&database, "direct", 5000).await;
    }
    database.execute("analyze pgmq.q_tx; analyze tidegate.request").await;
    let mut old = old_snapshot(&database).await;

    let costs = drain(&mut session, 50, spared).await;

    old.rollback().await;
    let first = average(&costs[2..24]);
    let last = average(&costs[28..]);
    assert!(last * 10 <= 15 * first, "first {first}, last {last} blocks: {costs:?}");
    let usual = usual_cost().await;
    assert!(last * 10 <= 25 * usual, "usually {usual}, here {last} blocks: {costs:?}");
    assert_eq!(database.status(head).await, "tx_in_flight");
}
