//! Does each end of a request, and nothing else, write the delivery that it asked for?

use tidegate::request::RequestId;

use crate::support::{
    TestDatabase,
    race::{Session, against, settle},
    sql::leases,
};

const URL: &str = "https://hooks.example.com/done";

async fn database() -> TestDatabase {
    let database = TestDatabase::unlimited().await;
    database.store.webhook_host_add("hooks.example.com", false).await.unwrap();
    database
}

async fn deliveries(database: &TestDatabase) -> Vec<String> {
    database.column("select request_id from tidegate.webhook_delivery order by request_id").await
}

#[tokio::test(flavor = "multi_thread")]
async fn however_a_request_ends_there_is_one_delivery() {
    for (kind, status) in [
        ("direct", "completed"),
        ("direct", "failure"),
        ("direct", "timed_out"),
        ("public_decrypt", "completed"),
        ("public_decrypt", "timed_out"),
        ("user_decrypt", "failure"),
        ("input_proof", "completed"),
    ] {
        let database = database().await;
        database
            .execute(&format!(
                "update tidegate.kind set callback_url = '{URL}' where name = '{kind}';
                 update tidegate.kind set response_threshold = 1"
            ))
            .await;
        let id = database.request_in(kind, status).await;
        assert_eq!(deliveries(&database).await, [id.to_string()], "{kind} {status}");

        // What comes later changes nothing.
        database
            .execute(&format!(
                "select tidegate.respond('{{}}', id => '{id}', accept => case when '{kind}' = 'input_proof' then true end);
                 select tidegate.cancel('{id}');
                 update tidegate.request set worker = 'edited' where id = '{id}'"
            ))
            .await;
        database.execute("call tidegate.maintain()").await;
        assert_eq!(deliveries(&database).await, [id.to_string()], "{kind} {status}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn shares_verdicts_sweeps_and_hand_edits_write_the_outbox_too() {
    let database = database().await;
    database.execute(&format!("update tidegate.kind set callback_url = '{URL}'")).await;

    let shares = database.request_in("user_decrypt", "receipt_received").await;
    for part in ["a", "b"] {
        database.execute(&format!("select tidegate.respond('1', id => '{shares}', part => '{part}')")).await;
    }
    assert!(deliveries(&database).await.is_empty());
    database.execute(&format!("select tidegate.respond('1', id => '{shares}', part => 'c')")).await;
    assert_eq!(deliveries(&database).await, [shares.to_string()]);

    let rejected = database.request_in("input_proof", "receipt_received").await;
    database.execute(&format!("select tidegate.respond('1', id => '{rejected}', accept => false)")).await;
    let overdue = database.request_in("direct", "receipt_received").await;
    database.execute("update tidegate.awaiting_response set due_at = clock_timestamp()").await;
    database.execute("call tidegate.maintain()").await;
    let edited = database.submit("direct").await;
    database.execute(&format!("update tidegate.request set req_status = 'failure' where id = '{edited}'")).await;

    let mut all = [shares, rejected, overdue, edited.0].map(|id| id.to_string());
    all.sort();
    assert_eq!(deliveries(&database).await, all);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_ends_writes_a_delivery_for_each_that_wants_one_and_no_other() {
    let database = database().await;
    let mut telling = Vec::new();
    for number in 0..6 {
        if number % 2 == 0 {
            telling.push(database.submit_telling(URL).await.to_string());
        } else {
            database.submit("direct").await;
        }
    }
    let claims = database.claim_tx(10).await;
    assert_eq!(claims.len(), 6);
    database.execute(&format!("select tidegate_internal.settle_rejected({}, null)", leases(&claims))).await;

    telling.sort();
    assert_eq!(deliveries(&database).await, telling);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_callback_there_is_no_delivery() {
    let database = database().await;
    database.request_in("direct", "completed").await;
    database.request_in("public_decrypt", "failure").await;

    assert!(deliveries(&database).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_settle_that_rolls_back_leaves_no_delivery() {
    let database = database().await;
    let id = database.submit_telling(URL).await;
    let mut worker = Session::open(&database).await;
    let held = worker.claim("tx", 1).await;
    worker.execute("begin").await;
    let receipt = settle("settle_receipt", &held, "null, array['1'::jsonb]");
    assert_eq!(worker.texts(&receipt).await.len(), 1);
    assert_eq!(worker.text("select count(*) from tidegate.webhook_delivery").await, "1");
    worker.rollback().await;
    assert!(deliveries(&database).await.is_empty());

    assert_eq!(worker.texts(&receipt).await.len(), 1);
    assert_eq!(deliveries(&database).await, [id.to_string()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_requests_own_callback_counts_before_its_kinds() {
    let database = database().await;
    database.execute("update tidegate.kind set callback_url = 'https://hooks.example.com/kind'").await;
    let own = database.ended_telling(URL).await;
    let other = RequestId(database.request_in("direct", "failure").await);

    assert_eq!(database.delivery(own, "url").await.unwrap(), URL);
    assert_eq!(database.delivery(own, "host_port").await.unwrap(), "hooks.example.com:443");
    assert_eq!(database.delivery(other, "url").await.unwrap(), "https://hooks.example.com/kind");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_callback_can_be_set_and_taken_back_until_the_end_and_not_after() {
    let database = database().await;
    let set = |id: &str, url: &str| format!("select tidegate.set_callback('{id}', {url})");
    let id = database.submit("direct").await.to_string();
    let quoted = format!("'{URL}'");

    assert_eq!(database.value(&set(&id, &quoted)).await, "t");
    assert_eq!(database.value(&set(&id, "null")).await, "t");
    assert_eq!(database.value(&set(&id, &quoted)).await, "t");
    database.execute(&format!("select tidegate.cancel('{id}')")).await;
    assert_eq!(database.value(&set(&id, "null")).await, "f", "it has ended");
    assert_eq!(deliveries(&database).await, [id]);

    let unknown = "01890000-0000-7000-8000-000000000000";
    assert_eq!(database.refused(&set(unknown, &quoted)).await.code, "TG006");
    let elsewhere = set(unknown, "'https://elsewhere.example/'");
    assert_eq!(database.refused(&elsewhere).await.code, "TG009");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_callback_that_meets_the_end_of_its_request_is_told_or_comes_too_late() {
    for commits in [true, false] {
        // The callback first: the end waits for it, and sees it if it was kept.
        let database = database().await;
        let id = database.submit("direct").await;
        let set = format!("select tidegate.set_callback('{id}', '{URL}')");
        let cancel = format!("select outcome from tidegate.cancel('{id}')");
        let mut caller = Session::begin(&database).await;
        assert_eq!(caller.texts(&set).await, ["t"]);
        assert_eq!(against(&database, &mut caller, commits, &cancel).await, ["cancelled"]);
        assert_eq!(deliveries(&database).await.len(), usize::from(commits));

        // The end first.
        let id = database.submit("direct").await;
        let set = format!("select tidegate.set_callback('{id}', '{URL}')");
        let mut canceller = Session::begin(&database).await;
        canceller.execute(&format!("select tidegate.cancel('{id}')")).await;
        let said = against(&database, &mut canceller, commits, &set).await;
        assert_eq!(said, [if commits { "f" } else { "t" }]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submission_with_its_callback_is_all_or_nothing_and_a_replay_keeps_the_first() {
    let database = database().await;
    let submit = |url: &str, key: &str| {
        format!("select outcome from tidegate.submit_with_callback('direct', '{{}}', '{url}', '{key}')")
    };

    let refused = database.refused(&submit("https://elsewhere.example/", "a")).await;
    assert_eq!(refused.code, "TG009");
    assert!(refused.message.contains("elsewhere.example:443"));
    assert!(refused.hint.contains("webhook hosts add"));
    assert_eq!(database.number("select count(*) from tidegate.request").await, 0);

    assert_eq!(database.value(&submit(URL, "a")).await, "accepted");
    let other = format!("{URL}/other");
    assert_eq!(database.value(&submit(&other, "a")).await, "replayed");
    // A host that is not allowed (any more) does not keep a caller from its earlier request.
    assert_eq!(database.value(&submit("https://elsewhere.example/", "a")).await, "replayed");
    assert_eq!(database.column("select callback_url from tidegate.request").await, [URL]);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_request_of_a_group_has_its_own_callback_and_only_new_ones_are_checked() {
    let database = database().await;
    let group = |keys: &str, urls: &str| {
        format!(
            "select string_agg(s.outcome, ' ' order by s.place)
             from tidegate.submit_group('direct', '{{1,1,1,1}}', '{keys}', callback_urls => '{urls}')
               with ordinality as s(id, outcome, status, queue, queue_position, seconds, p50, p90, place)"
        )
    };
    let stored = "select coalesce(callback_url, 'none') from tidegate.request order by msg_id";
    // The third is the second again.
    let submit = group("{a,b,b,null}", &format!("{{{URL}/a,null,{URL}/b,{URL}/d}}"));
    assert_eq!(database.value(&submit).await, "accepted accepted replayed accepted");
    assert_eq!(database.column(stored).await, [format!("{URL}/a"), "none".to_owned(), format!("{URL}/d")]);

    let elsewhere = "https://elsewhere.example/";
    let replayed = group("{a,b,a,e}", &format!("{{{elsewhere},{elsewhere},{elsewhere},null}}"));
    assert_eq!(database.value(&replayed).await, "replayed replayed replayed accepted");
    let refused = database.refused(&group("{a,b,f,g}", &format!("{{null,null,{elsewhere},{URL}}}"))).await;
    assert_eq!(refused.code, "TG009");
    database.execute("select tidegate.gate_force('tx', 'too_many_requests')").await;
    // As the gate refuses them, their URLs are of no concern.
    let closed = group("{a,h,i,j}", &format!("{{{URL},{elsewhere},{URL},null}}"));
    assert_eq!(database.value(&closed).await, "replayed refused refused refused");
    assert_eq!(database.number("select count(*) from tidegate.request").await, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_callback_written_by_hand_never_keeps_a_request_from_ending() {
    let database = database().await;
    for url in ["nonsense", "https://elsewhere.example/", "http://a b/", ""] {
        let id = database.submit("direct").await;
        database
            .execute(&format!(
                "update tidegate.request set callback_url = '{url}' where id = '{id}';
                 select tidegate.cancel('{id}')"
            ))
            .await;
        assert_eq!(database.status(id).await, "failure");
        assert!(database.store.webhook_claim(10, 10).await.unwrap().is_empty());
        assert_eq!(database.delivery(id, "state").await.unwrap(), "failed");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_goes_with_its_request_or_when_its_retention_is_over() {
    let database = database().await;
    let removed = database.ended_telling(URL).await;
    let kept = database.ended_telling(URL).await;
    let forgotten = database.ended_telling(URL).await;
    database
        .execute(&format!(
            "delete from tidegate.request where id = '{removed}';
             update tidegate.webhook_delivery
             set state = 'delivered', finished_at = clock_timestamp() - case request_id
               when '{forgotten}' then interval '8 days' else interval '6 days' end"
        ))
        .await;
    assert_eq!(deliveries(&database).await.len(), 2);

    database.execute("call tidegate.maintain()").await;

    assert_eq!(deliveries(&database).await, [kept.to_string()]);
    assert_eq!(
        database
            .number("select count(*) from tidegate.maintenance where duty = 'expire_webhooks' and took_ms is not null")
            .await,
        1
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expiry_takes_a_bounded_batch_and_nothing_that_is_still_to_be_delivered() {
    let database = database().await;
    for _ in 0..5 {
        database.ended_telling(URL).await;
    }
    let pending = database.ended_telling(URL).await;
    database
        .execute(&format!(
            "update tidegate.webhook_delivery set state = 'failed', finished_at = clock_timestamp() - interval '8 days'
             where request_id <> '{pending}';
             update tidegate.webhook_delivery set created_at = clock_timestamp() - interval '8 days'"
        ))
        .await;

    let expire = "select tidegate.expire_webhooks(3)";
    assert_eq!(database.value(expire).await, "3");
    assert_eq!(database.value(expire).await, "2");
    assert_eq!(database.value(expire).await, "0");
    assert_eq!(deliveries(&database).await, [pending.to_string()]);
}
