//! Of two concurrent submissions with one key, does one make the request and the other find it?

use super::{NO_ROWS, submit};
use crate::support::{
    TestDatabase,
    at_rest::violations,
    sql::{refused, run, value},
    until_blocked,
};

#[tokio::test(flavor = "multi_thread")]
async fn of_two_first_arrivals_at_once_one_makes_the_request_and_the_other_finds_it() {
    for (payload, first_ends, expected) in [
        ("1", "commit", "replayed"),
        ("1", "rollback", "accepted"),
        ("2", "commit", "TG004"),
        ("2", "rollback", "accepted"),
    ] {
        let database = TestDatabase::unlimited().await;
        let mut first = database.session().await;
        run(&mut first, "begin; select tidegate.submit('direct', '1', 'k')").await;

        let mut second = database.session().await;
        let sql = format!("select outcome from tidegate.submit('direct', '{payload}', 'k')");
        let arrival = tokio::spawn(async move {
            if expected == "TG004" { refused(&mut second, &sql).await.code } else { value(&mut second, &sql).await }
        });
        until_blocked(&database, 1).await;
        run(&mut first, first_ends).await;

        assert_eq!(arrival.await.unwrap(), expected, "{first_ends}");
        assert_eq!(database.number("select count(*) from tidegate.request").await, 1);
        assert_eq!(violations(&mut first).await, NO_ROWS);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_re_acceptances_at_once_one_wins() {
    let database = TestDatabase::unlimited().await;
    let (_, id) = submit(&database, "'direct', '1', 'k'").await;
    database.execute(&format!("select tidegate.cancel('{id}')")).await;
    let mut first = database.session().await;
    run(&mut first, "begin; select tidegate.submit('direct', '1', 'k')").await;

    let mut second = database.session().await;
    let arrival =
        tokio::spawn(
            async move { value(&mut second, "select outcome from tidegate.submit('direct', '1', 'k')").await },
        );
    until_blocked(&database, 1).await;
    run(&mut first, "commit").await;

    assert_eq!(arrival.await.unwrap(), "replayed");
    assert_eq!(database.number("select count(*) from tidegate.request").await, 2);
}
