//! Does `kind_add` make a kind that works at once, and leave alone what exists?

use tidegate::internals::schema;

use crate::support::{
    TestDatabase,
    sql::{column, refused, run, value},
    until_blocked,
};

/// The rows of a call of `kind_add`, one text each.
fn added(call: &str) -> String {
    format!("select format('%s: %s %s', subject, name, value) from tidegate.kind_add({call})")
}

const CONFIGURATION: &str = "select jsonb_build_array(
    (select jsonb_agg(q order by name) from tidegate.queue as q), (select jsonb_agg(k order by name) from tidegate.kind as k),
    (select jsonb_agg(g order by queue) from tidegate.gate as g), (select jsonb_agg(s) from tidegate.setting as s)
  )";

const NO_ROWS: [&str; 0] = [];

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_of_pgmq_that_an_application_has_is_left_alone() {
    let database = TestDatabase::uninitialised().await;
    let mut session = database.session().await;
    // A name of the example, one of a new kind, and one whose table is of another shape.
    run(
        &mut session,
        "delete from tidegate.kind; delete from tidegate.queue;
         select pgmq.create('tx'); select pgmq.create('payout'); select pgmq.send('payout', '{\"mine\": 1}');
         create table pgmq.q_odd (mine int)",
    )
    .await;
    for call in [
        "select tidegate.kind_add('payout', 'direct')",
        "select tidegate.kind_add('odd', 'direct')",
        "insert into tidegate.queue (name, stage) values ('payout', 'tx')",
        "select tidegate.initialise('relayer')",
    ] {
        let refusal = refused(&mut session, call).await;
        assert!(["TG005", "TG007"].contains(&&*refusal.code), "{refusal:?}");
        assert!(refusal.message.contains("already, which is not Tidegate's"), "{refusal:?}");
    }
    run(&mut session, "select tidegate.recover_storage()").await;
    let kept = "select message ->> 'mine' from pgmq.q_payout";
    assert_eq!(column(&mut session, kept).await, ["1"]);
    let counters = "select relname from pg_class
                    where relnamespace = 'tidegate'::regnamespace and relname ~ '_(payout|odd|tx)$'";
    assert_eq!(column(&mut session, counters).await, [""; 0]);

    run(&mut session, "select pgmq.drop_queue('payout'); select tidegate.kind_add('payout', 'direct')").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_is_added_to_an_empty_database_takes_submissions_at_once() {
    let database = TestDatabase::empty().await;
    schema::migrate(&database.url).await.unwrap();
    let mut session = database.session().await;

    let made = column(&mut session, &added("'payout', 'direct', per_seconds => 20, actor => 'ann'")).await;
    assert_eq!(
        made,
        [
            "setting: event_retention 30 days",
            "queue payout: stage tx",
            "queue payout: per_seconds 20",
            "gate payout: high_water/low_water 2000/1000",
            "kind payout: flow direct",
            "kind payout: tx_queue payout",
            "kind payout: retention 30 days",
            "kind payout: processing_ms 2000",
            "kind payout: tx_confirmation_ms 100",
            "kind payout: eta observed",
        ]
    );
    let made = column(
        &mut session,
        &added("'report', 'decrypt', tx_queue => 'payout', response_threshold => 3, max_concurrency => 50, high_water => 90"),
    )
    .await;
    assert_eq!(
        made,
        [
            "queue report_readiness: stage readiness",
            "queue report_readiness: max_concurrency 50",
            "gate report_readiness: high_water/low_water 90/45",
            "kind report: flow decrypt",
            "kind report: readiness_queue report_readiness",
            "kind report: tx_queue payout",
            "kind report: response_threshold 3",
            "kind report: retention 30 days",
            "kind report: readiness_ms 2000",
            "kind report: processing_ms 4000",
            "kind report: tx_confirmation_ms 100",
            "kind report: eta observed",
        ]
    );
    column(&mut session, &added("'vote', 'proof'")).await;

    for (kind, queue) in [("payout", "payout"), ("report", "report_readiness"), ("vote", "vote")] {
        assert_eq!(
            value(&mut session, &format!("select row(outcome, queue) from tidegate.submit('{kind}', '{{}}')")).await,
            format!("(accepted,{queue})")
        );
    }
    let actors = "select distinct on_behalf_of from tidegate.config_change where row_key = 'payout'";
    assert_eq!(column(&mut session, actors).await, ["ann"]);
    assert_eq!(
        column(&mut session, "select name from tidegate.check_invariants() where violations > 0").await,
        NO_ROWS
    );

    let before = value(&mut session, CONFIGURATION).await;
    assert_eq!(
        column(&mut session, "select subject from tidegate.initialise()").await,
        NO_ROWS,
        "no limit is a choice"
    );
    assert_eq!(value(&mut session, CONFIGURATION).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_existing_kind_stays_as_it_is_and_another_flow_or_queue_is_refused() {
    let database = TestDatabase::new().await;
    let mut session = database.session().await;
    run(&mut session, "select tidegate.kind_add('report', 'decrypt', 'tx')").await;
    let before = value(&mut session, CONFIGURATION).await;

    for again in [
        "'report', 'decrypt'",
        "'report', 'decrypt', 'tx', 'report_readiness'",
        "'report', 'decrypt', per_seconds => 7, response_threshold => 9, high_water => 5",
    ] {
        assert_eq!(column(&mut session, &added(again)).await, NO_ROWS, "{again}");
    }
    for (other, words, hint) in [
        (
            "'report', 'direct'",
            "exists with flow decrypt and tx_queue tx and readiness_queue report_readiness, and was given flow direct",
            "another name",
        ),
        ("'report', 'decrypt', 'other'", "and was given flow decrypt and tx_queue other", "tidegate config set"),
        (
            "'report', 'decrypt', readiness_queue => 'readiness'",
            "tx_queue report and readiness_queue readiness",
            "tidegate config set",
        ),
        ("'direct', 'direct', readiness_queue => 'readiness'", "readiness_queue readiness", "tidegate config set"),
    ] {
        let refusal = refused(&mut session, &added(other)).await;
        assert_eq!(refusal.code, "TG007", "{other}");
        assert!(refusal.message.contains(words), "{other}: {refusal:?}");
        assert!(refusal.hint.contains(hint), "{refusal:?}");
    }

    assert_eq!(value(&mut session, CONFIGURATION).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_kind_is_refused_with_a_sentence_and_leaves_nothing() {
    let database = TestDatabase::new().await;
    let mut session = database.session().await;
    let before = value(&mut session, CONFIGURATION).await;
    let long = format!("'{}', 'direct'", "a".repeat(41));
    for (call, words, hint) in [
        ("'Pay out', 'direct'", "queue name is lower snake case", "^[a-z]"),
        (&long, "queue name is lower snake case", "{0,39}"),
        ("'admin', 'direct'", "kind name is not admin or responses", "allowed: "),
        ("null, 'direct'", "null value", "nothing has changed"),
        (
            "'p', 'directly'",
            "there is no flow \"directly\"; there are: direct (send, response), verdict or proof",
            "nothing",
        ),
        ("'p', null", "there is no flow", "nothing"),
        ("'p', 'direct', per_seconds => -1", "queue per seconds is zero to a million", "per_seconds"),
        ("'p', 'direct', per_seconds => 'infinity'", "queue per seconds is zero to a million", "per_seconds"),
        ("'p', 'direct', max_concurrency => 5", "max_concurrency limits readiness checks", "nothing"),
        ("'p', 'decrypt', max_concurrency => -5", "queue max concurrency is not negative", "max_concurrency"),
        ("'p', 'direct', response_threshold => 2", "kind threshold needs a decrypt", "response_threshold"),
        ("'p', 'direct', readiness_queue => 'readiness'", "kind has a readiness queue iff decrypt", "flow"),
        ("'p', 'direct', tx_queue => 'readiness'", "serves the readiness stage", "nothing"),
        ("'p', 'decrypt', 'q', 'q'", "stage", "nothing"),
        ("'p', 'direct', high_water => 5, low_water => 5", "low", "low_water"),
    ] {
        let refusal = refused(&mut session, &added(call)).await;
        assert_eq!(refusal.code, "TG007", "{call}: {refusal:?}");
        assert!(refusal.message.starts_with("kind ") && refusal.message.contains(words), "{call}: {refusal:?}");
        assert!(refusal.hint.contains(hint), "{call}: {refusal:?}");
    }
    assert_eq!(value(&mut session, CONFIGURATION).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_programs_that_add_one_kind_at_the_same_time_make_it_once() {
    let database = TestDatabase::new().await;
    let (mut first, mut second) = (database.session().await, database.session().await);
    run(&mut first, "begin; select tidegate.kind_add('payout', 'direct')").await;

    let again = tokio::spawn(async move { column(&mut second, &added("'payout', 'direct'")).await });
    until_blocked(&database, 1).await;
    run(&mut first, "commit").await;

    assert_eq!(again.await.unwrap(), NO_ROWS);
    assert_eq!(database.number("select count(*) from tidegate.kind where name = 'payout'").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_is_added_while_the_database_is_initialised() {
    let database = TestDatabase::empty().await;
    schema::migrate(&database.url).await.unwrap();
    let (mut first, mut second) = (database.session().await, database.session().await);
    let mut holder = database.session().await;
    run(&mut holder, "begin; lock table tidegate.setting").await;
    let added =
        tokio::spawn(async move { run(&mut first, "select tidegate.kind_add('payout', 'direct', 'tx')").await });
    until_blocked(&database, 1).await;
    let initialised = tokio::spawn(async move { run(&mut second, "select tidegate.initialise('relayer')").await });
    until_blocked(&database, 2).await;
    run(&mut holder, "commit").await;

    added.await.unwrap();
    initialised.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn timeouts_attempts_deadlines_and_etas_fit_the_time_of_an_answer() {
    let database = TestDatabase::unlimited().await;
    let mut session = database.session().await;
    for (answers_in, timeout_ms, attempts, deadline, told) in [
        // As without it.
        ("1 ms", 10_000, 38, "01:00:00", 1),
        ("50 ms", 10_000, 38, "01:00:00", 1),
        ("30 s", 60_000, 33, "01:00:00", 37),
        ("5 minutes", 600_000, 5, "01:00:00", 361),
        ("40 minutes", 4_800_000, 4, "06:40:00", 2881),
        ("12 hours", 86_400_000, 4, "120:00:00", 51_841),
    ] {
        run(&mut session, "update tidegate.setting set max_seconds = 86400").await;
        let call = format!("'slow', 'direct', answers_in => '{answers_in}'");
        let made = column(&mut session, &added(&call)).await;

        let fitted = "select format('%s %s %s', p.timeout_ms, p.attempts, k.deadline)
                      from tidegate.policy as p join tidegate.kind as k on k.name = p.kind where p.kind = 'slow'";
        let fitted = value(&mut session, fitted).await;
        assert_eq!(fitted, format!("{timeout_ms} {attempts} {deadline}"), "{answers_in}");
        let timeout = format!("policy slow.tx: timeout_ms {timeout_ms}");
        assert_eq!(made.contains(&timeout), timeout_ms > 10_000, "{made:?}");
        let seconds = "select retry_after_seconds from tidegate.submit('slow', '1')";
        assert_eq!(value(&mut session, seconds).await, told.to_string(), "{answers_in}");
        run(&mut session, "select tidegate.cancel(id) from tidegate.request").await;
        database.past_triggers("delete from tidegate.request").await;
        run(
            &mut session,
            "delete from tidegate.kind where name = 'slow'; delete from tidegate.queue where name = 'slow'",
        )
        .await;
    }
    // Behind a full queue, too, if that leaves room for an attempt: doctor has nothing to warn of.
    let limited = "'limited', 'direct', per_seconds => 20, answers_in => '30 s'";
    run(&mut session, &added(limited)).await;
    let left = "select attempts from tidegate.policy where kind = 'limited' and stage = 'tx'";
    assert_eq!(value(&mut session, left).await, "32");
    let warnings = "select count(*) from tidegate.configuration_warning where subject = 'kind limited'";
    assert_eq!(value(&mut session, warnings).await, "0");
    run(&mut session, &added("'rare', 'direct', per_seconds => 0.1, answers_in => '30 s'")).await;
    assert_eq!(value(&mut session, &left.replace("limited", "rare")).await, "33");
    // Sends of the other flows do not wait for the answer.
    run(&mut session, &added("'paper', 'checked', answers_in => '20 minutes'")).await;
    let times = "select format('%s %s %s %s', p.timeout_ms, p.attempts, k.processing_ms, k.response_timeout)
                 from tidegate.policy as p join tidegate.kind as k on k.name = p.kind
                 where p.kind = 'paper' and p.stage = 'tx'";
    assert_eq!(value(&mut session, times).await, "10000 38 1200000 03:20:00");

    for answers_in in ["0", "0.9 ms", "-1 s", "12:00:01", "infinity"] {
        let refusal = refused(&mut session, &added(&format!("'odd', 'direct', answers_in => '{answers_in}'"))).await;
        // An interval since PostgreSQL 17.
        let codes: &[&str] = if answers_in == "infinity" { &["TG007", "22007"] } else { &["TG007"] };
        assert!(codes.contains(&&*refusal.code), "{refusal:?}");
    }
}
