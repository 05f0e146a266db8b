//! A fair queue under everything at once: sessions that submit, claim, settle, cancel and fold, transactions that roll
//! back, leases that run out, and sessions that end or are killed.
//!
//! A trigger logs each change of a turn. Turns change under one lock, so the log is in the order of the commits, and
//! [`replay`] judges from it whether each claim served whose turn it was.

pub mod replay;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use sqlx::{Connection, Executor, PgConnection};
use tokio::time::{Instant, sleep};

use self::replay::Replay;

/// How many submitters there are.
const KEYS: f64 = 60.0;

/// The queue, and the witness of its turns. What a claim has found locked or has passed is told by the claim itself.
const SCENE: &str = r"
    select tidegate.queue_add('fair', 'tx', high_water => 1000000, fair_by => 'submitter');
    select tidegate.kind_add('fair', 'direct', tx_queue => 'fair');
    select tidegate.config_set('fair.tx.attempts', '50');
    update tidegate.policy
    set base_ms = 0, jitter_ms = 0, deadline_ms = 2000000000, retry_on = '{5xx}', respect_retry_after = true
    where kind = 'fair' and stage = 'tx';
    create schema witness;
    create table witness.turn (
      id bigserial primary key, xid text not null default pg_current_xact_id()::text, key bigint,
      old_tag bigint, old_no bigint, old_idle boolean, tag bigint, no bigint, idle boolean, cost bigint
    );
    create table witness.passed (xid text not null default pg_current_xact_id()::text, locked bigint[], passed bigint[]);
    create function witness.log() returns trigger language plpgsql security definer as $$
    begin
      insert into witness.turn (key, old_tag, old_no, old_idle, tag, no, idle, cost)
      values (coalesce(new.key, old.key), old.tag, old.no, old.idle_at is not null, new.tag, new.no,
        new.idle_at is not null, coalesce(new.cost, old.cost));
      return null;
    end $$;
    create trigger log after insert or update or delete on tidegate.turn_fair
      for each row execute function witness.log();
    do $$
    declare
      v_line constant text := '  msg_ids := v_new.msg_ids;';
      v_function constant text := pg_get_functiondef('tidegate_internal.serve_turns'::regproc);
    begin
      if position(v_line in v_function) = 0 then
        raise 'serve_turns has no line %', v_line;
      end if;
      execute replace(v_function, v_line, v_line || '
        if v_new.locked_keys is not null or v_new.passed is not null then
          insert into witness.passed (locked, passed) values (v_new.locked_keys, v_new.passed);
        end if;');
    end $$";

const FOLD: &str = "select tidegate.fold_turns('fair'); select tidegate.rescan_queue('fair')";

/// How sessions end before their time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// By `pg_terminate_backend`.
    Terminated,
    /// By SIGKILL: the server ends all sessions, and recovers.
    Killed,
}

/// What a session does, again and again.
#[derive(Debug, Clone, Copy)]
enum Role {
    Submit,
    Claim,
    Cancel,
    Fold,
}

/// Who does it how many times at once.
const ROLES: [(Role, u64); 4] = [(Role::Claim, 8), (Role::Submit, 4), (Role::Cancel, 1), (Role::Fold, 1)];

/// A storm of a while on the database of a URL, whose schema is in place.
#[derive(Debug, Clone)]
pub struct Storm {
    /// The database.
    pub url: String,
    /// For how long.
    pub time: Duration,
    /// What decides what is done.
    pub seed: u64,
    /// How sessions end before their time, and how often.
    pub ends: (Ends, u32),
    /// A statement after the scene: a wrong version of a function.
    pub mutant: Option<String>,
}

/// What all sessions share.
#[derive(Debug, Default)]
struct Shared {
    is_over: AtomicBool,
    broken: AtomicU64,
    problems: Mutex<Vec<String>>,
}

impl Shared {
    fn report(&self, problem: String) {
        self.problems.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(problem);
        self.is_over.store(true, Ordering::Relaxed);
    }
}

impl Storm {
    /// Runs it, lets everything end, and judges.
    ///
    /// # Errors
    ///
    /// A database error of the scene or of the judgement. What goes wrong in between is a problem of the replay.
    pub async fn run(&self) -> anyhow::Result<Replay> {
        let mut session = connect(&self.url).await?;
        sqlx::raw_sql(SCENE).execute(&mut session).await?;
        sqlx::raw_sql(self.mutant.as_deref().unwrap_or_default()).execute(&mut session).await?;
        drop(session);

        let shared = Arc::new(Shared::default());
        let mut actors = tokio::task::JoinSet::new();
        for (role, number) in ROLES.into_iter().flat_map(|(role, count)| (0..count).map(move |n| (role, n))) {
            let seed = self.seed.wrapping_mul(1000) + 100 * role as u64 + number;
            actors.spawn(act(self.url.clone(), role, StdRng::seed_from_u64(seed), shared.clone()));
        }
        self.end_sessions(&shared).await?;
        shared.is_over.store(true, Ordering::Relaxed);
        actors.join_all().await;

        let mut session = connect(&self.url).await?;
        let drained = drain(&mut session).await;
        let mut replay = Replay::of(&mut session).await?;
        replay.problems.extend(drained.err().map(|error| format!("{error:#}")));
        replay.broken = shared.broken.load(Ordering::Relaxed);
        replay.problems.append(&mut shared.problems.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
        Ok(replay)
    }

    /// Ends sessions at even times, and returns when all is over.
    async fn end_sessions(&self, shared: &Shared) -> anyhow::Result<()> {
        let until = Instant::now() + self.time;
        let (ends, count) = self.ends;
        for _ in 0..count {
            sleep(self.time / (count + 1)).await;
            let mut session = connect(&self.url).await?;
            // One in the middle of something, and not the checkpointer.
            let pid: Option<i32> = sqlx::query_scalar(
                "select a.pid from pg_stat_activity as a
                 where a.datname = current_database() and a.state <> 'idle' and a.pid <> pg_backend_pid()
                   and a.query like '%tidegate.%'
                 order by random() limit 1",
            )
            .fetch_optional(&mut session)
            .await?;
            match (ends, pid) {
                (_, None) => {}
                (Ends::Killed, Some(pid)) => kill(Pid::from_raw(pid), Signal::SIGKILL)?,
                (Ends::Terminated, Some(pid)) => {
                    sqlx::query("select pg_terminate_backend($1)").bind(pid).execute(&mut session).await?;
                }
            }
        }
        while Instant::now() < until && !shared.is_over.load(Ordering::Relaxed) {
            sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }
}

/// A session; a server that recovers is waited for.
async fn connect(url: &str) -> anyhow::Result<PgConnection> {
    let mut last = None;
    for _ in 0..600 {
        match PgConnection::connect(url).await {
            Ok(mut session) => {
                session.execute("set statement_timeout = '30s'").await?;
                return Ok(session);
            }
            Err(error) => last = Some(error),
        }
        sleep(Duration::from_millis(100)).await;
    }
    Err(last.map_or_else(|| anyhow::anyhow!("no session"), Into::into))
}

/// Whether the session has ended, rather than refused a statement.
fn is_broken(error: &sqlx::Error) -> bool {
    match error {
        // Operator intervention: terminated, crashed, starting up.
        sqlx::Error::Database(error) => error.code().is_some_and(|code| code.starts_with("57P")),
        sqlx::Error::Io(_) | sqlx::Error::Protocol(_) => true,
        _ => false,
    }
}

async fn act(url: String, role: Role, random: StdRng, shared: Arc<Shared>) {
    let session = match connect(&url).await {
        Ok(session) => session,
        Err(error) => return shared.report(format!("{error:#}")),
    };
    let mut actor = Actor { session, random };
    while !shared.is_over.load(Ordering::Relaxed) {
        let Err(error) = actor.step(role).await else { continue };
        if !is_broken(&error) {
            return shared.report(format!("{role:?}: {error}"));
        }
        shared.broken.fetch_add(1, Ordering::Relaxed);
        match connect(&url).await {
            Ok(session) => actor.session = session,
            Err(error) => return shared.report(format!("{error:#}")),
        }
    }
}

struct Actor {
    session: PgConnection,
    random: StdRng,
}

impl Actor {
    async fn step(&mut self, role: Role) -> sqlx::Result<()> {
        match role {
            Role::Submit => self.submit().await,
            Role::Claim => self.claim().await,
            Role::Cancel => self.cancel().await,
            Role::Fold => {
                self.session.execute(FOLD).await?;
                sleep(Duration::from_millis(300)).await;
                Ok(())
            }
        }
    }

    /// A submitter, of whom few submit most.
    fn key(&mut self) -> String {
        let skewed = self.random.random::<f64>().powf(-1.4);
        format!("k{:.0}", skewed.min(KEYS).floor())
    }

    async fn submit(&mut self) -> sqlx::Result<()> {
        let count = if self.random.random_bool(0.8) { 1 } else { self.random.random_range(2..60) };
        let keys: Vec<String> = (0..count).map(|_| self.key()).collect();
        let mut transaction = self.session.begin().await?;
        sqlx::query(
            "select from tidegate.submit_group('fair', array_fill('{}'::jsonb, array[cardinality($1)]), submitters => $1)",
        )
        .bind(&keys)
        .execute(&mut *transaction)
        .await?;
        if self.random.random_bool(0.05) {
            sleep(Duration::from_millis(150)).await;
        }
        transaction.commit().await?;
        sleep(Duration::from_millis(4)).await;
        Ok(())
    }

    async fn claim(&mut self) -> sqlx::Result<()> {
        let lapses = self.random.random_bool(0.05);
        let limit = *[1, 5, 20].choose(&mut self.random).unwrap_or(&1);
        let mut transaction = self.session.begin().await?;
        let leases: Vec<String> =
            sqlx::query_scalar("select lease::text from tidegate.claim_tx('fair', 'w', $1, $2::interval)")
                .bind(limit)
                .bind(if lapses { "1 second" } else { "1 hour" })
                .fetch_all(&mut *transaction)
                .await?;
        if self.random.random_bool(0.03) {
            return transaction.rollback().await;
        }
        transaction.commit().await?;
        if leases.is_empty() {
            sleep(Duration::from_millis(5)).await;
            return Ok(());
        }
        sleep(Duration::from_millis(self.random.random_range(0..10))).await;
        let settlement = match self.random.random_range(0..100) {
            0..70 if lapses => return Ok(()),
            70..82 => "'{released}'",
            82..87 => {
                r#"'{retry}', errors => array_fill('{"code": "http_503"}'::jsonb, array[cardinality($1)]),
                   after => array_fill(interval '0.3 s', array[cardinality($1)]),
                   may_have_left => array_fill(false, array[cardinality($1)])"#
            }
            _ => RECEIPTS,
        };
        settle(&mut self.session, &leases, settlement).await
    }

    /// In an open transaction, which holds the message up.
    async fn cancel(&mut self) -> sqlx::Result<()> {
        let place = *[0, 0, 1, 5, 50].choose(&mut self.random).unwrap_or(&0);
        let mut transaction = self.session.begin().await?;
        sqlx::query(
            "select tidegate.cancel(r.id) from (
               select tidegate.message_request_id(m.message) as id
               from pgmq.q_fair as m order by m.fair_key, m.msg_id offset $1 limit 1
             ) as r",
        )
        .bind(place)
        .execute(&mut *transaction)
        .await?;
        sleep(Duration::from_millis(3)).await;
        transaction.commit().await?;
        sleep(Duration::from_millis(20)).await;
        Ok(())
    }
}

const RECEIPTS: &str = "'{receipt}', responses => array_fill('1'::jsonb, array[cardinality($1)])";

async fn settle(session: &mut PgConnection, leases: &[String], settlement: &str) -> sqlx::Result<()> {
    let settle = format!(
        "select count(*) from tidegate.settle(
           array(select l::tidegate.lease from unnest($1::text[]) as l), {settlement})"
    );
    sqlx::query(&settle).bind(leases).execute(session).await?;
    Ok(())
}

/// Serves everything, and folds the whole journal.
async fn drain(session: &mut PgConnection) -> anyhow::Result<()> {
    sqlx::query("update tidegate.claim set until = clock_timestamp(), lease_ms = 1").execute(&mut *session).await?;
    let mut idle = 0;
    while idle < 100 {
        let leases: Vec<String> =
            sqlx::query_scalar("select lease::text from tidegate.claim_tx('fair', 'w', 200, '1 hour')")
                .fetch_all(&mut *session)
                .await?;
        if !leases.is_empty() {
            settle(session, &leases, RECEIPTS).await?;
            continue;
        }
        session.execute(FOLD).await?;
        let left: i64 = sqlx::query_scalar(
            "select (select count(*) from tidegate.arrival_fair) + (
               select count(*) from tidegate.request
               where req_status not in ('completed', 'failure', 'timed_out')
             )",
        )
        .fetch_one(&mut *session)
        .await?;
        if left == 0 {
            return Ok(());
        }
        idle += 1;
        sleep(Duration::from_millis(100)).await;
    }
    anyhow::bail!("requests or rows of the journal are left, and no claim finds them")
}
