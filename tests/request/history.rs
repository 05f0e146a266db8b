//! Does the history tell the truth about every request, and what does it cost?

use std::sync::Arc;

use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use sqlx::{Connection, PgConnection};
use tokio::sync::Barrier;

use crate::support::{
    TestDatabase,
    at_rest::{history_violations, violations},
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

/// Records each transition as its row shows it at that moment: what `request_event` has to tell from then on.
const RECORDER: &str = "
    create table public.made (like tidegate.stored_event);
    create function public.record() returns trigger language plpgsql as $$
    begin
      insert into public.made
      select new.id, new.transition_no, new.previous_status, new.req_status,
        case new.req_status
          when 'queued' then new.queued_at
          when 'processing' then new.processing_at
          when 'tx_in_flight' then new.tx_in_flight_at
          when 'receipt_received' then new.receipt_received_at
          else new.finished_at
        end,
        case when 'queued' in (new.req_status, new.previous_status) then new.readiness_attempt else new.tx_attempt end,
        new.cause, new.worker,
        case
          when new.cause = 'hand_edit' then jsonb_build_object('session_user', session_user)
          when new.cause = 'internal_error' then new.error || jsonb_build_object('session_user', session_user)
          when new.req_status in ('failure', 'timed_out') or new.cause = 'send_retried' then new.error
        end
      where new.previous_status is distinct from new.req_status;
      return null;
    end;
    $$;
    create trigger record after insert or update on tidegate.request for each row execute function public.record()";

/// Edits of columns that the history reads, and steps that are declared by hand.
const FORGERIES: [&str; 18] = [
    "req_status = 'receipt_received'",
    "req_status = (case req_status when 'processing' then 'tx_in_flight' when 'receipt_received' then 'failure'
       else 'processing' end)::tidegate.request_status",
    "worker = 'forger'",
    "tx_attempt = tx_attempt + 1",
    "readiness_attempt = readiness_attempt + 1",
    "submitted_at = submitted_at - interval '1 minute'",
    "queued_at = '2020-01-01', processing_at = '2020-01-01'",
    "tx_in_flight_at = '2020-01-01'",
    "receipt_received_at = '2020-01-01'",
    "finished_at = '2020-01-01'",
    "receipt_received_at = receipt_received_at - interval '1 minute', finished_at = finished_at - interval '1 minute'",
    "req_status = 'processing', previous_status = req_status, transition_no = transition_no + 1, cause = 'send_retried',
       processing_at = clock_timestamp(), worker = 'forger', tx_attempt = 7, tx_in_flight_at = '2020-01-01'",
    "req_status = 'processing', previous_status = req_status, transition_no = transition_no + 1, cause = 'send_retried',
       processing_at = clock_timestamp()",
    "req_status = 'receipt_received', previous_status = req_status, transition_no = transition_no + 1, cause = 'receipt',
       receipt_received_at = clock_timestamp(), worker = 'forger', tx_attempt = 7, tx_in_flight_at = '2020-01-01'",
    "req_status = 'completed', previous_status = req_status, transition_no = transition_no + 1, cause = 'response',
       finished_at = clock_timestamp(), receipt_received_at = '2020-01-01', worker = 'forger'",
    "req_status = 'completed', previous_status = req_status, transition_no = transition_no + 1, cause = 'response',
       finished_at = clock_timestamp(), receipt_received_at = '2020-01-01'",
    "req_status = 'completed', previous_status = req_status, transition_no = transition_no + 1, cause = 'response',
       finished_at = clock_timestamp(), tx_attempt = 7",
    "req_status = 'completed', previous_status = req_status, transition_no = transition_no + 1, cause = 'response',
       finished_at = clock_timestamp(), submitted_at = submitted_at - interval '1 minute'",
];

/// Updates requests as a hand would; what the guard refuses has not happened.
async fn forge(session: &mut PgConnection, forgery: &str, which: &str) {
    run(
        session,
        &format!(
            "do $$ begin
               update tidegate.request set {forgery} where id = {which};
             exception when sqlstate 'TG001' then null;
             end $$"
        ),
    )
    .await;
}

/// Events that `request_event` tells differently from how they were made.
async fn differing(session: &mut PgConnection) -> Vec<String> {
    column(
        session,
        "select e::text
         from (
           (select * from tidegate.request_event except table public.made)
           union all
           (select * from public.made except select * from tidegate.request_event)
         ) as e",
    )
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transition_stays_on_record_as_it_was_made_whatever_is_edited_afterwards() {
    let database = TestDatabase::unlimited().await;
    let mut session = database.session().await;
    run(&mut session, RECORDER).await;
    for status in STATUSES {
        for forgery in FORGERIES {
            let kind = match status {
                "queued" => "public_decrypt",
                _ => "direct",
            };
            let id = database.request_in(kind, status).await;
            forge(&mut session, forgery, &format!("'{id}'")).await;
            run(
                &mut session,
                "select tidegate.fail_internal(array(select id from tidegate.request where finished_at is null))",
            )
            .await;
            assert_eq!(differing(&mut session).await, NO_VIOLATIONS, "{status}: {forgery}");
        }
    }
    for seed in 0..campaign(1, 4) {
        let mut random = StdRng::seed_from_u64(seed);
        for step in 0..60 {
            live(&mut session, &mut random).await;
            let forgery = FORGERIES.choose(&mut random).unwrap();
            let one = "any(array(select id from tidegate.request order by random() limit 1))";
            forge(&mut session, forgery, one).await;
            assert_eq!(differing(&mut session).await, NO_VIOLATIONS, "seed {seed}, step {step}: {forgery}");
        }
    }
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
async fn hand_edits_of_many_rows_at_once_are_recorded_one_by_one() {
    let database = TestDatabase::unlimited().await;
    let mut session = database.session().await;
    run(
        &mut session,
        "select tidegate.submit_batch('public_decrypt', array_fill('{}'::jsonb, array[50]));
         select tidegate.submit_batch('direct', array_fill('{}'::jsonb, array[50]));
         insert into tidegate.request (id, kind, flow, req_status, processing_at, deadline_at, payload)
         select tidegate_internal.uuid_v7(), 'input_proof', 'proof', 'processing', now(), now() + interval '1 h', '{}' from generate_series(1, 50);
         update tidegate.request set req_status = 'failure' where submitted_at <= now() and random() < 0.5;
         update tidegate.request set req_status = 'processing' where req_status = 'queued';
         update tidegate.request set req_status = 'tx_in_flight' where req_status = 'processing';
         update tidegate.request set worker = 'other';
         update tidegate.request set req_status = case when random() < 0.5 then 'receipt_received' else 'processing' end
           ::tidegate.request_status where req_status = 'tx_in_flight'",
    )
    .await;

    assert_eq!(history_violations(&mut session).await, NO_VIOLATIONS);
    assert_eq!(database.number("select count(*) from tidegate.request_event where transition_no = 1").await, 150);
    run(&mut session, "select tidegate.fold_counts()").await;
    assert_eq!(history_violations(&mut session).await, NO_VIOLATIONS);
    assert_eq!(database.number("select count(*) from tidegate.request_count_delta").await, 0);
}

/// A claim counts its own transitions, by a setting that lasts as long as its statement.
#[tokio::test(flavor = "multi_thread")]
async fn hand_edits_after_a_claim_in_its_transaction_are_recorded() {
    let database = TestDatabase::unlimited().await;
    let mut session = database.session().await;
    run(
        &mut session,
        "select tidegate.submit_batch('direct', array_fill('{}'::jsonb, array[6]));
         alter table tidegate.claim add constraint refuses_one check (worker <> 'refused');
         begin;
         select tidegate.claim_tx('tx', 'w', 2, '1 min');
         update tidegate.request set req_status = 'failure' where req_status = 'tx_in_flight';
         do $$
         begin
           perform tidegate.claim_tx('tx', 'refused', 2, '1 min');
           raise 'a claim by this worker is refused';
         exception when check_violation then
           update tidegate.request set req_status = 'failure' where req_status = 'processing';
         end $$;
         commit",
    )
    .await;

    assert_eq!(history_violations(&mut session).await, NO_VIOLATIONS);
    let ends = "select string_agg(e.from_status::text, ' ' order by e.from_status)
                from tidegate.request_event as e where e.cause = 'hand_edit' and e.to_status = 'failure'";
    assert_eq!(
        value(&mut session, ends).await,
        "processing processing processing processing tx_in_flight tx_in_flight"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_insert_that_turns_into_an_update_is_recorded_as_what_it_did() {
    let database = TestDatabase::unlimited().await;
    let mut session = database.session().await;
    let id = database.submit("direct").await;

    run(
        &mut session,
        &format!(
            "insert into tidegate.request (id, kind, flow, req_status, processing_at, deadline_at, payload)
             values
               ('{id}', 'direct', 'direct', 'processing', now(), now(), '{{}}'),
               (tidegate_internal.uuid_v7(), 'direct', 'direct', 'processing', now(), now(), '{{}}')
             on conflict (id) do update set req_status = 'failure'"
        ),
    )
    .await;

    assert_eq!(history_violations(&mut session).await, NO_VIOLATIONS);
    assert_eq!(database.number("select count(*) from tidegate.request_event").await, 3);
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
