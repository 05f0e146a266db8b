//! Does the history stay as it was made, whatever is edited by hand, and record the edits?

use rand::{SeedableRng, rngs::StdRng, seq::IndexedRandom};
use sqlx::PgConnection;

use super::{NO_VIOLATIONS, live};
use crate::support::{
    TestDatabase,
    at_rest::history_violations,
    campaign,
    sql::{STATUSES, column, run, value},
};

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
