//! The one LISTEN connection of a process, and who is told what it hears.
//!
//! Notifications are hints: whoever waits for one also looks by itself after a while. So a process without this
//! connection, or behind a pooler that swallows what it hears, works too, only later.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use sqlx::{PgPool, postgres::PgListener};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{
    error::{StoreError, warn_of},
    store::Store,
};

/// `tidegate.submit` and `tidegate.wake` name a queue that has something to claim.
const QUEUE_CHANNEL: &str = "tidegate_queue";

/// How long a connection may be quiet before it is asked whether it is still there, and how long it may take to say so.
const QUIET: Duration = Duration::from_secs(30);
const ANSWER: Duration = Duration::from_secs(5);

/// The longest pause before a lost connection is made again.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// When LISTEN is tried again where it did not reach this program: a pooler stays, and a database that stalled recovers.
const NOT_OURS: Duration = Duration::from_secs(600);

/// Somebody who is told what is said on one channel. Called from the task that listens, so it must not take long.
pub trait Hear: Send + Sync {
    /// The channel.
    fn channel(&self) -> &'static str;

    /// Something was said.
    fn heard(&self, payload: &str);

    /// Something may have been said while nobody listened.
    fn may_have_missed(&self);
}

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
}

impl Hear for Wakeups {
    fn channel(&self) -> &'static str {
        QUEUE_CHANNEL
    }

    fn heard(&self, payload: &str) {
        self.wake_queue(payload);
    }

    fn may_have_missed(&self) {
        let queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        for bell in queues.values() {
            bell.notify_one();
        }
    }
}

/// Listens until `shutdown`, connecting again whenever the connection is lost. Takes one connection of the pool; `store`
/// makes sure that what is said reaches it.
pub async fn listen(pool: PgPool, store: Store, hearers: Vec<Box<dyn Hear>>, shutdown: CancellationToken) {
    let mut pause = Duration::from_millis(100);
    let mut told = false;
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            heard = listen_once(&pool, &store, &hearers) => match heard {
                Ok(End::Lost) => pause = Duration::from_millis(100),
                Ok(End::NotOurs) => {
                    if !told {
                        tracing::warn!(
                            "LISTEN does not reach this program, so it polls and is told of everything later: give it a \
                             connection that no transaction pooler shares, with --listen-database-url"
                        );
                    }
                    told = true;
                    pause = NOT_OURS;
                }
                Err(error) => warn_of!(error, pause_ms = pause.as_millis(), "not listening; polling goes on"),
            },
        }
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(LONGEST_PAUSE),
        }
    }
}

/// Why a connection listens no more.
enum End {
    /// It is lost.
    Lost,
    /// A pooler gives each transaction another server process: LISTEN would stay where others meet what it brings.
    NotOurs,
}

/// Listens on one connection until it is lost.
async fn listen_once(pool: &PgPool, store: &Store, hearers: &[Box<dyn Hear>]) -> Result<End, StoreError> {
    let mut listener = PgListener::connect_with(pool).await?;
    // On a channel that is used once: where LISTEN is not ours, it stays without consequence.
    let channel = format!("tidegate_probe_{}", Uuid::new_v4().simple());
    listener.listen(&channel).await?;
    store.notify(&channel).await?;
    match tokio::time::timeout(ANSWER, listener.try_recv()).await {
        Ok(Ok(Some(_))) => listener.unlisten(&channel).await?,
        Ok(Ok(None)) => return Ok(End::Lost),
        Ok(Err(error)) => return Err(error.into()),
        Err(_) => return Ok(End::NotOurs),
    }
    listener
        .listen_all(hearers.iter().map(|hearer| hearer.channel()))
        .await?;
    // What was said before this connection listened is lost: everybody looks for themselves once.
    for hearer in hearers {
        hearer.may_have_missed();
    }
    loop {
        match tokio::time::timeout(QUIET, listener.try_recv()).await {
            Ok(Ok(Some(notification))) => {
                for hearer in hearers {
                    if hearer.channel() == notification.channel() {
                        hearer.heard(notification.payload());
                    }
                }
            }
            Ok(Ok(None)) => return Ok(End::Lost),
            Ok(Err(error)) => return Err(error.into()),
            // Nothing to hear, or nobody there any more: a connection that is cut off says nothing either.
            Err(_) => {
                let alive = sqlx::query("select 1").execute(&mut listener);
                if tokio::time::timeout(ANSWER, alive).await.is_err() {
                    return Err(sqlx::Error::PoolTimedOut.into());
                }
            }
        }
    }
}
