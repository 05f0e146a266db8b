//! Adaptive timeouts: what the fleet knows, and what a process adds to it.

use std::time::Duration;

use serde::Deserialize;
use sqlx::{FromRow, types::Json};

use super::Store;
use crate::{
    adaptive_timeout::{Config, Estimate, Report},
    error::StoreError,
    request::Stage,
};

/// What is known of one kind's adaptive timeout, as somebody may go on from it.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownTimeout {
    /// The kind.
    pub kind: String,
    /// Whether its policy asks for an adaptive timeout.
    pub adaptive: bool,
    /// What its policy asks for.
    pub config: Config,
    /// Which version of the estimate this is; 0: nobody has folded anything yet.
    pub version: i64,
    /// What the fleet knows.
    pub estimate: Estimate,
    /// The number of this worker's last report; 0: it has made none.
    pub sequence: u64,
    /// What the others report, calls begun per second.
    pub others_rps: f64,
    /// The database's clock, microseconds since 1970.
    pub now_us: u64,
}

#[derive(Deserialize)]
struct Stored {
    version: i64,
    #[serde(flatten)]
    estimate: Estimate,
}

#[derive(FromRow)]
struct KnownRow {
    kind: String,
    adaptive: bool,
    timeout_ms: i32,
    min_ms: i32,
    slo: Option<f64>,
    interval_ms: i32,
    k_margin: i32,
    estimate: Option<Json<Stored>>,
    sequence: Option<i64>,
    others_rps: f64,
    now_us: i64,
}

impl KnownRow {
    fn known(self, stage: Stage) -> KnownTimeout {
        let config = Config {
            id: format!("{}.{}", self.kind, stage.as_str()),
            max: Some(milliseconds(self.timeout_ms)),
            min: milliseconds(self.min_ms),
            slo: self.slo,
            interval: milliseconds(self.interval_ms),
            k_margin: u32::try_from(self.k_margin).unwrap_or(1),
            ..Config::default()
        };
        let now_us = u64::try_from(self.now_us).unwrap_or_default();
        let (version, estimate) = match self.estimate {
            Some(Json(stored)) => (stored.version, stored.estimate),
            None => (0, Estimate::unknown(&config, now_us)),
        };
        KnownTimeout {
            kind: self.kind,
            adaptive: self.adaptive,
            config,
            version,
            estimate,
            sequence: self
                .sequence
                .map_or(0, |sequence| u64::try_from(sequence).unwrap_or_default()),
            others_rps: self.others_rps,
            now_us,
        }
    }
}

impl Store {
    /// The adaptive timeouts of these kinds' stage, as `worker` may go on from them: `tidegate.read_timeouts`. Kinds that
    /// do not exist have none.
    ///
    /// # Errors
    ///
    /// Database trouble; an estimator that was edited by hand into something else.
    pub async fn read_timeouts(
        &self,
        kinds: &[String],
        stage: Stage,
        worker: &str,
    ) -> Result<Vec<KnownTimeout>, StoreError> {
        let rows: Vec<KnownRow> = ask!(
            self,
            sqlx::query_as(include_str!("../../sql/queries/read_timeouts.sql"))
                .bind(kinds)
                .bind(stage.as_str())
                .bind(worker),
            fetch_all
        );
        Ok(rows.into_iter().map(|row| row.known(stage)).collect())
    }

    /// Makes an estimate the one that everybody goes on with, and notes the report that made it of the known one:
    /// `tidegate.fold_timeouts`. False: somebody was faster, or the policy is adaptive no more; nothing was stored.
    ///
    /// # Errors
    ///
    /// Database trouble.
    pub async fn fold_timeouts(
        &self,
        known: &KnownTimeout,
        stage: Stage,
        estimate: &Estimate,
        report: &Report,
        worker: &str,
    ) -> Result<bool, StoreError> {
        Ok(ask!(
            self,
            sqlx::query_scalar(include_str!("../../sql/queries/fold_timeouts.sql"))
                .bind(&known.kind)
                .bind(stage.as_str())
                .bind(known.version)
                .bind(Json(estimate))
                .bind(Json(report))
                .bind(worker),
            fetch_one
        ))
    }
}

fn milliseconds(count: i32) -> Duration {
    Duration::from_millis(u64::try_from(count).unwrap_or_default())
}
