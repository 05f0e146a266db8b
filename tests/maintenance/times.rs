//! Is a day 24 hours, whatever the session's time zone, and does a duty that runs late or early miss no row?

use std::time::Duration;

use crate::support::{
    TestDatabase, eventually_within,
    race::{NOTHING, Session, sound},
};

#[tokio::test(flavor = "multi_thread")]
async fn every_configured_time_is_kept_as_hours() {
    let database = TestDatabase::new().await;
    let mut session = Session::open(&database).await;
    session.execute("set timezone = 'America/New_York'").await;
    let columns = session
        .texts(
            "select table_name, column_name from information_schema.columns
             where table_schema = 'tidegate' and table_name in ('kind', 'policy', 'setting', 'webhook_policy')
               and data_type = 'interval' and column_name not like 'heal%' order by 1, 2",
        )
        .await;
    assert!(columns.len() >= 11, "{columns:?}");
    for place in &columns {
        let (table, column) = place.split_once(' ').unwrap();
        let set = |value: &str| format!("update tidegate.{table} set {column} = {value}");
        let kept = format!("select distinct {column} from tidegate.{table}");
        // In one transaction, because constraints bind these limits to each other.
        session
            .execute(&format!(
                "begin; update tidegate.kind set deadline = '3 months', key_mode = 'proxy', retention = '1 year';
                 update tidegate.policy set dedup_window = '6 months', span_reorder = '1 s'; {}",
                set("interval '1 month 1 day'")
            ))
            .await;
        assert_eq!(session.text(&kept).await, "744:00:00", "{place}");
        session.execute("rollback").await;
    }
    // Operators see days.
    session
        .execute("select tidegate.config_set_many('{\"direct.retention\": \"1 month\", \"direct.tx.dedup_window\": \"30 days\"}')")
        .await;
    assert_eq!(
        session.texts("select value, default_value from tidegate.config_get('direct.retention')").await,
        ["30 days "]
    );
    // A window of a month is one of 30 days: its key goes no later than its request.
    let window =
        session.attempt("select tidegate.config_set('direct.tx.dedup_window', '1 month 1 second')").await.unwrap_err();
    assert!(window.1.contains("retention 720:00:00 < dedup_window 720:00:01"), "{window:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_statement_adds_an_interval_of_the_calendar() {
    let sources = tidegate::internals::schema::sql_files();
    for (path, text) in sources {
        for (number, line) in text.lines().enumerate() {
            let code = line.split("--").next().unwrap().to_lowercase();
            for unit in [" day", " week", " month", " mon'", " year"] {
                let is_literal = code.match_indices("interval '").any(|(at, _)| {
                    let literal = code[at + 10..].split('\'').next().unwrap();
                    format!("{literal}'").contains(unit)
                });
                let is_bound = code.contains("<= interval '100 years'");
                assert!(!is_literal || is_bound, "{path}:{}: {line}", number + 1);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_committed_after_its_deadline_ends() {
    let database = TestDatabase::unlimited().await;
    database.execute("update tidegate.kind set deadline = '1 second', readiness_timeout = '1 second'").await;
    let sweep = async |minutes: i32| {
        // So many minutes later; another transaction begins at each.
        database
            .execute(&format!(
                "update tidegate.maintenance
                 set cursor_at = cursor_at - interval '{minutes} minutes', seen_at = seen_at - interval '{minutes} minutes',
                   mark_at = mark_at - interval '{minutes} minutes'
                 where duty like 'expire\\_by%';
                 update tidegate.request set deadline_at = deadline_at - interval '{minutes} minutes',
                   readiness_deadline_at = readiness_deadline_at - interval '{minutes} minutes'"
            ))
            .await;
        database
            .execute("select pg_current_xact_id(); select tidegate.expire_by_deadline(); select tidegate.expire_by_readiness()")
            .await;
    };
    sweep(2).await;
    let mut open = Session::begin(&database).await;
    open.execute("select tidegate.submit('direct', '{}'); select tidegate.submit('public_decrypt', '{}')").await;
    for _ in 0..3 {
        open.execute(
            "update tidegate.request set deadline_at = deadline_at - interval '2 minutes',
               readiness_deadline_at = readiness_deadline_at - interval '2 minutes'",
        )
        .await;
        sweep(2).await;
    }
    open.commit().await;
    let live = "select count(*) from tidegate.request where finished_at is null";
    assert_eq!(database.number(live).await, 2);

    // When all transactions of the cluster that had begun by the last mark have ended.
    eventually_within(Duration::from_secs(300), "they end", || async {
        sweep(2).await;
        database.number(live).await == 0
    })
    .await;
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_early_response_outlives_shorter_deadlines() {
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;
    session.execute("select tidegate.submit('direct', '{}')").await;
    let held = session.claim("tx", 1).await;
    session.execute("select tidegate.respond('1', reference => 'r')").await;
    session
        .execute(
            "update tidegate.kind set readiness_timeout = '5 minutes', deadline = '5 minutes';
             update tidegate.response_inbox set received_at = received_at - interval '50 minutes';
             update tidegate.config_change set at = at - interval '49 minutes'",
        )
        .await;

    session.execute("select tidegate.sweep_inbox()").await;
    assert_eq!(session.text("select count(*) from tidegate.response_inbox").await, "1");
    session
        .execute(&format!(
            "select tidegate_internal.settle_receipt(array['{}'::tidegate.lease], array['r'])",
            held[0].lease
        ))
        .await;
    assert_eq!(session.text("select req_status from tidegate.request").await, "completed");

    // No request can match this response any more.
    session.execute("select tidegate.respond('1', reference => 's')").await;
    session
        .execute(
            "update tidegate.response_inbox set received_at = received_at - interval '61 minutes';
             update tidegate.config_change set at = at - interval '12 minutes'",
        )
        .await;
    session.execute("select tidegate.sweep_inbox()").await;
    assert_eq!(session.text("select count(*) from tidegate.response_inbox").await, "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_partition_takes_its_day_s_rows_from_the_default_partition() {
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;
    let today =
        session.text("select to_char(tidegate.clock() at time zone 'UTC', '\"stored_event_\"YYYY_MM_DD')").await;
    session
        .execute(&format!("drop table if exists tidegate.{today}; select tidegate.submit_batch('direct', '{{1,2}}')"))
        .await;
    // A settle writes the history of its claim to `stored_event`.
    let held = session.claim("tx", 2).await;
    session
        .execute(&format!(
            "select tidegate_internal.settle_released(array['{}'::tidegate.lease, '{}'::tidegate.lease])",
            held[0].lease, held[1].lease
        ))
        .await;
    let history = "select request_id, transition_no, cause from tidegate.request_event order by 1, 2";
    let before = session.texts(history).await;
    let strays = "select count(*) from tidegate.stored_event_default";
    assert_ne!(session.text(strays).await, "0");

    let made = session.texts("select tidegate.make_partitions()").await;

    assert!(made.contains(&today), "{made:?}");
    assert_eq!(session.text(strays).await, "0");
    assert_eq!(session.texts(history).await, before);
    assert_eq!(session.texts("select name from tidegate.invariant_violation").await, NOTHING);
}
