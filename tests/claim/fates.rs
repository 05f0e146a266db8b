//! Claims of stray messages, and of requests that have ended or are overdue.

use crate::support::{
    TestDatabase,
    race::{NOTHING, Session, expire_leases, history, sound, submit_many},
};

const QUEUES: [(&str, &str); 2] = [("readiness", "public_decrypt"), ("tx", "direct")];

async fn depth(database: &TestDatabase, queue: &str) -> i64 {
    database.number(&format!("select depth from tidegate.queue_counts() where queue = '{queue}'")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn stray_messages_are_deleted_and_no_row_is_touched() {
    for (queue, kind) in QUEUES {
        let database = TestDatabase::unlimited().await;
        let other_queue = if queue == "tx" { "readiness" } else { "tx" };
        let other_kind = if queue == "tx" { "public_decrypt" } else { "direct" };
        let id = database.submit(kind).await;
        let elsewhere = database.submit(other_kind).await;
        let done = database.submit(kind).await;
        database.execute(&format!("select tidegate.fail_internal(array['{done}'::uuid])")).await;
        let mut tester = Session::open(&database).await;
        for message in [
            r#"{"id": "00000000-0000-7000-8000-000000000000"}"#.to_owned(),
            format!(r#"{{"id": "{id}"}}"#),
            format!(r#"{{"id": "{id}"}}"#),
            format!(r#"{{"id": "{elsewhere}"}}"#),
            format!(r#"{{"id": "{done}"}}"#),
            r#"{"id": 7}"#.to_owned(),
            r#"{"id": null}"#.to_owned(),
            r#"{"id": "x"}"#.to_owned(),
            r#"{"id": {"id": []}}"#.to_owned(),
            "[1, 2]".to_owned(),
            "null".to_owned(),
            "\"text\"".to_owned(),
            "17".to_owned(),
        ] {
            tester
                .execute(&format!(
                    "insert into pgmq.q_{queue} (msg_id, vt, message) overriding system value
                     values (nextval('pgmq.q_{queue}_msg_id_seq'), '-infinity', '{message}')"
                ))
                .await;
        }
        let rows = "select md5(string_agg(r::text, ';' order by r.id)) from tidegate.request as r where id <> ";
        let before = database.text(&format!("{rows}'{id}'")).await;

        let held = tester.claim(queue, 100).await;

        assert_eq!(held.iter().map(|held| held.id).collect::<Vec<_>>(), [id]);
        assert_eq!(depth(&database, queue).await, 1, "only the claimed message is left");
        assert_eq!(depth(&database, other_queue).await, 1);
        assert_eq!(database.text(&format!("{rows}'{id}'")).await, before);
        sound(&database).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_ended_requests_are_removed_and_not_returned() {
    for (queue, kind) in QUEUES {
        let database = TestDatabase::unlimited().await;
        let cancelled = database.submit(kind).await;
        let edited = database.submit(kind).await;
        let good = database.submit(kind).await;
        let mut session = Session::open(&database).await;
        session.execute(&format!("select tidegate.cancel('{cancelled}')")).await;
        // By hand: the message stays behind.
        session.execute(&format!("update tidegate.request set req_status = 'failure' where id = '{edited}'")).await;
        assert_eq!(depth(&database, queue).await, 2);

        let held = session.claim(queue, 10).await;

        assert_eq!(held.iter().map(|held| held.id).collect::<Vec<_>>(), [good]);
        assert_eq!(depth(&database, queue).await, 1);
        assert_eq!(history(&database, edited).await, "submitted hand_edit");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_of_nothing_takes_nothing_and_nonsense_is_refused() {
    for (queue, kind) in QUEUES {
        let database = TestDatabase::unlimited().await;
        submit_many(&database, kind, 3).await;
        let mut session = Session::open(&database).await;
        let (function, other) =
            if queue == "tx" { ("claim_tx", "claim_readiness") } else { ("claim_readiness", "claim_tx") };
        for batch in ["0", "-1", "-2147483648", "null"] {
            let sql = format!("select id from tidegate.{function}('{queue}', 'w', {batch}, '30 s')");
            assert_eq!(session.texts(&sql).await, NOTHING, "batch {batch}");
        }

        for (arguments, state) in [
            (format!("{other}('{queue}', 'w', 1, '30 s')"), "TG005"),
            (format!("{function}('nowhere', 'w', 1, '30 s')"), "TG005"),
            (format!("{function}(null, 'w', 1, '30 s')"), "TG005"),
            (format!("{function}('{queue}', 'w', 1, '0 s')"), "TG007"),
            (format!("{function}('{queue}', 'w', 1, '-1 s')"), "TG007"),
            (format!("{function}('{queue}', 'w', 1, '2 days')"), "TG007"),
            (format!("{function}('{queue}', 'w', 1, null)"), "TG007"),
        ] {
            let said = session.attempt(&format!("select id from tidegate.{arguments}")).await;
            assert_eq!(said.unwrap_err().0, state, "{arguments}");
        }
        assert_eq!(database.number(&format!("select count(*) from tidegate.claim where queue = '{queue}'")).await, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_queue_gives_nothing_until_it_is_resumed() {
    for (queue, kind) in QUEUES {
        let database = TestDatabase::unlimited().await;
        submit_many(&database, kind, 2).await;
        let mut session = Session::open(&database).await;

        assert_eq!(session.texts(&format!("select tidegate.pause('{queue}')")).await, [queue]);
        assert!(session.claim(queue, 10).await.is_empty());
        assert_eq!(session.texts(&format!("select tidegate.pause('{queue}', false)")).await, [queue]);
        assert_eq!(session.claim(queue, 10).await.len(), 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_sender_of_an_at_most_once_kind_ends_as_outcome_unknown() {
    let database = TestDatabase::unlimited().await;
    database.execute("update tidegate.policy set semantics = 'at_most_once' where kind = 'direct'").await;
    let id = database.submit("direct").await;
    let mut session = Session::open(&database).await;
    session.claim("tx", 1).await;
    expire_leases(&database, "tx").await;

    assert!(session.claim("tx", 1).await.is_empty());

    assert_eq!(history(&database, id).await, "submitted claimed outcome_unknown");
    assert_eq!(
        database.text(&format!("select error ->> 'code' from tidegate.request where id = '{id}'")).await.as_deref(),
        Some("outcome_unknown")
    );
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_whose_attempts_are_used_up_is_handed_out_once_more_to_look_only() {
    let database = TestDatabase::unlimited().await;
    database.execute("update tidegate.policy set attempts = 2 where kind = 'direct' and stage = 'tx'").await;
    let id = database.submit("direct").await;
    let mut session = Session::open(&database).await;
    for attempt in 1..=3 {
        let held = session.claim("tx", 1).await;
        assert_eq!((held[0].attempt, held[0].attempts_max), (attempt, 2));
        expire_leases(&database, "tx").await;
    }

    assert!(session.claim("tx", 1).await.is_empty());

    assert_eq!(
        history(&database, id).await,
        "submitted claimed recovered claimed recovered claimed attempts_exhausted"
    );
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_past_its_deadline_ends_at_the_claim() {
    for (queue, kind, column, end) in [
        ("tx", "direct", "deadline_at", "failure submitted deadline_exceeded"),
        ("readiness", "public_decrypt", "readiness_deadline_at", "timed_out submitted readiness_timed_out"),
    ] {
        let database = TestDatabase::unlimited().await;
        let late = database.submit(kind).await;
        let good = database.submit(kind).await;
        database
            .execute(&format!("update tidegate.request set {column} = clock_timestamp() where id = '{late}'"))
            .await;

        let held = Session::open(&database).await.claim(queue, 10).await;

        assert_eq!(held.iter().map(|held| held.id).collect::<Vec<_>>(), [good]);
        assert_eq!(format!("{} {}", database.status(late).await, history(&database, late).await), end);
        sound(&database).await;
    }
}
