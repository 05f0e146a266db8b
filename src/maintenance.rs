//! Runs the maintenance duties that are due, next to the other tasks of a process.
//!
//! `tidegate.maintain` has the list of duties, the table `maintenance` their periods; one process at a time runs each.
//! What a duty cannot do is in `maintenance_overview`, and logged from there; an error here is one of the whole call.

use std::{collections::BTreeSet, time::Duration};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{
    error::warn_of,
    store::{MaintenanceOverview, Quarantine, Store},
};

/// How often a process asks whether a duty is due.
const PERIOD: Duration = Duration::from_secs(1);

/// How often a process reads what the duties cannot do.
const REPORT_PERIOD: Duration = Duration::from_secs(10);

/// Maintains until `shutdown`, on a connection of its own: each session plans the duties' statements when it first runs
/// them, which takes tens of milliseconds, and keeps the plans.
pub async fn run(store: Store, shutdown: CancellationToken) {
    let store = store.with_own_pool(1);
    let mut failing = false;
    let mut reported = Reported::default();
    let mut report_at = Instant::now();
    let period = async |is_report: bool| {
        tokio::time::sleep(PERIOD).await;
        store.maintain().await?;
        if is_report { Ok(Some((store.notice_copy().await?, store.maintenance_overview().await?))) } else { Ok(None) }
    };
    // Each batch of a duty commits: one that is cut off loses a batch, and the next process that runs it continues.
    while let Some(maintained) = shutdown.run_until_cancelled(period(Instant::now() >= report_at)).await {
        // Logged once, not every second.
        if let Err(error) = &maintained
            && !failing
        {
            warn_of!(error, "maintenance failed, and is repeated");
        }
        failing = maintained.is_err();
        if let Ok(Some((quarantine, duties))) = maintained {
            report_at = Instant::now() + REPORT_PERIOD;
            reported.report_quarantine(quarantine);
            reported.report(&duties);
        }
    }
}

/// What has been logged: a quarantine, and the duties that have troubles.
#[derive(Default)]
struct Reported {
    quarantined: bool,
    failing: BTreeSet<String>,
    passing_over: BTreeSet<String>,
}

impl Reported {
    /// Logs a quarantine when it begins and when it is over.
    fn report_quarantine(&mut self, quarantine: Option<Quarantine>) {
        match quarantine {
            Some(Quarantine { because, .. }) if !self.quarantined => {
                self.quarantined = true;
                tracing::warn!(because, "nothing is sent from this database: it is quarantined until `tidegate adopt`");
            }
            None if self.quarantined => {
                self.quarantined = false;
                tracing::info!("the quarantine of this database is over");
            }
            _ => {}
        }
    }

    /// Logs a trouble when it begins and when it is over.
    fn report(&mut self, duties: &[MaintenanceOverview]) {
        for MaintenanceOverview {
            duty,
            error,
            passed_over,
            passed_over_request: request,
            passed_over_error: reason,
            ..
        } in duties
        {
            match error {
                Some(error) if self.failing.insert(duty.clone()) => {
                    tracing::warn!(duty, error, "a maintenance duty fails, and is repeated");
                }
                None if self.failing.remove(duty) => tracing::info!(duty, "a maintenance duty succeeds again"),
                _ => {}
            }
            match (request, reason) {
                (Some(request), Some(error)) if self.passing_over.insert(duty.clone()) => {
                    tracing::warn!(
                        duty,
                        requests = passed_over,
                        %request,
                        error,
                        "a maintenance duty passes over requests that it can neither end nor delete"
                    );
                }
                (None, _) if self.passing_over.remove(duty) => {
                    tracing::info!(duty, "a maintenance duty passes over no request any more");
                }
                _ => {}
            }
        }
    }
}
