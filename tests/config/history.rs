//! Is every change of the configuration on record: who, when, from what to what, however it was made?

use sqlx::postgres::PgListener;

use crate::support::{
    TestDatabase,
    race::Session,
    sql::{column, run},
};

/// The history, oldest first, from an id on: who, for whom, did what to what, from, to.
async fn since(database: &TestDatabase, id: i64) -> Vec<String> {
    database
        .column(&format!(
            "select concat_ws(' ', coalesce(on_behalf_of, '-'), operation, subject || ':', setting,
               coalesce(old_value, 'none'), coalesce(new_value, 'none'))
             from tidegate.config_history() where id > {id} order by id"
        ))
        .await
}

async fn last(database: &TestDatabase) -> i64 {
    database.number("select coalesce(max(id), 0) from tidegate.config_change").await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_way_to_change_the_configuration_is_recorded() {
    let database = TestDatabase::new().await;
    for (sql, recorded) in [
        (
            "select tidegate.config_set('tx.per_seconds', '25', 'ann')",
            &["ann update queue tx: tx.per_seconds 10 25"][..],
        ),
        (
            "update tidegate.queue set per_seconds = null where name = 'tx'",
            &["- update queue tx: tx.per_seconds 25 none"],
        ),
        // No change, no record.
        ("update tidegate.queue set per_seconds = null, burst = 1 where name = 'tx'", &[]),
        ("select tidegate.pause('tx', true, 'ann')", &["ann update queue tx: tx.paused false true"]),
        ("select tidegate.pause('tx', true, 'ann')", &[]),
        (
            "update tidegate.kind set processing_ms = 2500, eta = 'observed' where name = 'direct'",
            &[
                "- update kind direct: direct.eta nominal observed",
                "- update kind direct: direct_processing_seconds 2 2.5",
            ],
        ),
        (
            "update tidegate.policy set attempts = 7, version = 77 where kind = 'direct'",
            &["- update policy direct.tx: direct.tx.attempts 38 7"],
        ),
        (
            "update tidegate.policy set retry_on = '{a,b}' where kind = 'direct'",
            &["- update policy direct.tx: direct.tx.retry_on 5xx,timeout,connect,throttled,unauthorized,other a,b"],
        ),
        ("update tidegate.setting set safety_margin = 0.3", &["- update setting: safety_margin 0.2 0.3"]),
        (
            "insert into tidegate.response_backoff values ('90 s', 20)",
            &["- insert response_backoff 90s: response_backoff none 20"],
        ),
        (
            "update tidegate.response_backoff set from_elapsed = '100 s' where seconds = 20",
            &[
                "- delete response_backoff 90s: response_backoff 20 none",
                "- insert response_backoff 100s: response_backoff none 20",
            ],
        ),
        (
            "delete from tidegate.response_backoff where seconds = 20",
            &["- delete response_backoff 100s: response_backoff 20 none"],
        ),
        (
            "update tidegate.gate set high_water = 3000000 where queue = 'tx'",
            &["- update gate tx: tx.high_water 1000000 3000000"],
        ),
        // A flip by itself is an event, not configuration.
        ("update tidegate.gate set state = 'too_many_requests', epoch = 5, depth = 7 where queue = 'tx'", &[]),
        ("update tidegate.gate set state = 'accepting', epoch = 6, depth = 3 where queue = 'tx'", &[]),
        (
            "select tidegate.gate_force('tx', 'too_many_requests', 'ann')",
            &["ann update gate tx: tx.state accepting too_many_requests", "ann update gate tx: tx.forced false true"],
        ),
        ("select tidegate.gate_force('tx', 'too_many_requests', 'bob')", &[]),
        (
            "select tidegate.gate_force('tx', 'accepting', 'bob')",
            &["bob update gate tx: tx.state too_many_requests accepting"],
        ),
        ("select tidegate.gate_force('tx', null, 'bob')", &["bob update gate tx: tx.forced true false"]),
        ("update tidegate.setting set initialised_at = clock_timestamp()", &[]),
    ] {
        let before = last(&database).await;
        database.execute(sql).await;
        let mut recorded: Vec<_> = recorded.to_vec();
        let mut found = since(&database, before).await;
        recorded.sort_unstable();
        found.sort();
        assert_eq!(found, recorded, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_and_a_queue_that_come_and_go_leave_their_history() {
    let database = TestDatabase::new().await;
    let before = last(&database).await;
    database
        .execute(
            "insert into tidegate.queue (name, stage, per_seconds) values ('brief', 'tx', 5);
             insert into tidegate.kind (name, flow, tx_queue) values ('passing', 'direct', 'brief')",
        )
        .await;
    let found = since(&database, before).await;
    for record in [
        "- insert queue brief: brief.per_seconds none 5",
        "- insert gate brief: brief.high_water none 30",
        "- insert kind passing: passing.tx_queue none brief",
        "- insert policy passing.tx: passing.tx.attempts none 38",
    ] {
        assert!(found.iter().any(|found| found == record), "{record} in {found:#?}");
    }

    let before = last(&database).await;
    database
        .execute("delete from tidegate.kind where name = 'passing'; delete from tidegate.queue where name = 'brief'")
        .await;
    let found = since(&database, before).await;
    for record in [
        "- delete kind passing: passing.tx_queue brief none",
        "- delete policy passing.tx: passing.tx.attempts 38 none",
        "- delete queue brief: brief.per_seconds 5 none",
        "- delete gate brief: brief.high_water 30 none",
    ] {
        assert!(found.iter().any(|found| found == record), "{record} in {found:#?}");
    }
    // By name, though neither is there any more.
    assert_eq!(
        database.column("select operation from tidegate.config_history('brief.per_seconds')").await,
        ["delete", "insert"]
    );
    assert!(database.number("select count(*) from tidegate.config_history('passing', 1000)").await > 50);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_truncated_table_is_on_record_row_by_row() {
    let database = TestDatabase::new().await;
    let before = last(&database).await;

    database.execute("truncate tidegate.response_backoff").await;

    assert_eq!(
        since(&database, before).await,
        [
            "- delete response_backoff 0s: response_backoff 4 none",
            "- delete response_backoff 60s: response_backoff 10 none",
            "- delete response_backoff 120s: response_backoff 30 none",
            "- delete response_backoff 300s: response_backoff 60 none",
            "- delete response_backoff 900s: response_backoff 300 none",
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hand_edit_names_its_database_user_and_the_time() {
    let database = TestDatabase::new().await;
    let mut admin = crate::access::roles::login(&database, "admin").await;
    let start = database.value("select clock_timestamp()").await;

    run(&mut admin, "update tidegate.queue set burst = 4 where name = 'tx'").await;
    run(
        &mut admin,
        "set tidegate.actor = 'carol on call'; select tidegate.config_set('tx.burst', '5'); update tidegate.setting set min_seconds = 2",
    )
    .await;

    assert_eq!(
        column(
            &mut admin,
            &format!(
                "select concat_ws(' ', actor, coalesce(on_behalf_of, '-'), setting, new_value)
                 from tidegate.config_history() where at between '{start}' and clock_timestamp() order by id"
            )
        )
        .await,
        [
            "tidegate_test_admin - tx.burst 4",
            "tidegate_test_admin carol on call tx.burst 5",
            "tidegate_test_admin carol on call min_seconds 2",
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_given_to_one_call_does_not_stick_to_what_follows() {
    let database = TestDatabase::new().await;
    let before = last(&database).await;
    let mut session = Session::begin(&database).await;
    for sql in [
        "select tidegate.config_set('tx.burst', '2', 'ann')",
        "select tidegate.pause('readiness', true, 'bob')",
        "select tidegate.gate_force('tx', 'accepting', 'eve')",
        "select tidegate.gate_force('tx', 'accepting', 'eve')",
        "update tidegate.setting set min_seconds = 3",
    ] {
        session.texts(sql).await;
    }
    session.commit().await;

    assert_eq!(
        since(&database, before).await,
        [
            "ann update queue tx: tx.burst 1 2",
            "bob update queue readiness: readiness.paused false true",
            "eve update gate tx: tx.forced false true",
            "- update setting: min_seconds 1 3",
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hostile_actor_is_only_text() {
    let database = TestDatabase::new().await;
    for (number, actor) in ["'; drop table tidegate.request; --", "💥", "", "x\ny"].iter().enumerate() {
        let store = database.store.clone().on_behalf_of(actor);
        store.config_set("tx.burst", &(number + 2).to_string()).await.unwrap();
        let record = &store.config_history(Some("tx.burst"), 1, None).await.unwrap()[0];
        assert_eq!(record.on_behalf_of.as_deref().unwrap_or(""), *actor);
    }
    let store = database.store.clone().on_behalf_of(&"é".repeat(10_000));
    store.config_set("tx.burst", "99").await.unwrap();
    let record = &store.config_history(Some("tx.burst"), 1, None).await.unwrap()[0];
    assert_eq!(record.on_behalf_of.as_deref(), Some("é".repeat(200).as_str()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_a_policy_is_counted_once_however_it_is_made() {
    let database = TestDatabase::new().await;
    let version = || database.number("select version from tidegate.policy where kind = 'direct'");
    assert_eq!(version().await, 1);
    for (sql, expected) in [
        ("select tidegate.config_set_many('{\"direct.tx.attempts\": 6, \"direct.tx.base_ms\": 400}')", 2),
        ("select tidegate.config_set('direct.tx.attempts', '6')", 2),
        ("update tidegate.policy set attempts = attempts", 2),
        ("update tidegate.policy set cap_ms = 20000 where kind = 'direct'", 3),
        ("update tidegate.policy set version = 99 where kind = 'direct'", 3),
        ("update tidegate.policy set version = 99, factor = 3 where kind = 'direct'", 4),
    ] {
        database.execute(sql).await;
        assert_eq!(version().await, expected, "{sql}");
    }
    assert_eq!(database.number("select max(version) from tidegate.policy where kind <> 'direct'").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_history_comes_in_pages_and_narrows_to_a_setting_a_queue_or_a_kind() {
    let database = TestDatabase::new().await;
    database.execute("update tidegate.policy set cap_ms = 500, timeout_ms = 1000").await;
    for burst in 2..=12 {
        database.store.config_set("tx.burst", &burst.to_string()).await.unwrap();
        database.store.config_set("direct.tx.attempts", &burst.to_string()).await.unwrap();
    }
    let mut seen = Vec::new();
    let mut before = None;
    loop {
        let page = database.store.config_history(Some("tx.burst"), 4, before).await.unwrap();
        assert!(page.len() <= 4);
        let Some(last) = page.last() else { break };
        before = Some(last.id);
        seen.extend(page.into_iter().map(|record| record.new_value.text.unwrap()));
    }
    assert_eq!(seen, ["12", "11", "10", "9", "8", "7", "6", "5", "4", "3", "2"]);

    for (name, count) in [("direct.tx", 13), ("direct.tx.attempts", 11), ("tx.burst", 11), ("tx.low_water", 2)] {
        let found = database.store.config_history(Some(name), 1000, None).await.unwrap();
        assert_eq!(found.len(), count, "{name}");
    }
    // A setting that never changed has no history; that is no error.
    assert_eq!(database.store.config_history(Some("max_seconds"), 10, None).await.unwrap(), []);
    for rows in ["0", "-1", "10001", "null"] {
        let asked = format!("select tidegate.config_history(max_rows => {rows})");
        assert_eq!(database.refused(&asked).await.code, "TG007", "{rows}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_with_a_copy_are_notified_of_a_change_when_it_commits() {
    let database = TestDatabase::new().await;
    let mut listener = PgListener::connect(&database.url).await.unwrap();
    listener.listen_all(["tidegate_config", "tidegate_gate"]).await.unwrap();

    let mut session = Session::begin(&database).await;
    session.texts("select tidegate.config_set('tx.burst', '2')").await;
    session.rollback().await;
    // One row is one notification, however many of its columns change; a flip by itself is none of this channel.
    database.execute("update tidegate.gate set state = 'too_many_requests' where queue = 'tx'").await;
    database.execute("update tidegate.gate set state = 'accepting' where queue = 'tx'").await;
    database
        .execute("select tidegate.config_set_many('{\"tx.burst\": 3, \"tx.per_seconds\": 4, \"min_seconds\": 2}')")
        .await;
    database.execute("select tidegate.gate_force('tx', 'too_many_requests')").await;
    database.execute("select tidegate.gate_force('tx', 'too_many_requests')").await;

    let mut heard = Vec::new();
    for _ in 0..4 {
        let told = tokio::time::timeout(std::time::Duration::from_secs(20), listener.recv()).await.unwrap().unwrap();
        heard.push(format!("{} {}", told.channel(), told.payload()));
    }
    assert_eq!(
        heard,
        [
            "tidegate_config setting",
            "tidegate_config queue tx",
            "tidegate_config gate tx",
            "tidegate_gate {\"queue\":\"tx\",\"signal\":\"TOO_MANY_REQUESTS\",\"depth\":0,\"epoch\":1}",
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_is_held_released_and_never_twice() {
    let database = TestDatabase::unlimited().await;
    for _ in 0..3 {
        database.submit("direct").await;
    }
    let gate = "select concat_ws(' ', state, forced, epoch, depth) from tidegate.gate where queue = 'tx'";
    for (state, changed, expected) in [
        ("null", "f", "accepting f 0 0"),
        ("'too_many_requests'", "t", "too_many_requests t 1 3"),
        ("'too_many_requests'", "f", "too_many_requests t 1 3"),
        ("'accepting'", "t", "accepting t 2 3"),
        ("'accepting'", "f", "accepting t 2 3"),
        ("null", "t", "accepting f 3 3"),
        ("null", "f", "accepting f 3 3"),
        ("'too_many_requests'", "t", "too_many_requests t 4 3"),
        ("null", "t", "accepting f 5 3"),
    ] {
        let call = format!("select tidegate.gate_force('tx', {state}, 'ann')");
        assert_eq!(database.value(&call).await, changed, "{state}");
        assert_eq!(database.value(gate).await, expected, "{state}");
    }
    assert_eq!(
        database
            .column("select concat_ws(' ', epoch, state, depth, cause, case actor when session_user then 'owner' end, on_behalf_of)
                 from tidegate.gate_event order by epoch")
            .await,
        [
            "1 too_many_requests 3 forced closed owner ann",
            "2 accepting 3 forced open owner ann",
            "3 accepting 3 released owner ann",
            "4 too_many_requests 3 forced closed owner ann",
            "5 accepting 3 released owner ann",
        ]
    );
    for (call, code) in [
        ("gate_force('nope', 'accepting')", "TG005"),
        ("gate_force(null, 'accepting')", "TG005"),
        ("gate_force('tx', 'ajar')", "TG007"),
        ("gate_force('tx', '')", "TG007"),
    ] {
        assert_eq!(database.refused(&format!("select tidegate.{call}")).await.code, code, "{call}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_sessions_that_close_a_gate_at_once_one_does() {
    let database = TestDatabase::new().await;
    let mut first = Session::begin(&database).await;
    assert_eq!(first.text("select tidegate.gate_force('tx', 'too_many_requests', 'ann')").await, "t");
    let second = Session::open(&database).await.start("select tidegate.gate_force('tx', 'too_many_requests', 'bob')");
    second.until_blocked_by(&database, &first).await;
    first.commit().await;

    assert_eq!(second.finish().await.1, ["f"]);
    assert_eq!(database.column("select on_behalf_of from tidegate.gate_event").await, ["ann"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_of_an_earlier_ones_name_goes_on_counting_its_gates_events() {
    let database = TestDatabase::new().await;
    for round in 0..2 {
        database.execute("insert into tidegate.queue (name, stage) values ('again', 'tx')").await;
        database.execute("select tidegate.gate_force('again', 'too_many_requests')").await;
        assert_eq!(database.number("select count(*) from tidegate.gate_event where gate = 'again'").await, round + 1);
        database.execute("delete from tidegate.queue where name = 'again'").await;
    }
    assert_eq!(
        database.value("select string_agg(epoch::text, ' ' order by epoch) from tidegate.gate_event").await,
        "1 2"
    );
}
