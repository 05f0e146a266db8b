//! An operator who resolves some of the unresolved requests, truthfully: the downstream's log has what it executed.

use std::{
    collections::HashSet,
    fs::File,
    io::{BufRead, BufReader},
    process::Stdio,
    sync::Arc,
    time::Duration,
};

use rand::{Rng, rngs::StdRng};
use serde::Deserialize;
use tokio::process::Command;
use uuid::Uuid;

use super::Load;
use crate::{journal::now_us, ledger::Resolution};

/// With the ids that they were sent under. Requests that ended within this time are left alone: their sends may be on their way.
const UNRESOLVED: &str = "
    select u.id, coalesce(r.send_id, r.id)
    from tidegate.unresolved as u
    join tidegate.request as r on r.id = u.id
    where u.finished_at < clock_timestamp() - interval '4 seconds'
    order by random()
    limit 5";

/// How long a call may take.
const PATIENCE: Duration = Duration::from_secs(10);

impl Load {
    pub(super) async fn resolve(self: Arc<Self>, mut random: StdRng) {
        let mut log = None;
        let mut executed = HashSet::new();
        while !self.stop.is_cancelled() {
            tokio::select! {
                () = self.stop.cancelled() => return,
                () = tokio::time::sleep(Duration::from_millis(random.random_range(500..2_000))) => {}
            }
            let asked = sqlx::query_as(UNRESOLVED).fetch_all(&self.pool);
            let Ok(Ok(ids)) = tokio::time::timeout(PATIENCE, asked).await else {
                continue;
            };
            let ids: Vec<(Uuid, Uuid)> = ids;
            if log.is_none() {
                log = File::open(&self.downstream_log).ok().map(BufReader::new);
            }
            let Some(log) = &mut log else {
                continue;
            };
            let at_us = now_us();
            read_executed(log, &mut executed);
            for (id, send_id) in ids {
                let executed = executed.contains(&send_id);
                let resolution = Resolution { id, executed, at_us };
                // The answer may be lost, and the word stored.
                self.ledger.entries().resolutions.push(resolution);
                let done = async {
                    if random.random_bool(0.2) {
                        self.resolve_by_command(id, executed).await;
                    } else {
                        self.resolve_by_sql(id, executed).await;
                    }
                };
                let _ = tokio::time::timeout(PATIENCE, done).await;
            }
        }
    }

    /// An error is that of a fault.
    async fn resolve_by_sql(&self, id: Uuid, executed: bool) {
        let call = sqlx::query("select from tidegate.resolve($1, $2, note => 'by the log of the downstream')")
            .bind(id)
            .bind(if executed { "yes" } else { "no" });
        let _ = call.execute(&self.pool).await;
    }

    async fn resolve_by_command(&self, id: Uuid, executed: bool) {
        let word = if executed { "--executed" } else { "--not-executed" };
        let _ = Command::new(&self.tidegate)
            .args(["resolve", &id.to_string(), word, "--note", "by the log of the downstream"])
            .env("DATABASE_URL", &self.database_url)
            .env("RUST_LOG", "off")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .status()
            .await;
    }
}

/// Adds the requests that were taken since the last call. A line that is not whole yet is read by the next call.
fn read_executed(log: &mut BufReader<File>, executed: &mut HashSet<Uuid>) {
    #[derive(Deserialize)]
    struct Line<'a> {
        request_id: Option<Uuid>,
        event: &'a str,
    }
    let mut line = String::new();
    while let Ok(length @ 1..) = log.read_line(&mut line) {
        if !line.ends_with('\n') {
            let _ = log.seek_relative(-i64::try_from(length).unwrap_or_default());
            return;
        }
        if let Ok(Line { request_id: Some(id), event: "taken" }) = serde_json::from_str(&line) {
            executed.insert(id);
        }
        line.clear();
    }
}
