//! What `tidegate doctor` has found, and how much it has read.

use std::time::{Duration, Instant};

use chrono::{DateTime, SecondsFormat, Utc};
use serde::Serialize;
use uuid::Uuid;

use crate::{
    error::StoreError,
    store::{Invariant, Slice, Store, Violation},
};

/// How long one step may take. A slice that takes longer is tried again with fewer requests.
const STEP_LIMIT: Duration = Duration::from_secs(20);

/// How long a slice is meant to take.
const STEP: Duration = Duration::from_secs(1);

/// Requests in a slice: at first, at least, at most.
const BATCH: (i32, i32, i32) = (10_000, 1_000, 200_000);

/// How often progress is told.
const TOLD_EVERY: Duration = Duration::from_secs(2);

/// The findings so far: they stand when the examination is broken off.
pub(super) struct Findings {
    began: Instant,
    told: Instant,
    until: Option<Instant>,
    invariants: Vec<Invariant>,
    violations: Vec<Violation>,
    /// Those that are looked at as a whole, and were not yet.
    unfinished: Vec<String>,
    requests: i64,
    read: i64,
    /// The request down to which all newer ones have been read.
    back_to: Option<Uuid>,
    all_read: bool,
}

/// The findings for programs.
#[derive(Serialize)]
pub(super) struct Report<'a> {
    sound: bool,
    complete: bool,
    checked: usize,
    unfinished: &'a [String],
    seconds: f64,
    requests: i64,
    requests_read: i64,
    read_back_to: Option<DateTime<Utc>>,
    #[serde(skip)]
    all_read: bool,
    violations: Vec<Broken<'a>>,
}

/// An invariant that does not hold.
#[derive(Serialize)]
struct Broken<'a> {
    name: &'a str,
    says: &'a str,
    violations: i64,
    samples: &'a [String],
    query: &'a str,
}

impl Findings {
    /// Nothing yet, of so many requests; without a time limit everything will be read.
    pub(super) fn new(
        invariants: Vec<Invariant>,
        requests: i64,
        time_limit: Option<Duration>,
    ) -> Self {
        let began = Instant::now();
        let whole = invariants.iter().filter(|invariant| !invariant.by_request);
        Self {
            unfinished: whole.map(|invariant| invariant.name.clone()).collect(),
            began,
            told: began,
            until: time_limit.map(|limit| began + limit),
            invariants,
            violations: Vec::new(),
            requests,
            read: 0,
            back_to: None,
            all_read: false,
        }
    }

    /// Looks at everything, in steps: at what is small as a whole, then at requests and their history in slices, the
    /// newest first.
    ///
    /// # Errors
    ///
    /// Database trouble, other than a step that takes too long.
    pub(super) async fn look(&mut self, store: &Store) -> Result<(), StoreError> {
        let (by_request, whole): (Vec<_>, Vec<_>) = self
            .invariants
            .clone()
            .into_iter()
            .partition(|i| i.by_request);
        for (done, invariant) in whole.iter().enumerate() {
            self.tell(&format!(
                "{done} of {} invariants that need no slices",
                whole.len()
            ));
            let found = match self.patience() {
                Some(patience) => {
                    let name = [&*invariant.name];
                    store
                        .check_invariants(&name, Slice::default(), patience)
                        .await?
                }
                None => None,
            };
            if let Some(found) = found {
                self.note(found);
                self.unfinished.retain(|name| *name != invariant.name);
            }
        }

        let names: Vec<_> = by_request.iter().map(|i| &*i.name).collect();
        let (mut batch, least, most) = BATCH;
        while let Some(patience) = self.patience() {
            self.tell(&format!(
                "{} of about {} requests",
                self.read, self.requests
            ));
            let began = Instant::now();
            let (slice, requests) = store.invariant_slice(self.back_to, batch).await?;
            match store.check_invariants(&names, slice, patience).await? {
                Some(found) => self.note(found),
                None if batch == least => break,
                None => {
                    batch = (batch / 8).max(least);
                    continue;
                }
            }
            self.read += requests;
            self.back_to = slice.from;
            if slice.from.is_none() {
                self.all_read = true;
                break;
            }
            let wished = f64::from(batch) * STEP.as_secs_f64() / began.elapsed().as_secs_f64();
            batch = (wished as i32).clamp(least, most);
        }
        Ok(())
    }

    /// How long the next step may take; none when the time is over.
    fn patience(&self) -> Option<Duration> {
        let left = self.until.map_or(STEP_LIMIT, |until| {
            until.saturating_duration_since(Instant::now())
        });
        (!left.is_zero()).then_some(left.min(STEP_LIMIT))
    }

    /// Says on stderr how far it is, now and then.
    fn tell(&mut self, how_far: &str) {
        if self.told.elapsed() >= TOLD_EVERY {
            eprintln!("{:>3.0} s: {}", self.began.elapsed().as_secs_f64(), how_far);
            self.told = Instant::now();
        }
    }

    fn note(&mut self, found: Vec<Violation>) {
        for violation in found {
            match self
                .violations
                .iter_mut()
                .find(|v| v.name == violation.name)
            {
                Some(known) => {
                    known.violations += violation.violations;
                    known.samples.extend(violation.samples);
                    known.samples.truncate(10);
                }
                None => self.violations.push(violation),
            }
        }
    }

    pub(super) fn is_sound(&self) -> bool {
        self.violations.is_empty()
    }

    /// Whether everything was looked at, if not in all requests.
    pub(super) fn has_looked(&self) -> bool {
        self.unfinished.is_empty() && (self.all_read || self.back_to.is_some())
    }

    /// What was found, in the order of the invariants.
    pub(super) fn report(&self) -> Report<'_> {
        let violations = self.invariants.iter().filter_map(|invariant| {
            let found = (self.violations.iter()).find(|v| v.name == invariant.name)?;
            Some(Broken {
                name: &invariant.name,
                says: &invariant.says,
                violations: found.violations,
                samples: &found.samples,
                query: &invariant.query,
            })
        });
        Report {
            sound: self.is_sound(),
            complete: self.all_read && self.unfinished.is_empty(),
            checked: self.invariants.len(),
            unfinished: &self.unfinished,
            seconds: self.began.elapsed().as_secs_f64(),
            requests: self.requests,
            requests_read: self.read,
            read_back_to: self.back_to.and_then(submitted_at),
            all_read: self.all_read,
            violations: violations.collect(),
        }
    }
}

/// When a request was submitted: its id says so.
fn submitted_at(id: Uuid) -> Option<DateTime<Utc>> {
    let (seconds, nanos) = id.get_timestamp()?.to_unix();
    DateTime::from_timestamp(i64::try_from(seconds).ok()?, nanos)
}

impl Report<'_> {
    /// Each violation with its query, then what was read.
    pub(super) fn print(&self) {
        for broken in &self.violations {
            outln!("{}: {}", broken.name, broken.violations);
            outln!("  it should be so: {}", broken.says);
            outln!("  it is not with: {}", broken.samples.join(", "));
            outln!("  all of them:");
            for line in broken.query.lines() {
                outln!("    {line}");
            }
            outln!();
        }
        let (checked, seconds) = (self.checked, self.seconds);
        match self.violations.len() {
            0 if self.complete => {
                outln!("all {checked} invariants hold (looked for {seconds:.1} s)");
            }
            0 => outln!("no violation of {checked} invariants was found ({seconds:.1} s)"),
            broken => {
                outln!("{broken} of {checked} invariants do not hold (looked for {seconds:.1} s)");
                outln!(
                    "`tidegate recover` puts right what it can; what else to do, docs/operations.md says by name"
                );
            }
        }
        if self.complete {
            return;
        }
        if !self.all_read {
            let back_to = self.read_back_to.map_or_else(String::new, |time| {
                format!(
                    ", back to {}",
                    time.to_rfc3339_opts(SecondsFormat::Secs, true)
                )
            });
            outln!(
                "read were the newest {} of about {} requests{back_to}",
                self.requests_read,
                self.requests
            );
        }
        if !self.unfinished.is_empty() {
            outln!(
                "not looked at, or not to the end: {}",
                self.unfinished.join(", ")
            );
        }
        outln!("`tidegate doctor --time-limit 0s` reads everything");
    }
}
