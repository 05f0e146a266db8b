//! Is the `traceparent` of a submission kept with its request, and does it reach workers?

use std::sync::Mutex;

use serde_json::json;

use crate::{
    http::Api,
    support::{TestDatabase, eventually},
};

const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const OTHER: &str = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-00";

/// `request.traceparent` of each request, in their order.
async fn kept(database: &TestDatabase) -> Vec<String> {
    database.column("select coalesce(traceparent, 'none') from tidegate.request order by id").await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_way_to_submit_keeps_the_traceparent() {
    let database = TestDatabase::unlimited().await;
    database.store.webhook_host_add("hooks.example.com", false).await.unwrap();
    for (submit, expected) in [
        (format!("submit('direct', '1', traceparent => '{CALLER}')"), vec![CALLER]),
        (format!("submit('direct', '2', 'key', traceparent => '{CALLER}')"), vec![CALLER]),
        (format!("submit('public_decrypt', '3', traceparent => '{CALLER}')"), vec![CALLER]),
        (format!("submit_group('direct', '{{4}}', traceparents => '{{{CALLER}}}')"), vec![CALLER]),
        (
            format!("submit_group('direct', '{{5,6,7}}', '{{a,null,b}}', traceparents => '{{{CALLER},null,{OTHER}}}')"),
            vec![CALLER, "none", OTHER],
        ),
        ("submit_group('direct', '{8,9}')".to_owned(), vec!["none", "none"]),
        (format!("submit_batch('direct', '{{1,2}}', traceparent => '{CALLER}')"), vec![CALLER, CALLER]),
        (format!("submit_batch_once('direct', '{{1,2}}', 'batch', traceparent => '{CALLER}')"), vec![CALLER, CALLER]),
        (
            format!("submit_with_callback('direct', '1', 'https://hooks.example.com/', traceparent => '{CALLER}')"),
            vec![CALLER],
        ),
        ("submit('direct', '10')".to_owned(), vec!["none"]),
    ] {
        let before = kept(&database).await.len();
        database.execute(&format!("select from tidegate.{submit}")).await;
        assert_eq!(kept(&database).await[before..], expected, "{submit}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_keeps_the_traceparent_of_its_request() {
    let database = TestDatabase::unlimited().await;
    for traceparent in [CALLER, OTHER] {
        let submit = format!("submit_group('direct', '{{1,1}}', '{{a,b}}', traceparents => '{{{traceparent},null}}')");
        database.execute(&format!("select from tidegate.{submit}")).await;
    }
    assert_eq!(kept(&database).await, [CALLER, "none"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_traceparent_is_ignored_and_one_of_a_later_version_is_read() {
    let database = TestDatabase::unlimited().await;
    for invalid in [
        "",
        "00",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-",
        "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01x",
        "00-0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\n",
    ] {
        database.execute(&format!("select from tidegate.submit('direct', '1', traceparent => '{invalid}')")).await;
        assert_eq!(kept(&database).await.pop().unwrap(), "none", "{invalid}");
    }
    for later in [format!("cc{}", &CALLER[2..]), format!("cc{}-more", &CALLER[2..])] {
        database.execute(&format!("select from tidegate.submit('direct', '1', traceparent => '{later}')")).await;
        assert_eq!(kept(&database).await.pop().unwrap(), CALLER, "{later}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn http_takes_it_from_the_header_and_ignores_an_invalid_one() {
    let database = TestDatabase::unlimited().await;
    let api = Api::of(&database).await;
    for (path, headers, expected) in [
        ("/v1/direct", vec![CALLER], vec![CALLER]),
        ("/v1/direct/batch", vec![CALLER], vec![CALLER, CALLER]),
        ("/v1/direct", vec![], vec!["none"]),
        ("/v1/direct", vec!["00-caller"], vec!["none"]),
        // Two headers are ambiguous: both are ignored.
        ("/v1/direct", vec![CALLER, OTHER], vec!["none"]),
    ] {
        let before = kept(&database).await.len();
        let mut posting = api.client.post(api.url(path)).json(&json!([1, 2]));
        for header in &headers {
            posting = posting.header("traceparent", *header);
        }
        assert_eq!(posting.send().await.unwrap().status(), 202, "{path} {headers:?}");
        assert_eq!(kept(&database).await[before..], expected, "{path} {headers:?}");
    }
}

/// Claims all requests of a stage as soon as they are due: what each claim says of their traces.
async fn claimed(database: &TestDatabase, stage: &str, count: usize) -> Vec<String> {
    let claim = format!(
        "select coalesce(traceparent, 'none') || ' ' || coalesce(begins_trace::text, 'none')
         from tidegate.claim_{stage}('{stage}', 'worker', 10, '1 minute')"
    );
    let all = Mutex::new(Vec::new());
    eventually("all requests are claimed", || async {
        let some = database.column(&claim).await;
        let mut all = all.lock().unwrap();
        all.extend(some);
        all.len() == count
    })
    .await;
    let mut all = all.into_inner().unwrap();
    all.sort();
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_attempt_is_in_its_trace_and_a_later_one_begins_another() {
    let database = TestDatabase::unlimited().await.with_short_policies().await;
    for (kind, stage) in [("direct", "tx"), ("public_decrypt", "readiness")] {
        let submit = format!("submit_group('{kind}', '{{1,2}}', traceparents => '{{null,{CALLER}}}')");
        database.execute(&format!("select from tidegate.{submit}")).await;
        assert_eq!(claimed(&database, stage, 2).await, [&format!("{CALLER} false"), "none none"], "{stage}");
        let settle = format!(
            "select from tidegate.settle(
               array(
                 select row('{stage}', r.lease, r.id)::tidegate.lease from tidegate.request as r where r.queue = '{stage}'
               ),
               '{{retry}}', array_fill('{{\"code\": \"busy\", \"message\": \"busy\"}}'::jsonb, array[2])
             )"
        );
        database.execute(&settle).await;
        assert_eq!(claimed(&database, stage, 2).await, [&format!("{CALLER} true"), "none none"], "{stage}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redriven_request_begins_another_trace_which_links_to_that_of_the_first() {
    let database = TestDatabase::unlimited().await;
    database.execute(&format!("select from tidegate.submit('direct', '1', traceparent => '{CALLER}')")).await;
    for _ in 0..2 {
        let id = database.value("select id from tidegate.request order by id desc limit 1").await;
        database.execute(&format!("select tidegate.fail_request('{id}', 'by hand')")).await;
        database.execute("select tidegate.redrive(may_repeat => true)").await;
        assert_eq!(claimed(&database, "tx", 1).await, [format!("{CALLER} true")]);
    }
    assert_eq!(kept(&database).await, [CALLER, CALLER, CALLER]);
}
