//! The one LISTEN connection of a process, and who wakes up when it hears something.
//!
//! Notifications are hints: whoever waits here also asks again by itself after a while.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use sqlx::{PgPool, postgres::PgListener};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// `tidegate.submit` and `tidegate.wake` name a queue that has something to claim.
const QUEUE_CHANNEL: &str = "tidegate_queue";

/// How long a connection may be quiet before it is asked whether it is still there, and how long it may take to say so.
const QUIET: Duration = Duration::from_secs(30);
const ANSWER: Duration = Duration::from_secs(5);

/// Who is to be woken, by queue. Cheap to clone; clones share their sleepers.
#[derive(Debug, Clone, Default)]
pub struct Wakeups {
    queues: Arc<Mutex<HashMap<String, Arc<Notify>>>>,
}

impl Wakeups {
    /// The bell of a queue. Rung while nobody waits, it rings for the next one who does.
    #[must_use]
    pub fn of_queue(&self, queue: &str) -> Arc<Notify> {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(queues.entry(queue.to_owned()).or_default())
    }

    /// Rings the bell of a queue, if this process has anybody there.
    pub fn wake_queue(&self, queue: &str) {
        let queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bell) = queues.get(queue) {
            bell.notify_one();
        }
    }

    fn wake_all(&self) {
        let queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        for bell in queues.values() {
            bell.notify_one();
        }
    }
}

/// Listens until `shutdown`, connecting again whenever the connection is lost.
pub async fn listen(pool: PgPool, wakeups: Wakeups, shutdown: CancellationToken) {
    let mut pause = Duration::from_millis(100);
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            heard = listen_once(&pool, &wakeups) => match heard {
                Ok(()) => pause = Duration::from_millis(100),
                Err(error) => tracing::warn!(%error, pause_ms = pause.as_millis(), "not listening; polling goes on"),
            },
        }
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(Duration::from_secs(5)),
        }
    }
}

/// Listens on one connection until it is lost.
async fn listen_once(pool: &PgPool, wakeups: &Wakeups) -> sqlx::Result<()> {
    let mut listener = PgListener::connect_with(pool).await?;
    listener.listen(QUEUE_CHANNEL).await?;
    // What was said before this connection listened is lost: everybody looks for themselves once.
    wakeups.wake_all();
    loop {
        match tokio::time::timeout(QUIET, listener.try_recv()).await {
            Ok(Ok(Some(notification))) => wakeups.wake_queue(notification.payload()),
            Ok(Ok(None)) => return Ok(()),
            Ok(Err(error)) => return Err(error),
            // Nothing to hear, or nobody there any more: a connection that is cut off says nothing either.
            Err(_) => {
                let alive = sqlx::query("select 1").execute(&mut listener);
                if tokio::time::timeout(ANSWER, alive).await.is_err() {
                    return Err(sqlx::Error::PoolTimedOut);
                }
            }
        }
    }
}
