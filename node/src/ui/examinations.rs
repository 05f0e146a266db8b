//! Searches for violations of invariants and recoveries, in the background: the last of each.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use chrono::{DateTime, Utc};
use serde_json::json;
use tidegate::internals::{
    doctor::Findings,
    error::StoreError,
    lock::lock,
    recovery::{Recovered, Recovery},
    store::{RequestCount, Store},
};

use super::{background::result_of, format::span};

/// A search leaves out the oldest requests after this time.
const TIME_LIMIT: Duration = Duration::from_secs(50);

/// The last search and the last recovery of this node.
#[derive(Default)]
pub(super) struct Examinations {
    pub(super) search: Mutex<Option<Search>>,
    pub(super) recovery: Mutex<Option<Recovering>>,
}

pub(super) enum Search {
    UnderWay { began: DateTime<Utc>, progress: String },
    Ended { at: DateTime<Utc>, result: Result<Findings, String> },
}

pub(super) enum Recovering {
    UnderWay {
        began: DateTime<Utc>,
        dry_run: bool,
    },
    Ended {
        at: DateTime<Utc>,
        done: Box<Recovered>,
        before: Vec<RequestCount>,
        after: Vec<RequestCount>,
        error: Option<String>,
    },
}

impl Examinations {
    /// How many invariants do not hold, by the last search.
    pub(super) fn broken(&self) -> Option<usize> {
        match &*lock(&self.search) {
            Some(Search::Ended { result: Ok(findings), .. }) => {
                Some(findings.broken().count()).filter(|broken| *broken > 0)
            }
            _ => None,
        }
    }

    /// Begins a search, unless one is under way.
    pub(super) fn search(self: &Arc<Self>, store: Store) {
        let mut search = lock(&self.search);
        if matches!(*search, Some(Search::UnderWay { .. })) {
            return;
        }
        *search = Some(Search::UnderWay { began: Utc::now(), progress: String::new() });
        let examinations = Arc::clone(self);
        tokio::spawn(async move {
            let searching = Arc::clone(&examinations);
            let result = result_of(async move { searching.examine(&store).await }).await;
            *lock(&examinations.search) = Some(Search::Ended { at: Utc::now(), result });
        });
    }

    async fn examine(self: &Arc<Self>, store: &Store) -> Result<Findings, StoreError> {
        let counts = store.request_overview().await?;
        let requests = counts.iter().map(|count| count.requests).sum();
        let warnings = store.configuration_warnings().await?;
        let examinations = Arc::clone(self);
        let report = move |took: Duration, examined: &str| {
            if let Some(Search::UnderWay { progress, .. }) = &mut *lock(&examinations.search) {
                *progress = format!("{}: {examined}", span(took.as_secs_f64()));
            }
        };
        let invariants = store.invariants().await?;
        let mut findings = Findings::new(invariants, warnings, requests, Some(TIME_LIMIT), Box::new(report));
        findings.examine(store).await?;
        Ok(findings)
    }

    /// Begins a recovery, unless one of this node is under way.
    pub(super) fn recover(self: &Arc<Self>, store: Store, dry_run: bool) {
        let mut recovery = lock(&self.recovery);
        if matches!(*recovery, Some(Recovering::UnderWay { .. })) {
            return;
        }
        *recovery = Some(Recovering::UnderWay { began: Utc::now(), dry_run });
        let examinations = Arc::clone(self);
        tokio::spawn(async move {
            let recovered = result_of(async move {
                let before = store.request_overview().await.unwrap_or_default();
                let mut done = Recovered::default();
                let recovery = Recovery { dry_run, ..Recovery::default() };
                let result = recovery.run(&store, &json!({ "batch": recovery.batch, "page": true }), &mut done).await;
                let after = store.request_overview().await.unwrap_or_default();
                Ok((Box::new(done), before, after, result.err().map(|error| error.to_string())))
            });
            let (done, before, after, error) =
                recovered.await.unwrap_or_else(|error| (Box::default(), Vec::new(), Vec::new(), Some(error)));
            *lock(&examinations.recovery) = Some(Recovering::Ended { at: Utc::now(), done, before, after, error });
        });
    }

    pub(super) fn is_under_way(&self) -> bool {
        matches!(*lock(&self.search), Some(Search::UnderWay { .. }))
            || matches!(*lock(&self.recovery), Some(Recovering::UnderWay { .. }))
    }
}
