//! Is each end told as executed, not executed or unknown, as its sends show; and what follows for its key and its error?

use std::{collections::BTreeSet, fmt};

use crate::support::{
    TestDatabase,
    race::{Session, sound},
};

/// A way to end a request.
struct End {
    kind: &'static str,
    /// The status in which it ends the request.
    from: &'static str,
    cause: &'static str,
    /// What changes before the last claim.
    change: &'static str,
    /// How it is ended: `$i` is the id, `$l` the lease of a check or a send.
    by: &'static str,
    /// What is known then, and what is known if an earlier send may have been executed; empty: it cannot be.
    executed: [&'static str; 2],
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} by {}", self.from, self.cause, self.by)
    }
}

fn end(of: [&'static str; 3], by: &'static str, executed: [&'static str; 2]) -> End {
    let [kind, from, cause] = of;
    let change = match (from, cause) {
        ("processing", "attempts_exhausted") => "semantics = 'at_most_once'",
        ("tx_in_flight", "attempts_exhausted") => "attempts = 1",
        ("tx_in_flight", "outcome_unknown") => "retry_on = '{5xx}'",
        _ => "attempts = attempts",
    };
    End { kind, from, cause, change, by, executed }
}

fn ends() -> Vec<End> {
    let check = |cause, by| end(["public_decrypt", "queued", cause], by, ["no", ""]);
    let wait = |cause, by| end(["direct", "processing", cause], by, ["no", "unknown"]);
    let send = |cause, by, executed| end(["direct", "tx_in_flight", cause], by, executed);
    let taken = |kind, cause, by, executed| end([kind, "receipt_received", cause], by, executed);
    let (no, yes, unknown) = (["no", "unknown"], ["yes", "yes"], ["unknown", "unknown"]);
    vec![
        check("readiness_timed_out", "tidegate.time_out('{$i}')"),
        check("readiness_failed", "tidegate_internal.settle_failed(array[$l], null)"),
        check("cancelled", "tidegate.cancel('$i')"),
        check("internal_error", "tidegate.fail_request('$i', 'lost')"),
        check("deadline_exceeded", "tidegate.expire_by_deadline()"),
        wait("send_refused", "tidegate.fail_tx('{$i}')"),
        wait("cancelled", "tidegate.cancel('$i')"),
        wait("internal_error", "tidegate.fail_request('$i', 'lost')"),
        wait("deadline_exceeded", "tidegate.expire_by_deadline()"),
        end(
            ["direct", "processing", "attempts_exhausted"],
            "tidegate.claim_tx('tx', 'w', 1, '1 minute')",
            ["", "unknown"],
        ),
        send("rejected", "tidegate_internal.settle_rejected(array[$l], null)", no),
        send("rejected", "tidegate_internal.settle_rejected(array[$l], null, hedges => '{1}')", unknown),
        send("rejected", "tidegate.fail_tx('{$i}')", unknown),
        send(
            "rejected",
            r#"tidegate_internal.settle_retry(array[$l], array['{"code": "http_422", "message": "no"}'::jsonb])"#,
            no,
        ),
        send(
            "rejected",
            r#"tidegate_internal.settle_rejected(array[$l], array['{"code": "unstorable_response", "message": "no"}'::jsonb])"#,
            yes,
        ),
        send("outcome_unknown", "tidegate_internal.settle_retry(array[$l], null)", unknown),
        send("internal_error", "tidegate.fail_request('$i', 'lost')", unknown),
        send("deadline_exceeded", "tidegate.expire_by_deadline()", unknown),
        send("deadline_exceeded", "tidegate_internal.settle_retry(array[$l], null, may_have_left => '{false}')", no),
        send("attempts_exhausted", "tidegate_internal.settle_retry(array[$l], null)", unknown),
        send("cancelled", "tidegate.cancel('$i'); select tidegate_internal.settle_retry(array[$l], null)", unknown),
        send(
            "cancelled",
            "tidegate.cancel('$i'); select tidegate_internal.settle_retry(array[$l], null, may_have_left => '{false}')",
            no,
        ),
        send("cancelled", "tidegate.cancel('$i'); select tidegate_internal.settle_released(array[$l])", no),
        send(
            "cancelled",
            "tidegate.cancel('$i'); update tidegate.claim set until = clock_timestamp() - interval '1 s'; \
             select tidegate.claim_tx('tx', 'w', 1, '1 minute')",
            unknown,
        ),
        send("cancelled", "tidegate.cancel('$i'); delete from tidegate.claim; select tidegate.recover()", unknown),
        taken("direct", "internal_error", "tidegate.fail_request('$i', 'lost')", unknown),
        taken("direct", "response_timed_out", "tidegate.time_out('{$i}')", unknown),
        taken("direct", "rejected", "tidegate.fail_receipt('$i', null)", ["no", "no"]),
        taken("input_proof", "verdict_rejected", "tidegate.respond('1', '$i', accept => false)", yes),
        taken("input_proof", "verdict_rejected", "tidegate.fail_tx('{$i}')", unknown),
    ]
}

/// Submits a request under the key `k` and ends it, after a send that may have been executed, if `again`; its id.
async fn ended(database: &TestDatabase, end: &End, again: bool) -> String {
    let mut session = Session::open(database).await;
    session.execute("update tidegate.policy set base_ms = 0, jitter_ms = 0 where base_ms > 0").await;
    let id = session.text(&format!("select id from tidegate.submit('{}', '1', 'k')", end.kind)).await;
    if again {
        let held = session.claim("tx", 1).await;
        let lost = format!(
            "select req_status from tidegate_internal.settle_retry(array['{}'::tidegate.lease], null, array[interval '0'])",
            held[0].lease
        );
        assert!(session.text(&lost).await.ends_with("processing"));
    }
    database
        .execute(&format!("update tidegate.policy set {} where kind = '{}' and stage = 'tx'", end.change, end.kind))
        .await;
    let queue = match end.from {
        "queued" => end.by.contains("$l").then_some("readiness"),
        "processing" => None,
        _ => Some("tx"),
    };
    let mut lease = String::new();
    if let Some(queue) = queue {
        lease = format!("'{}'::tidegate.lease", session.claim(queue, 1).await[0].lease);
    }
    if end.from == "receipt_received" {
        session.texts(&format!("select id from tidegate_internal.settle_receipt(array[{lease}], array['r'])")).await;
    }
    if end.cause == "deadline_exceeded" {
        database.execute("update tidegate.request set deadline_at = clock_timestamp() - interval '1 s'").await;
    }
    database.execute(&format!("select {}", end.by.replace("$l", &lease).replace("$i", &id))).await;
    assert_eq!(
        database
            .value(&format!("select previous_status || ' ' || cause from tidegate.request where id = '{id}'"))
            .await,
        format!("{} {}", end.from, end.cause),
        "{end}"
    );
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_known_of_an_end_decides_about_its_key_its_error_and_its_text() {
    for end in ends() {
        for (again, executed) in end.executed.into_iter().enumerate() {
            if executed.is_empty() {
                continue;
            }
            let database = TestDatabase::unlimited().await;
            database
                .execute("update tidegate.kind set key_after_unknown = 'window' where key_after_unknown = 'free'")
                .await;
            let id = ended(&database, &end, again == 1).await;
            let what = format!("{end}, {again} sends before");
            let fact = format!("select tidegate.executed(r) from tidegate.request as r where r.id = '{id}'");
            assert_eq!(database.value(&fact).await, executed, "{what}");
            let error = |member: &str| format!("select error ->> '{member}' from tidegate.request where id = '{id}'");
            let message = database.value(&error("message")).await;
            assert_eq!(message.contains("may have been executed"), executed == "unknown", "{what}: {message}");
            if executed != "no" {
                assert_eq!(database.value(&error("retryable")).await, "false", "{what}");
            }

            let again = format!("select outcome from tidegate.submit('{}', '1', 'k')", end.kind);
            let stands = if executed == "no" { "accepted" } else { "replayed" };
            assert_eq!(database.value(&again).await, stands, "{what}");
            sound(&database).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_end_that_the_rules_allow_is_among_them_and_in_the_manual() {
    let database = TestDatabase::new().await;
    let rules = database
        .column(
            "select distinct concat_ws(' ', from_status, cause) from tidegate.transition_rules()
             where to_status in ('failure', 'timed_out')",
        )
        .await;
    let rules: BTreeSet<_> = rules.into_iter().collect();
    let known: BTreeSet<_> = ends().iter().map(|end| format!("{} {}", end.from, end.cause)).collect();
    assert_eq!(rules, known);

    let manual = include_str!("../../docs/state-machine.md");
    let (_, table) = manual.split_once("## What was executed").unwrap();
    let (table, _) = table.split_once("\n## ").unwrap();
    let mut told = BTreeSet::new();
    for line in table.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        let plain = |cell: &str| cell.replace('`', "");
        for word in cells[1].split('`') {
            let end = format!("{} {word}", plain(cells[0]));
            if rules.contains(&end) {
                told.insert((end, plain(cells[2]), plain(cells[3])));
            }
        }
    }
    let word = |executed: &str| if executed.is_empty() { "–" } else { executed }.to_owned();
    for end in ends() {
        let row = (format!("{} {}", end.from, end.cause), word(end.executed[0]), word(end.executed[1]));
        assert!(told.contains(&row), "{end}: {row:?} is not among {told:?}");
    }
    let told: BTreeSet<_> = told.into_iter().map(|(end, ..)| end).collect();
    assert_eq!(told, rules);
}

/// A request of `direct` under the key `k` whose only send was lost, long ago.
async fn lost_long_ago(database: &TestDatabase) -> String {
    let lost = end(["direct", "tx_in_flight", "internal_error"], "tidegate.fail_request('$i', 'lost')", ["", ""]);
    database.stop_clock().await;
    let id = ended(database, &lost, false).await;
    database.execute("update public.test_clock set at = at + interval '1 year'").await;
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_stands_longer_than_its_window_is_kept_and_then_deleted() {
    let database = TestDatabase::unlimited().await;
    let again = "select outcome from tidegate.submit('direct', '1', 'k')";
    let expire = "select expired from tidegate.expire_keys()";
    let due = "update tidegate.dedup set first_seen = now() - dedup_window, expires_at = now()";
    database.execute(again).await;
    database.execute(due).await;
    // Its request lives.
    assert_eq!(database.number(expire).await, 0);
    assert_eq!(database.value(again).await, "replayed");
    database.answer_all().await;
    assert_eq!(database.number(expire).await, 0, "it is examined again later");
    database.execute(due).await;
    assert_eq!(database.number(expire).await, 1);
    assert_eq!(database.value(again).await, "accepted");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_decides_how_long_a_key_stands_for_what_may_have_been_executed() {
    let again = "select outcome from tidegate.submit('direct', '1', 'k')";
    for (setting, stands, kept) in [("window", "accepted", 0), ("resolved", "replayed", 1), ("free", "accepted", 0)] {
        let database = TestDatabase::unlimited().await;
        database
            .execute(&format!("update tidegate.kind set key_after_unknown = '{setting}', retention = '30 days'"))
            .await;
        lost_long_ago(&database).await;
        let expire = "select expired from tidegate.expire_keys()";
        assert_eq!(database.number(expire).await, 1 - kept, "{setting}");
        database.execute("select tidegate.expire_requests()").await;
        assert_eq!(database.number("select count(*) from tidegate.request").await, kept, "{setting}");
        assert_eq!(database.value(again).await, stands, "{setting}");
    }

    let database = TestDatabase::new().await;
    for semantics in ["at_most_once", "exactly_once"] {
        let refused = database
            .refused(&format!(
                "update tidegate.policy set semantics = '{semantics}' where kind = 'direct' and stage = 'tx';
                 update tidegate.kind set key_after_unknown = 'free' where name = 'direct'"
            ))
            .await;
        assert_eq!(refused.constraint, "kind_key_is_free_only_where_sends_may_be_repeated");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_a_key_stands_for_is_not_deleted() {
    let database = TestDatabase::unlimited().await;
    let delete = |id: &str| format!("delete from tidegate.request where id = '{id}'");
    let unsent = database.submit("direct").await.to_string();
    database.execute(&format!("select tidegate.cancel('{unsent}')")).await;
    database.execute(&delete(&unsent)).await;

    let mut session = Session::open(&database).await;
    let first = session.text("select id from tidegate.submit('direct', '1', 'k')").await;
    database.execute(&format!("select tidegate.fail_request('{first}', 'lost')")).await;
    database.execute("select tidegate.redrive()").await;
    let second = session.text("select redriven_as from tidegate.redrive").await;
    // The key leads through the first to the second.
    for live in [true, false] {
        let refused = database.refused(&delete(&first)).await;
        assert_eq!(refused.code, "TG001", "{refused:?}");
        assert!(refused.message.contains("\"k\"") && refused.message.contains(&second), "{refused:?}");
        if live {
            database.answer_all().await;
        }
    }
    assert_eq!(database.refused(&delete(&second)).await.code, "TG001");
    database.execute("delete from tidegate.dedup").await;
    database.execute("delete from tidegate.request").await;
    assert_eq!(database.number("select count(*) from tidegate.outcome").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_late_yes_and_a_new_acceptance_under_one_key_the_first_one_counts() {
    for (commits, payload, expected) in
        [(true, 1, Ok("replayed")), (true, 2, Err("TG004")), (false, 1, Ok("accepted")), (false, 2, Ok("accepted"))]
    {
        let database = TestDatabase::unlimited().await;
        let mut session = Session::open(&database).await;
        let id = session.text("select id from tidegate.submit('direct', '1', 'k')").await;
        let held = session.claim("tx", 1).await;
        let refused = format!(
            "select id from tidegate_internal.settle_rejected(array['{}'::tidegate.lease], null)",
            held[0].lease
        );
        session.texts(&refused).await;

        // It turns out that it was executed, while a caller repeats it.
        let mut other = Session::begin(&database).await;
        other
            .execute(&format!(
                "select from tidegate.request where id = '{id}' for update;
                 insert into tidegate.outcome (request_id, kind, executed, source)
                 values ('{id}', 'direct', 'yes', 'response')"
            ))
            .await;
        let again = format!("select outcome from tidegate.submit('direct', '{payload}', 'k')");
        let second = Session::open(&database).await.start(&again);
        second.until_blocked_by(&database, &other).await;
        other.execute(if commits { "commit" } else { "rollback" }).await;
        let said = second.outcome().await.1;
        let said = said.as_ref().map(|rows| &*rows[0]).map_err(|(code, _)| &**code);
        assert_eq!(said, expected, "{commits} {payload}");
        assert_eq!(database.number("select count(*) from tidegate.dedup").await, 1);
    }
}
