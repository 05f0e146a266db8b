//! A search for violations of invariants, in bounded steps: the findings, and how much was read.

use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use futures_util::{TryStreamExt, stream::FuturesOrdered};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    error::StoreError,
    store::{ConfigurationWarning, Invariant, Slice, Store, Violation},
};

/// The longest time of a step. A slice that takes longer is examined again with fewer requests.
const STEP_LIMIT: Duration = Duration::from_secs(20);

/// The intended time of a slice.
const STEP: Duration = Duration::from_secs(1);

/// How many steps run at once, each on its own connection.
const AT_ONCE: usize = 2;

/// A connection for each step, and one that finds the next slice.
pub const CONNECTIONS: u32 = 3;

/// The time that a slice's requests were submitted in: at first, at least, at most.
const SPAN: (Duration, Duration, Duration) =
    (Duration::from_secs(60), Duration::from_millis(1), Duration::from_secs(86_400));

/// How much longer or shorter the next slice may be: it may have more requests than its length suggests.
const STRETCH: f64 = 8.0;

/// How often progress is reported.
const PROGRESS_EVERY: Duration = Duration::from_secs(2);

/// The findings so far; they hold also when the examination is interrupted.
pub struct Findings {
    began: Instant,
    progress_at: Instant,
    until: Option<Instant>,
    invariants: Vec<Invariant>,
    violations: Vec<Violation>,
    /// Settings that are valid and probably not intended: no violations.
    pub warnings: Vec<ConfigurationWarning>,
    /// The invariants that are examined as a whole, and were not yet.
    pub unfinished: Vec<String>,
    /// About how many requests there are.
    pub requests: i64,
    /// How many of them were read.
    pub read: i64,
    /// The request down to which all newer ones have been read.
    back_to: Option<Uuid>,
    /// Whether all requests were read.
    pub all_read: bool,
    report: Report,
}

/// Receives the progress of a search: how long it has taken, and what it has examined.
pub type Report = Box<dyn Fn(Duration, &str) + Send + Sync>;

impl Findings {
    /// No findings yet, of so many requests; without a time limit everything will be read.
    #[must_use]
    pub fn new(
        invariants: Vec<Invariant>,
        warnings: Vec<ConfigurationWarning>,
        requests: i64,
        time_limit: Option<Duration>,
        report: Report,
    ) -> Self {
        let began = Instant::now();
        let whole = invariants.iter().filter(|invariant| !invariant.by_request);
        Self {
            unfinished: whole.map(|invariant| invariant.name.clone()).collect(),
            began,
            progress_at: began,
            until: time_limit.map(|limit| began + limit),
            invariants,
            violations: Vec::new(),
            warnings,
            requests,
            read: 0,
            back_to: None,
            all_read: false,
            report,
        }
    }

    /// Examines everything in steps, [`AT_ONCE`] of them at a time: small tables as a whole, then requests and their
    /// history in slices, the newest first.
    ///
    /// # Errors
    ///
    /// Errors of the database, other than a step that takes too long.
    pub async fn examine(&mut self, store: &Store) -> Result<(), StoreError> {
        self.examine_whole(store).await?;
        self.examine_slices(store).await
    }

    async fn examine_whole(&mut self, store: &Store) -> Result<(), StoreError> {
        let names = self.unfinished.clone();
        let mut waiting = names.iter();
        let mut running = FuturesOrdered::new();
        loop {
            while running.len() < AT_ONCE
                && let Some(limit) = self.time_left()
                && let Some(name) = waiting.next()
            {
                running.push_back(async move {
                    let found = store.check_invariants(&[name], Slice::default(), limit).await?;
                    Ok::<_, StoreError>((name, found))
                });
            }
            let examined = names.len() - self.unfinished.len();
            self.progress(&format!("{examined} of {} invariants that need no slices", names.len()));
            let Some((name, found)) = running.try_next().await? else {
                return Ok(());
            };
            if let Some(found) = found {
                self.note(found);
                self.unfinished.retain(|unfinished| unfinished != name);
            }
        }
    }

    async fn examine_slices(&mut self, store: &Store) -> Result<(), StoreError> {
        let names = self.invariants.iter().filter(|invariant| invariant.by_request);
        let names: Vec<_> = names.map(|invariant| invariant.name.clone()).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let (mut span, least, most) = SPAN;
        // The slices under way, and where the next one ends; none after the last.
        let mut running = FuturesOrdered::new();
        let mut next = Some(None);
        loop {
            while running.len() < AT_ONCE
                && let Some(limit) = self.time_left()
                && let Some(before) = next
            {
                let (slice, requests) = store.invariant_slice(before, span).await?;
                let names = &names;
                running.push_back(async move {
                    let began = Instant::now();
                    let found = store.check_invariants(names, slice, limit).await?;
                    Ok::<_, StoreError>((found, began.elapsed(), slice, span, requests))
                });
                next = slice.from.map(Some);
            }
            self.progress(&format!("{} of about {} requests", self.read, self.requests));
            let Some((found, took, slice, length, requests)) = running.try_next().await? else {
                return Ok(());
            };
            let Some(found) = found else {
                if length == least || self.time_left().is_none() {
                    return Ok(());
                }
                // Again, with fewer.
                span = length.div_f64(STRETCH).max(least);
                running = FuturesOrdered::new();
                next = Some(slice.before);
                continue;
            };
            self.note(found);
            self.read += requests;
            self.back_to = slice.from;
            self.all_read = slice.from.is_none();
            let stretch = STEP.div_duration_f64(took).clamp(1.0 / STRETCH, STRETCH);
            span = length.mul_f64(stretch).clamp(least, most);
        }
    }

    /// How long the next step may take; none when the time is over.
    fn time_left(&self) -> Option<Duration> {
        let left = self.until.map_or(STEP_LIMIT, |until| until.saturating_duration_since(Instant::now()));
        (!left.is_zero()).then_some(left.min(STEP_LIMIT))
    }

    fn progress(&mut self, examined: &str) {
        if self.progress_at.elapsed() >= PROGRESS_EVERY {
            (self.report)(self.began.elapsed(), examined);
            self.progress_at = Instant::now();
        }
    }

    fn note(&mut self, found: Vec<Violation>) {
        for violation in found {
            match self.violations.iter_mut().find(|known| known.name == violation.name) {
                Some(known) => {
                    known.violations += violation.violations;
                    known.samples.extend(violation.samples);
                    known.samples.truncate(10);
                }
                None => self.violations.push(violation),
            }
        }
    }

    /// Whether no violation was found.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.violations.is_empty()
    }

    /// Whether every invariant was examined, if not in all requests.
    #[must_use]
    pub fn has_examined(&self) -> bool {
        self.unfinished.is_empty() && (self.all_read || self.back_to.is_some())
    }

    /// The invariants with violations, in the order of the invariants.
    pub fn broken(&self) -> impl Iterator<Item = (&Invariant, &Violation)> {
        self.invariants.iter().filter_map(|invariant| {
            let found = self.violations.iter().find(|found| found.name == invariant.name);
            Some((invariant, found?))
        })
    }

    /// Every invariant that is broken, or was examined to the end, with the number of its violations.
    pub fn counts(&self) -> impl Iterator<Item = (&str, i64)> {
        self.invariants.iter().filter_map(|invariant| {
            let found = self.violations.iter().find(|found| found.name == invariant.name);
            let examined = match invariant.by_request {
                true => self.all_read,
                false => !self.unfinished.contains(&invariant.name),
            };
            let violations = found.map(|found| found.violations).or(examined.then_some(0))?;
            Some((invariant.name.as_str(), violations))
        })
    }

    /// Whether everything was read.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.all_read && self.unfinished.is_empty()
    }

    /// The findings for programs.
    #[must_use]
    pub fn json(&self) -> Value {
        let broken = self.broken().map(|(invariant, found)| {
            json!({
                "name": invariant.name, "rule": invariant.rule, "violations": found.violations,
                "samples": found.samples, "query": invariant.query,
            })
        });
        json!({
            "sound": self.is_sound(),
            "complete": self.is_complete(),
            "checked": self.invariants.len(),
            "unfinished": self.unfinished,
            "seconds": self.began.elapsed().as_secs_f64(),
            "requests": self.requests,
            "requests_read": self.read,
            "read_back_to": self.read_back_to(),
            "violations": broken.collect::<Vec<_>>(),
            "warnings": self.warnings,
        })
    }

    /// How many invariants there are.
    #[must_use]
    pub fn checked(&self) -> usize {
        self.invariants.len()
    }

    /// How long it has taken so far.
    #[must_use]
    pub fn took(&self) -> Duration {
        self.began.elapsed()
    }

    /// When the oldest request was submitted down to which all were read.
    #[must_use]
    pub fn read_back_to(&self) -> Option<DateTime<Utc>> {
        self.back_to.and_then(submitted_at)
    }
}

/// When a request was submitted: its id has the time.
fn submitted_at(id: Uuid) -> Option<DateTime<Utc>> {
    let (seconds, nanos) = id.get_timestamp()?.to_unix();
    DateTime::from_timestamp(i64::try_from(seconds).ok()?, nanos)
}
