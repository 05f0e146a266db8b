//! A database for property tests, whose cases are plain functions.

use std::{cell::RefCell, fmt::Debug};

use proptest::{
    strategy::Strategy,
    test_runner::{Config, TestCaseResult, TestRunner},
};
use sqlx::PgConnection;
use tokio::runtime::Runtime;

use super::{TestDatabase, campaign, sql};

/// A database that answers without being awaited.
pub struct Asked {
    session: RefCell<PgConnection>,
    // Dropped after the session, and before the runtime.
    database: TestDatabase,
    runtime: Runtime,
}

impl Asked {
    /// Asks a database as `TestDatabase::new` makes it.
    pub fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let database = runtime.block_on(TestDatabase::new());
        let session = RefCell::new(runtime.block_on(database.session()));
        let asked = Self { session, database, runtime };
        // Compiling takes longer than any of these small queries.
        asked.run("set jit = off");
        asked
    }

    /// Stops the clock by which the database reads ages and ETAs.
    pub fn stop_clock(&self) {
        self.runtime.block_on(self.database.stop_clock());
    }

    /// Runs SQL while no trigger fires.
    pub fn past_triggers(&self, sql: &str) {
        self.runtime.block_on(self.database.past_triggers(sql));
    }

    /// The first column of the only row, as text (an empty string for null).
    pub fn value(&self, sql: &str) -> String {
        let mut session = self.session.borrow_mut();
        self.runtime.block_on(sql::value(&mut session, sql))
    }

    /// The first column of each row, as text (an empty string for null).
    pub fn column(&self, sql: &str) -> Vec<String> {
        let mut session = self.session.borrow_mut();
        self.runtime.block_on(sql::column(&mut session, sql))
    }

    /// Runs SQL that must succeed; several statements are fine.
    pub fn run(&self, sql: &str) {
        let mut session = self.session.borrow_mut();
        self.runtime.block_on(sql::run(&mut session, sql));
    }
}

/// Tries `cases` cases of a strategy, a quarter of them in a short campaign; panics with the smallest that fails.
pub fn for_all<S>(cases: u32, strategy: &S, test: impl Fn(S::Value) -> TestCaseResult)
where
    S: Strategy,
    S::Value: Debug,
{
    let config = Config { cases: campaign(cases.div_ceil(4), cases), failure_persistence: None, ..Config::default() };
    if let Err(error) = TestRunner::new(config).run(strategy, test) {
        panic!("{error}");
    }
}
