//! What submissions hear about the room that is left.

use std::{sync::Mutex, time::Instant};

use serde_json::{Value, json};

use super::{Answer, Api, answer};
use crate::support::{TestDatabase, eventually, race::submit_many, until_blocked};

fn told(taken: &Answer) -> (&str, &str) {
    (taken.header("ratelimit-policy"), taken.header("ratelimit"))
}

/// The first answer to this submission, or to one of its replays, that tells about room.
async fn told_at_last(api: &Api, path: &str, body: &Value) -> Answer {
    let heard = Mutex::new(None);
    eventually("a copy of the gates is there", || async {
        let taken = api.post_with_key(path, "once", body).await;
        let told = taken.headers.contains_key("ratelimit");
        *heard.lock().unwrap() = Some(taken);
        told
    })
    .await;
    heard.into_inner().unwrap().unwrap()
}

/// A submission and its replays are told this as soon as the copy is of after it.
async fn told_in_the_end(api: &Api, path: &str, body: &Value, room: (&str, &str)) {
    eventually("a copy that holds the submission", || async {
        let taken = told_at_last(api, path, body).await;
        assert_eq!(taken.status, 202);
        told(&taken) == room
    })
    .await;
}

/// The marks that `tidegate init` sets.
async fn marks(database: &TestDatabase) {
    database.execute("update tidegate.gate set high_water = 2000, low_water = 1000").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submission_hears_how_much_room_its_queue_has() {
    let database = TestDatabase::new().await;
    marks(&database).await;
    submit_many(&database, "direct", 100).await;
    submit_many(&database, "public_decrypt", 49).await;
    let api = Api::of(&database).await;

    let direct = (r#""tx";q=2000;w=200"#, r#""tx";r=1899;t=11"#);
    told_in_the_end(&api, "/v1/direct", &json!({}), direct).await;
    let batch = (r#""readiness";q=2000;w=40"#, r#""readiness";r=1949;t=2"#);
    told_in_the_end(&api, "/v1/public-decrypt/batch", &json!([1, 2]), batch).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn held_and_delayed_messages_take_room_too() {
    let database = TestDatabase::unlimited().await;
    marks(&database).await;
    submit_many(&database, "direct", 10).await;
    database.claim_tx(5).await;
    database
        .execute("select tidegate.submit('direct', '{}', not_before => clock_timestamp() + interval '1 hour')")
        .await;
    let api = Api::of(&database).await;

    // Nothing limits the queue: no time is told.
    let room = (r#""tx";q=2000"#, r#""tx";r=1988"#);
    told_in_the_end(&api, "/v1/direct", &json!({}), room).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_gate_has_no_room_until_it_opens() {
    let database = TestDatabase::new().await;
    marks(&database).await;
    super::gates::close_for_42_seconds(&database).await;
    let api = Api::of(&database).await;

    for path in ["/v1/direct", "/v1/direct/batch"] {
        let refused = told_at_last(&api, path, &json!([1])).await;
        assert_eq!(refused.status, 429);
        assert_eq!(refused.retry_after(), 42);
        assert_eq!(told(&refused), (r#""tx";q=2000;w=200"#, r#""tx";r=0;t=42"#));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_the_marks_is_told_within_seconds_and_a_paused_queue_tells_no_time() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;
    api.submit("direct").await;

    database.execute("update tidegate.gate set high_water = 50, low_water = 20; select tidegate.pause()").await;

    eventually("the copy is read again", || async {
        let taken = api.post("/v1/direct", &json!({})).await;
        taken.header("ratelimit-policy") == r#""tx";q=50"#
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_other_answer_tells_about_room() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;
    let path = api.submit("direct").await;

    for other in [
        api.get(&path).await,
        api.get("/v1/direct").await,
        api.post_text("/v1/direct", "{").await,
        api.post("/v1/teleport", &json!({})).await,
        api.post("/v1/responses", &json!({"reference": "r", "response": 1})).await,
    ] {
        assert_eq!(told(&other), ("", ""), "{other:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gates_are_read_every_two_seconds_however_many_ask() {
    let database = TestDatabase::new().await;
    database
        .execute(
            "create sequence public.readings;
             alter function tidegate.gate_copy() rename to gate_copy_itself;
             do $do$ begin
               execute format(
                 $$create function tidegate.gate_copy() returns %s language sql
                   as 'select g.* from nextval(''public.readings''), tidegate.gate_copy_itself() as g'$$,
                 pg_get_function_result('tidegate.gate_copy_itself'::regproc));
             end $do$",
        )
        .await;
    let began = Instant::now();
    let api = Api::of(&database).await;
    told_at_last(&api, "/v1/direct", &json!({})).await;

    for _ in 0..10 {
        let posting = (0..20).map(|_| answer(api.posting("/v1/direct", &json!({}))));
        for taken in futures_util::future::join_all(posting).await {
            assert_eq!(taken.status, 202);
            assert!(taken.header("ratelimit").starts_with("\"tx\";r="));
        }
    }

    let seconds = i64::try_from(began.elapsed().as_secs()).unwrap();
    let readings = database.number("select last_value from public.readings").await;
    assert!(readings <= 1 + seconds / 2, "{readings} in {seconds} s");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_copy_the_answer_comes_all_the_same() {
    let database = TestDatabase::new().await;
    database.execute("drop function tidegate.gate_copy()").await;
    let api = Api::of(&database).await;

    let taken = api.post("/v1/direct", &json!({})).await;

    assert_eq!(taken.status, 202);
    assert_eq!(told(&taken), ("", ""));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_call_waits_for_a_slow_copy_and_it_is_read_once() {
    let database = TestDatabase::new().await;
    database
        .execute(
            "create table public.held ();
             alter function tidegate.gate_copy() rename to gate_copy_itself;
             do $do$ begin
               execute format(
                 $$create function tidegate.gate_copy() returns %s language plpgsql as $f$ begin
                     perform from public.held;
                     return query select * from tidegate.gate_copy_itself();
                   end $f$ $$,
                 pg_get_function_result('tidegate.gate_copy_itself'::regproc));
             end $do$",
        )
        .await;
    let mut session = database.session().await;
    sqlx::raw_sql("begin; lock table public.held in access exclusive mode").execute(&mut session).await.unwrap();
    let api = Api::of(&database).await;

    for _ in 0..5 {
        let taken = api.post("/v1/direct", &json!({})).await;
        assert_eq!(taken.status, 202);
        assert_eq!(told(&taken), ("", ""));
        until_blocked(&database, 1).await;
    }
    let blocked = "select count(*) from pg_stat_activity
                   where datname = current_database() and wait_event_type = 'Lock'";
    assert_eq!(database.number(blocked).await, 1);

    super::let_go(session).await;
    told_at_last(&api, "/v1/direct", &json!({})).await;
}
