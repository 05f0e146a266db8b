//! Faults of processes.

use std::sync::Arc;

use rand::rngs::StdRng;
use tokio::time::sleep;

use super::{Injector, any, seconds};
use crate::unit::Unit;

impl Injector {
    /// SIGKILL; it is started again after a while.
    pub(super) async fn kill(
        &self,
        sort: &'static str,
        units: &[Arc<Unit>],
        random: &mut StdRng,
    ) -> anyhow::Result<()> {
        let unit = any(units, random);
        let away = seconds(random, 0.1..4.0);
        let running = self.journal.inject(sort, &format!("{} is away for {:.1} s", unit.name, away.as_secs_f64()));
        unit.kill().await?;
        sleep(away).await;
        unit.revive().await?;
        self.journal.over(&running);
        Ok(())
    }

    /// SIGTERM: it has to end well, whatever else goes on.
    pub(super) async fn stop(
        &self,
        sort: &'static str,
        units: &[Arc<Unit>],
        random: &mut StdRng,
    ) -> anyhow::Result<()> {
        let unit = any(units, random);
        let running = self.journal.inject(sort, &unit.name);
        if !unit.terminate().await? {
            self.journal.wrong(format!("{} did not stop well when it was asked to", unit.name));
        }
        sleep(seconds(random, 0.1..1.0)).await;
        unit.revive().await?;
        self.journal.over(&running);
        Ok(())
    }

    /// It runs for a while with a log that has no reader: it has to work, and to end well when it is asked to.
    pub(super) async fn close_the_log(
        &self,
        sort: &'static str,
        units: &[Arc<Unit>],
        random: &mut StdRng,
    ) -> anyhow::Result<()> {
        let unit = any(units, random);
        let time = seconds(random, 2.0..8.0);
        let running = self.journal.inject(sort, &format!("{} for {:.1} s", unit.name, time.as_secs_f64()));
        for has_log in [false, true] {
            if !unit.terminate().await? {
                self.journal.wrong(format!(
                    "{} did not stop well when it was asked to, {} a reader of its log",
                    unit.name,
                    if has_log { "without" } else { "with" }
                ));
            }
            unit.revive_with_log(has_log).await?;
            if !has_log {
                sleep(time).await;
            }
        }
        self.journal.over(&running);
        Ok(())
    }

    /// SIGSTOP for longer or shorter than a lease, and SIGCONT: it does not know how long it has slept.
    pub(super) async fn freeze(
        &self,
        sort: &'static str,
        units: &[Arc<Unit>],
        random: &mut StdRng,
    ) -> anyhow::Result<()> {
        let unit = any(units, random);
        let time = seconds(random, 0.5..7.0);
        let running = self.journal.inject(sort, &format!("{} for {:.1} s", unit.name, time.as_secs_f64()));
        unit.freeze(true).await?;
        sleep(time).await;
        unit.freeze(false).await?;
        self.journal.over(&running);
        Ok(())
    }
}
