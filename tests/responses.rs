//! Does every response find its request exactly once, whatever the order in which shares, receipts and responses come?

use rand::seq::SliceRandom;
use tidegate::request::RequestId;

use crate::support::{
    TestDatabase,
    invariants::violations,
    race::{Session, history, receipt, settle},
};

fn share(id: RequestId, part: &str) -> String {
    format!(
        "select outcome from tidegate.respond('{{\"share\": \"{part}\"}}', id => '{id}', part => '{part}')"
    )
}

async fn threshold_reached_times(database: &TestDatabase, id: RequestId) -> usize {
    let causes = database.causes(id).await;
    causes
        .iter()
        .filter(|cause| *cause == "threshold_reached")
        .count()
}

#[tokio::test(flavor = "multi_thread")]
async fn four_shares_in_any_order_complete_at_the_third() {
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;
    let mut order = [0, 1, 2, 3];
    // All 24 permutations, by Heap's algorithm without recursion.
    let mut counters = [0; 4];
    let mut at = 0;
    let mut permutations = vec![order];
    while at < 4 {
        if counters[at] < at {
            let with = if at % 2 == 0 { 0 } else { counters[at] };
            order.swap(with, at);
            permutations.push(order);
            counters[at] += 1;
            at = 0;
        } else {
            counters[at] = 0;
            at += 1;
        }
    }
    assert_eq!(permutations.len(), 24);

    for order in permutations {
        let id = receipt(&database, "user_decrypt", None).await;
        let mut outcomes = Vec::new();
        for part in order {
            outcomes.extend(session.texts(&share(id, &part.to_string())).await);
        }
        assert_eq!(
            outcomes,
            ["stored", "stored", "completed", "late"],
            "{order:?}"
        );
        assert_eq!(threshold_reached_times(&database, id).await, 1);
        let shares = session
            .texts(&format!("select jsonb_object_keys(response -> 'shares') from tidegate.request where id = '{id}' order by 1"))
            .await;
        let mut first = order[..3].to_vec();
        first.sort_unstable();
        assert_eq!(
            shares,
            first.iter().map(ToString::to_string).collect::<Vec<_>>()
        );
    }
    assert_eq!(violations(&database.pool).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn shares_from_many_connections_at_once_complete_each_request_once() {
    let database = TestDatabase::unlimited().await;
    let mut ids = Vec::new();
    for _ in 0..20 {
        ids.push(receipt(&database, "user_decrypt", None).await);
    }
    let mut tasks = Vec::new();
    for _ in 0..6 {
        let mut mine: Vec<_> = ids
            .iter()
            .flat_map(|id| (0..5).map(move |part| share(*id, &part.to_string())))
            .collect();
        mine.shuffle(&mut rand::rng());
        let mut session = Session::open(&database).await;
        tasks.push(tokio::spawn(async move {
            let mut completed = 0;
            for sql in mine {
                let outcome = session.text(&sql).await;
                completed += usize::from(outcome == "completed");
            }
            completed
        }));
    }
    let mut completed = 0;
    for task in tasks {
        completed += task.await.unwrap();
    }

    assert_eq!(completed, ids.len());
    for id in ids {
        assert_eq!(threshold_reached_times(&database, id).await, 1);
        assert_eq!(
            database
                .number(&format!(
                    "select count(*) from tidegate.response_part where request_id = '{id}'"
                ))
                .await,
            3
        );
    }
    assert_eq!(violations(&database.pool).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_last_shares_at_once_the_second_waits_and_counts_the_first() {
    for commits in [true, false] {
        let database = TestDatabase::unlimited().await;
        let id = receipt(&database, "user_decrypt", None).await;
        let mut first = Session::open(&database).await;
        first.texts(&share(id, "1")).await;
        first.execute("begin").await;
        assert_eq!(first.text(&share(id, "2")).await, "stored");

        let second = Session::open(&database).await.start(&share(id, "3"));
        second.until_blocked_by(&database, &first).await;
        if commits {
            first.commit().await;
        } else {
            first.rollback().await;
        }
        let (mut second, outcome) = second.finish().await;

        assert_eq!(outcome, [if commits { "completed" } else { "stored" }]);
        if !commits {
            assert_eq!(second.text(&share(id, "2")).await, "completed");
        }
        assert_eq!(threshold_reached_times(&database, id).await, 1);
        assert_eq!(violations(&database.pool).await, Vec::<String>::new());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_share_given_twice_counts_once_even_at_once() {
    let database = TestDatabase::unlimited().await;
    let id = receipt(&database, "user_decrypt", None).await;
    let mut first = Session::begin(&database).await;
    assert_eq!(first.text(&share(id, "1")).await, "stored");
    let second = Session::open(&database).await.start(&share(id, "1"));
    second.until_blocked_by(&database, &first).await;
    first.commit().await;
    assert_eq!(second.finish().await.1, ["duplicate"]);

    assert_eq!(first.text(&share(id, "1")).await, "duplicate");
    assert_eq!(first.text(&share(id, "2")).await, "stored");
    assert_eq!(database.status(id).await, "receipt_received");
    assert_eq!(first.text(&share(id, "3")).await, "completed");
}

#[tokio::test(flavor = "multi_thread")]
async fn early_shares_and_their_duplicates_count_when_the_receipt_comes() {
    let database = TestDatabase::unlimited().await;
    let id = database.submit("user_decrypt").await;
    let mut session = Session::open(&database).await;
    assert_eq!(session.text(&share(id, "1")).await, "early");
    assert_eq!(session.text(&share(id, "1")).await, "early");
    let held = session.claim("readiness", 1).await;
    session.texts(&settle("settle_passed", &held, "")).await;
    let held = session.claim("tx", 1).await;
    assert_eq!(session.text(&share(id, "2")).await, "early");
    session.texts(&settle("settle_receipt", &held, "")).await;

    assert_eq!(database.status(id).await, "receipt_received");
    assert_eq!(
        database
            .number("select count(*) from tidegate.response_inbox")
            .await,
        0
    );
    assert_eq!(session.text(&share(id, "3")).await, "completed");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_early_response_waits_for_its_receipt_by_reference_and_by_id() {
    for (address, before_claim) in [
        ("reference", true),
        ("reference", false),
        ("id", true),
        ("id", false),
    ] {
        let database = TestDatabase::unlimited().await;
        let id = database.submit("direct").await;
        let mut session = Session::open(&database).await;
        let name = if address == "id" {
            id.to_string()
        } else {
            "ref-1".to_owned()
        };
        let respond = format!("select outcome from tidegate.respond('42', {address} => '{name}')");
        if before_claim {
            assert_eq!(session.text(&respond).await, "early");
        }
        let held = session.claim("tx", 1).await;
        if !before_claim {
            assert_eq!(session.text(&respond).await, "early");
        }

        session
            .texts(&settle("settle_receipt", &held, "array['ref-1']"))
            .await;

        assert_eq!(
            history(&database, id).await,
            "submitted claimed receipt response"
        );
        assert_eq!(
            database
                .text(&format!(
                    "select response from tidegate.request where id = '{id}'"
                ))
                .await
                .as_deref(),
            Some("42")
        );
        assert_eq!(session.text(&respond).await, "late", "a second one");
        assert_eq!(
            database
                .number("select count(*) from tidegate.response_inbox where late")
                .await,
            1
        );
        assert_eq!(violations(&database.pool).await, Vec::<String>::new());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_and_its_receipt_at_once_meet_in_both_orders() {
    for address in ["reference", "id"] {
        for response_first in [true, false] {
            for first_commits in [true, false] {
                let case =
                    format!("{address}, response first {response_first}, commits {first_commits}");
                let database = TestDatabase::unlimited().await;
                let id = database.submit("direct").await;
                let mut holder = Session::open(&database).await;
                let held = holder.claim("tx", 1).await;
                let name = if address == "id" {
                    id.to_string()
                } else {
                    "ref-1".to_owned()
                };
                let respond =
                    format!("select outcome from tidegate.respond('42', {address} => '{name}')");
                let settle = settle("settle_receipt", &held, "array['ref-1']");
                let (one, two) = if response_first {
                    (&respond, &settle)
                } else {
                    (&settle, &respond)
                };

                let mut first = Session::begin(&database).await;
                first.texts(one).await;
                let second = Session::open(&database).await.start(two);
                second.until_blocked_by(&database, &first).await;
                if first_commits {
                    first.commit().await;
                } else {
                    first.rollback().await;
                }
                second.finish().await;
                if !first_commits {
                    first.texts(one).await;
                }

                assert_eq!(database.status(id).await, "completed", "{case}");
                assert_eq!(
                    history(&database, id).await,
                    "submitted claimed receipt response",
                    "{case}"
                );
                assert_eq!(
                    database
                        .number("select count(*) from tidegate.response_inbox")
                        .await,
                    0,
                    "{case}"
                );
                assert_eq!(
                    violations(&database.pool).await,
                    Vec::<String>::new(),
                    "{case}"
                );
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn late_responses_are_kept_and_marked() {
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;
    let id = receipt(&database, "direct", Some("ref-1")).await;
    session
        .execute(&format!("select tidegate.time_out(array['{id}'::uuid])"))
        .await;

    assert_eq!(
        session
            .text("select outcome from tidegate.respond('1', reference => 'ref-1')")
            .await,
        "late"
    );
    assert_eq!(
        session
            .text(&format!(
                "select outcome from tidegate.respond('2', id => '{id}')"
            ))
            .await,
        "late"
    );

    assert_eq!(
        session.texts("select request_id::text || ' ' || response::text || ' ' || late from tidegate.response_inbox order by id").await,
        [format!("{id} 1 true"), format!("{id} 2 true")]
    );
    session.execute("select tidegate.sweep_inbox()").await;
    assert_eq!(
        history(&database, id).await,
        "submitted claimed receipt response_timed_out"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_verdict_accepts_or_rejects_and_nothing_else_answers_a_proof() {
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;
    for (accept, status, outcome, cause) in [
        ("true", "completed", "completed", "verdict_accepted"),
        ("false", "failure", "rejected", "verdict_rejected"),
    ] {
        let id = receipt(&database, "input_proof", None).await;
        let missing = session
            .attempt(&format!(
                "select outcome from tidegate.respond('{{}}', id => '{id}')"
            ))
            .await;
        assert_eq!(missing.unwrap_err().0, "TG007");
        let said = session
            .text(&format!("select outcome from tidegate.respond('{{\"why\": 1}}', id => '{id}', accept => {accept})"))
            .await;
        assert_eq!(
            (said.as_str(), database.status(id).await.as_str()),
            (outcome, status)
        );
        assert_eq!(database.causes(id).await.pop().as_deref(), Some(cause));
    }
    assert_eq!(violations(&database.pool).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn responses_that_do_not_fit_are_refused_and_change_nothing() {
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;
    for (kind, arguments) in [
        ("direct", "accept => true"),
        ("direct", "part => 'a'"),
        ("public_decrypt", "accept => false"),
        ("user_decrypt", ""),
        ("user_decrypt", "part => 'a', accept => true"),
        ("input_proof", ""),
        ("input_proof", "part => 'a'"),
        ("input_proof", "part => 'a', accept => true"),
    ] {
        let id = receipt(
            &database,
            kind,
            Some(&format!("{kind} {arguments}").replace('\'', "''")),
        )
        .await;
        let comma = if arguments.is_empty() { "" } else { ", " };
        for address in [
            format!("id => '{id}'"),
            format!("reference => $r${kind} {arguments}$r$"),
        ] {
            let said = session
                .attempt(&format!(
                    "select outcome from tidegate.respond('1', {address}{comma}{arguments})"
                ))
                .await;
            assert_eq!(said.unwrap_err().0, "TG007", "{kind} {arguments} {address}");
        }
        assert_eq!(database.status(id).await, "receipt_received");
    }
    for (arguments, state) in [
        ("'1'", "TG007"),
        ("'1', id => '00000000-0000-7000-8000-000000000000'", "TG006"),
    ] {
        let said = session
            .attempt(&format!(
                "select outcome from tidegate.respond({arguments})"
            ))
            .await;
        assert_eq!(said.unwrap_err().0, state, "{arguments}");
    }
    assert_eq!(
        database
            .number("select count(*) from tidegate.response_inbox")
            .await,
        0
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_that_came_with_the_receipt_is_applied_in_each_flow() {
    for (kind, status, causes) in [
        ("direct", "completed", "submitted claimed receipt"),
        (
            "public_decrypt",
            "completed",
            "submitted readiness_passed claimed receipt response",
        ),
        // Neither says what is missing (a share's name, a verdict): kept, and the answer is still awaited.
        (
            "user_decrypt",
            "receipt_received",
            "submitted readiness_passed claimed receipt",
        ),
        (
            "input_proof",
            "receipt_received",
            "submitted claimed receipt",
        ),
    ] {
        let database = TestDatabase::unlimited().await;
        let mut session = Session::open(&database).await;
        let id = database.submit(kind).await;
        if database.status(id).await == "queued" {
            let held = session.claim("readiness", 1).await;
            session.texts(&settle("settle_passed", &held, "")).await;
        }
        let held = session.claim("tx", 1).await;
        session
            .texts(&settle(
                "settle_receipt",
                &held,
                "array['ref-1'], array['{\"a\": 1}'::jsonb]",
            ))
            .await;

        assert_eq!(
            (
                database.status(id).await.as_str(),
                history(&database, id).await.as_str()
            ),
            (status, causes),
            "{kind}"
        );
        let kept = if status == "completed" { 0 } else { 1 };
        assert_eq!(
            database
                .number("select count(*) from tidegate.response_inbox where late")
                .await,
            kept,
            "{kind}"
        );
        if status == "completed" {
            assert_eq!(
                database
                    .text(&format!(
                        "select response from tidegate.request where id = '{id}'"
                    ))
                    .await
                    .as_deref(),
                Some("{\"a\": 1}")
            );
        }
        assert_eq!(
            violations(&database.pool).await,
            Vec::<String>::new(),
            "{kind}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sweep_applies_what_waits_in_the_inbox_for_requests_that_await_it() {
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;
    let by_id = receipt(&database, "direct", None).await;
    let by_reference = receipt(&database, "direct", Some("ref-1")).await;
    let ended = receipt(&database, "direct", Some("ref-2")).await;
    let in_flight = database.submit("direct").await;
    session.claim("tx", 1).await;
    session
        .execute(&format!("select tidegate.time_out(array['{ended}'::uuid])"))
        .await;
    // As if a restored backup had lost the applying.
    session
        .execute(&format!(
            "insert into tidegate.response_inbox (request_id, reference, response) values
               ('{by_id}', null, '1'), (null, 'ref-1', '2'), (null, 'ref-2', '3'), ('{in_flight}', null, '4'),
               (null, 'unknown', '5'), ('00000000-0000-7000-8000-000000000000', null, '6')"
        ))
        .await;

    assert_eq!(session.text("select tidegate.sweep_inbox()").await, "2");

    assert_eq!(database.status(by_id).await, "completed");
    assert_eq!(database.status(by_reference).await, "completed");
    assert_eq!(database.status(in_flight).await, "tx_in_flight");
    assert_eq!(
        session
            .texts("select response::text || ' ' || late from tidegate.response_inbox order by id")
            .await,
        ["3 true", "4 false", "5 false", "6 false"]
    );
    assert_eq!(session.text("select tidegate.sweep_inbox()").await, "0");
    assert_eq!(violations(&database.pool).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn early_responses_of_unsent_requests_do_not_keep_the_sweep_from_later_ones() {
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;
    let waiting = receipt(&database, "direct", None).await;
    for _ in 0..5 {
        let unsent = database.submit("direct").await;
        session
            .execute(&format!("select tidegate.respond('1', id => '{unsent}')"))
            .await;
    }
    session
        .execute(&format!(
            "insert into tidegate.response_inbox (request_id, response) values ('{waiting}', '1')"
        ))
        .await;

    session.execute("select tidegate.sweep_inbox(5)").await;
    session.execute("select tidegate.sweep_inbox(5)").await;

    assert_eq!(database.status(waiting).await, "completed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reference_given_to_two_requests_answers_the_first_of_them() {
    let database = TestDatabase::unlimited().await;
    let first = receipt(&database, "direct", Some("ref-1")).await;
    let second = receipt(&database, "direct", Some("ref-1")).await;
    let mut session = Session::open(&database).await;

    assert_eq!(
        session
            .text("select request_id from tidegate.respond('1', reference => 'ref-1')")
            .await,
        first.to_string()
    );
    assert_eq!(
        session
            .text("select outcome from tidegate.respond('2', reference => 'ref-1')")
            .await,
        "late"
    );
    assert_eq!(database.status(second).await, "receipt_received");
    assert_eq!(
        session
            .text(&format!(
                "select outcome from tidegate.respond('2', id => '{second}')"
            ))
            .await,
        "completed"
    );
    assert_eq!(violations(&database.pool).await, Vec::<String>::new());
}
