//! Does one holder at a time move a request, whatever workers, double settlers and killed sessions do with short
//! leases?

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use rand::{
    Rng, SeedableRng,
    rngs::StdRng,
    seq::{IndexedRandom, SliceRandom},
};
use sqlx::{Connection, Executor, PgConnection};

use crate::support::{
    TestDatabase, campaign,
    race::{NOTHING, Session, expire_leases, leases, settle, sound, submit_many},
};

const WORKERS: u64 = 10;
const DOUBLE_SETTLERS: u64 = 4;

/// A request in no legal state: one that waits has its message, one in flight the lease that its row names, a completed
/// one the answer of its last claim.
const WRONG: &str = "
    select concat_ws(' ', r.id, r.req_status, r.msg_id, r.worker, r.response)
    from tidegate.request as r
    left join pgmq.q_tx as m on m.msg_id = r.msg_id and tidegate.message_request_id(m.message) = r.id
    cross join lateral (select count(*) as parts from tidegate.claim as c where c.token = r.lease and r.id = any(c.ids)) as l
    where case r.req_status
      when 'processing' then m.msg_id is null or r.lease is not null
      when 'tx_in_flight' then m.msg_id is not null or l.parts <> 1
      when 'completed' then
        m.msg_id is not null or r.lease is not null or r.worker is distinct from r.response #>> '{}'
      else true
    end";

/// The leases of a claim, and the name it was made under.
type Claim = (Vec<String>, String);

struct Stress {
    database: TestDatabase,
    over: AtomicBool,
    /// Claims of late, for others to settle as well.
    claims: Mutex<VecDeque<Claim>>,
    fenced_out: AtomicU64,
    pids: Mutex<Vec<i32>>,
    errors: Mutex<Vec<String>>,
}

impl Stress {
    fn goes_on(&self) -> bool {
        !self.over.load(Ordering::SeqCst)
    }

    /// Acts on one session after the other: each ends when it is killed. Every other error is noted.
    async fn act(&self, seed: u64) {
        let mut random = StdRng::seed_from_u64(seed);
        let mut number = 0;
        while self.goes_on() {
            let mut session = self.database.session().await;
            let pid: i32 = sqlx::query_scalar("select pg_backend_pid()").fetch_one(&mut session).await.unwrap();
            self.pids.lock().unwrap().push(pid);
            while self.goes_on() {
                number += 1;
                let acted = match seed {
                    0..WORKERS => {
                        let name = format!("w{seed}-{number}");
                        self.work(&mut session, &mut random, name).await
                    }
                    WORKERS => self.maintain(&mut session, &mut random).await,
                    _ => self.settle_again(&mut session, &mut random).await,
                };
                match acted {
                    Ok(()) => (),
                    Err(sqlx::Error::Database(error)) if error.code().as_deref() != Some("57P01") => {
                        self.errors.lock().unwrap().push(error.to_string());
                        self.over.store(true, Ordering::SeqCst);
                    }
                    Err(_) => break,
                }
            }
            self.pids.lock().unwrap().retain(|known| *known != pid);
            drop(session.close().await);
        }
    }

    /// One claim and its end: lost, released, snoozed, or settled in parts.
    async fn work(&self, session: &mut PgConnection, random: &mut StdRng, name: String) -> Result<(), sqlx::Error> {
        let lease_for = ["50 ms", "50 ms", "200 ms", "5 s"].choose(random).unwrap();
        let batch = *[1, 5, 20, 50].choose(random).unwrap();
        session.execute("begin").await?;
        let mut leases: Vec<String> =
            sqlx::query_scalar("select lease::text from tidegate.claim_tx('tx', $1, $2, $3::text::interval)")
                .bind(&name)
                .bind(batch)
                .bind(lease_for)
                .fetch_all(&mut *session)
                .await?;
        end(session, random).await?;
        if random.random_bool(0.4) || leases.is_empty() {
            pause(random, 80).await;
        }
        {
            let mut claims = self.claims.lock().unwrap();
            claims.push_back((leases.clone(), name.clone()));
            if claims.len() > 40 {
                claims.pop_front();
            }
        }
        if random.random_bool(0.15) {
            return Ok(());
        }
        if random.random_bool(0.1) {
            session
                .execute(
                    sqlx::query("select tidegate.extend($1::text[]::tidegate.lease[], '100 ms'::interval)")
                        .bind(&leases),
                )
                .await?;
        }
        leases.shuffle(random);
        while !leases.is_empty() {
            let size = *[1, 7, leases.len()].choose(random).unwrap();
            let part: Vec<String> = leases.drain(..size.min(leases.len())).collect();
            session.execute("begin").await?;
            match random.random_range(0..100) {
                0..6 => back(session, "tidegate_internal.settle_released($1::text[]::tidegate.lease[])", &part).await?,
                6..12 => {
                    let retry = "tidegate_internal.settle_retry($1::text[]::tidegate.lease[], null,
                                   array_fill(interval '0', array[cardinality($1)]))";
                    back(session, retry, &part).await?;
                }
                _ => self.settle(session, &part, &name).await?,
            }
            end(session, random).await?;
        }
        Ok(())
    }

    async fn settle(&self, session: &mut PgConnection, leases: &[String], name: &str) -> Result<(), sqlx::Error> {
        let moved: i64 = sqlx::query_scalar(
            "select count(*)
             from tidegate_internal.settle_receipt(
               $1::text[]::tidegate.lease[], null, array_fill(to_jsonb($2::text), array[cardinality($1)])
             )",
        )
        .bind(leases)
        .bind(name)
        .fetch_one(session)
        .await?;
        let missed = u64::try_from(leases.len()).unwrap() - u64::try_from(moved).unwrap();
        self.fenced_out.fetch_add(missed, Ordering::SeqCst);
        Ok(())
    }

    /// Settles requests under the leases of others.
    async fn settle_again(&self, session: &mut PgConnection, random: &mut StdRng) -> Result<(), sqlx::Error> {
        let claim = {
            let mut claims = self.claims.lock().unwrap();
            let place = random.random_range(0..claims.len().max(1));
            claims.get_mut(place).cloned()
        };
        pause(random, 20).await;
        let Some((mut leases, name)) = claim.filter(|(leases, _)| !leases.is_empty()) else {
            return Ok(());
        };
        leases.shuffle(random);
        leases.truncate(random.random_range(1..=leases.len()));
        session.execute("begin").await?;
        self.settle(session, &leases, &name).await?;
        end(session, random).await
    }

    /// What maintenance and operators do meanwhile.
    async fn maintain(&self, session: &mut PgConnection, random: &mut StdRng) -> Result<(), sqlx::Error> {
        pause(random, 200).await;
        let duty = ["rescan_queue('tx')", "survey_queue('tx')", "recover()"];
        let sql = format!("select count(*) from tidegate.{}", duty.choose(random).unwrap());
        session.execute(&*sql).await?;
        Ok(())
    }

    async fn kill(&self) {
        let mut session = self.database.session().await;
        let mut random = StdRng::seed_from_u64(rand::random());
        while self.goes_on() {
            pause(&mut random, 200).await;
            let victim = self.pids.lock().unwrap().choose(&mut random).copied();
            sqlx::query("select pg_terminate_backend($1)").bind(victim).execute(&mut session).await.unwrap();
        }
    }

    /// Looks until all is done; the wrong that it saw.
    async fn watch(&self) -> Vec<String> {
        let mut session = self.database.session().await;
        loop {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let wrong: Vec<String> = sqlx::query_scalar(WRONG).fetch_all(&mut session).await.unwrap();
            let left: bool = sqlx::query_scalar(
                "select exists (select from pgmq.q_tx) or exists (select from tidegate.leased_request)",
            )
            .fetch_one(&mut session)
            .await
            .unwrap();
            if !wrong.is_empty() || !left || !self.goes_on() {
                return wrong;
            }
        }
    }
}

async fn back(session: &mut PgConnection, function: &str, leases: &[String]) -> Result<(), sqlx::Error> {
    let sql = format!("select count(*) from {function}");
    sqlx::query(&sql).bind(leases).execute(session).await?;
    Ok(())
}

/// Commits, as a rule.
async fn end(session: &mut PgConnection, random: &mut StdRng) -> Result<(), sqlx::Error> {
    let commits = random.random_bool(0.95);
    session.execute(if commits { "commit" } else { "rollback" }).await?;
    Ok(())
}

async fn pause(random: &mut StdRng, most_ms: u64) {
    tokio::time::sleep(Duration::from_millis(random.random_range(0..most_ms))).await;
}

/// Lets the fleet complete `requests` requests; returns the broken rules and the number of late settles.
async fn stress(database: TestDatabase, requests: i64) -> (Vec<String>, u64, TestDatabase) {
    database
        .execute(
            "update tidegate.policy set attempts = 1000, timeout_ms = 1, base_ms = 1, factor = 1, cap_ms = 1, jitter_ms = 0
             where kind = 'direct'",
        )
        .await;
    for _ in 0..requests / 500 {
        database
            .execute("select count(*) from tidegate.submit_batch('direct', array_fill('{}'::jsonb, array[500]), admission => 'accepted')")
            .await;
    }
    let stress = Arc::new(Stress {
        database,
        over: AtomicBool::new(false),
        claims: Mutex::default(),
        fenced_out: AtomicU64::new(0),
        pids: Mutex::default(),
        errors: Mutex::default(),
    });
    let mut actors = Vec::new();
    for seed in 0..WORKERS + DOUBLE_SETTLERS + 1 {
        let stress = Arc::clone(&stress);
        actors.push(tokio::spawn(async move { stress.act(seed).await }));
    }
    let killer = Arc::clone(&stress);
    actors.push(tokio::spawn(async move { killer.kill().await }));
    let mut wrong = stress.watch().await;
    stress.over.store(true, Ordering::SeqCst);
    for actor in join_all(actors).await {
        actor.unwrap();
    }
    let stress = Arc::into_inner(stress).expect("every actor has ended");
    wrong.append(&mut stress.errors.lock().unwrap());
    (wrong, stress.fenced_out.load(Ordering::SeqCst), stress.database)
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_holder_moves_a_request_under_short_leases_double_settles_and_kills() {
    let requests = campaign(1_500, 20_000);
    let requests = std::env::var("TIDEGATE_REQUESTS").map_or(requests, |n| n.parse().unwrap());
    let (wrong, fenced_out, database) = stress(TestDatabase::unlimited().await, requests).await;
    assert_eq!(wrong, NOTHING);
    assert!(fenced_out > 100, "only {fenced_out} settles came too late");
    // In a session without the pool's time limits: of many requests, counting takes longer.
    let mut session = Session::open(&database).await;
    for counted in [
        "select count(*) from tidegate.request where req_status = 'completed'",
        "select count(*) from tidegate.request_event where cause = 'receipt'",
    ] {
        assert_eq!(session.text(counted).await, requests.to_string());
    }
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_fence_the_same_stress_finds_answers_of_others() {
    let database = TestDatabase::unlimited().await;
    database
        .execute(
            "do $$
             begin
               execute replace(
                 pg_get_functiondef('tidegate_internal.lock_held'::regproc),
                 'r.lease = l.token', 'r.lease is not null'
               );
               execute replace(
                 pg_get_functiondef('tidegate_internal.settle_receipt'::regproc),
                 'r.lease = h.token', 'r.lease is not null'
               );
             end;
             $$",
        )
        .await;
    let (wrong, _, _) = stress(database, 20_000).await;
    assert!(!wrong.is_empty(), "nothing was found");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_settle_that_stays_open_keeps_no_claim_and_no_extension_waiting() {
    for (queue, kind, settles) in [("tx", "direct", "settle_receipt"), ("readiness", "public_decrypt", "settle_passed")]
    {
        let database = TestDatabase::unlimited().await;
        database.execute("update tidegate.queue set max_concurrency = 10 where name = 'readiness'").await;
        submit_many(&database, kind, 4).await;
        let mut late = Session::open(&database).await;
        let lost = late.claim(queue, 2).await;
        expire_leases(&database, queue).await;
        let mut other = Session::open(&database).await;
        late.execute("begin").await;
        late.texts(&settle(settles, &lost[..1], "")).await;

        // What is not being settled is reaped, then come the others.
        let again = other.claim(queue, 4).await;
        assert_eq!((again.len(), again[0].id), (1, lost[1].id));
        assert_eq!(other.claim(queue, 4).await.len(), 2);
        let extend = format!("select e from tidegate.extend({}, '1 hour') as e", leases(&again));
        assert_eq!(other.texts(&extend).await.len(), 1);

        late.rollback().await;
        let last = other.claim(queue, 4).await;
        assert_eq!((last.len(), last[0].id), (1, lost[0].id));
        sound(&database).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn extensions_of_one_claim_at_once_prolong_what_each_of_them_names() {
    let database = TestDatabase::unlimited().await;
    submit_many(&database, "direct", 4).await;
    let mut one = Session::open(&database).await;
    let held = one.claim("tx", 4).await;
    let extend = |part: &[_]| format!("select e from tidegate.extend({}, '1 hour') as e", leases(part));
    one.execute("begin").await;
    assert_eq!(one.texts(&extend(&held[..2])).await.len(), 2);
    let other = Session::open(&database).await.start(&extend(&held[2..]));
    other.until_blocked_by(&database, &one).await;
    one.commit().await;

    assert_eq!(other.finish().await.1.len(), 2);
    let until = "select count(*) = 2 and min(until) > clock_timestamp() + interval '59 minutes' from tidegate.claim";
    assert_eq!(database.value(until).await, "t");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leased_request_returns_to_a_queue_that_was_made_again() {
    let database = TestDatabase::unlimited().await;
    submit_many(&database, "direct", 3).await;
    let mut session = Session::open(&database).await;
    let held = session.claim("tx", 3).await;
    // Without `recover` in between, which would let the queue number from beyond.
    session.execute("select pgmq.drop_queue('tx'); select pgmq.create('tx')").await;
    submit_many(&database, "direct", 3).await;

    session.texts(&settle("settle_released", &held[..1], "")).await;
    expire_leases(&database, "tx").await;
    assert_eq!(session.claim("tx", 1).await.len(), 1);

    sound(&database).await;
    assert_eq!(session.claim("tx", 9).await.len(), 5);
}
