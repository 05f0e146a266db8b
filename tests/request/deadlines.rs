//! Does every request end when its time is up, and does maintenance do it alone, together and twice?

use crate::support::{
    TestDatabase,
    at_rest::violations,
    campaign,
    sql::{leases, run, value},
    until_blocked,
};

const NO_ROWS: [&str; 0] = [];

/// A sweep, the requests it is about, and how to make one of these due.
struct Sweep {
    function: &'static str,
    kind: &'static str,
    status: &'static str,
    /// Sets when a request is due; `{at}` is a time, `{ids}` a condition.
    due: &'static str,
    ends: &'static str,
    cause: &'static str,
}

const BY_DEADLINE: Sweep = Sweep {
    function: "tidegate.expire_by_deadline",
    kind: "direct",
    status: "processing",
    due: "update tidegate.request set deadline_at = {at} where id {ids}",
    ends: "failure",
    cause: "deadline_exceeded",
};
const BY_READINESS: Sweep = Sweep {
    function: "tidegate.expire_by_readiness",
    kind: "public_decrypt",
    status: "queued",
    due: "update tidegate.request set readiness_deadline_at = {at} where id {ids}",
    ends: "timed_out",
    cause: "readiness_timed_out",
};
const RESPONSES: Sweep = Sweep {
    function: "tidegate.expire_responses",
    kind: "direct",
    status: "receipt_received",
    due: "update tidegate.awaiting_response set due_at = {at} where request_id {ids}",
    ends: "timed_out",
    cause: "response_timed_out",
};
const SWEEPS: [Sweep; 3] = [BY_DEADLINE, BY_READINESS, RESPONSES];

impl Sweep {
    /// SQL that makes the requests due `ago`.
    fn due(&self, ids: &str, ago: &str) -> String {
        let at = format!("clock_timestamp() - interval '{ago}'");
        self.due.replace("{at}", &at).replace("{ids}", ids)
    }

    /// Runs one batch; returns `(expired,more)`.
    async fn run(&self, database: &TestDatabase, batch: i32) -> String {
        database.value(&format!("select row(s.*)::text from {}({batch}) as s", self.function)).await
    }

    /// So many requests in the sweep's status, none of them due.
    async fn fill(&self, database: &TestDatabase, count: i32) {
        database
            .execute(&format!(
                "select tidegate.submit_batch('{}', array_fill('{{}}'::jsonb, array[{count}]))",
                self.kind
            ))
            .await;
        if self.status == "receipt_received" {
            let claims = database.claim_tx(count).await;
            database.execute(&format!("select tidegate_internal.settle_receipt({})", leases(&claims))).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_ends_what_is_due_and_only_that_with_its_cause_and_its_error() {
    for sweep in SWEEPS {
        let database = TestDatabase::unlimited().await;
        sweep.fill(&database, 6).await;
        let due = "= any(array(select id from tidegate.request order by id limit 2))";
        database.execute(&sweep.due(due, "1 s")).await;
        let soon = "= any(array(select id from tidegate.request order by id offset 4))";
        database.execute(&sweep.due(soon, "-1 minute")).await;

        assert_eq!(sweep.run(&database, 1000).await, "(2,f)", "{}", sweep.function);
        assert_eq!(sweep.run(&database, 1000).await, "(0,f)", "{}", sweep.function);

        assert_eq!(
            database
                .column("select row(req_status, cause, error ->> 'code', error ->> 'retryable', finished_at is not null)::text from tidegate.request order by id")
                .await[..3],
            [
                format!("({},{1},{1},{2},t)", sweep.ends, sweep.cause, sweep.status != "receipt_received"),
                format!("({},{1},{1},{2},t)", sweep.ends, sweep.cause, sweep.status != "receipt_received"),
                database.value("select row(req_status, cause, null, null, false)::text from tidegate.request order by id offset 2 limit 1").await,
            ]
        );
        assert_eq!(
            database
                .number(&format!("select count(*) from tidegate.request where req_status = '{}'", sweep.status))
                .await,
            4
        );
        assert_eq!(violations(&mut database.session().await).await, NO_ROWS);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_that_are_due_at_the_same_instant_end_batch_by_batch() {
    let batch = campaign(400, 1000);
    let all = batch * 5 / 2;
    for sweep in SWEEPS {
        // Just now, and so long ago that no overlap reaches back to it.
        for ago in ["1 s", "1 hour"] {
            let database = TestDatabase::unlimited().await;
            sweep.fill(&database, all).await;
            let at = database.value(&format!("select quote_literal(clock_timestamp() - interval '{ago}')")).await;
            database.execute(&sweep.due.replace("{at}", &at).replace("{ids}", "is not null")).await;

            let mut told = Vec::new();
            for _ in 0..3 {
                told.push(sweep.run(&database, batch).await);
            }
            let rest = format!("({},f)", batch / 2);
            assert_eq!(told, [format!("({batch},t)"), format!("({batch},t)"), rest], "{} {ago}", sweep.function);
            assert!(sweep.run(&database, batch).await.starts_with("(0,"));
            assert_eq!(
                database
                    .number(&format!("select count(*) from tidegate.request where req_status = '{}'", sweep.ends))
                    .await,
                i64::from(all)
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_in_batches_gets_past_what_has_ended_by_itself() {
    for sweep in [BY_DEADLINE, BY_READINESS] {
        let database = TestDatabase::unlimited().await;
        sweep.fill(&database, 50).await;
        database.execute(&sweep.due("is not null", "1 s")).await;
        database.execute("select tidegate.cancel(id) from tidegate.request order by id limit 45").await;

        let mut ended = 0;
        for _ in 0..6 {
            ended += database.number(&format!("select expired from {}(10)", sweep.function)).await;
        }
        assert_eq!(ended, 5, "{}", sweep.function);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_committed_after_its_deadline_was_swept_is_found_by_the_overlap() {
    for sweep in SWEEPS {
        let database = TestDatabase::unlimited().await;
        let mut slow = database.session().await;
        sweep.fill(&database, 1).await;
        run(&mut slow, "begin").await;
        if sweep.status != "receipt_received" {
            run(&mut slow, &format!("select tidegate.submit('{}', '{{}}')", sweep.kind)).await;
        }
        run(&mut slow, &sweep.due("is not null", "1 s")).await;

        assert_eq!(sweep.run(&database, 1000).await, "(0,f)");
        run(&mut slow, "commit").await;

        let expected = if sweep.status == "receipt_received" { "(1,f)" } else { "(2,f)" };
        assert_eq!(sweep.run(&database, 1000).await, expected, "{}", sweep.function);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_sweeps_at_once_end_each_request_once() {
    for sweep in SWEEPS {
        let database = TestDatabase::unlimited().await;
        sweep.fill(&database, 20).await;
        database.execute(&sweep.due("is not null", "1 s")).await;
        let sql = format!("select expired from {}()", sweep.function);
        let mut first = database.session().await;
        run(&mut first, "begin").await;
        assert_eq!(value(&mut first, &sql).await, "20");

        let mut second = database.session().await;
        let other = tokio::spawn(async move { value(&mut second, &sql).await });
        if sweep.status == "receipt_received" {
            until_blocked(&database, 1).await;
        } else {
            assert_eq!(other.await.unwrap(), "0", "another transaction is at it");
            run(&mut first, "commit").await;
            continue;
        }
        run(&mut first, "commit").await;
        assert_eq!(other.await.unwrap(), "0");
        assert_eq!(
            database.number("select count(*) from tidegate.request_event where to_status = 'timed_out'").await,
            20
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_request_ends_by_its_deadline_and_its_holder_settles_nothing() {
    let database = TestDatabase::unlimited().await;
    for (sweep, settle) in
        [(BY_READINESS, "settle_passed"), (BY_DEADLINE, "settle_passed"), (BY_DEADLINE, "settle_receipt")]
    {
        let tx = settle == "settle_receipt";
        database.submit(if tx { "direct" } else { "public_decrypt" }).await;
        let claims = if tx { database.claim_tx(1).await } else { database.claim_readiness(1).await };
        database.execute(&sweep.due(&format!("= '{}'", claims[0].id), "1 s")).await;

        assert_eq!(sweep.run(&database, 1000).await, "(1,f)");

        for call in [settle, "settle_released"] {
            let sql = format!("select s.id::text from tidegate_internal.{call}({}) as s", leases(&claims));
            assert_eq!(database.column(&sql).await, NO_ROWS, "{sql}");
        }
        let extended = format!("select l.id::text from tidegate.extend({}, '30 s') as l", leases(&claims));
        assert_eq!(database.column(&extended).await, NO_ROWS);
    }
    assert_eq!(violations(&mut database.session().await).await, NO_ROWS);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_moves_on_while_a_sweep_waits_for_it_ends_all_the_same() {
    let database = TestDatabase::unlimited().await;
    let id = database.submit("public_decrypt").await;
    let claims = database.claim_readiness(1).await;
    database.execute(&BY_DEADLINE.due("is not null", "10 minutes")).await;
    let mut worker = database.session().await;
    run(&mut worker, &format!("begin; select tidegate_internal.settle_passed({})", leases(&claims))).await;

    let mut maintenance = database.session().await;
    let sweep = tokio::spawn(async move {
        value(&mut maintenance, "select row(s.*)::text from tidegate.expire_by_deadline() as s").await
    });
    until_blocked(&database, 1).await;
    run(&mut worker, "commit").await;

    // Not in that transaction, which would have to lock a message after a row; but in the next batch.
    assert_eq!(sweep.await.unwrap(), "(0,t)");
    assert_eq!(BY_DEADLINE.run(&database, 1000).await, "(1,f)");
    assert_eq!(database.causes(id).await, ["submitted", "readiness_passed", "deadline_exceeded"]);
    assert_eq!(violations(&mut worker).await, NO_ROWS);
}
