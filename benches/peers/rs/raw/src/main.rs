//! Raw SKIP LOCKED queue and pgmq (plain SQL functions), both through tokio-postgres.
//! `RAW_KIND`: raw or pgmq; `RAW_BATCH`: 1 or 100; `RAW_SESSIONS`: connections per process. `PEER_KEYED=1`: single inserts go
//! into a table with a unique column. `PEER_SNOOZED=1`: bulk inserts start tomorrow.
use peercommon as pc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_postgres::{AsyncMessage, Client, NoTls, Statement};

async fn conn() -> Client {
    let (c, co) = tokio_postgres::connect(&pc::url(), NoTls).await.unwrap();
    tokio::spawn(co);
    c
}
/// Connection with LISTEN; every notification pings the Notify.
async fn listen(chan: &str) -> (Client, Arc<tokio::sync::Notify>) {
    let (c, mut co) = tokio_postgres::connect(&pc::url(), NoTls).await.unwrap();
    let n = Arc::new(tokio::sync::Notify::new());
    let n2 = n.clone();
    tokio::spawn(async move {
        let mut s = futures_util::stream::poll_fn(move |cx| co.poll_message(cx));
        use futures_util::StreamExt;
        while let Some(Ok(m)) = s.next().await {
            if let AsyncMessage::Notification(_) = m {
                n2.notify_one();
            }
        }
    });
    c.batch_execute(&format!("LISTEN \"{chan}\""))
        .await
        .unwrap();
    (c, n)
}
const CLAIM: &str = "WITH c AS MATERIALIZED (SELECT id FROM jobs WHERE state = 0 AND run_at <= now() \
  ORDER BY priority, run_at, id LIMIT $1 FOR UPDATE SKIP LOCKED) \
  UPDATE jobs j SET state = 1, attempts = attempts + 1, locked_at = now() FROM c WHERE j.id = c.id \
  RETURNING j.id, j.kind, j.payload";
const SEND: &str = "SELECT pgmq.send('bench', '{\"i\":1}'::jsonb)";
const INSERT: &str = "INSERT INTO jobs (kind, payload) VALUES ('noop', '{\"i\":1}')";
const INSERT_KEYED: &str = "INSERT INTO keyed_jobs (kind, payload, key) VALUES ('noop', '{\"i\":1}', $1) ON CONFLICT (key) DO NOTHING";
const BULK: &str = "INSERT INTO jobs (kind, payload) SELECT 'noop', p FROM unnest($1::jsonb[]) p";
const BULK_SNOOZED: &str = "INSERT INTO jobs (kind, payload, run_at) SELECT 'noop', p, now() + interval '1 day' FROM unnest($1::jsonb[]) p";
struct Q {
    c: Client,
    claim: Statement,
    done: Statement,
}
async fn q(pgmq: bool) -> Q {
    let c = conn().await;
    let (a, b) = if pgmq {
        (
            "SELECT msg_id, message FROM pgmq.read('bench', 30, $1)",
            "SELECT pgmq.delete('bench', $1::bigint[])",
        )
    } else {
        (CLAIM, "DELETE FROM jobs WHERE id = ANY($1)")
    };
    let claim = c.prepare(a).await.unwrap();
    let done = c.prepare(b).await.unwrap();
    Q { c, claim, done }
}
/// Claim up to `b`, run the handler for each, complete as one statement. Returns jobs seen.
async fn step(q: &Q, b: i32, pgmq: bool) -> usize {
    let b64 = b as i64;
    let rows = if pgmq {
        q.c.query(&q.claim, &[&b]).await
    } else {
        q.c.query(&q.claim, &[&b64]).await
    }
    .unwrap();
    if rows.is_empty() {
        return 0;
    }
    let ids: Vec<i64> = rows
        .iter()
        .map(|r| {
            pc::hit();
            r.get::<_, i64>(0)
        })
        .collect();
    q.c.execute(&q.done, &[&ids]).await.unwrap();
    ids.len()
}
/// Keeps the table about as deep as told, looking every 20 ms: what the driver of Tidegate does beside submissions.
async fn keep(q: Q, depth: i64) {
    loop {
        let now: i64 =
            q.c.query_one("SELECT count(*) FROM jobs WHERE state = 0", &[])
                .await
                .unwrap()
                .get(0);
        if now > depth + 100 {
            step(&q, (now - depth + 100).min(500) as i32, false).await;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::main]
async fn main() {
    let pgmq = pc::word("RAW_KIND", "raw") == "pgmq";
    let batch: i32 = pc::word("RAW_BATCH", "1").parse().unwrap();
    let loops: usize = pc::word("RAW_SESSIONS", "8").parse().unwrap();
    let notify = pc::tuned();
    match pc::command().as_str() {
        "setup" => {
            if pgmq {
                let pool = sqlx::PgPool::connect(&pc::url()).await.unwrap();
                pgmq::PGMQueueExt::new_with_pool(pool)
                    .await
                    .install_sql_from_embedded()
                    .await
                    .unwrap();
                let c = conn().await;
                c.batch_execute("SELECT pgmq.create('bench')")
                    .await
                    .unwrap();
                if notify {
                    c.batch_execute("SELECT pgmq.enable_notify_insert('bench', 0)")
                        .await
                        .unwrap();
                }
            } else {
                conn()
                    .await
                    .batch_execute(include_str!("../../../sql/raw_schema.sql"))
                    .await
                    .unwrap();
            }
        }
        "insert1" => {
            let cs = pc::option("c", 8) as usize;
            let mut pool = Vec::new();
            for _ in 0..cs {
                pool.push(q1(pgmq).await);
            }
            let pool = Arc::new(pool);
            let i = Arc::new(std::sync::atomic::AtomicUsize::new(0));
            pc::insert1(move || {
                let pool = pool.clone();
                let k = i.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % cs;
                async move {
                    let (c, s) = &pool[k];
                    if pc::keyed() {
                        c.execute(s, &[&pc::key()]).await.unwrap();
                    } else {
                        c.execute(s, &[]).await.unwrap();
                    }
                }
            })
            .await;
        }
        "bulk" => {
            let (n, b) = (pc::option("n", 100000), pc::option("b", 1000));
            let c = conn().await;
            let t0 = Instant::now();
            if pgmq {
                let s = c
                    .prepare("SELECT count(*) FROM pgmq.send_batch('bench', $1::jsonb[])")
                    .await
                    .unwrap();
                let msgs: Vec<serde_json::Value> =
                    (0..b).map(|i| serde_json::json!({"i": i})).collect();
                for _ in 0..n / b {
                    c.query(&s, &[&msgs]).await.unwrap();
                }
            } else {
                let s = c
                    .prepare(if pc::is_set("PEER_SNOOZED") {
                        BULK_SNOOZED
                    } else {
                        BULK
                    })
                    .await
                    .unwrap();
                let msgs: Vec<serde_json::Value> =
                    (0..b).map(|i| serde_json::json!({"i": i})).collect();
                for _ in 0..n / b {
                    c.execute(&s, &[&msgs]).await.unwrap();
                }
            }
            pc::report(n / b * b, t0);
        }
        "work" => {
            let mut qs = Vec::new();
            for _ in 0..loops {
                qs.push(q(pgmq).await);
            }
            pc::ready_go();
            for q in qs {
                tokio::spawn(async move {
                    loop {
                        if step(&q, batch, pgmq).await == 0 {
                            tokio::time::sleep(Duration::from_millis(50)).await;
                        }
                    }
                });
            }
            pc::serve().await;
        }
        "keep" => {
            let w = q(pgmq).await;
            let depth = pc::option("depth", 1500) as i64;
            pc::ready_go();
            tokio::spawn(keep(w, depth));
            pc::serve().await;
        }
        "latency" => {
            let rx = pc::arm();
            if notify {
                let chan = if pgmq { "pgmq.q_bench.INSERT" } else { "jobs" };
                let (lc, n) = listen(chan).await;
                let w = q(pgmq).await;
                tokio::spawn(async move {
                    let _keep = lc;
                    loop {
                        while step(&w, 1, pgmq).await > 0 {}
                        let _ = tokio::time::timeout(Duration::from_secs(1), n.notified()).await;
                    }
                });
            } else {
                // pgmq: server-side read_with_poll with its default 100 ms; raw: client poll each 100 ms
                let w = q(pgmq).await;
                tokio::spawn(async move {
                    if pgmq {
                        let s =
                            w.c.prepare("SELECT msg_id FROM pgmq.read_with_poll('bench', 30, 1)")
                                .await
                                .unwrap();
                        loop {
                            for r in w.c.query(&s, &[]).await.unwrap() {
                                pc::hit();
                                w.c.execute(&w.done, &[&vec![r.get::<_, i64>(0)]])
                                    .await
                                    .unwrap();
                            }
                        }
                    }
                    loop {
                        if step(&w, 1, pgmq).await == 0 {
                            tokio::time::sleep(Duration::from_millis(100)).await;
                        }
                    }
                });
            }
            let p = Arc::new(conn().await);
            let sql = if pgmq {
                SEND
            } else if notify {
                "WITH i AS (INSERT INTO jobs (kind, payload) VALUES ('noop', '{\"i\":1}') RETURNING id) SELECT pg_notify('jobs', '') FROM i"
            } else {
                INSERT
            };
            let st = p.prepare(sql).await.unwrap();
            pc::latency(rx, move || {
                let (p, st) = (p.clone(), st.clone());
                async move {
                    p.execute(&st, &[]).await.unwrap();
                }
            })
            .await;
        }
        x => panic!("unknown command {x}"),
    }
}
async fn q1(pgmq: bool) -> (Client, Statement) {
    let c = conn().await;
    let s = c
        .prepare(if pgmq {
            SEND
        } else if pc::keyed() {
            INSERT_KEYED
        } else {
            INSERT
        })
        .await
        .unwrap();
    (c, s)
}
