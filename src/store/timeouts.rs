//! Adaptive timeouts: the estimates that the fleet shares, and the reports that change them.

use serde::Deserialize;
use sqlx::{Row, postgres::PgRow, types::Json};
use tidegate_policy::adaptive_timeout::{Config, Estimate, Report};

use super::{
    Store,
    columns::{count, from_milliseconds},
};
use crate::{error::Result, request::Stage};

/// The statements of this module.
const SQL: &str = include_str!("../../sql/queries/timeouts.sql");

/// The shared state of one kind's adaptive timeout, as a process begins with it.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownTimeout {
    /// The kind.
    pub kind: String,
    /// Whether its policy has an adaptive timeout.
    pub adaptive: bool,
    /// The configuration that its policy gives.
    pub config: Config,
    /// Which version of the estimate this is; 0: nothing was folded yet.
    pub version: i64,
    /// The estimate of the fleet.
    pub estimate: Estimate,
    /// The number of this worker's last report; 0: it has made none.
    pub sequence: u64,
    /// Calls begun per second, as the other processes report them.
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

impl KnownTimeout {
    fn from_row(row: &PgRow, stage: Stage) -> sqlx::Result<Self> {
        let kind: String = row.try_get("kind")?;
        let length = |column| Ok::<_, sqlx::Error>(from_milliseconds(row.try_get::<i32, _>(column)?));
        let number = |column| Ok::<_, sqlx::Error>(row.try_get::<Option<i64>, _>(column)?.map_or(0, i64::unsigned_abs));
        let config = Config {
            id: format!("{kind}.{}", stage.as_str()),
            max: Some(length("timeout_ms")?),
            min: length("min_ms")?,
            slo: row.try_get("slo")?,
            interval: length("interval_ms")?,
            k_margin: count(row.try_get("k_margin")?),
            alarm_samples: count(row.try_get("alarm_samples")?),
            best_case: row
                .try_get::<&str, _>("best_case")?
                .parse()
                .map_err(|error| sqlx::Error::Decode(Box::new(error)))?,
            interval_calls: row.try_get::<Option<i32>, _>("interval_calls")?.map(count),
            ..Config::default()
        };
        let now_us = number("now_us")?;
        let (version, estimate) = match row.try_get("estimate")? {
            Some(Json(Stored { version, estimate })) => (version, estimate),
            None => (0, Estimate::unknown(&config, now_us)),
        };
        Ok(Self {
            kind,
            adaptive: row.try_get("adaptive")?,
            config,
            version,
            estimate,
            sequence: number("sequence")?,
            others_rps: row.try_get("others_rps")?,
            now_us,
        })
    }
}

impl Store {
    /// The adaptive timeouts of these kinds' stage, as `worker` may go on from them: `tidegate.read_timeouts`. Kinds
    /// that do not exist have none.
    ///
    /// # Errors
    ///
    /// A database error; an estimator with an invalid hand edit.
    pub async fn read_timeouts(&self, kinds: &[String], stage: Stage, worker: &str) -> Result<Vec<KnownTimeout>> {
        let rows: Vec<PgRow> = run!(self, fetch_all query "read_timeouts"(kinds, stage.as_str(), worker))?;
        Ok(rows.iter().map(|row| KnownTimeout::from_row(row, stage)).collect::<sqlx::Result<_>>()?)
    }

    /// Replaces the known estimate by one that a report was folded into, and stores the report:
    /// `tidegate.fold_timeouts`. False: another process was faster, or the policy is adaptive no more; nothing was
    /// stored.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn fold_timeouts(
        &self,
        known: &KnownTimeout,
        stage: Stage,
        estimate: &Estimate,
        report: &Report,
        worker: &str,
    ) -> Result<bool> {
        run!(self, fetch_one query_scalar "fold_timeouts"(
            &known.kind, stage.as_str(), known.version, Json(estimate), Json(report), worker
        ))
    }
}
