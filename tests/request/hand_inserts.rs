//! A request that is inserted by hand: is it counted once if it is there afterwards, and not at all if it is not?

use crate::support::{
    TestDatabase,
    race::{NOTHING, Session, against, sound},
};

/// The columns of a request that has to name nothing else.
const COLUMNS: &str = "(id, kind, flow, req_status, processing_at, deadline_at, payload)";
const ID: &str = "00000000-0000-7000-8000-00000000ffff";

fn row(id: &str) -> String {
    format!("({id}, 'direct', 'direct', 'processing', now(), now() + interval '1 day', '{{}}')")
}

async fn counted(database: &TestDatabase) -> [i64; 3] {
    [
        database.number("select count(*) from tidegate.request").await,
        database
            .number(
                "select coalesce(sum(delta), 0)::bigint from tidegate.request_count_delta where from_status is null",
            )
            .await,
        database.number("select count(*) from tidegate.request_event where transition_no = 1").await,
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn two_inserts_of_one_id_count_once() {
    let insert = format!(
        "insert into tidegate.request {COLUMNS} values {0}, {0} on conflict do nothing returning kind",
        row(&format!("'{ID}'"))
    );
    for commits in [true, false] {
        let database = TestDatabase::unlimited().await;
        let mut first = Session::begin(&database).await;
        assert_eq!(first.texts(&insert).await, ["direct"]);

        let second = against(&database, &mut first, commits, &insert).await;

        let expected: &[&str] = if commits { &[] } else { &["direct"] };
        assert_eq!(second, expected);
        assert_eq!(first.texts(&insert).await, NOTHING);
        assert_eq!(counted(&database).await, [1, 1, 1]);
    }
}

/// Its history belongs to the first request.
#[tokio::test(flavor = "multi_thread")]
async fn an_id_that_a_request_has_had_is_refused_even_while_it_is_being_deleted() {
    for cause in ["submitted", "hand_edit"] {
        let database = TestDatabase::unlimited().await;
        database
            .execute(&format!(
                "insert into tidegate.request {COLUMNS} values {};
                 update tidegate.request set req_status = 'failure'",
                row(&format!("'{ID}'"))
            ))
            .await;
        let again = format!(
            "insert into tidegate.request (id, kind, flow, req_status, cause, processing_at, deadline_at, payload)
             values ('{ID}', 'direct', 'direct', 'processing', '{cause}', now(), now() + interval '1 day', '{{}}')"
        );
        let mut deleter = Session::begin(&database).await;
        deleter.execute("delete from tidegate.request").await;

        let second = Session::open(&database).await.start(&again);
        second.until_blocked_by(&database, &deleter).await;
        deleter.commit().await;
        let (mut second, refusal) = second.outcome().await;

        assert_eq!(refusal.unwrap_err().0, "TG001", "{cause}");
        assert_eq!(second.attempt(&again).await.unwrap_err().0, "TG001", "{cause}");
        assert_eq!(database.number("select count(*) from tidegate.request").await, 0);
        assert_eq!(database.number("select count(*) from tidegate.stored_event").await, 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_is_not_inserted_is_not_counted() {
    let three = format!(
        "insert into tidegate.request {COLUMNS} select {} from generate_series(1, 3) on conflict do nothing",
        row("gen_random_uuid()").trim_matches(['(', ')'])
    );
    for (prevents, rows) in [
        (
            "create unique index on tidegate.request (response_threshold)",
            [1, 1, 1],
        ),
        (
            "create function public.nothing() returns trigger language plpgsql as 'begin return null; end';
             create trigger zz_nothing before insert on tidegate.request for each row execute function public.nothing()",
            [0, 0, 0],
        ),
    ] {
        let database = TestDatabase::unlimited().await;
        database.execute(prevents).await;
        database.execute(&three).await;
        assert_eq!(counted(&database).await, rows, "{prevents}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upsert_of_a_request_that_has_ended_inserts_nothing() {
    let database = TestDatabase::unlimited().await;
    database.request_in("direct", "completed").await;
    database
        .execute(
            "create table public.backup as table tidegate.request;
             insert into tidegate.request select * from public.backup on conflict do nothing;
             insert into tidegate.request select * from public.backup
             on conflict (id) do update set submitter = 'restored'",
        )
        .await;
    sound(&database).await;
    let restored = "select count(*) from tidegate.request where req_status = 'completed' and submitter = 'restored'";
    assert_eq!(database.number(restored).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn inserts_of_different_ids_do_not_wait_for_each_other() {
    let database = TestDatabase::unlimited().await;
    let insert = format!("insert into tidegate.request {COLUMNS} values {}", row("gen_random_uuid()"));
    let mut first = Session::begin(&database).await;
    first.execute(&insert).await;
    let mut second = Session::open(&database).await;
    second.execute("set lock_timeout = '10 s'").await;
    second.execute(&insert).await;
    first.commit().await;
    assert_eq!(counted(&database).await, [2, 2, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_value_is_refused_by_its_column() {
    let database = TestDatabase::unlimited().await;
    let columns = ["id", "kind", "flow", "req_status", "cause", "transition_no"];
    let values = [
        format!("'{ID}'"),
        "'direct'".to_owned(),
        "'direct'".to_owned(),
        "'processing'".to_owned(),
        "'submitted'".to_owned(),
        "1".to_owned(),
    ];
    for (place, column) in columns.iter().enumerate() {
        let mut values = values.clone();
        values[place] = "null".to_owned();
        let refusal = database
            .refused(&format!(
                "insert into tidegate.request ({}, processing_at, deadline_at, payload) values ({}, now(), now(), '{{}}')",
                columns.join(", "),
                values.join(", ")
            ))
            .await;
        assert_eq!(refusal.code, "23502", "{column}: {refusal:?}");
        let named = format!(r#"null value in column "{column}" of relation "request""#);
        assert!(refusal.message.contains(&named), "{refusal:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_has_no_time_of_a_later_status() {
    let database = TestDatabase::unlimited().await;
    for cause in ["submitted", "hand_edit"] {
        for column in ["tx_in_flight_at", "receipt_received_at", "finished_at"] {
            let refusal = database
                .refused(&format!(
                    "insert into tidegate.request
                       (id, kind, flow, req_status, cause, processing_at, {column}, deadline_at, payload)
                     values ('{ID}', 'direct', 'direct', 'processing', '{cause}', now(), now(), now(), '{{}}')"
                ))
                .await;
            assert_eq!(refusal.code, "TG001", "{cause} {column}");
        }
    }
}
