//! Does a strict gate admit exactly as many requests as its high mark under fifty concurrent sessions?

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use sqlx::{Connection, Executor, PgConnection, Row};

use super::{HIGH_WATER, stage};
use crate::support::{
    TestDatabase, campaign, eventually,
    race::{DEPTH, sound},
};

/// What the sessions share.
struct Stress {
    database: TestDatabase,
    over: AtomicBool,
    let_in: AtomicI64,
    /// The processes of those that may be killed.
    pids: Mutex<Vec<i32>>,
}

impl Stress {
    /// One of fifty: submits, takes back, drains, and dies now and then.
    async fn act(&self, seed: u64) {
        let mut random = StdRng::seed_from_u64(seed);
        while !self.over.load(Ordering::SeqCst) {
            let mut session = self.database.session().await;
            let pid: i32 = sqlx::query_scalar("select pg_backend_pid()").fetch_one(&mut session).await.unwrap();
            self.pids.lock().unwrap().push(pid);
            while !self.over.load(Ordering::SeqCst) {
                if self.transaction(&mut session, &mut random).await.is_err() {
                    // Killed, or its transaction has failed as a whole.
                    if session.execute("rollback").await.is_err() {
                        break;
                    }
                }
                // The watcher, and the tests beside, need the processors as well.
                let rest = Duration::from_millis(campaign(20, 200));
                tokio::time::sleep(random.random_range(Duration::ZERO..rest)).await;
            }
            self.pids.lock().unwrap().retain(|known| *known != pid);
            drop(session.close().await);
        }
    }

    async fn transaction(&self, session: &mut PgConnection, random: &mut StdRng) -> Result<(), sqlx::Error> {
        session.execute("begin").await?;
        match random.random_range(0..100) {
            0..62 => {
                let counts = [1, 1, 1, 1, 2, 5, 17];
                let mut let_in = submit(session, *counts.choose(random).unwrap(), "enforce").await?;
                if random.random_bool(0.15) {
                    session.execute("savepoint s").await?;
                    let admission = ["enforce", "accepted"].choose(random).unwrap();
                    submit(session, 3, admission).await?;
                    session.execute("rollback to s").await?;
                }
                while random.random_bool(0.25) {
                    let_in += submit(session, 1, "enforce").await?;
                }
                self.let_in.fetch_add(let_in, Ordering::SeqCst);
            }
            62..68 => {
                let counts = [1, 3, 10];
                submit(session, *counts.choose(random).unwrap(), "accepted").await?;
                if random.random_bool(0.3) {
                    submit(session, 2, "accepted").await?;
                }
                pause(random).await;
            }
            68..69 => {
                // Messages are lost, and put back; another session's recover may do that first, or have seen none of
                // them yet.
                session
                    .execute(
                        "with lost as (
                           delete from pgmq.q_tx as m
                           where m.msg_id in (select msg_id from pgmq.q_tx order by random() limit 3 for update skip locked)
                           returning m.msg_id
                         )
                         insert into public.revived (msg_id) select msg_id from lost on conflict (msg_id) do update set after = null",
                    )
                    .await?;
                session.execute("commit; begin").await?;
                session
                    .execute(
                        "select tidegate.recover();
                         update public.revived set after = (select last_value from pgmq.q_tx_msg_id_seq)
                         where after is null and msg_id in (select msg_id from pgmq.q_tx)",
                    )
                    .await?;
            }
            69..72 => {
                session.execute("select tidegate.gates_evaluate()").await?;
            }
            _ => {
                let batch = [1, 5, 20].choose(random).unwrap();
                let leases: Vec<String> = sqlx::query_scalar(&format!(
                    "select c.lease::text from tidegate.claim_tx('tx', 'w', {batch}, '1 s') as c"
                ))
                .fetch_all(&mut *session)
                .await?;
                // Held for a while, lost, or settled at once.
                if random.random_bool(0.5) {
                    session.execute("commit").await?;
                    pause(random).await;
                    session.execute("begin").await?;
                }
                if random.random_bool(0.9) {
                    let settle = "select count(*) from tidegate_internal.settle_receipt($1::text[]::tidegate.lease[])";
                    sqlx::query(settle).bind(&leases).execute(&mut *session).await?;
                }
            }
        }
        if random.random_bool(0.2) {
            pause(random).await;
        }
        let end = if random.random_bool(0.12) { "rollback" } else { "commit" };
        session.execute(end).await?;
        Ok(())
    }

    /// Looks so often, or until it was too deep if that is expected: the deepest that it was up to the last number that
    /// was let in, and how often deeper than the mark. Snoozed requests come on top of those admitted before.
    async fn watch(&self, looks: usize, too_deep: bool) -> (i64, usize) {
        let mut session = self.database.session().await;
        // Thousands of looks at a hundred messages among ever more requests and dead rows: by index.
        session
            .execute("set enable_seqscan = off; set enable_bitmapscan = off; set enable_hashjoin = off; set enable_mergejoin = off")
            .await
            .unwrap();
        let (mut last, mut deepest, mut deeper) = (0_i64, 0_i64, 0);
        for _ in 0..looks {
            let row = session
                .fetch_one(&*format!(
                    "with live as materialized (
                       select q.msg_id, tidegate.message_request_id(q.message) as id from pgmq.q_tx as q
                       union all
                       select l.msg_id, l.id from tidegate.leased_request as l
                     ), seen as materialized (
                       select m.msg_id, r.submitter, v.msg_id is null as is_first
                       from live as m
                       join tidegate.request as r on r.id = m.id
                       left join public.revived as v on v.msg_id = m.msg_id
                     ), last as (
                       select greatest({last}::bigint, max(s.msg_id)) as n from seen as s where s.submitter = 'enforce'
                     )
                     select
                       last.n,
                       (
                         select count(*) from seen as s
                         where s.msg_id <= last.n
                           and (s.is_first or last.n > (select coalesce(max(v.after), {HIGH_WATER}) + {HIGH_WATER} from public.revived as v))
                       ) as depth
                     from last"
                ))
                .await
                .unwrap();
            last = row.get("n");
            let depth: i64 = row.get("depth");
            deepest = deepest.max(depth);
            deeper += usize::from(depth > HIGH_WATER);
            if deeper > 0 && too_deep {
                break;
            }
        }
        (deepest, deeper)
    }

    /// Kills one of the sessions now and then.
    async fn kill(&self) {
        let mut session = self.database.session().await;
        let mut random = StdRng::seed_from_u64(rand::random());
        while !self.over.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(200)).await;
            let victim = self.pids.lock().unwrap().choose(&mut random).copied();
            if let Some(pid) = victim {
                sqlx::query("select pg_terminate_backend($1)").bind(pid).execute(&mut session).await.unwrap();
            }
        }
    }
}

/// How many of `count` requests were admitted; the submitter is the admission's name.
async fn submit(session: &mut PgConnection, count: i32, admission: &str) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar(
        "select count(*) filter (where s.outcome = 'accepted')
         from tidegate.submit_batch('direct', array_fill('{}'::jsonb, array[$1]), null, $2, $2) as s",
    )
    .bind(count)
    .bind(admission)
    .fetch_one(session)
    .await
}

async fn pause(random: &mut StdRng) {
    tokio::time::sleep(Duration::from_micros(random.random_range(0..20_000))).await;
}

/// The deepest that was seen, how often it was too deep, and how many were let in.
async fn stress(database: TestDatabase, too_deep: bool) -> (i64, usize, i64) {
    database.execute("create table public.revived (msg_id bigint primary key, after bigint)").await;
    let stress =
        Arc::new(Stress { database, over: AtomicBool::new(false), let_in: AtomicI64::new(0), pids: Mutex::default() });
    let sessions = (0..campaign(16, 50)).map(|seed| {
        let stress = Arc::clone(&stress);
        tokio::spawn(async move { stress.act(seed).await })
    });
    let sessions: Vec<_> = sessions.collect();
    let killer = tokio::spawn({
        let stress = Arc::clone(&stress);
        async move { stress.kill().await }
    });
    let (deepest, deeper) = stress.watch(campaign(250, 10_000), too_deep).await;
    stress.over.store(true, Ordering::SeqCst);
    for session in join_all(sessions).await {
        session.unwrap();
    }
    killer.await.unwrap();
    let let_in = stress.let_in.load(Ordering::SeqCst);
    if deeper == 0 {
        // At rest there is room for exactly as many as the high mark. A killed session gets its error before its locks
        // end.
        let database = &stress.database;
        let open = "select tidegate_internal.open_draws('tx')";
        let ended = || async { database.number(open).await == 0 };
        eventually("every draw has ended", ended).await;
        // A gate that closed in a transaction which ended late is opened by maintenance.
        database.execute("select tidegate.recover(); select tidegate.gates_evaluate()").await;
        let before = database.number(DEPTH).await;
        database.execute("select * from tidegate.submit_group('direct', array_fill('{}'::jsonb, array[200]))").await;
        let numbers = "select to_jsonb(n) from tidegate_internal.queue_numbers('tx') as n";
        let numbers = database.text(numbers).await;
        let open = database.number(open).await;
        let depth = database.number(DEPTH).await;
        assert_eq!(depth, before.max(HIGH_WATER), "{before} before, {numbers:?}, {open} open");
        sound(database).await;
    }
    (deepest, deeper, let_in)
}

#[tokio::test(flavor = "multi_thread")]
async fn admitted_requests_reach_the_mark_and_never_pass_it() {
    let (deepest, deeper, let_in) = stress(stage().await, false).await;
    assert_eq!(deeper, 0, "{deepest} deep, {let_in} were let in");
    assert!(let_in > HIGH_WATER, "only {let_in} were let in");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_registration_the_same_stress_finds_too_many() {
    let database = stage().await;
    database
        .execute(
            "create or replace function tidegate_internal.open_draws(p_queue text) returns bigint language sql return 0::bigint",
        )
        .await;
    let (_, deeper, let_in) = stress(database, true).await;
    assert!(deeper > 0, "{let_in} were let in, and never too many");
}
