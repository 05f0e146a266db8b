//! Does a concurrency limit hold across the fleet, and do its slots come back?

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::support::{
    TestDatabase, campaign, eventually,
    race::{NOTHING, Session, leases, settle, sound, submit_many},
    rest,
};

#[tokio::test(flavor = "multi_thread")]
async fn no_limit_takes_no_lock_and_a_limit_takes_one() {
    for (queue, kind, limit) in [("tx", "direct", "per_seconds"), ("readiness", "public_decrypt", "max_concurrency")] {
        for (value, locks) in [("null", "0"), ("1000", "1")] {
            let database = TestDatabase::unlimited().await;
            database.execute(&format!("update tidegate.queue set {limit} = {value} where name = '{queue}'")).await;
            submit_many(&database, kind, 5).await;
            let mut session = Session::begin(&database).await;
            assert_eq!(session.claim(queue, 5).await.len(), 5);

            let held = "select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()
                        and ((classid::bigint << 32) | objid::bigint) <> hashtextextended('tidegate.watermark.' || '$q', 0)";
            assert_eq!(session.text(&held.replace("$q", queue)).await, locks, "{queue} {value}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn never_more_checks_are_held_than_the_limit_allows() {
    for limit in [1_usize, 3, 50] {
        let database = TestDatabase::unlimited().await;
        database
            .execute(&format!("update tidegate.queue set max_concurrency = {limit} where name = 'readiness'"))
            .await;
        let total = 400;
        submit_many(&database, "public_decrypt", total).await;
        let mut workers = Vec::new();
        let looks = Arc::new(AtomicUsize::new(0));
        for worker in 0..8 {
            let mut session = Session::open(&database).await;
            let looks = Arc::clone(&looks);
            workers.push(tokio::spawn(async move {
                let (mut done, mut most) = (0, 0);
                for round in 0..campaign(24, 600) / limit.min(6) {
                    let held = session.claim("readiness", 20).await;
                    if most == 0 && !held.is_empty() {
                        // The look that was under way may have missed it.
                        let seen_by = looks.load(Ordering::SeqCst) + 2;
                        eventually("it is seen held", || async { looks.load(Ordering::SeqCst) >= seen_by }).await;
                    }
                    most = most.max(held.len());
                    if round % 3 == 0 && !held.is_empty() {
                        session.texts(&settle("settle_released", &held, "")).await;
                    } else if round % 5 == 0 && !held.is_empty() {
                        session.texts(&format!("select tidegate.extend({}, '30 s')", leases(&held))).await;
                        done += session.texts(&settle("settle_passed", &held, "")).await.len();
                    } else if !held.is_empty() {
                        done += session.texts(&settle("settle_passed", &held, "")).await.len();
                    }
                }
                (worker, done, most)
            }));
        }
        let mut observer = Session::open(&database).await;
        let mut seen = 0;
        while workers.iter().any(|worker| !worker.is_finished()) {
            let held = observer
                .text("select count(*) from tidegate.leased_request where queue = 'readiness' and in_force")
                .await;
            seen = seen.max(held.parse::<usize>().unwrap());
            looks.fetch_add(1, Ordering::SeqCst);
            rest().await;
        }
        let mut done = 0;
        for worker in workers {
            let (_, settled, most) = worker.await.unwrap();
            assert!(most <= limit, "one claim took {most} of {limit}");
            done += settled;
        }
        assert!(seen <= limit, "{seen} were held, {limit} are allowed");
        assert!(seen > 0 && done > 0);
        sound(&database).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_comes_back_with_its_settle_and_with_its_lease() {
    let database = TestDatabase::unlimited().await;
    database.execute("update tidegate.queue set max_concurrency = 2 where name = 'readiness'").await;
    submit_many(&database, "public_decrypt", 12).await;
    let mut session = Session::open(&database).await;
    for (outcome, more) in [
        ("settle_passed", ""),
        ("settle_failed", "null"),
        // Backing off takes no slot.
        ("settle_snooze", "array[interval '1 hour', '1 hour']"),
        ("settle_released", ""),
    ] {
        let held = session.claim("readiness", 5).await;
        assert_eq!(held.len(), 2, "before {outcome}");
        assert!(session.claim("readiness", 5).await.is_empty());
        assert_eq!(session.texts(&settle(outcome, &held, more)).await.len(), 2);
    }

    // Two dead workers: their leases run out by themselves.
    let dead = session.claim_for("readiness", 5, "100 milliseconds").await;
    assert_eq!(dead.len(), 2);
    let again = async {
        loop {
            let held = session.claim("readiness", 5).await;
            if !held.is_empty() {
                return held;
            }
        }
    };
    let again = tokio::time::timeout(Duration::from_secs(20), again).await.unwrap();
    // The two leases began together, and so they ended.
    assert_eq!(
        again.iter().map(|held| held.id).collect::<Vec<_>>(),
        dead.iter().map(|held| held.id).collect::<Vec<_>>()
    );
    assert!(session.claim("readiness", 5).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_of_none_stops_checks_and_no_limit_does_not() {
    let database = TestDatabase::unlimited().await;
    submit_many(&database, "public_decrypt", 300).await;
    let mut session = Session::open(&database).await;
    database.execute("update tidegate.queue set max_concurrency = 0 where name = 'readiness'").await;
    assert!(session.claim("readiness", 5).await.is_empty());
    database.execute("update tidegate.queue set max_concurrency = 2 where name = 'readiness'").await;
    assert_eq!(session.claim("readiness", 5).await.len(), 2);
    database.execute("update tidegate.queue set max_concurrency = 1 where name = 'readiness'").await;
    assert!(session.claim("readiness", 5).await.is_empty());
    database.execute("update tidegate.queue set max_concurrency = null where name = 'readiness'").await;
    assert_eq!(session.claim("readiness", 500).await.len(), 298);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_prolonged_at_its_very_end_does_not_let_one_more_in() {
    let database = TestDatabase::unlimited().await;
    database.execute("update tidegate.queue set max_concurrency = 1 where name = 'readiness'").await;
    submit_many(&database, "public_decrypt", 2).await;
    let mut holder = Session::open(&database).await;
    let held = holder.claim_for("readiness", 1, "1 second").await;
    holder.execute("begin").await;
    let extended = holder.texts(&format!("select e from tidegate.extend({}, '30 s') as e", leases(&held))).await;
    assert_eq!(extended.len(), 1);
    // What the others see runs out before this commits.
    eventually("the old lease runs out", || async {
        database.number("select count(*) from tidegate.leased_request where queue = 'readiness' and not in_force").await
            == 1
    })
    .await;
    let claim =
        Session::open(&database).await.start("select id from tidegate.claim_readiness('readiness', 'w', 1, '30 s')");
    claim.until_blocked_or_done(&database, &holder).await;
    holder.commit().await;

    assert_eq!(claim.finish().await.1, NOTHING);
    assert_eq!(
        database.number("select count(*) from tidegate.leased_request where queue = 'readiness' and in_force").await,
        1
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_in_an_old_snapshot_is_refused() {
    let database = TestDatabase::new().await;
    for (stage, queue) in [("tx", "tx"), ("readiness", "readiness")] {
        let mut session = database.session().await;
        sqlx::raw_sql("begin isolation level repeatable read").execute(&mut session).await.unwrap();

        let refused = sqlx::raw_sql(&format!("select * from tidegate.claim_{stage}('{queue}', 'w', 1, '1 s')"))
            .execute(&mut session)
            .await
            .unwrap_err();

        assert!(refused.to_string().contains("READ COMMITTED"), "{refused}");
    }
}
