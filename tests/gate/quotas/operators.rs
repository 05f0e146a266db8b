//! What operators do with quotas: they make, change, force and remove them, while callers submit.

use super::{ANN, DIRECT, batch, counted, outcomes, promised, stage, state};
use crate::support::{
    eventually,
    race::{Session, settle, sound, submit_many},
};

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_quota_refuses_no_submission() {
    let (database, mut session) = stage(&[DIRECT, ANN]).await;
    outcomes(&mut session, &batch("direct", 6)).await;
    let mut other = Session::begin(&database).await;
    assert_eq!(
        outcomes(&mut other, "submit('direct', '{}', submitter => 'ann', admission => 'accepted')").await,
        ["accepted"]
    );
    let mut removing = Session::begin(&database).await;
    for (name, removed) in [("kind direct", "t"), ("kind direct", "f"), ("submitter ann", "t")] {
        let remove = format!("select tidegate.quota_remove('{name}', 'bob')");
        assert_eq!(removing.text(&remove).await, removed);
    }
    // No session waits for it.
    assert_eq!(outcomes(&mut session, &promised("direct", 1)).await, ["accepted"]);
    removing.commit().await;
    other.commit().await;
    assert_eq!(outcomes(&mut session, &batch("direct", 10)).await, ["accepted"; 10]);
    assert_eq!(
        session
            .texts("select distinct on_behalf_of, operation, subject from tidegate.config_history('kind direct') where operation = 'delete'")
            .await,
        ["bob delete gate kind direct"]
    );
    let (code, _) = session.attempt("select tidegate.quota_remove('tx')").await.unwrap_err();
    assert_eq!(code, "TG007");
    // What it counted goes with the next round; a new one of its name counts anew, and goes on in the history.
    let held = session.claim("tx", 2).await;
    session.texts(&settle("settle_rejected", &held, "null")).await;
    assert_eq!(session.text(&format!("select tidegate.quota_set({DIRECT})")).await, "t");
    assert_eq!(counted(&mut session, "kind direct").await, "16");
    assert_eq!(state(&mut session, "kind direct").await, "too_many_requests 16 3");
    assert_eq!(
        session
            .texts(
                "select signal, depth, cause, case actor when session_user then 'owner' else actor end, is_current
                 from tidegate.gate_history where gate = 'kind direct' order by epoch"
            )
            .await,
        [
            "TOO_MANY_REQUESTS 6 high mark owner f",
            "ACCEPTING_REQUESTS 6 removed bob f",
            "TOO_MANY_REQUESTS 16 high mark owner t"
        ]
    );
    session
        .execute("select tidegate.quota_remove('kind direct'); select tidegate.quota_reconcile(), tidegate.quota_reconcile()")
        .await;
    assert_eq!(database.number("select count(*) from tidegate.quota_usage").await, 0);
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_quota_of_a_kind_goes_with_the_kind() {
    let (database, mut session) = stage(&[]).await;
    session
        .execute(
            "insert into tidegate.kind (name, flow, tx_queue, processing_ms, tx_confirmation_ms) values ('mine', 'direct', 'tx', 1, 1);
             select tidegate.quota_set(kind => 'mine', high_water => 4);
             delete from tidegate.kind where name = 'mine'",
        )
        .await;
    assert_eq!(session.texts("select name from tidegate.gate order by name").await, ["readiness", "tx"]);
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_changes_as_far_as_it_is_named_and_invalid_values_are_refused_in_words() {
    let (database, mut session) = stage(&["kind => 'direct', high_water => 9"]).await;
    let shown = "select high_water || ' ' || low_water || ' ' || mode from tidegate.gate where name = 'kind direct'";
    for (change, changed, expected) in [
        ("high_water => 9", "f", "9 4 strict"),
        ("low_water => 2", "t", "9 2 strict"),
        ("mode => 'soft'", "t", "9 2 soft"),
        ("high_water => 20", "t", "20 2 soft"),
        ("high_water => 20, actor => 'ann'", "f", "20 2 soft"),
    ] {
        let set = format!("select tidegate.quota_set('direct', {change})");
        assert_eq!(session.text(&set).await, changed, "{change}");
        assert_eq!(session.text(shown).await, expected, "{change}");
    }
    for (call, code, words) in [
        ("high_water => 3", "TG007", "name one of them"),
        ("'direct', 'ann', 3", "TG007", "name one of them"),
        ("'nope', high_water => 3", "TG002", "no kind \"nope\""),
        ("submitter => 'ann'", "TG007", "high_water"),
        ("submitter => '', high_water => 3", "TG007", "1 to 200 characters"),
        ("submitter => repeat('x', 201), high_water => 3", "TG007", "1 to 200 characters"),
        ("'direct', high_water => 2", "TG007", "low water is below high water"),
        ("submitter => 'ann', high_water => 0", "TG007", "low water is below high water"),
        ("'direct', mode => 'hard'", "TG007", "mode is known"),
    ] {
        let (said, message) = session.attempt(&format!("select tidegate.quota_set({call})")).await.unwrap_err();
        assert_eq!(said, code, "{call}");
        assert!(message.contains(words), "{call}: {message}");
    }
    // It closes and opens with its marks.
    submit_many(&database, "direct", 5).await;
    session.execute("select tidegate.quota_set('direct', high_water => 5)").await;
    assert_eq!(state(&mut session, "kind direct").await, "too_many_requests 5 1");
    session
        .execute("select tidegate.config_set_many('{\"kind direct.high_water\": 50, \"kind direct.low_water\": 10}'); select tidegate.gates_evaluate()")
        .await;
    assert_eq!(state(&mut session, "kind direct").await, "accepting 5 2");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_concurrent_operators_make_one_quota() {
    let (database, _) = stage(&[]).await;
    let mut one = Session::begin(&database).await;
    let make = "select tidegate.quota_set(submitter => 'a.b \"c\"', high_water => 4)";
    assert_eq!(one.text(make).await, "t");
    let two =
        Session::open(&database).await.start("select tidegate.quota_set(submitter => 'a.b \"c\"', high_water => 8)");
    two.until_blocked_by(&database, &one).await;
    one.commit().await;
    assert_eq!(two.finish().await.1, ["t"]);
    assert_eq!(
        database.value("select name || high_water from tidegate.gate where queue is null").await,
        "submitter a.b \"c\"8"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_quota_that_is_full_closes_when_it_is_released() {
    let (database, mut session) = stage(&[]).await;
    session
        .execute(
            "select tidegate.quota_set(kind => 'direct', high_water => 4500);
             select tidegate.gate_force('kind direct', 'accepting')",
        )
        .await;
    submit_many(&database, "direct", 4600).await;
    session.execute("select tidegate.gate_force('kind direct', null)").await;
    let state = "select state || ' ' || depth from tidegate.gate_event order by id desc limit 1";
    assert_eq!(session.text(state).await, "too_many_requests 4501");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_is_forced_as_a_gate_is() {
    let (database, mut session) = stage(&[ANN]).await;
    session.execute("select tidegate.gate_force('submitter ann', 'too_many_requests')").await;
    for (submitter, outcome) in [("'ann'", "refused"), ("'bob'", "accepted"), ("null", "accepted")] {
        assert_eq!(
            outcomes(&mut session, &format!("submit('direct', '{{}}', submitter => {submitter})")).await,
            [outcome]
        );
    }
    session.execute("select tidegate.gate_force('submitter ann', null)").await;
    eventually("it is let go", || async {
        database.number("select count(*) from tidegate.gate where state = 'accepting' and name = 'submitter ann'").await
            == 1
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_that_is_removed_while_a_submission_waits_for_it_does_not_refuse_it() {
    let (database, mut session) = stage(&[DIRECT]).await;
    let submit = batch("direct", 1);
    let mut first = Session::begin(&database).await;
    assert_eq!(outcomes(&mut first, &submit).await, ["accepted"]);
    let second = Session::open(&database).await.start(&format!("select outcome from tidegate.{submit}"));
    second.until_blocked_by(&database, &first).await;
    assert_eq!(session.text("select tidegate.quota_remove('kind direct')").await, "t");
    first.commit().await;

    assert_eq!(second.finish().await.1, ["accepted"]);
}
