//! What operators do on the pages, and what becomes of it.

use std::time::Duration;

use tidegate::request::RequestId;
use tidegate_node::{ConnectionOptions, Node, NodeOptions, PageOptions};

use super::{super::Api, Browser, ended, pages};
use crate::support::{TestDatabase, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn many_are_counted_first_and_then_cancelled_or_redriven() {
    let database = TestDatabase::unlimited().await;
    for status in ["failure", "timed_out"] {
        database.request_in("direct", status).await;
    }
    for _ in 0..2100 {
        database.submit("input_proof").await;
    }
    let left = database.submit("direct").await;
    let api = pages(&database, PageOptions::default()).await;
    let browser = Browser::of(&api);
    let list = "/ui/requests?kind=input_proof&state=processing";
    browser.get(list).await.says("Cancel all that match");
    let all = [("kind", "input_proof"), ("state", "processing"), ("act", "cancel_all")];
    let live = "select count(*) from tidegate.request where req_status = 'processing'";

    let job = browser.act(list, "/ui/requests/preview", &all).await;
    let counted = ended(&browser, job.location()).await;
    counted.says("Cancel 2\u{202f}100");
    assert_eq!(database.number(live).await, 2101, "nothing is done by a count");
    let job = browser.act(list, "/ui/requests/start", &all).await;
    let page = ended(&browser, job.location()).await;
    page.says("Ended.");
    assert_eq!(database.number(live).await, 1);
    assert_eq!(database.status(left).await, "processing");

    // What a filter cannot be given to is not done to more than it shows.
    let refused =
        browser.act(list, "/ui/requests/start", &[("executed", "no"), ("act", "cancel_all"), ("kind", "direct")]).await;
    assert_eq!(refused.status, 422);
    let nothing = browser.act(list, "/ui/requests/preview", &[("act", "cancel")]).await;
    nothing.says("no request was chosen");

    // Some of them are submitted again, also those that were cancelled, because they are named.
    let ids = database.column("select id from tidegate.request where kind = 'input_proof' order by id limit 3").await;
    let chosen: Vec<_> = ids.iter().map(|id| ("id", &**id)).chain([("act", "redrive")]).collect();
    let job = browser.act(list, "/ui/requests/preview", &chosen).await;
    ended(&browser, job.location()).await.says("Submit 3 again");
    let job = browser.act(list, "/ui/requests/start", &chosen).await;
    ended(&browser, job.location()).await.says("Ended.");
    assert_eq!(database.number("select count(*) from tidegate.redrive").await, 3);

    // An act on all that match is for what the list shows, and nothing else.
    let failures = "/ui/requests?kind=direct&state=failure";
    browser.get(failures).await.says("Redrive all that match");
    let fields = [("kind", "direct"), ("state", "failure"), ("may_repeat", "yes"), ("act", "redrive_all")];
    let job = browser.act(list, "/ui/requests/preview", &fields).await;
    ended(&browser, job.location()).await.says("Submit 1 again");
    let of_today = browser.get(&format!("{failures}&since=1h")).await;
    assert!(!of_today.html.contains("Redrive all that match"), "a redrive goes by the time of the end");
    for submitter in [" ann", "ann"] {
        database.execute(&format!("select tidegate.submit('direct', '1', submitter => '{submitter}')")).await;
    }
    let fields = [("kind", "direct"), ("submitter", " ann"), ("act", "cancel_all")];
    let job = browser.act(list, "/ui/requests/start", &fields).await;
    ended(&browser, job.location()).await.says("Ended.");
    let left =
        "select string_agg(submitter, ',') from tidegate.request where submitter ~ 'ann' and finished_at is null";
    assert_eq!(database.value(left).await, "ann");
    assert_eq!(browser.get("/ui/jobs/999").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_waits_hears_of_a_cancel_of_many() {
    let database = TestDatabase::unlimited().await;
    let ids = [database.submit("direct").await, database.submit("direct").await];
    // Without the work of a node, and with polls that fail: only the page can tell its waiting callers.
    database.execute("alter function tidegate.moved_since rename to moved_since_itself").await;
    let node = Node::of_store(database.store.clone(), NodeOptions::default());
    let router = node.router().merge(node.pages(PageOptions::default()));
    let api = Api::serve(router, ConnectionOptions::default()).await;
    let browser = Browser::of(&api);
    for (id, act) in ids.iter().zip(["cancel", "cancel_all"]) {
        let mut waiter = node.waiters().wait_for(*id).unwrap();
        let id = id.to_string();
        let fields = [("id", &*id), ("kind", "direct"), ("act", act)];
        let started = browser.act("/ui/gates", "/ui/requests/start", &fields).await;
        assert_eq!(started.status, 303, "{}", started.html);
        let told = tokio::time::timeout(Duration::from_secs(30), waiter.ended()).await;
        assert!(told.is_ok(), "{act}: it was not told");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_request_can_be_failed_redriven_and_resolved() {
    let database = TestDatabase::unlimited().await;
    let api = pages(&database, PageOptions::default()).await;
    let browser = Browser::of(&api);
    let sent = database.request_in("direct", "tx_in_flight").await;
    let path = format!("/ui/requests/{sent}");
    let failed = browser.act("/ui/gates", &format!("{path}/fail"), &[("reason", "the rail is down")]).await;
    browser.get(failed.location()).await.says("It has failed.");
    let page = browser.get(&path).await;
    page.says("the rail is down");
    page.says("unknown");
    let refused = browser.act("/ui/gates", &format!("{path}/redrive"), &[]).await;
    assert_eq!(refused.status, 422);
    refused.says("may have been executed");
    let resolved =
        browser.act("/ui/gates", &format!("{path}/resolve"), &[("executed", "no"), ("note", "by phone")]).await;
    browser.get(resolved.location()).await.says("What is known of it is on record.");
    let redriven = browser.act("/ui/gates", &format!("{path}/redrive"), &[]).await;
    let new = browser.get(redriven.location()).await;
    new.says("It was submitted again.");
    new.says(&sent.to_string());
    let twice = browser.act("/ui/gates", &format!("{path}/redrive"), &[]).await;
    assert_eq!(twice.status, 422);
    let cannot = browser.act("/ui/gates", &format!("{path}/cancel"), &[]).await;
    cannot.says("it cannot be cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_gates_and_pauses_are_changed_with_the_sentence_of_a_refusal() {
    let database = TestDatabase::new().await;
    let api = pages(&database, PageOptions::default()).await;
    let browser = Browser::of(&api);
    let set = async |setting: &str, value: &str| {
        browser.act("/ui/gates", "/ui/settings", &[("setting", setting), ("value", value), ("of", "direct")]).await
    };
    assert_eq!(set("tx.per_seconds", "12").await.status, 303);
    assert_eq!(database.store.config_get(Some("tx.per_seconds")).await.unwrap().len(), 1);
    let refused = set("direct.tx.attempts", "1000").await;
    assert_eq!(refused.status, 422);
    refused.says("W_retry ≤ deadline − margin does not hold");
    browser.get("/ui/settings?name=tx").await.says("anyone on this machine");

    for (fields, check) in [
        (
            vec![("gate", "tx"), ("act", "close")],
            "select state = 'too_many_requests' and forced from tidegate.gate where name = 'tx'",
        ),
        (vec![("gate", "tx"), ("act", "release")], "select not forced from tidegate.gate where name = 'tx'"),
        (
            vec![("gate", "tx"), ("act", "marks"), ("high_water", "77"), ("low_water", "7")],
            "select (high_water, low_water) = (77, 7) from tidegate.gate where name = 'tx'",
        ),
        (
            vec![("act", "quota"), ("sort", "submitter"), ("name", "ann"), ("high_water", "5")],
            "select high_water = 5 from tidegate.gate where name = 'submitter ann'",
        ),
        (
            vec![("gate", "submitter ann"), ("act", "remove")],
            "select not exists (select from tidegate.gate where name = 'submitter ann')",
        ),
    ] {
        let done = browser.act("/ui/gates", "/ui/gates", &fields).await;
        assert_eq!(done.status, 303, "{fields:?}: {}", done.html);
        assert_eq!(database.value(&format!("select ({check})::text")).await, "true", "{fields:?}");
    }
    for (word, paused) in [("pause", "true"), ("resume", "false")] {
        browser.act("/ui/gates", "/ui/workers", &[("queue", "tx"), ("act", word)]).await;
        assert_eq!(database.value("select paused::text from tidegate.queue where name = 'tx'").await, paused);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_searches_and_recovers_and_its_runs_are_on_record() {
    let database = TestDatabase::unlimited().await;
    let id = database.request_in("direct", "processing").await;
    database.execute("delete from pgmq.q_tx").await;
    let api = pages(&database, PageOptions::default()).await;
    let browser = Browser::of(&api);
    browser.act("/ui/gates", "/ui/doctor", &[("act", "search")]).await;
    ended(&browser, "/ui/doctor").await.says("live_request_without_message: 1");
    eventually("the first page has it", || async {
        browser.get("/ui").await.html.contains("1 invariants do not hold")
    })
    .await;
    browser.act("/ui/gates", "/ui/doctor", &[("act", "dry_run")]).await;
    ended(&browser, "/ui/doctor").await.says("1 without a message, would be rebuilt");
    assert_eq!(database.number("select count(*) from pgmq.q_tx").await, 0);
    browser.act("/ui/gates", "/ui/doctor", &[("act", "recover")]).await;
    let page = ended(&browser, "/ui/doctor").await;
    page.says("1 without a message, rebuilt");
    page.says("anyone on this machine");
    assert_eq!(database.number("select count(*) from pgmq.q_tx").await, 1);
    assert_eq!(database.status(RequestId(id)).await, "processing");
}
