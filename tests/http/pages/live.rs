//! How pages are kept up to date, and what that costs.

use std::time::Instant;

use reqwest::Method;
use tidegate::internals::api_key::Scope;
use tidegate_node::PageOptions;

use super::{super::access::key, Browser, pages};
use crate::support::{TestDatabase, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn a_live_page_sends_its_sections_when_they_change_and_ends_with_the_session() {
    let database = TestDatabase::unlimited().await;
    let admin = key(&database, "boss", &[Scope::Admin]).await;
    let api = pages(&database, PageOptions::default()).await;
    let browser = Browser::signed_in(&api, &admin).await;
    let mut stream = browser.ask(Method::GET, "/ui/live/gates").send().await.unwrap();
    assert_eq!(stream.headers()["content-type"], "text/event-stream");
    let mut received = String::new();
    let mut read_until = async |words: &str| {
        while !received.contains(words) {
            let chunk =
                stream.chunk().await.unwrap().unwrap_or_else(|| panic!("it has ended before {words}: {received}"));
            received.push_str(&String::from_utf8_lossy(&chunk));
        }
        received.clear();
    };
    read_until("id=\"gates\"").await;
    database.execute("select tidegate.gate_force('tx', 'too_many_requests')").await;
    read_until("held by hand").await;
    database.execute("delete from tidegate.page_session").await;
    while stream.chunk().await.unwrap().is_some() {}

    // Nor does it outlive the key of its session.
    let browser = Browser::signed_in(&api, &admin).await;
    let mut stream = browser.ask(Method::GET, "/ui/live/gates").send().await.unwrap();
    database.store.key_revoke(admin.id()).await.unwrap();
    while stream.chunk().await.unwrap().is_some() {}
}

#[tokio::test(flavor = "multi_thread")]
async fn viewers_share_one_look_a_second() {
    let database = TestDatabase::unlimited().await;
    // Counts the looks, whatever becomes of their transactions: each counts the messages of the queues once.
    database
        .execute(
            "create sequence public.looks;
             do $do$
             declare
               v_counts regproc := 'tidegate.queue_counts';
             begin
               execute replace(pg_get_functiondef(v_counts), 'queue_counts()', 'queue_counts_itself()');
               execute format(
                 'create or replace function tidegate.queue_counts() returns %s language sql volatile as $$
                    select c.* from (select nextval(''public.looks'')) as n, tidegate.queue_counts_itself() as c
                  $$', pg_get_function_result(v_counts)
               );
             end;
             $do$",
        )
        .await;
    let api = pages(&database, PageOptions::default()).await;
    let browser = Browser::of(&api);
    let began = Instant::now();
    for _ in 0..3 {
        let shown = futures_util::future::join_all((0..30).map(|_| browser.get("/ui"))).await;
        assert!(shown.iter().all(|page| page.status == 200));
    }
    let looks = database.number("select last_value from public.looks").await;
    let seconds = i64::try_from(began.elapsed().as_secs()).unwrap();
    assert!((1..=seconds + 1).contains(&looks), "{looks} looks in {seconds} s");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_away_leaves_the_last_figures_and_says_so() {
    let database = TestDatabase::unlimited().await;
    let api = pages(&database, PageOptions::default()).await;
    let browser = Browser::of(&api);
    browser.get("/ui").await.says("The last hour");
    let mut stream = browser.ask(Method::GET, "/ui/live/now").send().await.unwrap();
    database.cut().await;
    let mut received = String::new();
    while !received.contains("These are the figures of") {
        received.push_str(&String::from_utf8_lossy(&stream.chunk().await.unwrap().unwrap()));
    }
    assert_eq!(browser.get("/ui/requests").await.status, 503);
    database.restore().await;
    eventually("it is shown again", || async { browser.get("/ui/requests").await.status == 200 }).await;
}
