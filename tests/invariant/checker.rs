//! Would the checker of invariants notice? Each kind of damage, done behind the guards' back, must show.

use crate::support::{
    TestDatabase,
    race::{NOTHING, STORE_HISTORY, Session, a_bit_of_everything, receipt},
};

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_damage_is_noticed() {
    let damages = [
        ("delete from pgmq.q_tx where msg_id = (select min(msg_id) from pgmq.q_tx)", "has no message"),
        ("update tidegate.request set msg_id = msg_id + 1000 where req_status = 'queued'", "has a stray message"),
        ("insert into pgmq.q_tx (vt, message) values (now(), '{}')", "stands for nothing"),
        (
            "insert into pgmq.q_tx (vt, message) select now(), jsonb_build_object('id', id) from tidegate.request where req_status = 'completed'",
            "has a stray message",
        ),
        ("update tidegate.request set lease = null", "has no message"),
        ("delete from tidegate.claim", "has no message"),
        ("update tidegate.request set lease = 1 where req_status = 'completed'", "is under a lease"),
        (
            "insert into pgmq.q_tx (msg_id, vt, message) overriding system value
             select msg_id, now(), jsonb_build_object('id', id) from tidegate.request where req_status = 'tx_in_flight'",
            "is in its queue 2 times",
        ),
        ("update tidegate.request set req_status = 'completed' where req_status = 'processing'", "do not replay"),
        ("update tidegate.stored_event set to_status = 'receipt_received' where to_status = 'tx_in_flight'", "is illegal"),
        ("update tidegate.stored_event set cause = 'rejected' where cause = 'claimed'", "is illegal"),
        ("update tidegate.request set transition_no = transition_no + 1", "do not replay"),
        (
            "insert into tidegate.stored_event select request_id, transition_no + 1, to_status, to_status, at, attempt, cause
             from tidegate.request_event where to_status = 'completed'",
            "2 terminal events",
        ),
        ("delete from tidegate.awaiting_response", "awaiting_response does not fit"),
        ("delete from tidegate.request_reference", "no request has its reference"),
        ("update tidegate.request set tx_attempt = 9", "tx_attempt is 9"),
        ("update tidegate.request set finished_at = null", "finished_at does not fit"),
        ("update tidegate.request set readiness_deadline_at = null", "no readiness deadline"),
        ("insert into tidegate.request_count values ('direct', 'queued', 1)", "counted 1, there are 0"),
        (
            "insert into tidegate.response_part select id, n from tidegate.request, unnest(array['a', 'b', 'c']) as n where response_threshold = 3",
            "3 shares of 3",
        ),
        ("delete from tidegate.quota_usage", "in a queue and not counted"),
        ("insert into tidegate.quota_usage select 'kind direct', id from tidegate.request where finished_at is not null", "in no queue"),
    ];
    let database = TestDatabase::unlimited().await;
    database.execute("select tidegate.quota_set(kind => 'direct', high_water => 100)").await;
    receipt(&database, "user_decrypt", Some("ref-1")).await;
    let done = receipt(&database, "direct", Some("ref-2")).await;
    let mut session = a_bit_of_everything(&database).await;
    session.texts(&format!("select outcome from tidegate.respond('1', id => '{done}')")).await;
    // What each damage is done to, so that it can be undone.
    let tables = [
        "pgmq.q_tx",
        "tidegate.claim",
        "tidegate.request",
        "tidegate.stored_event",
        "tidegate.awaiting_response",
        "tidegate.request_reference",
        "tidegate.request_count",
        "tidegate.response_part",
        "tidegate.quota_usage",
    ];
    let mut session = Session::open_as_superuser(&database).await;
    session.execute("set session_replication_role = replica").await;
    session.execute(STORE_HISTORY).await;
    for table in tables {
        session.execute(&format!("create table public.\"{table}\" as select * from {table}")).await;
    }
    assert_eq!(database.violations().await, NOTHING);

    for (damage, expected) in damages {
        session.execute(damage).await;

        let found = database.violations().await;
        assert!(found.iter().any(|violation| violation.contains(expected)), "{damage}: {found:?}");
        for table in tables {
            session
                .execute(&format!(
                    "delete from {table}; insert into {table} overriding system value select * from public.\"{table}\""
                ))
                .await;
        }
        assert_eq!(database.violations().await, NOTHING);
    }
}
