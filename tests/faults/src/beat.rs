//! Whether the machine has time for this process.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, sleep};

use crate::{evidence::Stall, journal::now_us};

/// How often the machine is asked whether it lets us work.
const BEAT: Duration = Duration::from_millis(5);

/// From when on a beat that comes late is written down.
const LATE: Duration = Duration::from_millis(15);

/// Notices when the machine stalls: sends that were due meanwhile leave later, and together.
pub(crate) struct Beat {
    stalls: Arc<Mutex<Vec<Stall>>>,
    beating: tokio::task::JoinHandle<()>,
}

impl Beat {
    pub(crate) fn start() -> Self {
        let stalls = Arc::<Mutex<Vec<Stall>>>::default();
        let noted = stalls.clone();
        let beating = tokio::spawn(async move {
            loop {
                let began = Instant::now();
                sleep(BEAT).await;
                let late = began.elapsed().saturating_sub(BEAT);
                if late > LATE {
                    let stall =
                        Stall { at_us: now_us(), length_us: i64::try_from(late.as_micros()).unwrap_or(i64::MAX) };
                    noted.lock().unwrap_or_else(PoisonError::into_inner).push(stall);
                }
            }
        });
        Self { stalls, beating }
    }

    pub(crate) fn stop(self) -> Vec<Stall> {
        self.beating.abort();
        std::mem::take(&mut *self.stalls.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
