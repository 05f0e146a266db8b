//! Is nonsense refused, and by the name of the rule that it breaks?

mod kinds;
mod policies;
mod queues;
mod settings;
mod webhooks;

use crate::support::{
    TestDatabase,
    race::Session,
    sql::{column, refused, run},
};

/// A table with its columns; changes of it, each with the constraint that refuses it.
type Nonsense = (&'static str, &'static [(&'static str, &'static str)]);

#[tokio::test(flavor = "multi_thread")]
async fn every_nonsense_is_refused_by_its_named_constraint() {
    let database = TestDatabase::new().await;
    let mut session = database.session().await;
    run(&mut session, "select tidegate.queue_add('fair', 'tx', fair_by => 'submitter')").await;
    let mut tried = Vec::new();
    for (table, changes) in
        [queues::QUEUES, kinds::KINDS, policies::POLICIES, settings::SETTINGS, webhooks::WEBHOOKS].concat()
    {
        for (change, constraint) in changes {
            let sql = match change.strip_prefix("insert ") {
                Some(row) => format!("insert into tidegate.{table} {row}"),
                None => format!("update tidegate.{table} {change}"),
            };
            let refusal = refused(&mut session, &sql).await;
            assert_eq!((refusal.code.as_str(), refusal.constraint.as_str()), ("23514", *constraint), "{sql}");
            tried.push((*constraint).to_owned());
        }
    }

    tried.sort_unstable();
    tried.dedup();
    let there = column(
        &mut session,
        "select conname::text from pg_constraint
         where contype = 'c' and conrelid in (
           select ('tidegate.' || name)::regclass
           from unnest(array['queue', 'fair_key', 'gate', 'gate_round', 'kind', 'policy', 'setting', 'response_backoff', 'dedup',
             'submission_sample', 'webhook_host', 'webhook_secret', 'webhook_policy', 'webhook_delivery', 'timeout_estimator',
             'timeout_report']) as name
         )
         order by conname collate \"C\"",
    )
    .await;
    let gone: Vec<_> = tried.iter().filter(|constraint| !there.contains(constraint)).collect();
    assert!(gone.is_empty(), "gone: {gone:?}");
    let untried: Vec<_> = there.iter().filter(|constraint| !tried.contains(constraint)).collect();
    assert!(untried.is_empty(), "not tried: {untried:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_wrong_stage_a_rename_and_a_claim_from_the_wrong_side_are_refused() {
    let database = TestDatabase::new().await;
    let mut session = database.session().await;
    for (sql, code) in [
        ("insert into tidegate.kind (name, flow, tx_queue) values ('k', 'direct', 'readiness')", "TG005"),
        ("insert into tidegate.kind (name, flow, tx_queue) values ('k', 'direct', 'nowhere')", "TG005"),
        ("insert into tidegate.kind (name, flow, tx_queue) values ('k', 'direct', null)", "TG005"),
        (
            "insert into tidegate.kind (name, flow, readiness_queue, tx_queue) values ('k', 'decrypt', 'tx', 'tx')",
            "TG005",
        ),
        ("update tidegate.kind set tx_queue = 'readiness' where name = 'direct'", "TG005"),
        ("update tidegate.kind set readiness_queue = 'tx' where name = 'public_decrypt'", "TG005"),
        ("update tidegate.kind set name = 'other' where name = 'direct'", "TG002"),
        ("update tidegate.queue set name = 'other' where name = 'tx'", "TG005"),
        ("update tidegate.queue set stage = 'readiness' where name = 'tx'", "TG005"),
        ("delete from tidegate.queue where name = 'tx'", "23503"),
        ("select * from tidegate.claim_tx('readiness', 'w', 1, '30 s')", "TG005"),
        ("select * from tidegate.claim_readiness('tx', 'w', 1, '30 s')", "TG005"),
        ("select * from tidegate.claim_tx('nowhere', 'w', 1, '30 s')", "TG005"),
        ("select * from tidegate.claim_tx(null, 'w', 1, '30 s')", "TG005"),
        ("select * from tidegate.claim_tx('tx', 'w', 1, '9 ms')", "TG007"),
        ("select * from tidegate.claim_tx('tx', 'w', 1, '25 hours')", "TG007"),
        ("select * from tidegate.claim_readiness('readiness', 'w', 1, null)", "TG007"),
        ("select * from tidegate.pause('nowhere')", "TG005"),
        ("select tidegate.claim_wait_ms('nowhere')", "TG005"),
    ] {
        assert_eq!(refused(&mut session, sql).await.code, code, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_queue_kind_and_submitter_has_one_gate() {
    let database = TestDatabase::new().await;
    let mut session = database.session().await;
    run(
        &mut session,
        "insert into tidegate.gate (kind) values ('direct'); insert into tidegate.gate (submitter) values ('direct')",
    )
    .await;
    for (column, value, constraint) in [
        ("queue", "tx", "gate_queue_has_one"),
        ("kind", "direct", "gate_kind_has_one"),
        ("submitter", "direct", "gate_submitter_has_one"),
    ] {
        let sql = format!("insert into tidegate.gate ({column}) values ('{value}')");
        let refusal = refused(&mut session, &sql).await;
        assert_eq!(refusal.code, "23505", "{sql}");
        // The name is unique too, and may be looked at first.
        assert!([constraint, "gate_pkey"].contains(&refusal.constraint.as_str()), "{sql}: {}", refusal.constraint);
    }
    // Of a kind that there is.
    let sql = "insert into tidegate.gate (kind) values ('nope')";
    assert_eq!(refused(&mut session, sql).await.code, "23503");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_keeps_its_requests_as_long_as_their_keys() {
    let database = TestDatabase::new().await;
    let mut session = database.session().await;
    for nonsense in [
        "update tidegate.kind set retention = '23 hours' where name = 'direct'",
        "update tidegate.policy set dedup_window = '31 days' where kind = 'direct'",
        "insert into tidegate.kind (name, flow, tx_queue, retention) values ('k', 'direct', 'tx', '23 hours')",
        "select tidegate.config_set('direct.retention', '23 hours')",
        "select tidegate.config_set('direct.tx.dedup_window', '31 days')",
        "select tidegate.config_set_many('{\"direct.retention\": \"1 hour\", \"direct.tx.dedup_window\": \"2 hours\"}')",
    ] {
        let refusal = refused(&mut session, nonsense).await;
        assert_eq!(
            (refusal.code.as_str(), refusal.constraint.as_str()),
            ("23514", "kind_retention_is_at_least_the_dedup_window"),
            "{nonsense}: {refusal:?}"
        );
        assert!(
            refusal.message.contains(" < dedup_window ") && refusal.hint.contains("may change together"),
            "{refusal:?}"
        );
    }
    for sense in [
        "update tidegate.kind set retention = '24 hours' where name = 'direct'",
        "update tidegate.kind set retention = null where name = 'direct'",
        "update tidegate.policy set dedup_window = '31 days' where kind = 'direct'",
        "select tidegate.config_set_many('{\"direct.retention\": \"1 hour\", \"direct.tx.dedup_window\": \"1 hour\"}')",
        "begin; insert into tidegate.kind (name, flow, tx_queue, retention) values ('k', 'direct', 'tx', '23 hours');
         update tidegate.policy set dedup_window = '2 hours' where kind = 'k'; commit",
        "update tidegate.policy set dedup_window = '2 days' where kind = 'public_decrypt' and stage = 'readiness'",
    ] {
        run(&mut session, sense).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn retention_and_window_that_change_at_once_still_fit() {
    for (one, other) in [
        (
            "update tidegate.kind set retention = '25 hours' where name = 'direct'",
            "update tidegate.policy set dedup_window = '26 hours' where kind = 'direct'",
        ),
        (
            "update tidegate.policy set dedup_window = '26 hours' where kind = 'direct'",
            "update tidegate.kind set retention = '25 hours' where name = 'direct'",
        ),
    ] {
        let database = TestDatabase::new().await;
        let mut first = Session::begin(&database).await;
        first.execute(one).await;
        first.execute("set constraints all immediate").await;
        let second = Session::open(&database).await.start(other);
        second.until_blocked_by(&database, &first).await;
        first.commit().await;
        let (_, said) = second.outcome().await;
        assert_eq!(said.unwrap_err().0, "23514", "{one}; {other}");
    }
}
