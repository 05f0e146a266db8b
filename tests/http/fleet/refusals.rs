//! What does a node answer while a gate is closed, and what does that cost the database?

use std::sync::atomic::{AtomicUsize, Ordering};

use reqwest::RequestBuilder;
use serde_json::{Value, json};
use tidegate::internals::api_key::Scope;
use tidegate_node::HttpOptions;
use tokio::io::AsyncWriteExt;

use super::{
    super::{Answer, access::key, answer, read_to_end},
    Member, all_know, fill, fleet, stage,
};
use crate::support::{
    TestDatabase, eventually,
    race::{DEPTH, Session, submit_many},
};

/// Counts the statements that submit, and makes each of them fail; the submitting function as it was, to put it back.
async fn fail_submissions(database: &TestDatabase) -> String {
    let stored = "select pg_get_functiondef('tidegate_internal.require_kind(text)'::regprocedure)";
    let stored = database.text(stored).await.unwrap();
    database
        .execute(
            "create sequence public.submitting;
             create or replace function tidegate_internal.require_kind(p_kind text) returns tidegate.kind
             language plpgsql as $$
             begin
               perform nextval('public.submitting');
               raise lock_not_available using message = 'a submission has come this far';
             end;
             $$",
        )
        .await;
    stored
}

/// What a node answers by itself. One that got no CPU for a while reads its copies again before it knows what to answer:
/// what it has left to the database until then has failed there.
async fn answer_of_node(database: &TestDatabase, failed: &AtomicUsize, request: impl Fn() -> RequestBuilder) -> Answer {
    let mut known = None;
    for _ in 0..100 {
        let answered = answer(request()).await;
        if answered.status.as_u16() < 500 {
            known = Some(answered);
            break;
        }
        failed.fetch_add(1, Ordering::SeqCst);
        tokio::task::yield_now().await;
    }
    let submitted = "select coalesce(pg_sequence_last_value('public.submitting'), 0)";
    let submitted = usize::try_from(database.number(submitted).await).unwrap();
    let failed = failed.load(Ordering::SeqCst);
    assert!(submitted <= failed, "{submitted} submitting statements for {failed} failed calls");
    known.expect("the node knows")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_gate_costs_no_statement_without_a_key_and_replays_are_answered() {
    let database = stage().await;
    let alice = key(&database, "alice", &[Scope::Submit]).await;
    let fleet = fleet(&database, 1).await;
    let (api, node) = (&fleet[0].api, &fleet[0]);
    let posting = |path: &str| api.posting(path, &json!([1])).bearer_auth(alice.expose());
    let keyed = |name: &str| posting("/v1/direct").header("idempotency-key", name);
    let first = answer(keyed("first")).await;
    assert_eq!(first.status, 202);
    fill(&database).await;
    eventually("the node knows", || async { node.knows(false) }).await;

    let stored = fail_submissions(&database).await;
    let failed = AtomicUsize::new(0);
    for _ in 0..20 {
        for path in ["/v1/direct", "/v1/direct/batch", "/v1/public-decrypt"] {
            let refused = answer_of_node(&database, &failed, || posting(path)).await;
            refused.assert_problem(429, "gate_closed");
            assert!(refused.header("ratelimit").starts_with("\"tx\";r=0;t="));
        }
    }
    // Whatever else it asks for, and whatever its body is.
    let called_back = || posting("/v1/direct").header("tidegate-callback-url", "https://example.com");
    let refused = answer_of_node(&database, &failed, called_back).await;
    refused.assert_problem(429, "gate_closed");
    let nonsense = || posting("/v1/direct").body("{");
    let refused = answer_of_node(&database, &failed, nonsense).await;
    refused.assert_problem(429, "gate_closed");
    // Who may not call learns nothing of it.
    let unknown = || api.posting("/v1/direct", &json!({}));
    let refused = answer_of_node(&database, &failed, unknown).await;
    refused.assert_problem(401, "unauthenticated");
    database.execute(&stored).await;

    let replayed = answer(keyed("first")).await;
    assert_eq!(replayed.status, 202, "{replayed:?}");
    assert_eq!(replayed.header("idempotency-replayed"), "true");
    assert_eq!(replayed.body["job_id"], first.body["job_id"]);
    let fresh = answer(keyed("second")).await;
    fresh.assert_problem(429, "gate_closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_or_large_submission_to_a_closed_gate_gets_its_429() {
    let database = stage().await;
    let member = Member::start(&database, false).await;
    fill(&database).await;
    eventually("the node knows", || async { member.knows(false) }).await;
    let head = "POST /v1/direct HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";

    // The body ends too late, if at all: it is not taken for the next call.
    let stalled = format!("{head}content-length: 10\r\n\r\n{{");
    let said = read_to_end(member.api.raw(&stalled).await).await;
    assert!(said.starts_with("HTTP/1.1 429 "), "{said}");
    let said = said.to_ascii_lowercase();
    for header in ["connection: close", "retry-after: "] {
        assert!(said.contains(&format!("\r\n{header}")), "{said}");
    }

    // As much as an open gate would take, and the connection serves on.
    let longest = HttpOptions::default().body_limit;
    let mut sending = member.api.raw(&format!("{head}content-length: {longest}\r\n\r\n")).await;
    sending.write_all(&vec![b'1'; longest]).await.unwrap();
    let next = "GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    sending.write_all(next.as_bytes()).await.unwrap();
    let said = read_to_end(sending).await;
    assert!(said.starts_with("HTTP/1.1 429 "), "{said}");
    assert!(said.contains("HTTP/1.1 200 "), "{said}");
    member.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_count_refusals_by_copy_and_database_and_show_closed_gates() {
    let database = stage().await;
    let fleet = fleet(&database, 1).await;
    let api = &fleet[0].api;
    fill(&database).await;
    all_know(&fleet, false).await;
    for _ in 0..3 {
        api.post("/v1/direct", &json!({})).await;
    }
    api.post_with_key("/v1/direct", "k", &json!({})).await;

    let figures = api.get("/metrics").await.body;
    let figures = figures.as_str().unwrap();
    for figure in [
        r#"tidegate_gate_refusals_total{kind="direct",by="copy"} 3"#,
        r#"tidegate_gate_refusals_total{kind="direct",by="database"} 1"#,
        r#"tidegate_submissions_total{kind="direct",outcome="refused"} 4"#,
        r#"tidegate_gate_copy_closed{gate="tx"} 1"#,
        r#"tidegate_gate_copy_closed{gate="readiness"} 0"#,
        "tidegate_gate_copy_age_seconds ",
    ] {
        assert!(figures.contains(figure), "{figure} in {figures}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn those_beyond_the_room_are_told_later_with_a_key_or_without() {
    let database = stage().await;
    database.execute("update tidegate.queue set per_seconds = 1 where name = 'tx'").await;
    let fleet = fleet(&database, 1).await;
    let api = &fleet[0].api;
    fill(&database).await;
    all_know(&fleet, false).await;
    // Callers of a queue in which nothing moves for long are told more.
    database.stop_clock().await;

    let mut told = Vec::new();
    for nth in 0..40 {
        let refused = if nth % 2 == 0 {
            api.post("/v1/direct", &json!({})).await
        } else {
            api.post_with_key("/v1/direct", &format!("k{nth}"), &json!({})).await
        };
        told.push(refused.retry_after());
    }

    // 15 above the low mark at 1 per second, margin 0.2; less what has passed since.
    assert!((1..=18).contains(&told[0]), "{told:?}");
    // 25 more than there is room for come one by one, in 1.2 s each, less what has passed since.
    assert!((35..=48).contains(&told[39]), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_never_fits_is_refused_for_good_and_one_that_will_until_it_does() {
    let database = stage().await;
    let fleet = fleet(&database, 1).await;
    let api = &fleet[0].api;
    let batch = |count: usize| Value::from(vec![1; count]);

    let never = api.post("/v1/direct/batch", &batch(40)).await;
    never.assert_problem(422, "batch_too_large");
    assert_eq!(never.body["retryable"], false);
    for number in ["40", "30", "\"tx\""] {
        assert!(never.detail().contains(number), "{never:?}");
    }
    submit_many(&database, "direct", 15).await;
    let later = api.post("/v1/direct/batch", &batch(20)).await;
    later.assert_problem(429, "gate_closed");
    assert_eq!(database.number(DEPTH).await, 15);
    let whole = api.post("/v1/direct/batch", &batch(15)).await;
    assert_eq!(whole.status, 202);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_whose_lock_is_kept_is_a_503_with_retry_after() {
    let database = stage().await;
    // Who waits for less gives up sooner.
    database
        .execute(
            "do $$ begin execute format('alter database %I set lock_timeout = 100', current_database()); end $$;
             select tidegate.quota_set(kind => 'direct', high_water => 1000)",
        )
        .await;
    let member = Member::start(&database, false).await;
    let mut holder = Session::begin(&database).await;
    holder.execute("select tidegate.submit('direct', '{}')").await;

    for path in ["/v1/direct", "/v1/direct/batch"] {
        let busy = member.api.post(path, &json!([1])).await;
        busy.assert_problem(503, "gate_busy");
        assert_eq!(busy.body["retryable"], true);
        assert!(busy.detail().starts_with("nothing was stored"), "{busy:?}");
        assert_eq!(busy.retry_after(), 5);
    }
    holder.rollback().await;
    assert_eq!(member.api.post("/v1/direct", &json!({})).await.status, 202);
    member.stop().await;
}
