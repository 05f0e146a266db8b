//! Faults of the database, and of operators' commands.

use std::{process::Stdio, time::Duration};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use rand::{Rng, rngs::StdRng};
use sqlx::PgConnection;
use tokio::{process::Command, time::sleep};

use super::{Injector, any, seconds};
use crate::{scene, server::DATABASE, standby};

/// How long something by hand is tried again while other faults are in its way.
const PATIENCE: u32 = 200;

/// How long `tidegate redrive` may take.
const REDRIVING: Duration = Duration::from_secs(90);

/// How long a statement by hand may take.
const STATEMENT: Duration = Duration::from_secs(15);

impl Injector {
    /// SIGKILL for the whole server, and a start after a while.
    pub(super) async fn kill_postgres(&self, random: &mut StdRng) -> anyhow::Result<()> {
        let away = seconds(random, 0.0..3.0);
        let running =
            self.journal.inject("postgres_killed", &format!("away for {:.1} s and its recovery", away.as_secs_f64()));
        self.fleet.server().crash().await?;
        sleep(away).await;
        self.fleet.server().restart().await?;
        self.journal.over(&running);
        Ok(())
    }

    /// An immediate shutdown, and a start.
    pub(super) async fn stop_postgres(&self) -> anyhow::Result<()> {
        let running = self.journal.inject("postgres_stopped", "immediately, and started again");
        self.fleet.server().stop_immediately()?;
        self.fleet.server().restart().await?;
        self.journal.over(&running);
        Ok(())
    }

    /// SIGKILL for one session's process: the server ends all others and recovers by itself.
    pub(super) async fn kill_backend(&self, random: &mut StdRng) -> anyhow::Result<()> {
        let mut session = self.session().await?;
        let pids: Vec<i32> = sqlx::query_scalar(
            "select pid from pg_stat_activity
             where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()
             order by pid",
        )
        .fetch_all(&mut session)
        .await?;
        anyhow::ensure!(!pids.is_empty(), "no session is connected");
        let pid = *any(&pids, random);
        let running = self.journal.inject("backend_killed", &format!("process {pid}: all sessions end"));
        kill(Pid::from_raw(pid), Signal::SIGKILL)?;
        drop(session);
        self.session().await?;
        self.journal.over(&running);
        Ok(())
    }

    /// The primary dies permanently under load, its standby takes over, and the shared address leads there.
    pub(super) async fn fail_over(&self, random: &mut StdRng) -> anyhow::Result<()> {
        let Some(standby) = &self.standby else {
            return Ok(());
        };
        let away = seconds(random, 0.2..2.0);
        let running = self.journal.inject("failover", &format!("to the standby, after {:.1} s", away.as_secs_f64()));
        self.fleet.server().crash().await?;
        sleep(away).await;
        standby::promote(standby).await?;
        self.fleet.fail_over_to(standby)?;
        self.journal.over(&running);
        self.journal.say("the standby has taken over");
        Ok(())
    }

    /// Ends some sessions.
    pub(super) async fn terminate_backends(&self, random: &mut StdRng) -> anyhow::Result<()> {
        let share = random.random_range(0.1..1.0);
        let mut session = self.session().await?;
        let terminated: i64 = sqlx::query_scalar(
            "select count(pg_terminate_backend(pid)) from pg_stat_activity
             where datname = current_database() and pid <> pg_backend_pid() and random() < $1",
        )
        .bind(share)
        .fetch_one(&mut session)
        .await?;
        let running = self.journal.inject("backends_terminated", &format!("{terminated} sessions"));
        self.journal.over(&running);
        Ok(())
    }

    /// Ends every session that listens, again and again: no notification arrives.
    pub(super) async fn terminate_listeners(&self, random: &mut StdRng) -> anyhow::Result<()> {
        let time = seconds(random, 2.0..8.0);
        let running = self
            .journal
            .inject("listeners_terminated", &format!("for {:.1} s no notification is heard", time.as_secs_f64()));
        let mut session = self.session().await?;
        let until = tokio::time::Instant::now() + time;
        while tokio::time::Instant::now() < until {
            sqlx::query(
                "select pg_terminate_backend(pid) from pg_stat_activity
                 where datname = current_database() and query ilike 'listen %'",
            )
            .execute(&mut session)
            .await?;
            sleep(Duration::from_millis(100)).await;
        }
        self.journal.over(&running);
        Ok(())
    }

    /// As a standby, or a server whose disk is full: it reads and does not write.
    pub(super) async fn make_read_only(&self, random: &mut StdRng) -> anyhow::Result<()> {
        let time = seconds(random, 0.5..4.0);
        let running = self.journal.inject("database_read_only", &format!("for {:.1} s", time.as_secs_f64()));
        self.by_hand("alter system set default_transaction_read_only = on").await?;
        self.by_hand("select pg_reload_conf()").await?;
        sleep(time).await;
        self.by_hand("alter system reset default_transaction_read_only").await?;
        self.by_hand("select pg_reload_conf()").await?;
        self.journal.over(&running);
        Ok(())
    }

    /// A transaction with an old snapshot keeps everything that dies from being cleaned up.
    pub(super) async fn hold_a_transaction(&self, random: &mut StdRng) -> anyhow::Result<()> {
        let time = seconds(random, 5.0..20.0);
        let running = self.journal.inject("long_transaction", &format!("for {:.1} s", time.as_secs_f64()));
        let mut session = self.session().await?;
        sqlx::raw_sql("begin isolation level repeatable read; select count(*) from tidegate.queue;")
            .execute(&mut session)
            .await?;
        sleep(time).await;
        self.journal.over(&running);
        Ok(())
    }

    /// Locks a table that all processes need.
    pub(super) async fn lock_a_table(&self, random: &mut StdRng) -> anyhow::Result<()> {
        let table =
            *any(&["tidegate.request", "tidegate.claim", "pgmq.q_tx", "tidegate.gate", "tidegate.dedup"], random);
        let time = seconds(random, 0.5..4.0);
        let mut session = self.session().await?;
        let running = self.journal.inject("table_locked", &format!("{table} for {:.1} s", time.as_secs_f64()));
        sqlx::raw_sql(&format!("begin; set local lock_timeout = '10s'; lock table {table} in exclusive mode;"))
            .execute(&mut session)
            .await?;
        sleep(time).await;
        drop(session);
        self.journal.over(&running);
        Ok(())
    }

    /// A queue and its leases are deleted by hand, and rebuilt by `tidegate recover`.
    pub(super) async fn purge_a_queue(&self, random: &mut StdRng) -> anyhow::Result<()> {
        let queue = *any(&["readiness", "tx", "bookings"], random);
        let running = self.journal.inject("queue_purged", &format!("{queue}, and recovered"));
        self.by_hand(&format!(
            "with lost as (delete from tidegate.claim where queue = '{queue}') select pgmq.purge_queue('{queue}')"
        ))
        .await?;
        sleep(seconds(random, 0.0..3.0)).await;
        self.tool("recover").await?;
        self.journal.over(&running);
        Ok(())
    }

    /// An operator stops a queue for a while.
    pub(super) async fn pause_a_queue(&self, random: &mut StdRng) -> anyhow::Result<()> {
        let queue = *any(&["readiness", "tx", "bookings"], random);
        let time = seconds(random, 1.0..5.0);
        let running = self.journal.inject("queue_paused", &format!("{queue} for {:.1} s", time.as_secs_f64()));
        self.by_hand(&format!("select tidegate.pause('{queue}')")).await?;
        sleep(time).await;
        self.by_hand(&format!("select tidegate.pause('{queue}', false)")).await?;
        self.journal.over(&running);
        Ok(())
    }

    /// An operator adds a kind that no worker has a stage for, to a queue that all work on. Its requests are cancelled,
    /// and all that is left of it is removed.
    pub(super) async fn pass_a_kind(&self, random: &mut StdRng) -> anyhow::Result<()> {
        let time = seconds(random, 1.0..5.0);
        let name = format!("passing_{:08x}", random.random::<u32>());
        let running =
            self.journal.inject("kind_passing", &format!("{name} for {:.1} s, with requests", time.as_secs_f64()));
        self.by_hand(&format!(
            "insert into tidegate.kind (name, flow, tx_queue, processing_ms, tx_confirmation_ms)
             values ('{name}', 'direct', 'tx', 500, 100) on conflict do nothing"
        ))
        .await?;
        self.by_hand(&format!("select from tidegate.submit_batch('{name}', array_fill('{{}}'::jsonb, array[20]))"))
            .await?;
        sleep(time).await;
        let of_it = format!("from tidegate.request as r where r.kind = '{name}'");
        for statement in [
            format!("select tidegate.cancel(r.id) {of_it}"),
            format!(
                "do $$ declare v_ids uuid[] := array(select r.id {of_it});
                 begin
                   delete from tidegate.request as r where r.id = any(v_ids);
                   delete from tidegate.stored_event as e where e.request_id = any(v_ids);
                 end $$"
            ),
            format!("delete from tidegate.kind where name = '{name}'"),
        ] {
            self.by_hand(&statement).await?;
        }
        self.journal.over(&running);
        Ok(())
    }

    /// An application's table refers to some requests, for longer than their retention: the others go in time.
    pub(super) async fn keep_requests(&self, random: &mut StdRng) -> anyhow::Result<()> {
        let count = random.random_range(1..=5);
        let time = scene::RETENTION + seconds(random, 2.0..10.0);
        let running =
            self.journal.inject("request_kept", &format!("{count} by a foreign key, for {:.1} s", time.as_secs_f64()));
        self.by_hand(&format!(
            "insert into public.kept (request_id)
             select r.id from tidegate.request as r where r.kind = '{}' order by r.id desc limit {count}",
            scene::FLEETING
        ))
        .await?;
        sleep(time).await;
        self.by_hand("delete from public.kept").await?;
        self.by_hand("update tidegate.passed_over set retry_at = clock_timestamp()").await?;
        self.journal.over(&running);
        Ok(())
    }

    /// An operator changes the secret of webhooks; the one before it signs for a while as well.
    pub(super) async fn rotate_the_secret(&self) -> anyhow::Result<()> {
        let running = self.journal.inject("secret_rotated", "for all receivers");
        self.by_hand("select from tidegate.webhook_secret_rotate(overlap => interval '5 seconds')").await?;
        self.journal.over(&running);
        Ok(())
    }

    /// An operator redrives what has failed: sometimes twice at once, and sometimes the command is killed half-way.
    pub(super) async fn redrive(&self, random: &mut StdRng) -> anyhow::Result<()> {
        let kinds: Vec<_> = scene::KINDS.iter().filter(|kind| kind.name != scene::FLEETING).collect();
        let kind = any(&kinds, random).name;
        let at_once = random.random_range(1..=2);
        let killed = random.random_bool(0.3).then(|| seconds(random, 0.02..0.5));
        let ends = killed.map_or_else(String::new, |after| format!(", killed after {:.2} s", after.as_secs_f64()));
        let may_repeat = random.random_bool(0.2);
        let repeats = if may_repeat { " with --may-repeat" } else { "" };
        let running = self.journal.inject("redrive", &format!("of {kind}{repeats}, {at_once} at once{ends}"));
        let commands = (0..at_once).map(|_| self.redrive_once(kind, may_repeat, killed));
        futures_util::future::try_join_all(commands).await?;
        self.journal.over(&running);
        Ok(())
    }

    async fn redrive_once(&self, kind: &str, may_repeat: bool, killed: Option<Duration>) -> anyhow::Result<()> {
        let mut url = self.fleet.server().url(DATABASE);
        if may_repeat {
            // So that the witness keeps the links.
            url += "?options=-c%20faults.may_repeat%3Don";
        }
        let mut command = Command::new(&self.fleet.programs.tidegate)
            .args(["redrive", "--kind", kind, "--limit", "100", "--batch", "10"])
            .args(may_repeat.then_some("--may-repeat"))
            .env("DATABASE_URL", url)
            .env("RUST_LOG", "off")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        match tokio::time::timeout(killed.unwrap_or(REDRIVING), command.wait()).await {
            Ok(status) => {
                let status = status?;
                // 1: another fault was in its way.
                if !matches!(status.code(), Some(0 | 1 | 3)) {
                    self.journal.wrong(format!("`tidegate redrive` ended with {status}"));
                }
            }
            Err(_) if killed.is_some() => command.kill().await?,
            Err(_) => self.journal.wrong("`tidegate redrive` does not end".to_owned()),
        }
        Ok(())
    }

    /// Runs `tidegate recover`, `doctor` or the like until it has done its work; returns what it has found, if
    /// anything.
    ///
    /// # Errors
    ///
    /// When it does not come to an end.
    pub async fn tool(&self, command: &str) -> anyhow::Result<Option<String>> {
        for _ in 0..PATIENCE {
            let ended = Command::new(&self.fleet.programs.tidegate)
                .arg(command)
                .env("DATABASE_URL", self.fleet.server().url(DATABASE))
                .env("RUST_LOG", "error")
                .stdin(Stdio::null())
                .kill_on_drop(true)
                .output()
                .await?;
            match ended.status.code() {
                Some(0) => return Ok(None),
                Some(3) => return Ok(Some(String::from_utf8_lossy(&ended.stdout).into_owned())),
                _ => sleep(Duration::from_millis(300)).await,
            }
        }
        anyhow::bail!("`tidegate {command}` does not come to an end")
    }

    /// A session, as soon as the server takes one.
    async fn session(&self) -> anyhow::Result<PgConnection> {
        let mut last = None;
        for _ in 0..PATIENCE {
            match self.fleet.server().session().await {
                Ok(session) => return Ok(session),
                Err(error) => last = Some(error),
            }
            sleep(Duration::from_millis(100)).await;
        }
        Err(last.unwrap_or_else(|| anyhow::anyhow!("no session")))
    }

    /// Runs a statement until it has succeeded, as an operator would.
    async fn by_hand(&self, statement: &str) -> anyhow::Result<()> {
        let mut last = None;
        for _ in 0..PATIENCE {
            let mut session = self.session().await?;
            let done = sqlx::query(statement).execute(&mut session);
            match tokio::time::timeout(STATEMENT, done).await {
                Ok(Ok(_)) => return Ok(()),
                Ok(Err(error)) => last = Some(error),
                Err(_) => {}
            }
            sleep(Duration::from_millis(100)).await;
        }
        Err(last.map_or_else(|| anyhow::anyhow!("{statement}"), Into::into))
    }
}
