//! Does each request that ends have one delivery, whatever happens at the same time?

use std::sync::Arc;

use rand::{Rng, SeedableRng, rngs::StdRng};
use tidegate::request::RequestId;

use crate::support::{
    TestDatabase,
    actors::{ACTS, KINDS, Shared, add_bucketed, perform, settle_down},
    campaign,
    race::{NOTHING, Session},
};

const URL: &str = "https://hooks.example.com/done";

/// The actions of deliverers, callers and operators on webhooks, and of retention.
const WEBHOOK_ACTS: &[&str] = &[
    "select tidegate.webhook_settle(c.request_id, c.lease_token, (array['delivered', 'refused', 'retry', 'unsent'])[1 + (random() * 3)::int])
     from tidegate.webhook_claim(5) as c",
    "select tidegate.webhook_claim(3)",
    "select tidegate.set_callback(ONE, 'https://hooks.example.com/done')",
    "select tidegate.webhook_redeliver(ONE)",
    "select tidegate.webhook_redeliver_failed(5)",
    "select tidegate.webhook_host_add('hooks.example.com')",
    "select tidegate.webhook_host_remove('hooks.example.com')",
    "select tidegate.webhook_secret_rotate('hooks.example.com')",
    "select tidegate.webhook_secret_rotate()",
    "select tidegate.set_kind_callback('direct', 'https://hooks.example.com/done')",
    "select tidegate.expire_webhooks(5)",
    "select tidegate.submit_with_callback('direct', '{}', 'https://hooks.example.com/done')",
    "update tidegate.webhook_delivery set due_at = clock_timestamp()
     where request_id = any(array(
       select request_id from tidegate.webhook_delivery where state = 'pending' limit 5 for update skip locked
     ))",
    "delete from tidegate.request where id = any(array(
       select id from tidegate.request where finished_at is not null order by id limit 3 for update skip locked
     ))",
];

/// A lost race with an operator: the host is off the list, the request is gone.
const EXPECTED: [&str; 3] = ["TG006", "TG007", "TG009"];

/// The refusal to delete a request whose key stands.
const KEY_STANDS: &str = "and may not lose it";

async fn stage() -> TestDatabase {
    let database = TestDatabase::unlimited().await;
    add_bucketed(&database).await;
    database.store.webhook_host_add("hooks.example.com", false).await.unwrap();
    database.find_deadlocks_soon().await;
    database
        .execute(&format!(
            "update tidegate.policy set attempts = 50, timeout_ms = 1, base_ms = 5, factor = 1, cap_ms = 5, jitter_ms = 0;
             update tidegate.kind
             set callback_url = '{URL}', deadline = '2 seconds', readiness_timeout = '1 second', response_timeout = '500 milliseconds';
             update tidegate.webhook_policy set retention = '1 millisecond', attempts = 3, base_ms = 0, cap_ms = 0;
             create table public.told (request_id uuid);
             create function public.tell() returns trigger language plpgsql as $$
               begin insert into public.told values (new.request_id); return null; end $$;
             create trigger tell after insert on tidegate.webhook_delivery for each row when (new.event = 'request.ended')
               execute function public.tell();"
        ))
        .await;
    database
}

async fn submit(session: &mut Session, shared: &Shared) {
    for kind in KINDS {
        let sql = format!("select id from tidegate.submit_batch('{kind}', array_fill('{{}}'::jsonb, array[4]))");
        let ids = session.texts(&sql).await;
        shared.ids.lock().unwrap().extend(ids.iter().map(|id| id.parse::<RequestId>().unwrap()));
    }
}

fn one(shared: &Shared, random: &mut StdRng) -> String {
    let ids = shared.ids.lock().unwrap();
    format!("'{}'", ids[random.random_range(0..ids.len())])
}

#[tokio::test(flavor = "multi_thread")]
async fn under_concurrent_actions_each_end_is_delivered_once_without_deadlocks() {
    let seed = rand::rng().random::<u32>();
    println!("seed {seed}");
    let database = stage().await;
    let shared = Arc::new(Shared::default());
    submit(&mut Session::open(&database).await, &shared).await;
    let mut actors = Vec::new();
    for actor in 0..8_u64 {
        let mut session = Session::open(&database).await;
        let shared = Arc::clone(&shared);
        let mut random = StdRng::seed_from_u64(u64::from(seed) * 10 + actor);
        actors.push(tokio::spawn(async move {
            let mut errors = Vec::new();
            for round in 0..campaign(100, 150) {
                if round % 15 == 0 {
                    submit(&mut session, &shared).await;
                }
                if actor % 2 == 0 {
                    let act = match random.random_range(0..3) {
                        0 => ["claim_readiness", "claim_tx"][round % 2],
                        _ => ACTS[random.random_range(0..ACTS.len())],
                    };
                    let error = perform(act, &mut session, &shared, &mut random).await;
                    // A request that was removed meanwhile.
                    errors.extend(error.filter(|error| !error.starts_with("TG006")));
                    continue;
                }
                let act = WEBHOOK_ACTS[random.random_range(0..WEBHOOK_ACTS.len())];
                let sql = act.replace("ONE", &one(&shared, &mut random));
                if let Err((code, message)) = session.attempt(&sql).await
                    && !EXPECTED.contains(&code.as_str())
                    && !(code == "TG001" && message.ends_with(KEY_STANDS))
                {
                    errors.push(format!("{code} {message}: {sql}"));
                }
            }
            errors
        }));
    }
    for actor in actors {
        assert_eq!(actor.await.unwrap(), NOTHING, "seed {seed}");
    }

    let ended = database
        .number("select count(*) from tidegate.request_event where to_status in ('completed', 'timed_out', 'failure')")
        .await;
    assert!(ended > campaign(20, 50), "only {ended} requests came to their end");
    let told = database
        .number("select count(*) from public.told join tidegate.request_event as e using (request_id) where e.to_status in ('completed', 'timed_out', 'failure')")
        .await;
    assert_eq!(told, ended, "seed {seed}");
    let twice = "select count(*) - count(distinct request_id) from public.told";
    assert_eq!(database.number(twice).await, 0, "seed {seed}");
    let orphans = "select count(*) from tidegate.webhook_delivery as d where not exists (select from tidegate.request as r where r.id = d.request_id)";
    assert_eq!(database.number(orphans).await, 0, "seed {seed}");
    let current = "select count(*) from (select from tidegate.webhook_secret where expires_at is null group by host having count(*) > 1) as twice";
    assert_eq!(database.number(current).await, 0, "seed {seed}");
    // Requests were removed under their history: what is left of the others is as it should be.
    database
        .execute("delete from tidegate.stored_event as e where not exists (select from tidegate.request as r where r.id = e.request_id)")
        .await;
    // A reference that two requests share belongs to the first, and goes with it.
    database
        .execute(
            "insert into tidegate.request_reference (reference, request_id)
             select distinct on (r.reference) r.reference, r.id
             from tidegate.request as r
             where r.reference is not null
             order by r.reference, r.id
             on conflict do nothing",
        )
        .await;
    settle_down(&database).await;
}
