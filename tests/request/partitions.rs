//! Does the history of each day lie in a partition of its own, made without blocking other sessions?

use crate::support::{
    TestDatabase,
    sql::{column, run, value},
};

const NO_ROWS: [&str; 0] = [];

#[tokio::test(flavor = "multi_thread")]
async fn events_land_in_the_partition_of_their_requests_day() {
    let database = TestDatabase::unlimited().await;
    let mut session = database.session().await;
    // The template may be of an earlier day.
    run(&mut session, "select tidegate.make_partitions()").await;
    let insert = |id: &str| {
        format!(
            "insert into tidegate.request (id, kind, flow, req_status, processing_at, deadline_at, payload)
             values ({id}, 'direct', 'direct', 'processing', now(), now() + interval '1 hour', '{{}}')"
        )
    };
    for (id, day) in [
        ("tidegate_internal.uuid_v7()", "now()"),
        ("tidegate_internal.uuid_v7(date_trunc('day', now(), 'UTC'))", "now()"),
        ("tidegate.uuid_v7_floor(date_trunc('day', now(), 'UTC') + interval '1 day')", "now() + interval '1 day'"),
        (
            "tidegate_internal.uuid_v7(date_trunc('day', now(), 'UTC') + interval '2 days' - interval '1 ms')",
            "now() + interval '1 day'",
        ),
        ("tidegate_internal.uuid_v7(now() + interval '3 days')", "now() + interval '3 days'"),
    ] {
        let expected = format!("select 'stored_event_' || to_char(({day}) at time zone 'UTC', 'YYYY_MM_DD')");
        let expected = value(&mut session, &expected).await;
        run(&mut session, "begin").await;
        run(&mut session, &insert(id)).await;
        assert_eq!(
            column(
                &mut session,
                "select relname::text from pg_class as c join tidegate.stored_event as e on e.tableoid = c.oid"
            )
            .await,
            [expected],
            "{id}"
        );
        run(&mut session, "rollback").await;
    }
    // Days that have no partition, and ids that are no times at all.
    for id in [
        "tidegate_internal.uuid_v7(now() - interval '2 days')",
        "tidegate_internal.uuid_v7(now() + interval '30 days')",
        "gen_random_uuid()",
    ] {
        run(&mut session, "begin").await;
        run(&mut session, &insert(id)).await;
        assert_eq!(
            column(
                &mut session,
                "select relname::text from pg_class as c join tidegate.stored_event as e on e.tableoid = c.oid"
            )
            .await,
            ["stored_event_default"],
            "{id}"
        );
        run(&mut session, "rollback").await;
    }
    assert_eq!(
        column(&mut session, "select tidegate.make_partitions(4)").await.len(),
        1,
        "today's and the next three are there"
    );
    assert_eq!(column(&mut session, "select tidegate.make_partitions(4)").await, NO_ROWS);
}

#[tokio::test(flavor = "multi_thread")]
async fn making_partitions_does_not_hold_up_submissions_behind_an_open_transaction() {
    let database = TestDatabase::unlimited().await;
    database.execute("select tidegate.make_partitions()").await;
    let partitions = "select count(*) from pg_inherits where inhparent = 'tidegate.stored_event'::regclass";
    let before = database.number(partitions).await;
    let mut idle = database.session().await;
    run(&mut idle, "begin; select tidegate.submit('direct', '{}')").await;

    let mut maintenance = database.session().await;
    let made = tokio::spawn(async move { column(&mut maintenance, "select tidegate.make_partitions(4)").await });
    database.submit("direct").await;
    let _ = made.await.unwrap();
    run(&mut idle, "commit").await;

    database.execute("select tidegate.make_partitions(4)").await;
    assert_eq!(database.number(partitions).await, before + 1);
}
