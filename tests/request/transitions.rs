//! Which transitions does the database allow for any writer, and which columns does it fill in?

use sqlx::PgConnection;

use crate::support::{
    TestDatabase,
    sql::{FLOWS, STATUSES, column, refused, run, value},
};

/// The specification's table of transitions, written out again.
fn is_legal(flow: &str, from: &str, to: &str) -> bool {
    match (from, to) {
        ("queued", "processing" | "timed_out" | "failure") => flow == "decrypt",
        ("processing", "tx_in_flight" | "failure") => true,
        ("tx_in_flight", "receipt_received" | "processing" | "failure") => true,
        ("tx_in_flight", "completed") => flow == "direct",
        ("receipt_received", "completed" | "failure" | "timed_out") => true,
        _ => false,
    }
}

/// The causes that the specification gives for an edge.
fn causes(flow: &str, from: &str, to: &str) -> &'static [&'static str] {
    if !is_legal(flow, from, to) {
        return &[];
    }
    match (from, to) {
        ("queued", "processing") => &["readiness_passed"],
        ("queued", "timed_out") => &["readiness_timed_out"],
        ("queued", "failure") => &["readiness_failed", "cancelled", "internal_error", "deadline_exceeded"],
        ("processing", "tx_in_flight") => &["claimed"],
        ("processing", "failure") => {
            &["send_refused", "cancelled", "internal_error", "deadline_exceeded", "attempts_exhausted"]
        }
        ("tx_in_flight", "receipt_received" | "completed") => &["receipt"],
        ("tx_in_flight", "processing") => &["recovered", "send_retried", "released"],
        ("tx_in_flight", "failure") => {
            &["rejected", "outcome_unknown", "cancelled", "internal_error", "deadline_exceeded", "attempts_exhausted"]
        }
        ("receipt_received", "completed") => match flow {
            "decrypt" => &["response", "threshold_reached"],
            "proof" => &["verdict_accepted"],
            _ => &["response"],
        },
        // "Internal failure: any non-terminal", so a proof too.
        ("receipt_received", "failure") if flow == "proof" => &["verdict_rejected", "internal_error", "rejected"],
        ("receipt_received", "failure") => &["internal_error", "rejected"],
        ("receipt_received", "timed_out") => &["response_timed_out"],
        _ => unreachable!(),
    }
}

/// Puts a request of each flow into each status, past all triggers; the id tells which is which.
async fn place_all(database: &TestDatabase, session: &mut PgConnection) {
    let mut rows = Vec::new();
    for (f, (flow, kind)) in FLOWS.iter().enumerate() {
        for (s, status) in STATUSES.iter().enumerate() {
            rows.push(format!(
                "('{}', '{kind}', '{flow}', '{status}', 'claimed', now() + interval '1 hour', '{{}}')",
                id(f, s)
            ));
        }
    }
    let sql = "insert into tidegate.request (id, kind, flow, req_status, cause, deadline_at, payload) values ";
    database.past_triggers(&(sql.to_owned() + &rows.join(", "))).await;
    // Tries a statement and undoes it: `ok`, or the SQLSTATE and message of its refusal.
    run(
        session,
        "create function pg_temp.attempt(statement text) returns text language plpgsql as $$
         begin
           execute statement;
           raise exception using errcode = 'UNDO1';
         exception
           when sqlstate 'UNDO1' then return 'ok';
           when others then return sqlstate || ' ' || sqlerrm;
         end $$",
    )
    .await;
}

fn id(flow: usize, status: usize) -> String {
    format!("00000000-0000-7000-8000-0000000000{flow}{status}")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plain_update_moves_a_request_exactly_along_the_specified_edges() {
    let database = TestDatabase::new().await;
    let mut session = database.session().await;
    place_all(&database, &mut session).await;

    for (f, (flow, _)) in FLOWS.iter().enumerate() {
        for (s, from) in STATUSES.iter().enumerate() {
            for to in STATUSES {
                let id = id(f, s);
                let outcome = value(
                    &mut session,
                    &format!(
                        "select pg_temp.attempt($$update tidegate.request set req_status = '{to}' where id = '{id}'$$)"
                    ),
                )
                .await;
                if *from == to || is_legal(flow, from, to) {
                    assert_eq!(outcome, "ok", "{flow}: {from} to {to}");
                } else {
                    assert!(outcome.starts_with("TG001 "), "{flow}: {from} to {to}: {outcome}");
                    for word in [id.as_str(), from, to] {
                        assert!(outcome.contains(word), "{flow}: {from} to {to}: {outcome}");
                    }
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_declared_update_is_allowed_only_with_a_cause_listed_for_its_edge() {
    let database = TestDatabase::new().await;
    let mut session = database.session().await;
    place_all(&database, &mut session).await;
    let mut all: Vec<&str> = FLOWS
        .iter()
        .flat_map(|(flow, _)| STATUSES.iter().map(move |from| (flow, from)))
        .flat_map(|(flow, from)| STATUSES.iter().map(move |to| causes(flow, from, to)))
        .flatten()
        .copied()
        .chain(["submitted", "", "Claimed", "nonsense"])
        .collect();
    all.sort_unstable();
    all.dedup();

    let list: Vec<_> = all.iter().map(|cause| format!("('{cause}')")).collect();

    for (f, (flow, _)) in FLOWS.iter().enumerate() {
        for (s, from) in STATUSES.iter().enumerate() {
            for to in STATUSES.iter().filter(|to| *to != from) {
                // To the guard, and past it if the trigger's condition lets it.
                let in_full = format!(", previous_status = ''{from}'', {} = ''2001-01-01''", entered(to));
                for declared in ["", in_full.as_str()] {
                    let allowed = column(
                        &mut session,
                        &format!(
                            "select cause from (values {}) as c(cause)
                             where pg_temp.attempt(format(
                               'update tidegate.request set req_status = %L, transition_no = transition_no + 1, cause = %L{declared}
                                where id = %L', '{to}', cause, '{}')) = 'ok'
                             order by cause collate \"C\"",
                            list.join(", "),
                            id(f, s)
                        ),
                    )
                    .await;
                    let mut expected = causes(flow, from, to).to_vec();
                    expected.sort_unstable();
                    assert_eq!(allowed, expected, "{flow}: {from} to {to}{declared}");
                }
            }
        }
    }
}

/// The column that says when a status was entered.
fn entered(status: &str) -> String {
    match status {
        "completed" | "timed_out" | "failure" => "finished_at".to_owned(),
        other => format!("{other}_at"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_is_declared_in_full_is_not_guarded_and_anything_less_is() {
    let database = TestDatabase::new().await;
    let mut session = database.session().await;
    place_all(&database, &mut session).await;
    let id = id(2, 1);
    assert_eq!((FLOWS[2].0, STATUSES[1]), ("direct", "processing"));
    let told = |change: &str| {
        format!(
            "with moved as (
               update tidegate.request set {change} where id = '{id}'
               returning previous_status, transition_no, cause, tx_in_flight_at = '2001-01-01' as is_mine
             )
             select concat_ws(' ', previous_status, transition_no, cause, is_mine) from moved"
        )
    };
    let claimed = "req_status = 'tx_in_flight', cause = 'claimed', tx_in_flight_at = '2001-01-01'";
    for (change, expected) in [
        (
            format!("{claimed}, transition_no = transition_no + 1, previous_status = 'processing'"),
            "processing 2 claimed t",
        ),
        (format!("{claimed}, transition_no = transition_no + 1, previous_status = 'queued'"), "processing 2 claimed f"),
        (
            format!("{claimed}, transition_no = transition_no + 2, previous_status = 'processing'"),
            "processing 2 hand_edit f",
        ),
        (format!("{claimed}, previous_status = 'processing'"), "processing 2 hand_edit f"),
    ] {
        run(&mut session, "begin").await;
        assert_eq!(value(&mut session, &told(&change)).await, expected, "{change}");
        run(&mut session, "rollback").await;
    }

    // The condition goes by the rules as they are.
    run(&mut session, "begin; delete from tidegate.transition_rule where flow = 'direct' and cause = 'claimed'").await;
    let change = format!("{claimed}, transition_no = transition_no + 1, previous_status = 'processing'");
    let refusal = refused(&mut session, &told(&change)).await;
    assert_eq!(refusal.code, "TG001", "{refusal:?}");
    run(&mut session, "rollback").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_declaration_without_a_cause_of_its_own_is_refused_by_its_stale_cause() {
    let database = TestDatabase::new().await;
    let id = database.submit("direct").await;

    let refusal = database
        .refused(&format!(
            "update tidegate.request set req_status = 'tx_in_flight', transition_no = transition_no + 1 where id = '{id}'"
        ))
        .await;

    assert_eq!(refusal.code, "TG001");
    assert!(refusal.message.contains("submitted"), "{refusal:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_starts_only_where_its_flow_starts() {
    let database = TestDatabase::new().await;
    let mut session = database.session().await;
    place_all(&database, &mut session).await;

    for (flow, kind) in FLOWS {
        for status in STATUSES {
            let statement = format!(
                "insert into tidegate.request (id, kind, flow, req_status, cause, queued_at, processing_at, deadline_at, payload)
                 values (''00000000-0000-7000-8000-00000000ffff'', ''{kind}'', ''{flow}'', ''{status}'', ''submitted'', now(), now(), now(), ''{{}}'')"
            );
            let outcome = value(&mut session, &format!("select pg_temp.attempt('{statement}')")).await;
            let expected = if flow == "decrypt" { "queued" } else { "processing" };
            if status == expected {
                assert_eq!(outcome, "ok", "{flow} as {status}");
            } else {
                assert!(outcome.starts_with("TG001 "), "{flow} as {status}: {outcome}");
                assert!(outcome.contains("00ffff") && outcome.contains(status), "{outcome}");
            }
        }
    }

    // A flow that is not its kind's, a kind that does not exist, a status that is none.
    for (kind, flow, status, code) in [
        ("direct", "'decrypt'", "'queued'", "TG001"),
        ("no_kind", "'direct'", "'processing'", "TG001"),
        ("direct", "'direct'", "null", "23502"),
    ] {
        let refusal = refused(
            &mut session,
            &format!(
                "insert into tidegate.request (id, kind, flow, req_status, deadline_at, payload)
                 values (gen_random_uuid(), '{kind}', {flow}, {status}, now(), '{{}}')"
            ),
        )
        .await;
        assert_eq!(refusal.code, code);
    }
}

/// An entry that declares itself in full passes the guard's condition; its flow and its kind are looked at all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_forged_entry_is_refused_with_all_of_its_statement() {
    let database = TestDatabase::new().await;
    let mut session = database.session().await;
    for (kind, flow, status) in [
        ("direct", "decrypt", "queued"),
        ("user_decrypt", "direct", "processing"),
        ("direct", "direct", "queued"),
        ("user_decrypt", "decrypt", "processing"),
        ("no_kind", "direct", "processing"),
    ] {
        let refusal = refused(
            &mut session,
            &format!(
                "insert into tidegate.request (id, kind, flow, req_status, cause, queued_at, processing_at, deadline_at, payload)
                 values
                   (gen_random_uuid(), 'direct', 'direct', 'processing', 'submitted', now(), now(), now(), '{{}}'),
                   ('00000000-0000-7000-8000-00000000ffff', '{kind}', '{flow}', '{status}', 'submitted', now(), now(), now(), '{{}}')"
            ),
        )
        .await;
        assert_eq!(refusal.code, "TG001", "{kind} {flow} {status}");
        assert!(refusal.message.contains("00ffff"), "{refusal:?}");
        assert_eq!(database.number("select count(*) from tidegate.request").await, 0);
    }
}

/// The guard passes what is declared in full; a status without its time is refused all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_status_without_its_time_is_refused() {
    let database = TestDatabase::new().await;
    let id = database.submit("direct").await;

    for statement in [
        "insert into tidegate.request (id, kind, flow, req_status, cause, deadline_at, payload)
         values (gen_random_uuid(), 'direct', 'direct', 'processing', 'submitted', now(), '{}')"
            .to_owned(),
        format!(
            "update tidegate.request
             set req_status = 'failure', cause = 'cancelled', transition_no = transition_no + 1,
               previous_status = req_status, queue = null, msg_id = null
             where id = '{id}'"
        ),
    ] {
        let refusal = database.refused(&statement).await;
        assert_eq!(refusal.code, "TG001", "{statement}: {refusal:?}");
    }
    assert_eq!(database.number("select count(*) from tidegate.request where req_status = 'processing'").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_is_recorded_at_its_own_time_whatever_was_given() {
    let database = TestDatabase::new().await;
    for times in ["'infinity', null", "'1999-01-01', '1990-01-01'"] {
        database
            .execute(&format!(
                "insert into tidegate.request (id, kind, flow, req_status, cause, processing_at, queued_at, deadline_at, payload)
                 values (tidegate_internal.uuid_v7(), 'direct', 'direct', 'processing', 'submitted', {times}, now(), '{{}}')"
            ))
            .await;
    }
    let late = "select count(*) from tidegate.request_event where at between now() - interval '1 minute' and now()";
    assert_eq!(database.number(late).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_by_hand_is_labelled_and_has_no_other_history() {
    let database = TestDatabase::new().await;
    for (column, value) in [
        ("previous_status", "'completed'"),
        ("transition_no", "17"),
        ("cause", "'verdict_accepted'"),
        ("queued_at", "now()"),
    ] {
        let time = if column == "queued_at" { "null" } else { "now()" };
        let refusal = database
            .refused(&format!(
                "insert into tidegate.request (id, kind, flow, req_status, processing_at, {column}, deadline_at, payload)
                 values (tidegate_internal.uuid_v7(), 'direct', 'direct', 'processing', {time}, {value}, now(), '{{}}')"
            ))
            .await;
        assert_eq!(refusal.code, "TG001", "{column}");
    }

    database
        .execute(
            "insert into tidegate.request (id, kind, flow, req_status, processing_at, deadline_at, payload)
             values (tidegate_internal.uuid_v7(), 'direct', 'direct', 'processing', now(), now() + interval '1 hour', '{}')",
        )
        .await;

    assert_eq!(
        database
            .value("select row(previous_status, transition_no, cause, processing_at > now() - interval '1 minute')::text from tidegate.request")
            .await,
        "(,1,hand_edit,t)"
    );
    assert_eq!(
        database
            .value("select row(from_status, to_status, transition_no, cause, detail ->> 'session_user' = session_user)::text from tidegate.request_event")
            .await,
        "(,processing,1,hand_edit,t)"
    );
}
