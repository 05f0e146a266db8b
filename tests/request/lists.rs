//! Does a list show each request once, newest first, in bounded work however large the table and rare the match?

use uuid::Uuid;

use crate::support::{
    TestDatabase,
    race::{Session, submit_many},
    sql::value,
};

/// Walks all pages of a list; the ids of each page.
async fn walk(session: &mut Session, arguments: &str) -> Vec<Vec<String>> {
    let mut pages = Vec::new();
    let mut before = "null".to_owned();
    loop {
        let rows = session
            .texts(&format!(
                "select coalesce(id::text, ''), coalesce(next_before::text, '')
                 from tidegate.list_requests({arguments}, before => {before})"
            ))
            .await;
        let next = rows.first().and_then(|row| row.split(' ').nth(1)).unwrap_or_default().to_owned();
        let ids = rows.iter().map(|row| row.split(' ').next().unwrap());
        pages.push(ids.filter(|id| !id.is_empty()).map(str::to_owned).collect());
        if next.is_empty() {
            return pages;
        }
        assert!(before == "null" || format!("'{next}'") < before, "{next} is no progress after {before}");
        before = format!("'{next}'");
        assert!(pages.len() < 1000, "no end");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_request_is_on_one_page_whatever_the_bounds() {
    let database = TestDatabase::unlimited().await;
    submit_many(&database, "direct", 300).await;
    submit_many(&database, "input_proof", 10).await;
    database
        .execute("select tidegate.cancel(id) from tidegate.request where kind = 'direct' and ('x' || right(id::text, 1))::bit(4)::integer % 4 = 0")
        .await;
    let mut session = Session::open(&database).await;

    for (arguments, filter) in [
        ("'direct', page => 7", "true"),
        ("'direct', page => 300", "true"),
        ("'direct', page => 1000", "true"),
        ("'direct', '{failure}', page => 5", "req_status = 'failure'"),
        ("'direct', '{failure}', page => 5, examine => 6", "req_status = 'failure'"),
        ("'direct', '{processing,failure}', page => 50, examine => 50", "true"),
        ("'direct', '{completed}', page => 1, examine => 1", "false"),
        ("'direct', '{}'", "false"),
        ("'direct', queue => 'tx', page => 9", "queue = 'tx'"),
        ("'direct', queue => 'readiness'", "false"),
    ] {
        let pages = walk(&mut session, arguments).await;
        let expected = session
            .texts(&format!("select id from tidegate.request where kind = 'direct' and {filter} order by id desc"))
            .await;
        assert_eq!(pages.concat(), expected, "{arguments}");
    }
    for (arguments, filter) in [
        ("page => 7", "true"),
        ("states => '{failure}', page => 5, examine => 6", "req_status = 'failure'"),
        ("null, queue => 'tx', page => 40", "queue = 'tx'"),
    ] {
        let pages = walk(&mut session, arguments).await;
        let all = format!("select id from tidegate.request where {filter} order by id desc");
        assert_eq!(pages.concat(), session.texts(&all).await, "{arguments}");
    }
    session.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_begins_at_a_time_and_takes_any_time() {
    let database = TestDatabase::unlimited().await;
    submit_many(&database, "direct", 3).await;
    let middle = database.value("select clock_timestamp()").await;
    // Ids tell the millisecond.
    database.execute("select pg_sleep(0.002)").await;
    submit_many(&database, "direct", 4).await;

    for (since, found) in [
        (middle.as_str(), "4"),
        ("-infinity", "7"),
        ("infinity", "0"),
        ("0001-01-01", "7"),
        ("1969-12-31", "7"),
        ("20000-01-01", "0"),
    ] {
        let sql = format!("select count(*) from tidegate.list_requests('direct', since => '{since}')");
        assert_eq!(database.value(&sql).await, found, "{since}");
        let until = sql.replace("since =>", "until =>");
        let before = (7 - found.parse::<i32>().unwrap()).to_string();
        assert_eq!(database.value(&until).await, before, "until {since}");
    }
    let unknown_queue = database.refused("select * from tidegate.list_requests(queue => 'teleport')").await;
    assert_eq!(unknown_queue.code, "TG005");
    let unknown = database.refused("select * from tidegate.list_requests('teleport')").await;
    assert_eq!(unknown.code, "TG002");
}

#[tokio::test(flavor = "multi_thread")]
async fn where_a_page_ends_tells_no_id_of_a_request_that_may_not_be_seen() {
    let database = TestDatabase::unlimited().await;
    submit_many(&database, "direct", 50).await;

    let next = database
        .value(
            "select next_before from tidegate.list_requests('direct', submitter => 'alice', page => 1, examine => 10)",
        )
        .await;

    assert!(next.ends_with("-0000-000000000000"), "{next}");
    let next: Uuid = next.parse().unwrap();
    let seen = database.number(&format!("select count(*) from tidegate.request where id >= '{next}'")).await;
    assert!((10..50).contains(&seen), "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_a_large_table_reads_little_more_than_it_shows() {
    let database = TestDatabase::large().await;
    let mut session = database.session().await;

    for (arguments, most) in [
        ("'direct', page => 10", 100),
        ("'direct', page => 1000", 2200),
        ("'direct', before => (select id from tidegate.request order by id offset 100000 limit 1), page => 10", 100),
        ("'direct', since => clock_timestamp() - interval '10 minutes', page => 10", 100),
        ("'direct', since => '2000-01-01', page => 10", 100),
        // Two of ten direct requests await a response; none has a submitter.
        ("'direct', '{receipt_received}', page => 10", 1500),
        ("'direct', submitter => 'alice'", 11_100),
        ("'direct', '{failure}', page => 10, examine => 2000", 3100),
        ("'input_proof'", 10),
        ("'public_decrypt', page => 10", 100),
        ("'user_decrypt'", 10),
        ("page => 10", 100),
        ("submitter => 'alice'", 11_100),
        ("until => clock_timestamp() - interval '10 minutes', page => 10", 100),
    ] {
        sqlx::raw_sql("begin").execute(&mut session).await.unwrap();
        let before = value(&mut session, "select clock_timestamp()").await;
        // The arguments are worked out first: their own reading does not count.
        let fixed = arguments.replace(
            "(select id from tidegate.request order by id offset 100000 limit 1)",
            &format!(
                "'{}'",
                value(&mut session, "select id from tidegate.request order by id offset 100000 limit 1").await
            ),
        );
        sqlx::raw_sql("commit; begin").execute(&mut session).await.unwrap();
        let read = "select coalesce(sum(seq_tup_read), 0) || ' ' || coalesce(sum(idx_tup_fetch), 0)
             from pg_stat_xact_user_tables where schemaname = 'tidegate' and relname = 'request'";
        let at_first = value(&mut session, read).await;
        value(&mut session, &format!("select count(*) from tidegate.list_requests({fixed})")).await;
        let at_last = value(&mut session, read).await;
        let number = |text: &str, place: usize| -> i64 { text.split(' ').nth(place).unwrap().parse().unwrap() };
        assert_eq!(number(&at_last, 0), number(&at_first, 0), "{arguments} scans, at {before}");
        let fetched = number(&at_last, 1) - number(&at_first, 1);
        assert!(fetched <= most, "{arguments} fetches {fetched}");
        sqlx::raw_sql("rollback").execute(&mut session).await.unwrap();
    }
}
