//! Which requests does `redrive` take? Those of the named kinds, times, codes and ids that may be repeated.

use serde_json::Value;
use tidegate::request::RequestId;

use super::{REDRIVE, failed, redrive};
use crate::{
    cli::commands::run,
    support::{TestDatabase, race::Session},
};

#[tokio::test(flavor = "multi_thread")]
async fn what_was_cancelled_is_redriven_only_when_its_code_is_named_and_what_may_have_been_executed_never_by_its_code()
{
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;
    let unknown = RequestId(database.request_in("direct", "tx_in_flight").await);
    let cancelled = database.submit("direct").await;
    database
        .execute(&format!("select tidegate.cancel('{cancelled}'); select tidegate.fail_request('{unknown}', 'lost')"))
        .await;
    let plain = failed(&database, "direct", 1).await[0];
    let completed = database.request_in("direct", "completed").await;

    let (_, dry) = redrive(&database, &["--dry-run"]).await;
    assert_eq!(dry["redriven"], 1);
    assert_eq!(dry["requests"][0]["job_id"], plain.to_string());
    assert_eq!(session.texts(REDRIVE).await, ["1 0"]);
    let (_, named) = redrive(&database, &["--code", "internal_error"]).await;
    assert_eq!(named["redriven"], 0);
    let (_, named) = redrive(&database, &["--code", "cancelled"]).await;
    assert_eq!(named["requests"][0]["job_id"], cancelled.to_string());
    let (_, repeated) = redrive(&database, &["--may-repeat"]).await;
    assert_eq!(repeated["redriven"], 1);
    assert_eq!(repeated["requests"][0]["job_id"], unknown.to_string());
    assert_eq!(
        database.number(&format!("select count(*) from tidegate.redrive where request_id = '{completed}'")).await,
        0
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_have_been_executed_is_redriven_only_where_it_may_be_repeated() {
    let database = TestDatabase::unlimited().await;
    database.execute("update tidegate.kind set key_after_unknown = 'free' where name = 'input_proof'").await;
    // One that never left, one that was taken, one whose answer never came; and one of a kind that may be sent twice.
    let unsent = failed(&database, "direct", 1).await[0];
    let sent = RequestId(database.request_in("direct", "tx_in_flight").await);
    let taken = RequestId(database.request_in("direct", "receipt_received").await);
    let other = RequestId(database.request_in("input_proof", "tx_in_flight").await);
    database
        .execute("select tidegate.fail_internal(array(select id from tidegate.request where finished_at is null))")
        .await;
    let left = async |arguments: &[&str]| {
        let (_, dry) = redrive(&database, &[&["--dry-run"], arguments].concat()).await;
        let mut ids: Vec<_> = dry["requests"].as_array().unwrap().iter().map(|r| r["job_id"].clone()).collect();
        ids.sort_by_key(Value::to_string);
        ids
    };
    let sorted = |ids: &[RequestId]| {
        let mut ids: Vec<_> = ids.iter().map(|id| Value::from(id.to_string())).collect();
        ids.sort_by_key(Value::to_string);
        ids
    };

    assert_eq!(left(&[]).await, sorted(&[unsent, other]));
    assert_eq!(left(&["--code", "internal_error"]).await, sorted(&[unsent, other]));
    assert_eq!(left(&["--may-repeat"]).await, sorted(&[unsent, sent, taken, other]));
}

#[tokio::test(flavor = "multi_thread")]
async fn kinds_times_and_limits_narrow_it_and_a_dry_run_changes_nothing() {
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;
    let early = failed(&database, "direct", 3).await;
    failed(&database, "input_proof", 3).await;
    database
        .past_triggers(&format!(
            "update tidegate.request set finished_at = finished_at - interval '3 hours' where id = '{}'",
            early[0]
        ))
        .await;
    let state =
        "select concat_ws(' ', (select count(*) from tidegate.request), (select count(*) from tidegate.redrive),
        (select last_value from pgmq.q_tx_msg_id_seq), (select count(*) from tidegate.request_count_delta))";
    let before = session.text(state).await;

    let count = async |arguments: &[&str]| {
        let arguments = [&["--dry-run", "--batch", "2"], arguments].concat();
        let (code, summary) = redrive(&database, &arguments).await;
        assert_eq!(code, Some(0));
        summary["redriven"].as_i64().unwrap()
    };
    assert_eq!(count(&[]).await, 6);
    assert_eq!(count(&["--kind", "input-proof"]).await, 3);
    assert_eq!(count(&["--since", "2h"]).await, 5);
    assert_eq!(count(&["--since", "2026-01-01T00:00:00Z"]).await, 6);
    assert_eq!(count(&["--since", "2h", "--kind", "direct"]).await, 2);
    assert_eq!(count(&["--limit", "5"]).await, 5);
    assert_eq!(session.text(state).await, before);

    let (_, done) = redrive(&database, &["--limit", "3", "--batch", "2"]).await;
    assert_eq!(done["redriven"], 3);
    assert_eq!(done["requests"][0]["job_id"], early[0].to_string());
    for (arguments, code) in [
        (&["redrive", "--kind", "nope"][..], 1),
        (&["redrive", "--since", "yesterday"], 2),
        (&["redrive", "--limit", "0"], 2),
    ] {
        assert_eq!(run(&database.url, arguments).await.status.code(), Some(code), "{arguments:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_and_statuses_narrow_it_and_named_ones_may_have_been_cancelled() {
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;
    let cancelled = [database.submit("input_proof").await, database.submit("input_proof").await];
    for id in cancelled {
        database.store.cancel(id).await.unwrap();
    }
    let timed_out = database.request_in("public_decrypt", "timed_out").await;
    let failed = failed(&database, "input_proof", 1).await[0];
    let mut count = async |arguments: &str| {
        let sql = format!("select array_to_string(ids, ',') from tidegate.redrive(may_repeat => true, {arguments})");
        session.text(&sql).await
    };
    assert_eq!(count("dry_run => true, states => '{timed_out}'").await, timed_out.to_string());
    assert_eq!(count("dry_run => true, states => '{failure}'").await, failed.to_string());
    let named = format!("requests => array['{}', '{timed_out}']::uuid[]", cancelled[1]);
    assert_eq!(count(&format!("{named}, states => '{{failure}}'")).await, cancelled[1].to_string());
    assert_eq!(count(&named).await, timed_out.to_string());
    assert_eq!(count(&named).await, "");
}
