//! Judges the services of a fair queue from the log of its turns.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt,
};

use sqlx::{PgConnection, Row, postgres::PgRow};

type Key = i64;
/// When a key is served next: its tag, and the number of its turn.
type Place = (i64, i64);

/// A change of a turn, or the end of one.
#[derive(Debug, Clone, Default)]
pub struct Change {
    /// The transaction.
    pub xid: String,
    /// Whose turn.
    pub key: Key,
    /// Its place before, and whether it was idle; none: a new turn.
    pub before: Option<(Place, bool)>,
    /// Its place then, and whether it is idle; none: the turn is forgotten.
    pub after: Option<(Place, bool)>,
    /// By how much a service moves it.
    pub cost: i64,
}

/// The keys that a claim could not serve, because another session had locked their messages: how many messages of each
/// it found locked, and whom it passed.
#[derive(Debug, Clone, Default)]
pub struct Blocked {
    /// How many messages of a key were locked.
    pub locked: HashMap<Key, i64>,
    /// Keys that had nothing else.
    pub passed: HashSet<Key>,
}

/// What the log says.
#[derive(Debug, Default)]
pub struct Replay {
    /// How many claims served something.
    pub claims: u64,
    /// How many messages were served.
    pub services: u64,
    /// How many keys waited longer than a claim that found messages locked.
    pub beside_locked: u64,
    /// The most services of another key between two of a key that waited, for each that is allowed.
    pub worst: f64,
    /// How many sessions ended before their time.
    pub broken: u64,
    /// What must not be.
    pub problems: Vec<String>,
    turns: BTreeMap<Key, Place>,
    /// How often others were served since a key that waits was served last.
    since: BTreeMap<Key, HashMap<Key, u32>>,
}

impl Replay {
    /// Of the witness in a database in which everything has ended.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn of(session: &mut PgConnection) -> sqlx::Result<Self> {
        let changes = sqlx::query("select * from witness.turn order by id").fetch_all(&mut *session).await?;
        let changes = changes.iter().map(change).collect::<sqlx::Result<Vec<_>>>()?;
        let mut blocked: HashMap<String, Blocked> = HashMap::new();
        for row in sqlx::query("select xid, locked, passed from witness.passed").fetch_all(&mut *session).await? {
            let of_claim = blocked.entry(row.try_get("xid")?).or_default();
            for key in row.try_get::<Option<Vec<Key>>, _>("locked")?.unwrap_or_default() {
                *of_claim.locked.entry(key).or_default() += 1;
            }
            of_claim.passed.extend(row.try_get::<Option<Vec<Key>>, _>("passed")?.unwrap_or_default());
        }
        let mut replay = Self::judge(&changes, &blocked);
        let wrong: Vec<(Key, i64)> = sqlx::query_as(
            "select c.key, sum(c.n)::bigint
             from (
               select t.key, t.waiting as n from tidegate.turn_fair as t
               union all select a.key, a.n from tidegate.arrival_fair as a
             ) as c
             group by c.key having sum(c.n) <> 0",
        )
        .fetch_all(session)
        .await?;
        replay.problems.extend(wrong.iter().map(|(key, n)| format!("key {key} counts {n} messages, and has none")));
        Ok(replay)
    }

    /// Of the changes in their order, and what claims found locked.
    #[must_use]
    pub fn judge(changes: &[Change], blocked: &HashMap<String, Blocked>) -> Self {
        let mut replay = Self::default();
        let none = Blocked::default();
        for of_transaction in changes.chunk_by(|one, next| one.xid == next.xid) {
            let services = replay.apply(of_transaction);
            if !services.is_empty() {
                replay.judge_claim(services, blocked.get(&of_transaction[0].xid).unwrap_or(&none));
            }
        }
        replay
    }

    /// Applies the changes of a transaction; returns the services.
    fn apply(&mut self, changes: &[Change]) -> Vec<(Place, Key)> {
        let mut services = Vec::new();
        for change in changes {
            match (change.before, change.after) {
                (Some((from, false)), Some((to, _))) if from.1 == to.1 && to.0 > from.0 => {
                    let tags = (from.0..to.0).step_by(usize::try_from(change.cost).unwrap_or(usize::MAX));
                    services.extend(tags.map(|tag| ((tag, from.1), change.key)));
                }
                (Some((place, false)), None) => {
                    self.problems.push(format!("key {}: its turn {place:?} was forgotten, and not idle", change.key));
                }
                _ => {}
            }
            match change.after {
                Some((place, false)) => {
                    self.turns.insert(change.key, place);
                }
                Some((_, true)) => {
                    self.turns.remove(&change.key);
                }
                None => {}
            }
        }
        services.sort_unstable();
        services
    }

    /// What waits after a claim comes after all that it has served, and no key waits longer than its bound.
    fn judge_claim(&mut self, services: Vec<(Place, Key)>, blocked: &Blocked) {
        self.claims += 1;
        self.services += services.len() as u64;
        let Some(&(last, _)) = services.last() else { return };
        let locked: i64 = blocked.locked.values().sum();
        for (key, place) in self.turns.iter().filter(|(key, place)| **place < last && !blocked.passed.contains(*key)) {
            // For each message that it found locked, a claim has served one turn early.
            if last.0 - place.0 <= locked * COST {
                self.beside_locked += 1;
            } else {
                self.problems.push(format!("key {key} waits at {place:?}, and {last:?} was served; {blocked:?}"));
            }
        }
        for (place, served) in services {
            let waiting = self.turns.keys().filter(|key| **key != served);
            let unblocked = waiting.filter(|key| !blocked.passed.contains(*key) && !blocked.locked.contains_key(*key));
            for key in unblocked {
                let others = self.since.entry(*key).or_default();
                let count = others.entry(served).or_default();
                *count += 1;
                let share = f64::from(*count) / BOUND;
                if share > 1.0 && share > self.worst {
                    self.problems.push(format!(
                        "key {key} waits at {:?}: {served} was served {count} times, now at {place:?}; {blocked:?}",
                        self.turns[key]
                    ));
                }
                self.worst = self.worst.max(share);
            }
            self.since.insert(served, HashMap::new());
        }
        self.since.retain(|key, _| self.turns.contains_key(key));
    }
}

/// By how much a service moves a turn of weight 1.
const COST: i64 = 720_720;
/// How often another key of the same weight is served between two services of a key that waits.
const BOUND: f64 = 2.0;

fn change(row: &PgRow) -> sqlx::Result<Change> {
    let place = |tag: &str, no: &str, idle: &str| -> sqlx::Result<Option<(Place, bool)>> {
        let tag: Option<i64> = row.try_get(tag)?;
        let no: Option<i64> = row.try_get(no)?;
        let is_idle: Option<bool> = row.try_get(idle)?;
        Ok(tag.zip(no).map(|place| (place, is_idle.unwrap_or_default())))
    };
    Ok(Change {
        xid: row.try_get("xid")?,
        key: row.try_get("key")?,
        before: place("old_tag", "old_no", "old_idle")?,
        after: place("tag", "no", "idle")?,
        cost: row.try_get("cost")?,
    })
}

impl fmt::Display for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} claims, {} services in the order of their turns, {} keys passed beside a locked message, {} sessions \
             ended; at most {:.2} of the bound between two services of a key; {} problems",
            self.claims,
            self.services,
            self.beside_locked,
            self.broken,
            self.worst,
            self.problems.len()
        )?;
        self.problems.iter().take(8).try_for_each(|problem| write!(f, "\n{problem}"))
    }
}
