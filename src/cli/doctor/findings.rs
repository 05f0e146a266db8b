//! What `tidegate doctor` has found, and how much it has read.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use chrono::{DateTime, SecondsFormat, Utc};
use serde::Serialize;
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::{
    error::StoreError,
    store::{Invariant, Slice, Store, Violation},
};

/// How long one step may take. A slice that takes longer is tried again with fewer requests.
const STEP_LIMIT: Duration = Duration::from_secs(20);

/// How long a slice is meant to take.
const STEP: Duration = Duration::from_secs(1);

/// How many steps are under way at once, each on a connection of its own.
const AT_ONCE: usize = 2;

/// A connection for each step, and one that finds the next slice.
pub(super) const CONNECTIONS: u32 = 3;

/// The time that a slice's requests were submitted in: at first, at least, at most.
const SPAN: (Duration, Duration, Duration) = (
    Duration::from_secs(60),
    Duration::from_millis(1),
    Duration::from_secs(86_400),
);

/// How much longer or shorter the next slice may be: there may be more requests in it than its length promises.
const STRETCH: f64 = 8.0;

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

/// Invariants that are being looked at.
struct Step(JoinHandle<Result<Ended, StoreError>>);

/// The invariants of a step, the violations (none when the database was not through in time), and how long it took.
type Ended = (Vec<String>, Option<Vec<Violation>>, Duration);

impl Step {
    fn begin(store: &Store, names: Vec<String>, slice: Slice, patience: Duration) -> Self {
        let store = store.clone();
        Self(tokio::spawn(async move {
            let began = Instant::now();
            let asked: Vec<_> = names.iter().map(String::as_str).collect();
            let found = store.check_invariants(&asked, slice, patience).await?;
            Ok((names, found, began.elapsed()))
        }))
    }

    async fn end(mut self) -> Result<Ended, StoreError> {
        match (&mut self.0).await {
            Ok(ended) => ended,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Findings {
    /// Nothing yet, of so many requests; without a time limit everything will be read.
    pub(super) fn new(invariants: Vec<Invariant>, requests: i64, time_limit: Option<Duration>) -> Self {
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

    /// Looks at everything, in steps, [`AT_ONCE`] of them at a time: at what is small as a whole, then at requests and
    /// their history in slices, the newest first.
    ///
    /// # Errors
    ///
    /// Database trouble, other than a step that takes too long.
    pub(super) async fn look(&mut self, store: &Store) -> Result<(), StoreError> {
        self.look_at_whole(store).await?;
        self.look_at_slices(store).await
    }

    async fn look_at_whole(&mut self, store: &Store) -> Result<(), StoreError> {
        let mut names = self.unfinished.clone().into_iter();
        let (mut running, all) = (VecDeque::new(), names.len());
        loop {
            while running.len() < AT_ONCE
                && let Some(patience) = self.patience()
                && let Some(name) = names.next()
            {
                let step = Step::begin(store, vec![name], Slice::default(), patience);
                running.push_back(step);
            }
            let Some(step) = running.pop_front() else {
                return Ok(());
            };
            let left = self.unfinished.len();
            self.tell(&format!("{} of {all} invariants that need no slices", all - left));
            if let (names, Some(found), _) = step.end().await? {
                self.note(found);
                self.unfinished.retain(|name| !names.contains(name));
            }
        }
    }

    async fn look_at_slices(&mut self, store: &Store) -> Result<(), StoreError> {
        let names = self.invariants.iter().filter(|i| i.by_request);
        let names: Vec<_> = names.map(|i| i.name.clone()).collect();
        let (mut span, least, most) = SPAN;
        // The slices under way, each with the number of its requests, and where the next one ends; none: it was the last.
        let mut running = VecDeque::new();
        let mut next = Some(None);
        loop {
            while running.len() < AT_ONCE
                && let Some(patience) = self.patience()
                && let Some(before) = next
            {
                let (slice, requests) = store.invariant_slice(before, span).await?;
                let step = Step::begin(store, names.clone(), slice, patience);
                running.push_back((step, slice, span, requests));
                next = slice.from.map(Some);
            }
            let Some((step, slice, asked, requests)) = running.pop_front() else {
                return Ok(());
            };
            self.tell(&format!("{} of about {} requests", self.read, self.requests));
            let (_, found, took) = step.end().await?;
            let Some(found) = found else {
                if asked == least || self.patience().is_none() {
                    return Ok(());
                }
                // Again, with fewer.
                span = asked.div_f64(STRETCH).max(least);
                running.clear();
                next = Some(slice.before);
                continue;
            };
            self.note(found);
            self.read += requests;
            self.back_to = slice.from;
            self.all_read = slice.from.is_none();
            let stretch = STEP.div_duration_f64(took).clamp(1.0 / STRETCH, STRETCH);
            span = asked.mul_f64(stretch).clamp(least, most);
        }
    }

    /// How long the next step may take; none when the time is over.
    fn patience(&self) -> Option<Duration> {
        let left = self
            .until
            .map_or(STEP_LIMIT, |until| until.saturating_duration_since(Instant::now()));
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
            match self.violations.iter_mut().find(|v| v.name == violation.name) {
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
                outln!("`tidegate recover` puts right what it can; what else to do, docs/operations.md says by name");
            }
        }
        if self.complete {
            return;
        }
        if !self.all_read {
            let back_to = self.read_back_to.map_or_else(String::new, |time| {
                format!(", back to {}", time.to_rfc3339_opts(SecondsFormat::Secs, true))
            });
            outln!(
                "read were the newest {} of about {} requests{back_to}",
                self.requests_read,
                self.requests
            );
        }
        if !self.unfinished.is_empty() {
            outln!("not looked at, or not to the end: {}", self.unfinished.join(", "));
        }
        outln!("`tidegate doctor --time-limit 0s` reads everything");
    }
}
