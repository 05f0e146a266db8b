//! When is a queue surveyed, and what if a survey is killed, meets another, or its queue goes?

use super::{assert_exact, fill, rows, survey};
use crate::support::{
    TestDatabase,
    race::{Session, settle, submit_many},
    server::templates::DEEP,
};

#[tokio::test(flavor = "multi_thread")]
async fn maintenance_surveys_deep_queues_and_forgets_those_that_are_deep_no_more() {
    let database = TestDatabase::unlimited().await;
    submit_many(&database, "direct", 400).await;
    let maintain = "update tidegate.maintenance set ran_at = '-infinity'; call tidegate.maintain()";
    for statement in maintain.split("; ") {
        database.execute(statement).await;
    }
    assert_eq!(rows(&database).await, 0, "400 are counted when asked for");

    fill(&database, 19).await;
    for statement in maintain.split("; ") {
        database.execute(statement).await;
    }
    assert_eq!(rows(&database).await, 2);
    assert_exact(&database).await;

    let mut session = Session::open(&database).await;
    loop {
        let held = session.claim("tx", 5000).await;
        if held.is_empty() {
            break;
        }
        session.texts(&settle("settle_rejected", &held, "null")).await;
    }
    submit_many(&database, "direct", 100).await;
    assert_exact(&database).await;
    for statement in maintain.split("; ") {
        database.execute(statement).await;
    }
    assert_eq!(rows(&database).await, 0);
    assert_exact(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_surveys_at_once_one_has_nothing_to_do() {
    let database = TestDatabase::deep().await;
    let mut first = Session::begin(&database).await;
    assert_eq!(first.text("select tidegate.survey_queue('tx')").await, "3", "every chunk was new");

    assert_eq!(database.text("tidegate.survey_queue('tx')").await, None, "it does not wait for the other either");
    first.commit().await;

    assert_eq!(database.number("tidegate.survey_queue('tx')").await, 0);
    assert_exact(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_survey_that_is_killed_leaves_the_one_before() {
    let database = TestDatabase::deep().await;
    survey(&database).await;
    let mut session = Session::open(&database).await;
    let held = session.claim("tx", 500).await;
    session.texts(&settle("settle_rejected", &held, "null")).await;
    let before = "select md5(string_agg(s::text, ' ' order by s.chunk)) from tidegate.queue_survey as s";
    let untouched = database.value(before).await;

    let mut killed = Session::begin(&database).await;
    killed.texts("select tidegate.survey_queue('tx')").await;
    assert_ne!(killed.text(before).await, untouched, "it had something to write");
    database.execute(&format!("select pg_terminate_backend({}, 10000)", killed.pid)).await;

    assert_eq!(database.value(before).await, untouched);
    assert_exact(&database).await;
    survey(&database).await;
    assert_exact(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_emptied_by_hand_or_made_again_has_the_positions_of_what_it_holds() {
    let database = TestDatabase::deep().await;
    survey(&database).await;

    database.execute("truncate pgmq.q_tx restart identity").await;
    submit_many(&database, "direct", 300).await;
    assert_exact(&database).await;
    survey(&database).await;
    assert_eq!(rows(&database).await, 0);
    fill(&database, DEEP / 1000).await;
    survey(&database).await;
    assert_exact(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_goes_takes_its_survey_with_it_and_waits_for_one_under_way() {
    let database = TestDatabase::unlimited().await;
    database
        .execute(
            "insert into tidegate.queue (name, stage) values ('extra', 'tx');
             insert into pgmq.q_extra (vt, message) select '-infinity', '{}' from generate_series(1, 5000)",
        )
        .await;
    let mut surveyor = Session::begin(&database).await;
    assert_eq!(surveyor.text("select tidegate.survey_queue('extra')").await, "1");
    surveyor.execute("truncate pgmq.q_extra").await;
    let removal = Session::open(&database).await.start("delete from tidegate.queue where name = 'extra'");
    removal.until_blocked_by(&database, &surveyor).await;
    surveyor.commit().await;
    let (mut remover, _) = removal.finish().await;

    assert_eq!(rows(&database).await, 0);
    let (code, message) = remover.attempt("select tidegate.survey_queue('extra')").await.unwrap_err();
    assert_eq!((code.as_str(), message.as_str()), ("TG005", "there is no queue \"extra\""));
    remover.execute("insert into tidegate.queue (name, stage) values ('extra', 'tx')").await;
    assert_eq!(
        remover.text("select waiting from tidegate_internal.waiting_before('extra', '{null}', null)").await,
        "0"
    );
}
