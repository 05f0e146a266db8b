//! Reads the evidence: the tables in one snapshot, and the logs.

use std::{collections::HashSet, io::BufRead, path::Path};

use anyhow::Context;
use futures_util::TryStreamExt;
use serde::Deserialize;
use sqlx::{PgConnection, Row};
use uuid::Uuid;

use super::{
    Evidence,
    records::{Delivery, Event, Flip, Life, QuotaAtRest, Secret, Seen, Word},
};

/// Gives equal words one home.
#[derive(Default)]
struct Words(HashSet<Word>);

impl Words {
    fn of(&mut self, text: &str) -> Word {
        if let Some(known) = self.0.get(text) {
            return known.clone();
        }
        let word: Word = text.into();
        self.0.insert(word.clone());
        word
    }
}

impl Evidence {
    /// Adds the tables, in one snapshot.
    ///
    /// # Errors
    ///
    /// When the database cannot be read.
    pub async fn read_database(&mut self, session: &mut PgConnection) -> anyhow::Result<()> {
        let mut words = Words::default();
        sqlx::raw_sql("begin isolation level repeatable read, read only").execute(&mut *session).await?;
        let now = "select (extract(epoch from clock_timestamp()) * 1000000)::bigint";
        self.read_us = sqlx::query_scalar(now).fetch_one(&mut *session).await?;
        let days: Vec<String> = sqlx::query_scalar(
            "select substr(c.relname, 14)
             from pg_inherits as i
             join pg_class as c on c.oid = i.inhrelid
             where i.inhparent = 'tidegate.stored_event'::regclass",
        )
        .fetch_all(&mut *session)
        .await?;
        self.days.extend(days);
        let sql = "select r.id, r.kind, r.send_id, r.flow::text as flow, req_status::text as status, transition_no, tx_unsent,
                     coalesce(r.callback_url, k.callback_url) is not null as calls_back,
                     payload ->> 'mark' as mark, payload ? 'poison' as poison, error ->> 'code' as error, submitter,
                     case
                       when r.req_status = 'completed' then 'yes'
                       else coalesce(o.executed, case when r.tx_attempt > r.tx_unsent then 'unknown' else 'no' end)
                     end as executed,
                     (extract(epoch from coalesce(o.at, finished_at)) * 1000000)::bigint as known_us,
                     (extract(epoch from finished_at) * 1000000)::bigint as finished_us,
                     (extract(epoch from removed_at) * 1000000)::bigint as removed_us
                   from (select r.*, null as removed_at from tidegate.request as r union all table public.removed) as r
                   left join tidegate.kind as k on k.name = r.kind
                   left join (table tidegate.outcome union all table public.removed_outcome) as o on o.request_id = r.id";
        let mut rows = sqlx::query(sql).fetch(&mut *session);
        while let Some(row) = rows.try_next().await? {
            let id = row.get("id");
            let removed_us: Option<i64> = row.get("removed_us");
            let life = Life {
                kind: words.of(row.get("kind")),
                flow: words.of(row.get("flow")),
                status: words.of(row.get("status")),
                transition_no: row.get("transition_no"),
                mark: row.get::<Option<&str>, _>("mark").map(Into::into),
                poison: row.get("poison"),
                error: row.get::<Option<&str>, _>("error").map(|error| words.of(error)),
                submitter: row.get::<Option<&str>, _>("submitter").map(|name| words.of(name)),
                calls_back: row.get("calls_back"),
                unsent: row.get("tx_unsent"),
                send_id: row.get("send_id"),
                executed: words.of(row.get("executed")),
                known_us: row.get("known_us"),
                finished_us: row.get("finished_us"),
                removed_us,
                events: Vec::new(),
            };
            if self.lives.insert(id, life).is_some() {
                self.wrong.push(format!("{id} was deleted, and is there"));
            }
        }
        drop(rows);
        let sql = "select request_id, transition_no, from_status::text as old, to_status::text as new, cause, worker,
                     (extract(epoch from at) * 1000000)::bigint as at_us
                   from (table tidegate.request_event union table public.removed_event) as e";
        let mut rows = sqlx::query(sql).fetch(&mut *session);
        while let Some(row) = rows.try_next().await? {
            let id = row.get("request_id");
            let event = Event {
                number: row.get("transition_no"),
                from: row.get::<Option<&str>, _>("old").map(|old| words.of(old)),
                to: words.of(row.get("new")),
                cause: words.of(row.get("cause")),
                worker: row.get::<Option<&str>, _>("worker").map(|name| words.of(name)),
                at_us: row.get("at_us"),
            };
            match self.lives.get_mut(&id) {
                Some(life) => life.events.push(event),
                None => self.orphans.push(id),
            }
        }
        drop(rows);
        for life in self.lives.values_mut() {
            life.events.sort_by_key(|event| event.number);
        }
        let left = "select distinct e.request_id from tidegate.stored_event as e join public.removed as r on r.id = e.request_id";
        self.histories_left = sqlx::query_scalar(left).fetch_all(&mut *session).await?;

        let queues: Vec<String> =
            sqlx::query_scalar("select name from tidegate.queue order by 1").fetch_all(&mut *session).await?;
        for queue in queues {
            let count = format!(
                "select (select count(*) from pgmq.\"q_{queue}\")
                   + (select count(*) from tidegate.leased_request where queue = '{queue}')"
            );
            let left = sqlx::query_scalar(&count).fetch_one(&mut *session).await?;
            self.messages.insert(queue, left);
        }
        let deliveries = "select request_id, id, state, attempt, event from tidegate.webhook_delivery";
        for row in sqlx::query(deliveries).fetch_all(&mut *session).await? {
            let delivery = Delivery {
                id: row.get("id"),
                state: words.of(row.get("state")),
                attempt: row.get("attempt"),
                is_of_resolution: row.get::<&str, _>("event") == "request.resolved",
            };
            self.deliveries.insert(row.get("request_id"), delivery);
        }
        let secrets = "select secret, floor(extract(epoch from created_at))::bigint as from_second,
                         ceil(extract(epoch from expires_at))::bigint as to_second
                       from tidegate.webhook_secret";
        for row in sqlx::query(secrets).fetch_all(&mut *session).await? {
            self.secrets.push(Secret {
                secret: row.get("secret"),
                from_second: row.get("from_second"),
                to_second: row.get::<Option<i64>, _>("to_second").unwrap_or(i64::MAX),
            });
        }
        let flips = "select kind, epoch, state, (extract(epoch from at) * 1000000)::bigint as at_us
                     from tidegate.breaker_event
                     where stage = 'tx'
                     order by kind, epoch";
        for row in sqlx::query(flips).fetch_all(&mut *session).await? {
            self.flips.push(Flip {
                kind: words.of(row.get("kind")),
                epoch: row.get("epoch"),
                state: words.of(row.get("state")),
                at_us: row.get("at_us"),
            });
        }
        let redriven = "select request_id, redriven_as, on_behalf_of is null from tidegate.redrive";
        let redriven: Vec<(Uuid, Uuid, bool)> = sqlx::query_as(redriven).fetch_all(&mut *session).await?;
        for (id, copy, by_caller) in redriven {
            self.redriven.insert(id, copy);
            if by_caller {
                self.resubmitted.insert(id);
            }
        }
        let may_repeat: Vec<Uuid> =
            sqlx::query_scalar("select request_id from public.repeated").fetch_all(&mut *session).await?;
        self.may_repeat.extend(may_repeat);
        let repeatable: Vec<String> =
            sqlx::query_scalar("select name from tidegate.kind where key_after_unknown = 'free'")
                .fetch_all(&mut *session)
                .await?;
        self.repeatable.extend(repeatable);
        let quotas = sqlx::query(
            "select g.name, g.state, (select count(*) from tidegate.quota_usage as u where u.gate = g.name) as counted
             from tidegate.gate as g
             where g.queue is null",
        );
        for row in quotas.fetch_all(&mut *session).await? {
            let quota = QuotaAtRest { state: row.get("state"), counted: row.get("counted") };
            self.quotas.insert(row.get("name"), quota);
        }
        let keyed: Vec<Uuid> =
            sqlx::query_scalar("select request_id from tidegate.dedup where expires_at > clock_timestamp()")
                .fetch_all(&mut *session)
                .await?;
        self.keyed.extend(keyed);
        let effects: Vec<(Uuid, i64)> = sqlx::query_as("select request_id, count(*) from public.booking group by 1")
            .fetch_all(&mut *session)
            .await?;
        for (id, count) in effects {
            self.effects.insert(id, u32::try_from(count)?);
        }
        sqlx::raw_sql("rollback").execute(session).await?;
        Ok(())
    }

    /// Adds the log of the receiver of webhooks.
    ///
    /// # Errors
    ///
    /// When the log cannot be read.
    pub fn read_receiver(&mut self, log: &Path) -> anyhow::Result<()> {
        let file = std::fs::File::open(log).with_context(|| log.display().to_string())?;
        for line in std::io::BufReader::new(file).lines() {
            let line = line?;
            let arrival = serde_json::from_str(&line).with_context(|| line.clone())?;
            self.arrivals.push(arrival);
        }
        Ok(())
    }

    /// Adds the downstream's log.
    ///
    /// # Errors
    ///
    /// When the log cannot be read.
    pub fn read_downstream(&mut self, log: &Path) -> anyhow::Result<()> {
        #[derive(Deserialize)]
        struct Line<'a> {
            #[serde(borrow)]
            at: &'a str,
            us: u64,
            request_id: Option<Uuid>,
            kind: &'a str,
            event: &'a str,
            key: Option<&'a str>,
        }
        let mut words = Words::default();
        let file = std::fs::File::open(log).with_context(|| log.display().to_string())?;
        for line in std::io::BufReader::new(file).lines() {
            let line = line?;
            let line: Line<'_> = serde_json::from_str(&line).with_context(|| line.clone())?;
            let at: chrono::DateTime<chrono::Utc> = line.at.parse()?;
            self.downstream.push(Seen {
                us: line.us,
                at_us: at.timestamp_micros(),
                id: line.request_id,
                kind: words.of(line.kind),
                event: words.of(line.event),
                key: line.key.map(Into::into),
            });
        }
        // Lines of several threads may have been written in another order than they were timed.
        self.downstream.sort_by_key(|seen| seen.us);
        Ok(())
    }
}
