//! Does the history tell the truth about every request, and what does it cost?

mod hand_edits;

use std::sync::Arc;

use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use sqlx::{Connection, PgConnection};
use tokio::sync::Barrier;

use crate::support::{
    TestDatabase,
    at_rest::violations,
    campaign, eventually,
    sql::{STATUSES, claim, column, leases, run, value},
};

const NO_VIOLATIONS: [&str; 0] = [];

/// One random step in the lives of the requests there are: by a worker, a caller, the downstream or time.
async fn live(session: &mut PgConnection, random: &mut StdRng) {
    let some = "array(select id from tidegate.request order by random() limit 3)";
    let one = "(select id from tidegate.request order by random() limit 1)";
    match random.random_range(0..14) {
        0 => {
            for kind in ["public_decrypt", "user_decrypt", "input_proof", "direct"] {
                run(session, &format!("select tidegate.submit_batch('{kind}', array['{{}}', '{{}}']::jsonb[])")).await;
            }
        }
        1..=3 => {
            let claims = claim(session, "claim_readiness", "readiness", "w", 5).await;
            let settle = ["settle_passed(%)", "settle_passed(%)", "settle_snooze(%, array['0 s'::interval])", "settle_failed(%, null)", "settle_released(%)"];
            settle_some(session, random, &settle, &claims).await;
        }
        4..=7 => {
            let claims = claim(session, "claim_tx", "tx", "w", 5).await;
            let settle = [
                "settle_receipt(%, array['ref-' || gen_random_uuid()])",
                "settle_receipt(%, null, array['{}'::jsonb])",
                "settle_receipt(%)",
                "settle_retry(%, null, array['0 s'::interval])",
                "settle_rejected(%, null)",
                "settle_released(%)",
            ];
            settle_some(session, random, &settle, &claims).await;
        }
        8 => {
            run(
                session,
                "select tidegate.respond('{}', id => id, part => 'p' || floor(random() * 4),
                   accept => null) from tidegate.request where flow = 'decrypt' order by random() limit 5;
                 select tidegate.respond('{}', id => id, accept => random() < 0.5)
                 from tidegate.request where flow = 'proof' order by random() limit 3",
            )
            .await;
        }
        9 => run(session, &format!("select tidegate.cancel({one})")).await,
        10 => run(session, &format!("select tidegate.time_out({some}); select tidegate.fail_tx({some})")).await,
        11 => {
            run(
                session,
                "update tidegate.claim set until = clock_timestamp();
                 select tidegate.recover()",
            )
            .await;
        }
        12 => {
            run(
                session,
                &format!("update tidegate.request set deadline_at = now() - interval '1 s' where id = any({some});
                          select tidegate.expire_by_deadline(); select tidegate.fold_counts(); select tidegate.sweep_inbox()"),
            )
            .await;
        }
        _ => run(session, "delete from tidegate.request where id = (select id from tidegate.request where finished_at is not null limit 1)").await,
    }
}

/// Settles each claim in one of the ways, or leaves it held.
async fn settle_some(
    session: &mut PgConnection,
    random: &mut StdRng,
    ways: &[&str],
    claims: &[crate::support::sql::Claim],
) {
    for claim in claims {
        if random.random_bool(0.9) {
            let way = ways.choose(random).unwrap().replace('%', &leases(std::slice::from_ref(claim)));
            run(session, &format!("select tidegate_internal.{way}")).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_events_of_random_lives_replay_to_their_requests() {
    let database = TestDatabase::unlimited().await;
    let mut session = database.session().await;
    for seed in 0..4 {
        let mut random = StdRng::seed_from_u64(seed);
        for step in 0..60 {
            live(&mut session, &mut random).await;
            if step % 5 == 0 {
                assert_eq!(violations(&mut session).await, NO_VIOLATIONS, "seed {seed}, step {step}");
            }
        }
        assert_eq!(violations(&mut session).await, NO_VIOLATIONS, "seed {seed}");
    }
    let reached = column(&mut session, "select distinct to_status::text from tidegate.request_event").await;
    assert_eq!(reached.len(), STATUSES.len(), "{reached:?}");
    let causes = column(&mut session, "select distinct cause from tidegate.request_event").await;
    assert!(causes.len() >= 15, "{causes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plain_life_stores_no_event_and_a_deleted_request_leaves_its_history() {
    let database = TestDatabase::unlimited().await;
    let mut session = database.session().await;
    for (kind, stored, told) in [
        ("direct", "", "submitted claimed receipt response"),
        ("input_proof", "", "submitted claimed receipt verdict_accepted"),
        ("public_decrypt", "readiness_passed", "submitted readiness_passed claimed receipt response"),
    ] {
        let id = database.request_in(kind, "completed").await;
        let causes = |table: &str| {
            format!(
                "select coalesce(string_agg(cause, ' ' order by transition_no), '') from tidegate.{table} where request_id = '{id}'"
            )
        };
        assert_eq!(value(&mut session, &causes("stored_event")).await, stored);
        assert_eq!(value(&mut session, &causes("request_event")).await, told);

        run(&mut session, &format!("delete from tidegate.request where id = '{id}'")).await;

        assert_eq!(value(&mut session, &causes("request_event")).await, told);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_request_takes_its_shares_and_references_along_and_is_not_counted() {
    let database = TestDatabase::unlimited().await;
    let mut session = database.session().await;
    let id = database.request_in("user_decrypt", "receipt_received").await;
    let other = database.request_in("user_decrypt", "receipt_received").await;
    for part in ["a", "b", "c"] {
        run(&mut session, &format!("select tidegate.respond('1', id => '{id}', part => '{part}')")).await;
        run(&mut session, &format!("select tidegate.respond('1', id => '{other}', part => '{part}')")).await;
    }

    run(&mut session, &format!("delete from tidegate.request where id = '{id}'")).await;

    for (table, left) in [("response_part", 3), ("request_reference", 1), ("request", 1), ("awaiting_response", 0)] {
        let rows = format!("select count(*) from tidegate.{table}");
        assert_eq!(database.number(&rows).await, left, "{table}");
    }
    assert_eq!(
        column(&mut session, "select row(kind, req_status, requests)::text from tidegate.request_overview").await,
        ["(user_decrypt,completed,1)"]
    );
    run(&mut session, "select tidegate.fold_counts()").await;
    assert_eq!(
        column(&mut session, "select row(kind, req_status, requests)::text from tidegate.request_overview").await,
        ["(user_decrypt,completed,1)"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn four_writers_at_once_keep_at_least_95_percent_of_the_updates_hot() {
    let requests: i64 = campaign(2_000, 20_000);
    let database = TestDatabase::unlimited().await;
    for _ in 0..2 {
        database.execute(&format!("select count(*) from tidegate.submit_batch('direct', array_fill('{{\"amount\": 12, \"to\": \"someone\"}}'::jsonb, array[{}]))", requests / 2)).await;
    }

    let start = Arc::new(Barrier::new(4));
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..4 {
        let mut session = database.session().await;
        let start = Arc::clone(&start);
        writers.spawn(async move {
            start.wait().await;
            let mut drained = 0;
            loop {
                let sql = format!(
                    "select coalesce(array_agg(lease), '{{}}')::text from tidegate.claim_tx('tx', 'writer {writer}', 200, '30 s')"
                );
                let claimed = value(&mut session, &sql).await;
                if claimed == "{}" {
                    break;
                }
                let settle = format!(
                    "select count(*) from tidegate_internal.settle_receipt('{claimed}', null, array_fill('{{\"ok\": true}}'::jsonb, array[200]))"
                );
                drained += value(&mut session, &settle).await.parse::<i64>().unwrap();
            }
            // At its end a session tells its statistics, whatever their age.
            session.close().await.unwrap();
            drained
        });
    }
    assert_eq!(writers.join_all().await.into_iter().sum::<i64>(), requests);

    let updates = "select n_tup_upd from pg_stat_user_tables where relid = 'tidegate.request'::regclass";
    eventually("the statistics have arrived", || async { database.number(updates).await >= 2 * requests }).await;
    let hot =
        "select 100 * n_tup_hot_upd / n_tup_upd from pg_stat_user_tables where relid = 'tidegate.request'::regclass";
    let hot = database.number(hot).await;
    assert!(hot >= 95, "{hot} % of the updates are HOT");
    assert_eq!(violations(&mut database.session().await).await, NO_VIOLATIONS);
}
