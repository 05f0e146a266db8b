//! Do a claim and a settle of deliveries cost the same however many wait for a host that is away?

use crate::support::{TestDatabase, race::Session};

/// Makes a backlog of one host (due, backing off, failed, delivered), and one delivery each for a few others.
async fn fill(database: &TestDatabase) {
    for host in ["*.example.com", "poison.example.org"] {
        database.store.webhook_host_add(host, false).await.unwrap();
    }
    database
        .execute(
            "insert into tidegate.webhook_delivery (request_id, id, url, host_port, state, due_at, finished_at)
             select tidegate_internal.uuid_v7(), gen_random_uuid(), 'https://poison.example.org/', 'poison.example.org:443', s.state,
               clock_timestamp() + case n % 2 when 0 then interval '1 hour' else interval '-1 hour' end,
               case when s.state <> 'pending' then clock_timestamp() end
             from generate_series(1, 30000) as n
             cross join (values ('pending'), ('pending'), ('failed'), ('delivered')) as s(state);
             insert into tidegate.webhook_delivery (request_id, id, url, host_port, due_at)
             select tidegate_internal.uuid_v7(), gen_random_uuid(), format('https://h%s.example.com/', n), format('h%s.example.com:443', n),
               clock_timestamp()
             from generate_series(1, 40) as n;
             update tidegate.webhook_delivery set lease_token = 1, due_at = clock_timestamp() + interval '1 hour'
             where request_id in (select request_id from tidegate.webhook_delivery
                                  where host_port = 'poison.example.org:443' and state = 'pending' limit 8)",
        )
        .await;
    // The claims' rows need requests.
    database
        .past_triggers(
            "insert into tidegate.request (id, kind, flow, req_status, deadline_at, payload)
             select request_id, 'direct', 'direct', 'completed', now(), '{}' from tidegate.webhook_delivery
             where host_port <> 'poison.example.org:443'",
        )
        .await;
}

/// A claim, and its attempts given back.
const SETTLED: &str =
    "select tidegate.webhook_settle(c.request_id, c.lease_token, 'unsent') from tidegate.webhook_claim(5) as c";

/// A session keeps its plans.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_planned_for_an_empty_outbox_serves_a_full_one() {
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;
    for _ in 0..8 {
        session.texts(SETTLED).await;
        session.texts("select tidegate.webhook_settle(gen_random_uuid(), 1, 'unsent')").await;
    }
    fill(&database).await;
    let read = session.reads("webhook_delivery", SETTLED).await;
    assert!(read.scans == 0 && read.rows_by_index < 500, "{read:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_steps_over_a_hosts_backlog_by_index() {
    let database = TestDatabase::unlimited().await;
    fill(&database).await;
    database.execute("vacuum analyze tidegate.webhook_delivery").await;
    let mut session = Session::open(&database).await;
    // More than five times: a plan may turn from custom to generic.
    let mut calls = vec![SETTLED; 8];
    calls.extend(["select host_port from tidegate.webhook_claim(5)"; 8]);
    calls.extend([
        "select count(*) from tidegate.webhook_claim(5)",
        "select redelivered from tidegate.webhook_redeliver_failed(10)",
        "select tidegate.expire_webhooks()",
    ]);
    for call in calls {
        let read = session.reads("webhook_delivery", call).await;
        assert_eq!(read.scans, 0, "{call}");
        assert!(call != SETTLED || read.rows_by_index < 500, "{call}: {read:?}");
    }
    let claimed = database
        .column("select host_port from tidegate.webhook_delivery where lease_token is not null and host_port like 'h%'")
        .await;
    assert_eq!(claimed.len(), 40);
    let poisoned =
        "select count(*) from tidegate.webhook_delivery where lease_token is not null and host_port like 'poison%'";
    assert_eq!(database.number(poisoned).await, 8);
}
