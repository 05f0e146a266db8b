//! Triggers that an application has on Tidegate's tables run inside its functions: are their edits guarded and counted?

use crate::support::{
    TestDatabase,
    race::{Session, sound},
};

const TOUCH: &str = "
    create function public.touch() returns trigger language plpgsql as $$
    begin
      if pg_trigger_depth() < 2 then
        update tidegate.request set submitter = 'seen' where id = new.id;
      end if;
      return null;
    end $$;
    create trigger app_touch after update on tidegate.request for each row execute function public.touch()";

/// A trigger that fails a request once it has `status`.
fn ban(events: &str, status: &str, set: &str) -> String {
    format!(
        "create function public.ban() returns trigger language plpgsql as $$
         begin
           update tidegate.request set {set} where id = new.id;
           return null;
         end $$;
         create trigger app_ban after {events} on tidegate.request for each row when (new.req_status = '{status}')
         execute function public.ban()"
    )
}

fn claimed(stage: &str, queue: &str) -> String {
    format!("array(select c.lease from tidegate.claim_{stage}('{queue}', 'w', 1, '1 minute') as c)")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_of_another_column_by_a_trigger_moves_no_count() {
    let database = TestDatabase::unlimited().await;
    database.execute(TOUCH).await;
    let mut session = Session::open(&database).await;
    let passed = format!("tidegate_internal.settle_passed({})", claimed("readiness", "readiness"));
    let sent = format!("tidegate_internal.settle_receipt({}, array['r'])", claimed("tx", "tx"));
    for call in [
        "tidegate.submit('public_decrypt', '{}')",
        passed.as_str(),
        sent.as_str(),
        "tidegate.respond('{}', reference => 'r')",
        "tidegate.submit('direct', '{}')",
        "tidegate.cancel((select r.id from tidegate.request as r where r.req_status = 'processing'))",
    ] {
        assert!(!session.texts(&format!("select {call}")).await.is_empty(), "{call}");
        sound(&database).await;
    }
    let history = "select string_agg(e.cause, ' ' order by e.at) from tidegate.request_event as e";
    assert_eq!(session.text(history).await, "submitted readiness_passed claimed receipt response submitted cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trigger_that_fails_a_request_in_the_middle_of_a_function_makes_a_hand_edit() {
    for (events, status, calls) in [
        ("insert", "processing", ["tidegate.submit('direct', '{}')"].as_slice()),
        ("insert", "processing", &["tidegate.submit_batch('direct', array['{}'::jsonb])"]),
        ("update", "tx_in_flight", &["tidegate.submit('direct', '{}')", "tidegate.claim_tx('tx', 'w', 1, '1 minute')"]),
    ] {
        let database = TestDatabase::unlimited().await;
        database
            .execute(&ban(events, status, "req_status = 'failure', queue = null, msg_id = null, lease = null"))
            .await;
        let mut session = Session::open(&database).await;
        for call in calls {
            session.texts(&format!("select {call}")).await;
        }
        let row = "select row(r.req_status, r.cause, r.finished_at is not null)::text from tidegate.request as r";
        assert_eq!(session.text(row).await, "(failure,hand_edit,t)", "{calls:?}");
        let counted = "select sum(delta) filter (where req_status = 'failure')::text from tidegate.request_count_delta";
        assert_eq!(session.text(counted).await, "1", "{calls:?}");
        // The message of a request that such an edit ends is a stray until a claim meets it.
        session.texts("select tidegate.remove_stray_messages('tx')").await;
        sound(&database).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trigger_inside_a_function_cannot_change_an_identity() {
    for set in ["flow = 'proof'", "id = gen_random_uuid()", "finished_at = now()"] {
        let database = TestDatabase::unlimited().await;
        database.execute(&ban("insert", "processing", set)).await;
        let refusal = database.refused("select tidegate.submit('direct', '{}')").await;
        assert_eq!(refusal.code, "TG001", "{set}");
    }
}

/// An outbox: the application's own trigger submits, claims and settles.
#[tokio::test(flavor = "multi_thread")]
async fn functions_that_a_trigger_calls_count_exactly() {
    let database = TestDatabase::unlimited().await;
    database
        .execute(&format!(
            "create table public.orders (id integer);
             create function public.place() returns trigger language plpgsql as $$
             begin
               perform tidegate.submit('direct', '{{}}');
               perform tidegate.submit_batch('direct', array_fill('{{}}'::jsonb, array[2]));
               perform tidegate_internal.settle_receipt({}, array['r' || new.id]);
               perform tidegate.claim_tx('tx', 'w', 1, '1 minute');
               return null;
             end $$;
             create trigger app_place after insert on public.orders for each row execute function public.place()",
            claimed("tx", "tx")
        ))
        .await;
    database.execute("insert into public.orders values (1), (2)").await;
    sound(&database).await;
    let counted = "select sum(delta)::bigint from tidegate.request_count_delta where req_status = 'tx_in_flight'";
    assert_eq!(database.number(counted).await, 4);
}
