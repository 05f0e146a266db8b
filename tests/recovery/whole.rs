//! Does a whole run of `tidegate recover` put everything right, say so, and bear company and being killed?

use std::process::Stdio;

use serde_json::Value;

use crate::{
    cli::commands::{err, out, run, tidegate},
    support::{
        TestDatabase, eventually,
        race::{Session, a_bit_of_everything, expire_leases, history, line, receipt, sound, submit_many},
        until_blocked,
    },
};

async fn recover(database: &TestDatabase, arguments: &[&str]) -> (Option<i32>, Value) {
    let arguments = [&["recover", "--json"], arguments].concat();
    let output = run(&database.url, &arguments).await;
    let summary = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}{}", out(&output), err(&output)));
    (output.status.code(), summary)
}

/// The figures that are not 0, in the order of their names.
fn figures(summary: &Value) -> Vec<String> {
    let counts = summary.as_object().unwrap().iter();
    counts
        .filter(|(name, _)| !["run", "examined"].contains(&name.as_str()))
        .filter_map(|(name, value)| match value {
            Value::Number(count) if count.as_i64() != Some(0) => Some(format!("{name} {count}")),
            Value::Array(list) if ["counts", "storages"].contains(&name.as_str()) && !list.is_empty() => {
                Some(format!("{name} {}", list.len()))
            }
            _ => None,
        })
        .collect()
}

/// Something of everything that may be wrong.
pub(super) async fn wreck(database: &TestDatabase) {
    receipt(database, "direct", Some("ref")).await;
    let mut session = a_bit_of_everything(database).await;
    database.execute("select tidegate.quota_set(kind => 'input_proof', high_water => 1000)").await;
    session
        .execute(
            "delete from tidegate.quota_usage;
             select pgmq.drop_queue('tx');
             delete from tidegate.claim where queue = 'tx'",
        )
        .await;
    database
        .past_triggers(
            "update tidegate.request set deadline_at = clock_timestamp() - interval '1 day'
             where id = (select id from tidegate.request where req_status = 'processing' and kind = 'direct' limit 1);
             update tidegate.request set readiness_deadline_at = null
             where id = (select id from tidegate.request where req_status = 'queued' limit 1);
             delete from tidegate.awaiting_response
             where request_id = (select id from tidegate.request where reference is null and req_status = 'receipt_received');
             insert into tidegate.request_count_delta (kind, req_status, delta) values ('direct', 'completed', 7);
             insert into tidegate.response_inbox (reference, response) values ('ref', '1');
             insert into pgmq.q_readiness (vt, message) values ('-infinity', '{}');
             -- Behind every sweep.
             update tidegate.maintenance set cursor_at = clock_timestamp()",
        )
        .await;
}

pub(super) const FOUND: [&str; 9] = [
    "counted 2",
    "counts 1",
    "dated 2",
    "expired 1",
    "rebuilt 6",
    "reset 2",
    "responses 1",
    "storages 1",
    "strays_removed 1",
];

#[tokio::test(flavor = "multi_thread")]
async fn everything_that_is_wrong_is_put_right_and_on_record() {
    let database = TestDatabase::unlimited().await;
    wreck(&database).await;

    let (code, summary) = recover(&database, &[]).await;

    assert_eq!(code, Some(3));
    assert_eq!(figures(&summary), FOUND, "{summary:#}");
    sound(&database).await;
    let figures_of = format!(
        "select figures ->> 'rebuilt' || ' ' || (figures ->> 'dated') || ' ' || (ended_at >= began_at) || ' ' || (options ->> 'batch')
         from tidegate.recovery where id = {}",
        summary["run"]
    );
    assert_eq!(database.text(&figures_of).await.as_deref(), Some("6 2 true 1000"));
    // And there is nothing left to do.
    let (code, summary) = recover(&database, &[]).await;
    assert_eq!(code, Some(0), "{summary:#}");
    assert_eq!(figures(&summary), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_says_all_of_it_and_leaves_no_trace() {
    let database = TestDatabase::unlimited().await;
    wreck(&database).await;
    let tables = database
        .text(
            "select string_agg(format('select %L || row(t.*)::text from %s as t', c.oid::regclass, c.oid::regclass), ' union all ')
             from pg_class as c
             where c.relkind in ('r', 'S') and c.relnamespace in ('tidegate'::regnamespace, 'pgmq'::regnamespace)",
        )
        .await
        .unwrap();
    let everything = format!("select string_agg(x, '\n' order by x) from ({tables}) as all_of_it(x)");
    let before = database.text(&everything).await;

    let (code, summary) = recover(&database, &["--dry-run"]).await;

    assert_eq!(code, Some(3));
    assert_eq!(figures(&summary), FOUND, "{summary:#}");
    assert_eq!(summary["run"], Value::Null);
    assert!(database.text(&everything).await == before, "it left a trace");
    let (_, done) = recover(&database, &[]).await;
    let sorted = |summary: &Value| {
        let mut ids: Vec<_> = summary["ids"].as_array().unwrap().iter().map(Value::to_string).collect();
        ids.sort();
        ids
    };
    assert_eq!(sorted(&summary), sorted(&done));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_lists_what_recovery_has_corrected() {
    let database = TestDatabase::unlimited().await;
    wreck(&database).await;

    let said = run(&database.url, &["recover", "--dry-run"]).await;
    let said = out(&said);
    for words in [
        "queue tx without its table, its counters or free numbers, would be made",
        "1 past their deadline, would be ended",
        "2 without a deadline, would be given one",
        "2 lost in flight, would be reset to processing",
        "6 without a message, would be rebuilt",
        "2 not counted at their quotas, would be counted",
        "1 messages without a live request, would be removed",
        "1 early responses, would be applied",
        "direct completed: counted 7, there are 0, would be corrected",
    ] {
        assert!(said.contains(words), "{words}:\n{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_or_a_limit_narrows_it() {
    let database = TestDatabase::unlimited().await;
    submit_many(&database, "input_proof", 5).await;
    submit_many(&database, "direct", 5).await;
    database
        .execute(
            "delete from pgmq.q_tx;
             insert into pgmq.q_readiness (vt, message) values ('-infinity', '{}')",
        )
        .await;

    let (_, summary) = recover(&database, &["--kind", "input-proof"]).await;
    assert_eq!(figures(&summary), ["rebuilt 5"]);
    // What is sound counts for nothing.
    let limited = ["--limit", "3", "--batch", "2"];
    let (_, summary) = recover(&database, &limited).await;
    assert_eq!((figures(&summary), summary["examined"].as_i64()), (vec!["rebuilt 3".to_owned()], Some(8)));
    let (_, summary) = recover(&database, &limited).await;
    assert_eq!(figures(&summary), ["rebuilt 2"]);
    let unknown = run(&database.url, &["recover", "--kind", "nope"]).await;
    assert_eq!(unknown.status.code(), Some(1));
    assert!(err(&unknown).contains("there is no kind"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_whose_sequence_was_set_back_takes_messages_again() {
    let database = TestDatabase::unlimited().await;
    submit_many(&database, "direct", 3).await;
    database.execute("select setval('pgmq.q_tx_msg_id_seq', 1)").await;
    let mut session = Session::open(&database).await;
    session.attempt("select tidegate.submit('direct', '{}')").await.unwrap_err();

    let (status, summary) = recover(&database, &["--dry-run"]).await;
    assert_eq!((status, figures(&summary)), (Some(3), vec!["storages 1".to_owned()]));
    let (_, summary) = recover(&database, &[]).await;
    assert_eq!(figures(&summary), ["storages 1"]);

    database.submit("direct").await;
    let (status, summary) = recover(&database, &[]).await;
    assert_eq!((status, figures(&summary)), (Some(0), Vec::new()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_that_was_filled_past_its_mark_closes_and_an_emptied_one_opens() {
    let database = TestDatabase::unlimited().await;
    submit_many(&database, "direct", 40).await;
    submit_many(&database, "public_decrypt", 5).await;
    database
        .execute(
            "delete from pgmq.q_tx;
             update tidegate.gate set high_water = 30, low_water = 15;
             update tidegate.gate set state = 'too_many_requests', epoch = epoch + 1 where queue = 'readiness'",
        )
        .await;

    let (_, summary) = recover(&database, &[]).await;

    assert_eq!(figures(&summary), ["gates 1", "rebuilt 40"]);
    assert_eq!(
        database
            .text("select string_agg(name || ' ' || state, ', ' order by name) from tidegate.gate")
            .await
            .as_deref(),
        Some("readiness accepting, tx too_many_requests")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn two_at_once_with_workers_beside_them_bring_each_request_back_once() {
    let database = TestDatabase::unlimited().await;
    let ids = submit_many(&database, "direct", 600).await;
    let mut session = Session::open(&database).await;
    session.claim("tx", 200).await;
    expire_leases(&database, "tx").await;
    let before = line(&mut session, "tx").await;
    database.execute("delete from pgmq.q_tx where msg_id % 2 = 0").await;
    let mut worker = Session::open(&database).await;
    let claims = tokio::spawn(async move {
        let mut claimed = 0;
        for _ in 0..20 {
            claimed += worker.claim("tx", 5).await.len();
        }
        claimed
    });

    let arguments = ["--batch", "50"];
    let ((_, one), (_, other)) = tokio::join!(recover(&database, &arguments), recover(&database, &arguments));
    let claimed = claims.await.unwrap();

    let rebuilt = one["rebuilt"].as_i64().unwrap() + other["rebuilt"].as_i64().unwrap();
    assert_eq!(rebuilt, 200, "{one:#} {other:#}");
    assert_eq!(line(&mut session, "tx").await, before);
    assert_eq!(claimed, 100);
    let runs = database.number("select count(*) from tidegate.recovery where ended_at is not null").await;
    assert_eq!(runs, 2);
    sound(&database).await;
    assert!(history(&database, ids[599]).await == "submitted");
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_half_way_it_has_done_whole_batches_and_the_next_run_does_the_rest() {
    let database = TestDatabase::unlimited().await;
    let ids = submit_many(&database, "direct", 400).await;
    let mut session = Session::open(&database).await;
    let before = line(&mut session, "tx").await;
    database.execute("delete from pgmq.q_tx").await;
    // It stops at this row, in the middle of a batch.
    let mut editor = Session::begin(&database).await;
    editor.execute(&format!("select from tidegate.request where id = '{}' for update", ids[205])).await;
    let mut process = tidegate(&database.url).args(["recover", "--batch", "10"]).stdout(Stdio::null()).spawn().unwrap();
    until_blocked(&database, 1).await;
    assert_eq!(database.number("select count(*) from pgmq.q_tx").await, 200);
    process.kill().await.unwrap();
    editor.rollback().await;
    eventually("its last batch is over", || async {
        let others = "select count(*) from pg_stat_activity
                      where datname = current_database() and state = 'active' and pid <> pg_backend_pid()";
        database.number(others).await == 0
    })
    .await;

    let died = "select figures ->> 'rebuilt' from tidegate.recovery where ended_at is null";
    let done: i64 = database.text(died).await.unwrap().parse().unwrap();
    assert!((200..=210).contains(&done), "{done}");
    let (_, summary) = recover(&database, &[]).await;
    assert_eq!(summary["rebuilt"].as_i64(), Some(400 - done));
    assert_eq!(line(&mut session, "tx").await, before);
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_breaks_off_says_what_it_has_done_and_is_on_record_as_ended() {
    let database = TestDatabase::unlimited().await;
    wreck(&database).await;
    let mut session = Session::open(&database).await;
    // The first steps find something to do, and the next one a live lease.
    database.execute("select tidegate.recover_storage(); select tidegate.recover()").await;
    session.claim("tx", 1).await;

    let refused = run(&database.url, &["recover", "--all"]).await;

    assert_eq!(refused.status.code(), Some(1));
    assert!(out(&refused).contains("past their deadline, ended"), "{}", out(&refused));
    assert!(err(&refused).contains("under live leases"), "{}", err(&refused));
    let unknown = run(&database.url, &["recover", "--kind", "nope"]).await;
    assert_eq!((unknown.status.code(), out(&unknown).as_str()), (Some(1), ""));
    assert_eq!(
        session.texts("select ended_at is not null from tidegate.recovery where options is not null").await,
        ["t", "t"]
    );
}
