//! The faults of a run with their times, and the errors of the injection.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

/// A time during which something was disturbed, in microseconds of Unix time.
#[derive(Debug, Clone)]
pub struct Disturbance {
    /// The name of the fault, as the journal counts it.
    pub sort: &'static str,
    /// When it began.
    pub from_us: i64,
    /// When it was over; `i64::MAX` while it is not.
    pub to_us: i64,
}

/// A fault under way, until it is ended.
#[derive(Debug)]
#[must_use]
pub struct Running(usize);

#[derive(Debug, Default)]
struct Pages {
    disturbances: Vec<Disturbance>,
    counts: BTreeMap<&'static str, u64>,
    wrong: Vec<String>,
}

/// The journal of one run. Everything is printed as it happens.
#[derive(Debug)]
pub struct Journal {
    began: Instant,
    pages: Mutex<Pages>,
}

impl Default for Journal {
    fn default() -> Self {
        Self { began: Instant::now(), pages: Mutex::default() }
    }
}

/// Now, in microseconds of Unix time, comparable with other logs on this machine.
#[must_use]
pub fn now_us() -> i64 {
    chrono::Utc::now().timestamp_micros()
}

impl Journal {
    /// Prints a line with the time since the beginning.
    pub fn say(&self, line: &str) {
        println!("[{:7.1}s] {line}", self.began.elapsed().as_secs_f64());
    }

    /// A fault begins.
    pub fn inject(&self, sort: &'static str, what: &str) -> Running {
        let number = {
            let mut pages = self.pages();
            *pages.counts.entry(sort).or_default() += 1;
            pages.disturbances.push(Disturbance { sort, from_us: now_us(), to_us: i64::MAX });
            pages.disturbances.len()
        };
        self.say(&format!("fault {number:3} {sort}: {what}"));
        Running(number - 1)
    }

    /// A fault is over.
    pub fn over(&self, running: &Running) {
        if let Some(disturbance) = self.pages().disturbances.get_mut(running.0) {
            disturbance.to_us = now_us();
        }
    }

    /// An event that must not happen, apart from the checker's findings.
    pub fn wrong(&self, what: String) {
        self.say(&format!("WRONG: {what}"));
        self.pages().wrong.push(what);
    }

    /// All that was disturbed.
    #[must_use]
    pub fn disturbances(&self) -> Vec<Disturbance> {
        self.pages().disturbances.clone()
    }

    /// How many faults of each sort.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.pages().counts.clone()
    }

    /// The errors.
    #[must_use]
    pub fn all_wrong(&self) -> Vec<String> {
        self.pages().wrong.clone()
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
