//! An application's foreign key or trigger refuses a row: does every duty go on with the others, say so, and come back?

use uuid::Uuid;

use crate::support::{
    TestDatabase, campaign,
    race::{NOTHING, Session, sound},
};

/// A trigger of an application that refuses to end or to delete the requests of this payload.
const REFUSES: &str = "create function public.refuses() returns trigger language plpgsql as $$
     begin
       if old.payload = '\"bad\"' and (tg_op = 'DELETE' or new.finished_at is not null) then
         raise exception 'an order needs it';
       end if;
       return case tg_op when 'DELETE' then old else new end;
     end $$;
     create trigger refuses before update or delete on tidegate.request for each row execute function public.refuses()";

const ALLOWS: &str = "drop trigger refuses on tidegate.request";

/// What the doctor finds.
const VIOLATIONS: &str = "select name, samples from tidegate.invariant_violation order by name";

/// What the duties pass over, and why.
const PASSED_OVER: &str =
    "select duty, passed_over, passed_over_error from tidegate.maintenance_overview where passed_over > 0";

/// The notes of what is passed over are due.
const TRY_AGAIN: &str = "update tidegate.passed_over set retry_at = now()";

async fn submit(session: &mut Session, kind: &str, payload: &str, count: i32) -> Vec<Uuid> {
    let ids =
        format!("select id from tidegate.submit_batch('{kind}', array_fill('\"{payload}\"'::jsonb, array[{count}]))");
    let ids = session.texts(&ids).await;
    ids.iter().map(|id| id.parse().unwrap()).collect()
}

/// Runs the duties until they find no more to do.
async fn maintain(database: &TestDatabase) {
    for _ in 0..10 {
        database.execute("update tidegate.maintenance set ran_at = '-infinity'").await;
        database.execute("call tidegate.maintain()").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_deadline_fires_for_all_but_the_requests_that_cannot_end() {
    for (kind, column, cause, duty) in [
        ("direct", "deadline_at", "deadline_exceeded", "expire_by_deadline"),
        ("public_decrypt", "readiness_deadline_at", "readiness_timed_out", "expire_by_readiness"),
    ] {
        let database = TestDatabase::unlimited().await;
        let mut session = Session::open(&database).await;
        // More than a batch of a sweep, and before the others.
        let bad = campaign(1050, 1500);
        submit(&mut session, kind, "bad", bad).await;
        submit(&mut session, kind, "good", 10).await;
        session
            .execute(&format!(
                "update tidegate.request set {column} = now() - interval '1 minute' where payload = '\"bad\"';
                 update tidegate.request set {column} = now() - interval '1 second' where payload = '\"good\"';
                 {REFUSES}"
            ))
            .await;

        maintain(&database).await;

        let ended = format!("select count(*) from tidegate.request where cause = '{cause}'");
        assert_eq!(session.text(&ended).await, "10", "{duty}");
        assert_eq!(session.texts(PASSED_OVER).await, [format!("{duty} {bad} an order needs it")]);
        let late = "select duty from tidegate.maintenance_overview where overdue > '10 s' or error is not null";
        assert_eq!(session.texts(late).await, NOTHING);
        let found = session.texts(VIOLATIONS).await.join("\n");
        assert!(found.contains("request_passed_over") && found.contains("an order needs it"), "{found}");

        // A recovery ends, too.
        let recovered = session.texts("select expired, next_after from tidegate.recover_deadlines(2000)").await;
        assert_eq!(recovered, ["0 "]);

        // None is tried before its time; then all are.
        session.execute(ALLOWS).await;
        maintain(&database).await;
        assert_eq!(session.text(&ended).await, "10");
        session.execute(TRY_AGAIN).await;
        maintain(&database).await;
        assert_eq!(session.text(&ended).await, (bad + 10).to_string());
        assert_eq!(session.texts(PASSED_OVER).await, NOTHING);
        sound(&database).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_has_ended_otherwise_or_has_more_time_is_not_tried_again() {
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;
    let ids = submit(&mut session, "direct", "bad", 2).await;
    session.execute(&format!("update tidegate.request set deadline_at = now() - interval '1 minute'; {REFUSES}")).await;
    maintain(&database).await;
    session.execute(ALLOWS).await;
    session
        .execute(&format!(
            "update tidegate.request set deadline_at = now() + interval '1 hour' where id = '{}';
             select tidegate.fail_internal(array['{}'::uuid]); {TRY_AGAIN}",
            ids[0], ids[1]
        ))
        .await;

    maintain(&database).await;

    assert_eq!(session.texts("select from tidegate.passed_over").await, NOTHING);
    assert_eq!(
        session.texts("select req_status, cause from tidegate.request order by id").await,
        ["processing submitted", "failure internal_error"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn responses_time_out_and_early_ones_are_applied_for_all_but_the_requests_that_refuse() {
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;
    submit(&mut session, "direct", "bad", 30).await;
    submit(&mut session, "direct", "good", 30).await;
    session
        .execute(&format!(
            "select tidegate_internal.settle_receipt(array_agg(c.lease)) from tidegate.claim_tx('tx', 'w', 100, '1 minute') as c;
             {REFUSES};
             insert into tidegate.response_inbox (request_id, response)
             select id, '1' from (select id, row_number() over (partition by payload order by id) as n from tidegate.request) as r
             where n <= 10;
             update tidegate.awaiting_response set due_at = now() - interval '1 second'
             where request_id not in (select request_id from tidegate.response_inbox)"
        ))
        .await;

    maintain(&database).await;

    assert_eq!(
        session.texts("select payload, cause, count(*) from tidegate.request group by 1, 2 order by 1, 2").await,
        ["\"bad\" receipt 30", "\"good\" response 10", "\"good\" response_timed_out 20"]
    );
    assert_eq!(
        session.texts(PASSED_OVER).await,
        ["expire_responses 20 an order needs it", "sweep_inbox 10 an order needs it"]
    );

    session.execute(ALLOWS).await;
    session.execute(TRY_AGAIN).await;
    maintain(&database).await;
    assert_eq!(
        session.texts("select cause, count(*) from tidegate.request group by 1 order by 1").await,
        ["response 20", "response_timed_out 40"]
    );
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_take_the_others_of_a_queue_whose_first_request_cannot_end() {
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;
    let bad = submit(&mut session, "direct", "bad", 5).await;
    submit(&mut session, "direct", "good", 5).await;
    // Three have used up their attempts under a lease that has run out, the others wait and are late.
    session
        .execute(&format!(
            "update tidegate.policy set attempts = 1 where kind = 'direct' and stage = 'tx';
             select from tidegate.claim_tx('tx', 'lost', 3, '10 ms'); select pg_sleep(0.02);
             select from tidegate.claim_tx('tx', 'lost', 3, '10 ms'); select pg_sleep(0.02);
             update tidegate.request set deadline_at = now() - interval '1 second' where id in ('{}', '{}');
             {REFUSES}",
            bad[3], bad[4]
        ))
        .await;

    let mut claimed = Vec::new();
    for _ in 0..5 {
        claimed.extend(session.claim("tx", 2).await);
    }

    assert_eq!(claimed.len(), 5, "all that are good");
    let noted = "select count(*) from tidegate.passed_over where duty = 'expire_by_deadline'";
    assert_eq!(session.text(noted).await, "5");
    session
        .execute(&format!(
            "{ALLOWS}; update tidegate.request set deadline_at = now() - interval '1 second' where payload = '\"bad\"'; {TRY_AGAIN}"
        ))
        .await;
    maintain(&database).await;
    assert_eq!(
        session.texts("select req_status, count(*) from tidegate.request where payload = '\"bad\"' group by 1").await,
        ["failure 5"]
    );
    assert_eq!(session.texts(VIOLATIONS).await, NOTHING);
}

#[tokio::test(flavor = "multi_thread")]
async fn deliveries_expire_but_for_those_that_an_application_keeps() {
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;
    let ids = submit(&mut session, "direct", "good", 5).await;
    session
        .execute(&format!(
            "insert into tidegate.webhook_delivery (request_id, id, url, host_port, state, finished_at)
             select r.id, r.id, 'https://a.example/', 'a.example:443', 'delivered', now() - interval '1 year'
             from tidegate.request as r;
             create table public.receipt (request_id uuid references tidegate.webhook_delivery);
             insert into public.receipt values ('{}')",
            ids[2]
        ))
        .await;

    maintain(&database).await;

    let left = "select request_id from tidegate.webhook_delivery";
    assert_eq!(session.texts(left).await, [ids[2].to_string()]);
    let over = session.texts(PASSED_OVER).await;
    assert!(over[0].starts_with("expire_webhooks 1 update or delete on table"), "{over:?}");
    session.execute("drop table public.receipt").await;
    session.execute(TRY_AGAIN).await;
    maintain(&database).await;
    assert_eq!(session.texts(left).await, NOTHING);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_that_says_nothing_of_a_request_is_the_duty_s() {
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;
    for (code, noted) in
        [("40P01", 0), ("53100", 0), ("55P03", 0), ("25006", 0), ("23503", 1), ("P0001", 1), ("XX001", 1)]
    {
        let raises = format!("do $$ begin raise exception using errcode = '{code}'; end $$");
        let tried = format!(
            "select tidegate_internal.try_each('expire_by_deadline', array[gen_random_uuid()], $a$ {raises} $a$)"
        );
        let said = session.attempt(&tried).await;
        assert_eq!(said.is_ok(), noted == 1, "{code}: {said:?}");
        let notes =
            session.text("with gone as (delete from tidegate.passed_over returning 1) select count(*) from gone").await;
        assert_eq!(notes, noted.to_string(), "{code}");
    }
}
