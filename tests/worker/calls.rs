//! Does a worker drop the calls of requests that it has lost, and store the outcomes of the others?

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use tidegate::{
    internals::worker::WorkerOptions,
    request::{Request, RequestError},
    stage::{Check, JsonText, Readiness, Sent, Stages, Transact},
};

use crate::{
    support::{
        TestDatabase, eventually,
        sql::{column, leases, refused},
    },
    worker::lives::{Running, all_stages},
};

/// A stage whose calls never end: how many have begun, and how many were dropped.
#[derive(Clone, Default)]
struct Endless {
    begun: Arc<AtomicU32>,
    dropped: Arc<AtomicU32>,
}

impl Endless {
    async fn call<T>(&self) -> T {
        struct Dropped(Arc<AtomicU32>);
        impl Drop for Dropped {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }
        let _dropped = Dropped(self.dropped.clone());
        self.begun.fetch_add(1, Ordering::SeqCst);
        std::future::pending().await
    }
}

impl Readiness for Endless {
    type Payload = JsonText;

    async fn check(&self, _: &Request) -> Check {
        self.call().await
    }
}

impl Transact for Endless {
    type Payload = JsonText;

    async fn send(&self, _: &Request) -> Sent {
        self.call().await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_call_of_a_request_that_has_ended_is_dropped_long_before_its_lease_is_prolonged() {
    let database = TestDatabase::unlimited().await;
    database
        .execute(
            "update tidegate.policy set timeout_ms = 60000, attempts = 1 where kind in ('public_decrypt', 'direct')",
        )
        .await;
    let (checks, sends) = (Endless::default(), Endless::default());
    let stages = all_stages().readiness("public_decrypt", checks.clone()).transact("direct", sends.clone());
    let running = Running::start(
        &database.store,
        stages,
        WorkerOptions { lease: Duration::from_secs(3600), grace: Duration::ZERO, ..WorkerOptions::default() },
    );
    for (kind, calls, end) in [
        ("public_decrypt", &checks, "tidegate.cancel('{id}')"),
        ("public_decrypt", &checks, "tidegate.time_out(array['{id}'::uuid])"),
        ("direct", &sends, "tidegate.fail_tx(array['{id}'::uuid], '{}')"),
    ] {
        let (begun, dropped) = (calls.begun.clone(), calls.dropped.load(Ordering::SeqCst));
        let before = begun.load(Ordering::SeqCst);
        let (ended, kept) = (database.submit(kind).await, database.submit(kind).await);
        eventually("both calls begin", || async { begun.load(Ordering::SeqCst) == before + 2 }).await;

        let end = end.replace("{id}", &ended.to_string());
        database.execute(&format!("select {end}")).await;

        eventually("its call is dropped", || async { calls.dropped.load(Ordering::SeqCst) == dropped + 1 }).await;
        assert!(!["completed", "failure"].contains(&database.status(kept).await.as_str()));
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_that_are_still_held_are_listed_without_waiting_for_locks() {
    let database = TestDatabase::unlimited().await;
    for _ in 0..3 {
        database.submit("direct").await;
    }
    database.submit("public_decrypt").await;
    let mut claims = database.claim_tx(3).await;
    let mut locker = database.pool.begin().await.unwrap();
    sqlx::query("select from tidegate.claim for update").execute(&mut *locker).await.unwrap();
    let mut session = database.session().await;

    let mut twice = claims.clone();
    twice.extend(claims.clone());
    let held = format!("select id from tidegate.still_held({})", leases(&twice));
    assert_eq!(column(&mut session, &held).await.len(), 3);
    locker.rollback().await.unwrap();

    // One lease each is lost: its request was ended by hand, another worker has it, its time is over.
    for sql in [
        format!("update tidegate.request set req_status = 'failure' where id = '{}'", claims[0].id),
        format!("update tidegate.request set lease = 1 where id = '{}'", claims[1].id),
        format!("update tidegate.claim set until = clock_timestamp() where '{}' = any(ids)", claims[2].id),
    ] {
        let before = column(&mut session, &held).await.len();
        database.execute(&sql).await;
        assert_eq!(column(&mut session, &held).await.len(), before - 1, "{sql}");
    }

    claims.extend(database.claim_readiness(1).await);
    for (leases, code) in
        [(leases(&claims), "TG007"), ("array[row('nowhere', 1, null)::tidegate.lease]".to_owned(), "TG005")]
    {
        let sql = format!("select * from tidegate.still_held({leases})");
        assert_eq!(refused(&mut session, &sql).await.code, code);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_without_a_wished_time_waits_for_the_backoff_of_the_policy() {
    let database = TestDatabase::unlimited().await;
    database.execute("update tidegate.policy set base_ms = 4000, factor = 1, jitter_ms = 0, attempts = 3").await;
    let waits = |queue: &str| {
        format!("select count(*) from pgmq.q_{queue} where vt > now() + interval '2 s' and vt < now() + interval '6 s'")
    };
    for kind in ["direct", "public_decrypt"] {
        database.submit(kind).await;
        database.submit(kind).await;
    }
    let (checks, sends) = (database.claim_readiness(2).await, database.claim_tx(2).await);
    for wishes in ["null", "array[null, null]::interval[]"] {
        let at = usize::from(wishes != "null");
        let (check, send) = (leases(&checks[at..=at]), leases(&sends[at..=at]));
        database
            .execute(&format!(
                "select tidegate_internal.settle_snooze({check}, {wishes});
                 select tidegate_internal.settle_retry({send}, array['{{\"code\": \"http_500\"}}'::jsonb], {wishes})"
            ))
            .await;
    }
    assert_eq!(database.number(&waits("readiness")).await, 2);
    assert_eq!(database.number(&waits("tx")).await, 2);
}

/// Checks made of a closure.
struct Checks(fn(&Request) -> Check);

impl Readiness for Checks {
    type Payload = JsonText;

    async fn check(&self, request: &Request) -> Check {
        (self.0)(request)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_that_failed_is_told_apart_from_one_that_said_no() {
    let database = TestDatabase::unlimited().await;
    database
        .execute(
            "update tidegate.policy set base_ms = 10000, factor = 1, jitter_ms = 0, attempts = 3, timeout_ms = 200",
        )
        .await;
    let expected = [
        (Checks(|_| Check::Snooze { after: None }), [0, 0]),
        (
            Checks(|_| Check::Retry {
                error: RequestError::new("http_503", "overloaded", true),
                after: Some(Duration::from_secs(60)),
            }),
            [1, 0],
        ),
    ];
    for (checks, counts) in expected {
        run_checks(&database, all_stages().readiness("public_decrypt", checks), counts).await;
    }
    let put_off = "select count(*) from pgmq.q_readiness where vt > now() + interval '50 s'";
    assert_eq!(database.number(put_off).await, 1);
    let endless = all_stages().readiness("public_decrypt", Endless::default());
    run_checks(&database, endless, [1, 1]).await;
}

/// Makes one more check, and expects that many more failures and timeouts to be counted.
async fn run_checks(database: &TestDatabase, stages: Stages, more: [i64; 2]) {
    let counts = "select array[coalesce(sum(calls), 0), coalesce(sum(failures), 0), coalesce(sum(timeouts), 0)]
                  from (select calls, failures, timeouts from tidegate.call_total
                        union all select calls, failures, timeouts from tidegate.call_sample) as c";
    let counted = || async {
        sqlx::query_scalar::<_, Vec<i64>>(&format!("select ({counts})::bigint[]"))
            .fetch_one(&database.pool)
            .await
            .unwrap()
    };
    let before = counted().await;
    let running = Running::start(&database.store, stages, WorkerOptions::default());
    let id = database.submit("public_decrypt").await;
    eventually("one more check is counted", || async { counted().await[0] == before[0] + 1 }).await;
    running.stop().await;
    let after = counted().await;
    assert_eq!([after[1] - before[1], after[2] - before[2]], more);
    assert_eq!(database.status(id).await, "queued");
}
