//! Does a copy of a database send nothing until it is adopted, however it was made, and whichever program starts first?

use serde_json::Value;

use crate::{
    cli::commands::{err, out, run},
    support::{
        TestDatabase,
        race::{NOTHING, Session, sound},
    },
};

/// What leaves a database: claims of both stages, a search for a receipt, an ask for a response and a webhook.
const LEAVING: [&str; 5] = [
    "select id from tidegate.claim_readiness('readiness', 'w', 10, '1 minute')",
    "select id from tidegate.claim_tx('tx', 'w', 10, '1 minute')",
    "select id from tidegate.search_claim('{direct}')",
    "select id from tidegate.ask_claim('{direct}')",
    "select request_id from tidegate.webhook_claim(10)",
];

/// What a dump takes along: the row, but not the table.
const RESTORE: &str = "update tidegate.installation set table_oid = table_oid::bigint - 1";

/// A database with one request for each of [`LEAVING`].
async fn database() -> TestDatabase {
    let database = TestDatabase::unlimited().await;
    database.store.webhook_host_add("hooks.example.com", false).await.unwrap();
    assert_eq!(database.store.notice_copy().await.unwrap(), None);
    database
        .execute(
            "update tidegate.policy set semantics = 'at_most_once', dedup_window = default where kind = 'direct';
             update tidegate.kind set callback_url = 'https://hooks.example.com/done' where name = 'direct';
             select from tidegate.submit('direct', '1')",
        )
        .await;
    // Its worker is lost, and the next claim ends it.
    database.claim_tx(1).await;
    database.run_out("tx").await;
    database
        .execute(
            "select from tidegate.claim_tx('tx', 'lost', 1, '1 minute');
             update tidegate.outcome set search_at = tidegate.clock();
             select from tidegate.submit('direct', '4');
             select from tidegate_internal.settle_receipt(array(
               select c.lease from tidegate.claim_tx('tx', 'w', 1, '1 minute') as c
             ));
             update tidegate.awaiting_response set ask_at = tidegate.clock();
             select from tidegate.submit('direct', '2');
             select from tidegate.submit('public_decrypt', '3')",
        )
        .await;
    database
}

/// How many requests each of [`LEAVING`] takes; nothing stays taken.
async fn leaving(database: &TestDatabase) -> Vec<usize> {
    let mut session = Session::begin(database).await;
    let mut taken = Vec::new();
    for sql in LEAVING {
        taken.push(session.texts(sql).await.len());
    }
    session.rollback().await;
    taken
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_sends_nothing_until_it_is_adopted() {
    for (how, is_noticed) in [
        // Restored, and no program has started on it yet.
        (RESTORE, false),
        (RESTORE, true),
        // Of another database of the cluster, and of another cluster.
        ("update tidegate.installation set database_oid = database_oid::bigint - 1", true),
        ("update tidegate.installation set system_identifier = system_identifier - 1", true),
        ("select tidegate.quarantine('a rehearsal')", false),
    ] {
        let database = database().await;
        assert_eq!(leaving(&database).await, [1; 5]);
        database.execute(how).await;

        if is_noticed {
            let quarantine = database.store.notice_copy().await.unwrap().expect(how);
            assert!(quarantine.because.contains("it is a copy: it was database "), "{quarantine:?}");
            assert!(quarantine.quarantined_at.is_some(), "{quarantine:?}");
            assert_eq!(database.store.notice_copy().await.unwrap(), Some(quarantine));
        }
        assert_eq!(leaving(&database).await, [0; 5], "{how}");
        let wait = "select tidegate.claim_wait_ms('tx')";
        assert_eq!(database.number(wait).await, 60_000, "{how}");
        // It takes requests and answers, and maintains itself.
        database.execute("select from tidegate.submit('direct', '4')").await;
        database.execute("call tidegate.maintain()").await;
        sound(&database).await;
        let waiting = "select id from tidegate.request where payload = '2'";
        let waiting = database.text(waiting).await.unwrap();
        for words in [&["status"][..], &["explain", &waiting]] {
            let said = run(&database.url, words).await;
            assert!(said.status.success(), "{}", err(&said));
            assert!(out(&said).contains("nothing is sent from this database"), "{}", out(&said));
        }

        let adopted = run(&database.url, &["adopt"]).await;

        assert!(out(&adopted).contains("it was quarantined: "), "{}", err(&adopted));
        assert_eq!(database.store.notice_copy().await.unwrap(), None);
        // And the one that was submitted meanwhile.
        assert_eq!(leaving(&database).await, [1, 2, 1, 1, 1], "{how}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_made_from_another_is_a_copy_of_it() {
    let original = database().await;
    let copy = TestDatabase::empty().await;
    let mut admin = copy.superuser_session().await;
    let mut session = Session::open_as_superuser(&original).await;
    // The tables of the original, as a dump restores them: with its rows, in other tables.
    let row = session
        .text("select format('%s, %s, %s', system_identifier, database_oid, table_oid) from tidegate.installation")
        .await;
    drop(session);
    let migrated = run(&copy.url, &["migrate"]).await;
    assert!(migrated.status.success(), "{}", err(&migrated));
    let restore =
        format!("update tidegate.installation set (system_identifier, database_oid, table_oid) = (select {row})");
    crate::support::sql::run(&mut admin, &restore).await;

    let copied = copy.store.notice_copy().await.unwrap();

    assert!(copied.is_some());
    assert_eq!(original.store.notice_copy().await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn quarantine_and_adopt_say_what_they_change_and_who_did_it() {
    let database = database().await;
    for (words, said) in [
        (&["adopt"][..], "was not quarantined"),
        (&["quarantine", "--reason", "a rehearsal"], "quarantined: nothing is sent"),
        (&["quarantine"], "nothing changed"),
        (&["adopt"], "it was quarantined: a rehearsal"),
        (&["adopt"], "was not quarantined"),
    ] {
        let ran = run(&database.url, words).await;
        assert!(ran.status.success(), "{}", err(&ran));
        assert!(out(&ran).contains(said), "{words:?}: {}", out(&ran));
    }
    let history = "select old_value, new_value, on_behalf_of is not null from tidegate.config_history()
                   where subject like 'installation%' and setting like '%quarantined_because' order by id";
    let mut session = Session::open(&database).await;
    assert_eq!(session.texts(history).await, [" a rehearsal t", "a rehearsal  t"]);
    let status = run(&database.url, &["status", "--json"]).await;
    let status: Value = serde_json::from_str(&out(&status)).unwrap();
    assert_eq!(status["quarantine"], Value::Null);
    assert_eq!(session.texts("select from tidegate.quarantine_state").await, NOTHING);
}
