//! Does `audit_replay` find nothing wrong with any life that the functions led, and judge each step by its policy?

mod tampering;

use rand::{Rng, SeedableRng, rngs::StdRng};
use uuid::Uuid;

use crate::support::{
    TestDatabase,
    actors::{ACTS, KINDS, Shared, add_bucketed, perform},
    campaign,
    race::{Session, submit_many},
    sql::leases,
};

/// Where a life is not as it should be: the number of the step (none: the whole), and what is wrong.
async fn findings(database: &TestDatabase, id: Uuid) -> Vec<String> {
    database
        .column(&format!(
            "select concat_ws(': ', transition_no, finding) from tidegate.audit_replay('{id}') where finding is not null"
        ))
        .await
}

/// What is legal and worth knowing, by step.
async fn remarks(database: &TestDatabase, id: Uuid) -> Vec<String> {
    database
        .column(&format!(
            "select concat_ws(': ', transition_no, cause, remark) from tidegate.audit_replay('{id}')
             where remark is not null and transition_no is not null"
        ))
        .await
}

async fn sound(database: &TestDatabase, id: Uuid) {
    let found = findings(database, id).await;
    assert!(found.is_empty(), "{id}: {found:#?}");
}

/// Claims the one request that waits, and says what came of its send: a settle with all but the leases.
async fn send(database: &TestDatabase, settle: &str, more: &str) -> Uuid {
    let claims = database.claim_tx(1).await;
    assert_eq!(claims.len(), 1);
    database.execute(&format!("select tidegate_internal.{settle}({}{more})", leases(&claims))).await;
    claims[0].id
}

const BUSY: &str =
    r#", array['{"code": "http_503", "message": "busy", "retryable": true}']::jsonb[], array[interval '0']"#;
const ANSWERED: &str = r#", null, array['{"ok": true}']::jsonb[]"#;

/// Retries of `direct` follow at once.
const AT_ONCE: &str = "update tidegate.policy set base_ms = 0, jitter_ms = 0 where kind = 'direct' and stage = 'tx'";

/// A `direct` that was retried, given back, lost and answered: nine steps.
async fn eventful(database: &TestDatabase) -> Uuid {
    database.execute(AT_ONCE).await;
    database.submit("direct").await;
    send(database, "settle_retry", BUSY).await;
    send(database, "settle_released", "").await;
    database.claim_tx(1).await;
    database.execute("select tidegate.recover(reset_all => true, force => true)").await;
    send(database, "settle_receipt", ANSWERED).await
}

#[tokio::test(flavor = "multi_thread")]
async fn lives_that_the_functions_led_are_sound_in_every_flow_and_status() {
    let database = TestDatabase::unlimited().await;
    for kind in ["public_decrypt", "input_proof", "direct"] {
        for status in ["completed", "failure", "timed_out", "receipt_received", "tx_in_flight", "processing"] {
            let id = database.request_in(kind, status).await;
            sound(&database, id).await;
            database.execute(&format!("select tidegate.cancel('{id}')")).await;
            sound(&database, id).await;
        }
    }
    let queued = database.request_in("public_decrypt", "queued").await;
    sound(&database, queued).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn random_sequences_of_calls_leave_sound_histories() {
    let database = TestDatabase::unlimited().await;
    add_bucketed(&database).await;
    // No maintenance runs here: a deadline that passes would be missed.
    database
        .execute(
            "update tidegate.kind set deadline = '1 hour', readiness_timeout = '15 minutes', response_timeout = '30 minutes'",
        )
        .await;
    let shared = Shared::default();
    let mut random = StdRng::seed_from_u64(75);
    let mut session = Session::open(&database).await;
    for kind in KINDS {
        let ids = submit_many(&database, kind, 20).await;
        shared.ids.lock().unwrap().extend(ids);
    }
    // Short leases run out by the clock, so what lives is never quite the same: until it was no quiet life.
    let mut rounds = 0;
    loop {
        for number in 0..campaign(100, 750) {
            // Claims as often as everything else, and what only a fresh claim allows.
            let act = match number % 5 {
                0 => "claim_tx",
                1 => "claim_readiness",
                2 => "settle_retry",
                _ => ACTS[random.random_range(0..ACTS.len())],
            };
            let error = perform(act, &mut session, &shared, &mut random).await;
            assert_eq!(error, None);
        }
        let unlived = database
            .column(
                "select cause
                 from unnest(array['send_retried', 'released', 'recovered', 'completed']) as cause
                 where not exists (select from tidegate.request_event as e where cause in (e.cause, e.to_status::text))",
            )
            .await;
        rounds += 1;
        if unlived.is_empty() {
            break;
        }
        assert!(rounds < 20, "never lived: {unlived:?}");
    }

    let found = database
        .column(
            "select concat_ws(': ', r.id, r.kind, a.transition_no, a.finding)
             from tidegate.request as r
             cross join lateral tidegate.audit_replay(r.id) as a
             where a.finding is not null",
        )
        .await;
    assert!(found.is_empty(), "{found:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_eventful_life_is_sound_and_told_step_by_step() {
    let database = TestDatabase::unlimited().await.with_short_policies().await;
    let id = eventful(&database).await;

    sound(&database, id).await;
    assert_eq!(
        database
            .column(&format!(
                "select format('%s %s %s %s', transition_no, cause, attempt, after >= interval '0')
                 from tidegate.audit_replay('{id}') where transition_no is not null"
            ))
            .await,
        [
            "1 submitted 0 t",
            "2 claimed 1 t",
            "3 send_retried 1 t",
            "4 claimed 2 t",
            "5 released 1 t",
            "6 claimed 2 t",
            "7 recovered 2 t",
            "8 claimed 3 t",
            "9 receipt 3 t",
        ]
    );
    let remarks = remarks(&database, id).await;
    assert_eq!(remarks[0], "2: claimed: by policy version 3: 5 attempts of 10000 ms");
    assert!(remarks[1].contains("the rest for its turn"), "{remarks:?}");
    assert_eq!(remarks[3], "7: recovered: its sender was lost");
    let whole = database
        .value(&format!(
            "select concat_ws(' ', detail ->> 'sends', detail ->> 'w_retry_ms', detail ->> 'status')
             from tidegate.audit_replay('{id}') where transition_no is null"
        ))
        .await;
    assert_eq!(whole, "4 50000 completed");
}

#[tokio::test(flavor = "multi_thread")]
async fn attempts_are_judged_by_the_version_they_began_under() {
    let database = TestDatabase::unlimited().await;
    database.execute(AT_ONCE).await;
    database.submit("direct").await;
    for _ in 0..3 {
        send(&database, "settle_retry", BUSY).await;
    }
    database.execute("update tidegate.policy set attempts = 3 where kind = 'direct'").await;
    // More than the policy now allows: a look for a receipt is left.
    let id = send(&database, "settle_receipt", ANSWERED).await;

    sound(&database, id).await;
    // A version that held for a second before the claim, and is no accident of the moment.
    database
        .execute("update tidegate.policy_in_force set since = since - interval '10 seconds' where kind = 'direct'")
        .await;
    sound(&database, id).await;
    let remarks = remarks(&database, id).await;
    assert_eq!(
        remarks.last().unwrap().split("; ").collect::<Vec<_>>()[..2],
        ["8: claimed: by policy version 3: 3 attempts of 10000 ms", "may search for a receipt, and not send"],
        "{remarks:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_past_its_deadline_is_a_finding() {
    let database = TestDatabase::unlimited().await;
    for (kind, status, ago, said) in [
        (
            "public_decrypt",
            "queued",
            "update tidegate.request set readiness_deadline_at = clock_timestamp() - interval '61 seconds' where id = $id",
            "request_past_its_deadline",
        ),
        (
            "direct",
            "processing",
            "update tidegate.request set deadline_at = clock_timestamp() - interval '61 seconds' where id = $id",
            "request_past_its_deadline",
        ),
        (
            "direct",
            "receipt_received",
            "update tidegate.awaiting_response set due_at = clock_timestamp() - interval '61 seconds' where request_id = $id",
            "request_past_its_deadline",
        ),
    ] {
        let id = database.request_in(kind, status).await;
        let mut session = Session::open_as_superuser(&database).await;
        session.execute("begin; set local session_replication_role = replica").await;
        session.execute(&ago.replace("$id", &format!("'{id}'"))).await;
        let found = session
            .texts(&format!("select finding from tidegate.audit_replay('{id}') where finding is not null"))
            .await;
        session.rollback().await;
        assert!(found.last().is_some_and(|found| found.starts_with(said)), "{found:#?}, not {said}");
        database.execute(&format!("select tidegate.cancel('{id}')")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_was_set_back_is_a_remark() {
    let database = TestDatabase::unlimited().await;
    let id = eventful(&database).await;
    database
        .execute(&format!(
            "update tidegate.stored_event set at = at - interval '1 minute'
             where request_id = '{id}' and transition_no = 3"
        ))
        .await;

    sound(&database, id).await;
    let remarks = remarks(&database, id).await;
    assert!(remarks[1].starts_with("3: send_retried: the clock was set back by 00:00:59"), "{remarks:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_request_cannot_be_replayed() {
    let database = TestDatabase::unlimited().await;
    let replay = async |id: &str| {
        let refused = database.refused(&format!("select * from tidegate.audit_replay('{id}')")).await;
        assert_eq!(refused.code, "TG006");
        refused.message
    };
    let unknown = "00000000-0000-7000-8000-000000000000";
    assert_eq!(replay(unknown).await, format!("there is no request {unknown}"));

    let id = database.request_in("direct", "failure").await.to_string();
    database.execute(&format!("delete from tidegate.request where id = '{id}'")).await;
    assert_eq!(replay(&id).await, format!("there is no request {id} any more, only 2 steps of its history"));
}
