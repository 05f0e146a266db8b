//! Do claimers share nothing and lose nothing, and what do they do with messages that are not what they seem?

use std::collections::BTreeMap;

use tidegate::request::RequestId;

use crate::support::{
    TestDatabase,
    invariants::violations,
    race::{Held, Session, expire_leases, history, settle, submit_many},
};

const QUEUES: [(&str, &str); 2] = [("readiness", "public_decrypt"), ("tx", "direct")];

/// Claims until three claims in a row found nothing.
async fn drain(mut session: Session, queue: &'static str, batch: i32) -> Vec<Vec<Held>> {
    let mut claims = Vec::new();
    let mut empty = 0;
    while empty < 3 {
        let claim = session.claim(queue, batch).await;
        if claim.is_empty() {
            empty += 1;
        } else {
            empty = 0;
            claims.push(claim);
        }
    }
    claims
}

async fn depth(database: &TestDatabase, queue: &str) -> i64 {
    database
        .number(&format!("select count(*) from pgmq.q_{queue}"))
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_claimers_share_no_request_and_lose_none() {
    for (queue, kind) in QUEUES {
        for (claimers, batch) in [(2, 7), (8, 50)] {
            let database = TestDatabase::unlimited().await;
            let ids = submit_many(&database, kind, 3000).await;
            let mut tasks = Vec::new();
            for _ in 0..claimers {
                let session = Session::open(&database).await;
                tasks.push(tokio::spawn(drain(session, queue, batch)));
            }

            let mut seen = BTreeMap::<RequestId, u32>::new();
            for task in tasks {
                for claim in task.await.unwrap() {
                    assert!(
                        claim.is_sorted_by_key(|held| held.msg_id),
                        "not in order: {claim:?}"
                    );
                    assert!(claim.len() <= usize::try_from(batch).unwrap());
                    for held in claim {
                        assert_eq!(held.attempt, 1);
                        *seen.entry(held.id).or_default() += 1;
                    }
                }
            }
            assert_eq!(
                seen.values().max(),
                Some(&1),
                "{claimers} claimers of {queue} shared a request"
            );
            assert_eq!(
                seen.len(),
                ids.len(),
                "{claimers} claimers of {queue} lost requests"
            );
            assert_eq!(violations(&database.pool).await, Vec::<String>::new());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lone_claimer_gets_requests_in_the_order_of_their_submission() {
    for (queue, kind) in QUEUES {
        let database = TestDatabase::unlimited().await;
        let ids = submit_many(&database, kind, 300).await;

        let claims = drain(Session::open(&database).await, queue, 7).await;

        let order: Vec<_> = claims.iter().flatten().map(|held| held.id).collect();
        assert_eq!(order, ids);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_rolled_back_gives_everything_back() {
    for (queue, kind) in QUEUES {
        let database = TestDatabase::unlimited().await;
        let ids = submit_many(&database, kind, 10).await;
        let mut claimer = Session::begin(&database).await;
        assert_eq!(claimer.claim(queue, 6).await.len(), 6);

        // Meanwhile another takes what is not locked, without waiting.
        let mut other = Session::begin(&database).await;
        let rest: Vec<_> = other
            .claim(queue, 10)
            .await
            .iter()
            .map(|held| held.id)
            .collect();
        assert_eq!(rest, ids[6..]);
        other.rollback().await;
        claimer.rollback().await;

        let again = claimer.claim(queue, 20).await;
        assert_eq!(again.iter().map(|held| held.id).collect::<Vec<_>>(), ids);
        assert!(again.iter().all(|held| held.attempt == 1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stray_messages_are_deleted_and_no_row_is_touched() {
    for (queue, kind) in QUEUES {
        let database = TestDatabase::unlimited().await;
        let other_queue = if queue == "tx" { "readiness" } else { "tx" };
        let other_kind = if queue == "tx" {
            "public_decrypt"
        } else {
            "direct"
        };
        let id = database.submit(kind).await;
        let elsewhere = database.submit(other_kind).await;
        let done = database.submit(kind).await;
        database
            .execute(&format!(
                "select tidegate.fail_internal(array['{done}'::uuid])"
            ))
            .await;
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
        assert_eq!(
            depth(&database, queue).await,
            1,
            "only the claimed message is left"
        );
        assert_eq!(depth(&database, other_queue).await, 1);
        assert_eq!(database.text(&format!("{rows}'{id}'")).await, before);
        assert_eq!(violations(&database.pool).await, Vec::<String>::new());
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
        session
            .execute(&format!("select tidegate.cancel('{cancelled}')"))
            .await;
        // By hand: the message stays behind.
        session
            .execute(&format!(
                "update tidegate.request set req_status = 'failure' where id = '{edited}'"
            ))
            .await;
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
        let (function, other) = if queue == "tx" {
            ("claim_tx", "claim_readiness")
        } else {
            ("claim_readiness", "claim_tx")
        };
        for batch in ["0", "-1", "-2147483648", "null"] {
            let sql =
                format!("select id from tidegate.{function}('{queue}', 'w', {batch}, '30 s')");
            assert_eq!(
                session.texts(&sql).await,
                Vec::<String>::new(),
                "batch {batch}"
            );
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
            let said = session
                .attempt(&format!("select id from tidegate.{arguments}"))
                .await;
            assert_eq!(said.unwrap_err().0, state, "{arguments}");
        }
        assert_eq!(
            database
                .number(&format!(
                    "select count(*) from pgmq.q_{queue} where headers is not null"
                ))
                .await,
            0
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_queue_gives_nothing_until_it_is_resumed() {
    for (queue, kind) in QUEUES {
        let database = TestDatabase::unlimited().await;
        submit_many(&database, kind, 2).await;
        let mut session = Session::open(&database).await;

        assert_eq!(
            session
                .texts(&format!("select tidegate.pause('{queue}')"))
                .await,
            [queue]
        );
        assert!(session.claim(queue, 10).await.is_empty());
        assert_eq!(
            session
                .texts(&format!("select tidegate.pause('{queue}', false)"))
                .await,
            [queue]
        );
        assert_eq!(session.claim(queue, 10).await.len(), 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_sender_is_recovered_in_two_events_and_its_request_handed_out_again() {
    let database = TestDatabase::unlimited().await;
    let id = database.submit("direct").await;
    let mut session = Session::open(&database).await;
    let first = session.claim("tx", 1).await;
    expire_leases(&database, "tx").await;

    let second = session.claim("tx", 1).await;

    assert_eq!((second[0].id, second[0].attempt), (id, 2));
    assert_eq!(second[0].msg_id, first[0].msg_id, "at its old position");
    assert_ne!(second[0].lease, first[0].lease);
    assert_eq!(
        history(&database, id).await,
        "submitted claimed recovered claimed"
    );
    assert!(
        session
            .texts(&settle("settle_receipt", &first, ""))
            .await
            .is_empty()
    );
    assert_eq!(
        session
            .texts(&settle("settle_receipt", &second, ""))
            .await
            .len(),
        1
    );
    assert_eq!(violations(&database.pool).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_check_is_handed_out_again_and_its_old_holder_settles_nothing() {
    let database = TestDatabase::unlimited().await;
    let id = database.submit("public_decrypt").await;
    let mut session = Session::open(&database).await;
    let first = session.claim("readiness", 1).await;
    expire_leases(&database, "readiness").await;

    let second = session.claim("readiness", 1).await;

    assert_eq!((second[0].id, second[0].attempt), (id, 2));
    for (function, more) in [
        ("settle_passed", ""),
        ("settle_not_yet", ""),
        ("settle_failed", "null"),
        ("release", ""),
    ] {
        assert!(
            session
                .texts(&settle(function, &first, more))
                .await
                .is_empty(),
            "{function}"
        );
    }
    assert_eq!(history(&database, id).await, "submitted");
    assert_eq!(
        session.texts(&settle("settle_passed", &second, "")).await,
        [id.to_string()]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_sender_of_an_at_most_once_kind_ends_as_outcome_unknown() {
    let database = TestDatabase::unlimited().await;
    database
        .execute("update tidegate.policy set semantics = 'at_most_once' where kind = 'direct'")
        .await;
    let id = database.submit("direct").await;
    let mut session = Session::open(&database).await;
    session.claim("tx", 1).await;
    expire_leases(&database, "tx").await;

    assert!(session.claim("tx", 1).await.is_empty());

    assert_eq!(
        history(&database, id).await,
        "submitted claimed outcome_unknown"
    );
    assert_eq!(
        database
            .text(&format!(
                "select error ->> 'code' from tidegate.request where id = '{id}'"
            ))
            .await
            .as_deref(),
        Some("outcome_unknown")
    );
    assert_eq!(violations(&database.pool).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_whose_attempts_are_used_up_is_handed_out_once_more_to_look_only() {
    let database = TestDatabase::unlimited().await;
    database
        .execute("update tidegate.policy set attempts = 2 where kind = 'direct' and stage = 'tx'")
        .await;
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
    assert_eq!(violations(&database.pool).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_past_its_deadline_ends_at_the_claim() {
    for (queue, kind, column, end) in [
        (
            "tx",
            "direct",
            "deadline_at",
            "failure submitted deadline_exceeded",
        ),
        (
            "readiness",
            "public_decrypt",
            "readiness_deadline_at",
            "timed_out submitted readiness_timed_out",
        ),
    ] {
        let database = TestDatabase::unlimited().await;
        let late = database.submit(kind).await;
        let good = database.submit(kind).await;
        database
            .execute(&format!(
                "update tidegate.request set {column} = clock_timestamp() where id = '{late}'"
            ))
            .await;

        let held = Session::open(&database).await.claim(queue, 10).await;

        assert_eq!(held.iter().map(|held| held.id).collect::<Vec<_>>(), [good]);
        assert_eq!(
            format!(
                "{} {}",
                database.status(late).await,
                history(&database, late).await
            ),
            end
        );
        assert_eq!(violations(&database.pool).await, Vec::<String>::new());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_claimers_of_a_lost_request_one_gets_it() {
    for (queue, kind) in QUEUES {
        let database = TestDatabase::unlimited().await;
        let id = database.submit(kind).await;
        Session::open(&database).await.claim(queue, 1).await;
        expire_leases(&database, queue).await;
        let mut first = Session::begin(&database).await;
        let mut second = Session::open(&database).await;

        assert_eq!(first.claim(queue, 1).await[0].id, id);
        assert!(
            second.claim(queue, 1).await.is_empty(),
            "it does not wait either"
        );
        first.commit().await;
        assert!(second.claim(queue, 1).await.is_empty());
        assert_eq!(violations(&database.pool).await, Vec::<String>::new());
    }
}
