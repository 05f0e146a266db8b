//! The one LISTEN connection of a process, and its subscribers.
//!
//! Notifications are hints: every subscriber also polls. So a process without this connection, or behind a pooler that
//! loses notifications, works too, with more delay.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use sqlx::{PgPool, postgres::PgListener};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{
    database,
    error::{StoreError, warn_of},
    lock::lock,
    store::Store,
};

/// `tidegate.submit` and `tidegate.wake` name a queue that has something to claim.
const QUEUE_CHANNEL: &str = "tidegate_queue";

/// How long a connection may be quiet before it is tested, and how long the test may take.
const QUIET: Duration = Duration::from_secs(10);
const ANSWER: Duration = Duration::from_secs(5);

/// The longest pause before a lost connection is opened again.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// How many tests in a row may go without a notification: during a failover, one may have gone to the other server.
const UNANSWERED_MAX: u32 = 3;

/// When LISTEN is tried again after these: the cause is a pooler, or a database that stalled.
const POOLED_PAUSE: Duration = Duration::from_secs(600);

/// A receiver of the notifications of one channel. Called from the task that listens, so it must not block.
pub trait Subscriber: Send + Sync {
    /// The channel.
    fn channel(&self) -> &'static str;

    /// A notification arrived.
    fn on_notification(&self, payload: &str);

    /// Notifications may be lost, because the connection was opened only now.
    fn on_reconnect(&self);
}

/// Wakes the tasks that wait for work, by queue. Cheap to clone; clones share them.
#[derive(Debug, Clone, Default)]
pub struct Wakeups {
    queues: Arc<Mutex<HashMap<String, Arc<Notify>>>>,
}

impl Wakeups {
    /// The wake-up of a queue. Sent while no task waits, it wakes the next one that does.
    #[must_use]
    pub fn of_queue(&self, queue: &str) -> Arc<Notify> {
        Arc::clone(lock(&self.queues).entry(queue.to_owned()).or_default())
    }

    /// Wakes a task of this process that waits for the queue, if there is one.
    pub fn wake_queue(&self, queue: &str) {
        if let Some(wakeup) = lock(&self.queues).get(queue) {
            wakeup.notify_one();
        }
    }
}

impl Subscriber for Wakeups {
    fn channel(&self) -> &'static str {
        QUEUE_CHANNEL
    }

    fn on_notification(&self, payload: &str) {
        self.wake_queue(payload);
    }

    fn on_reconnect(&self) {
        lock(&self.queues).values().for_each(|wakeup| wakeup.notify_one());
    }
}

/// Listens until `shutdown`, on one connection beyond those of the pool; opens a lost one again. `store` sends the
/// notification that tests it.
pub async fn listen(pool: PgPool, store: Store, subscribers: Vec<Box<dyn Subscriber>>, shutdown: CancellationToken) {
    let mut pause = Duration::from_millis(100);
    let mut unanswered = 0;
    loop {
        match shutdown.run_until_cancelled(listen_once(&pool, &store, &subscribers)).await {
            None => return,
            Some(Ok(End::Lost)) => (pause, unanswered) = (Duration::from_millis(100), 0),
            Some(Ok(End::Pooled)) => {
                unanswered += 1;
                if unanswered == UNANSWERED_MAX {
                    tracing::warn!(
                        "LISTEN receives no notifications, so this program only polls, with more delay: give it a connection \
                         that no transaction pooler shares, with --listen-database-url"
                    );
                }
                if unanswered >= UNANSWERED_MAX {
                    pause = POOLED_PAUSE;
                }
            }
            Some(Err(error)) => warn_of!(error, pause_ms = pause.as_millis(), "not listening; polling goes on"),
        }
        shutdown.run_until_cancelled(tokio::time::sleep(pause)).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Why listening ended.
enum End {
    /// The connection is lost.
    Lost,
    /// A pooler gives each transaction another server process, so that notifications would reach other clients.
    Pooled,
}

/// Listens on one connection until it is lost.
async fn listen_once(pool: &PgPool, store: &Store, subscribers: &[Box<dyn Subscriber>]) -> Result<End, StoreError> {
    // A connection that is cut off keeps its place in its pool for as long as the system tries to reach the server.
    let own = database::own_pool(pool, 1, None);
    let mut listener = PgListener::connect_with(&own).await?;
    listener.eager_reconnect(false);
    // On a channel that is used once: behind a pooler, its LISTEN stays on a server process of other clients.
    let channel = format!("tidegate_probe_{}", Uuid::new_v4().simple());
    listener.listen(&channel).await?;
    store.notify(&channel).await?;
    match tokio::time::timeout(ANSWER, listener.try_recv()).await {
        Ok(Ok(Some(_))) => listener.unlisten(&channel).await?,
        Ok(Ok(None)) => return Ok(End::Lost),
        Ok(Err(error)) => return Err(error.into()),
        Err(_) => return Ok(End::Pooled),
    }
    listener.listen_all(subscribers.iter().map(|subscriber| subscriber.channel())).await?;
    // Earlier notifications are lost.
    for subscriber in subscribers {
        subscriber.on_reconnect();
    }
    loop {
        match tokio::time::timeout(QUIET, listener.try_recv()).await {
            Ok(Ok(Some(notification))) => {
                for subscriber in subscribers {
                    if subscriber.channel() == notification.channel() {
                        subscriber.on_notification(notification.payload());
                    }
                }
            }
            Ok(Ok(None)) => return Ok(End::Lost),
            Ok(Err(error)) => return Err(error.into()),
            // A connection that is cut off is as quiet as one without notifications.
            Err(_) => {
                let alive = sqlx::query("select 1").execute(&mut listener);
                if tokio::time::timeout(ANSWER, alive).await.is_err() {
                    return Err(sqlx::Error::PoolTimedOut.into());
                }
            }
        }
    }
}
