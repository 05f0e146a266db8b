//! Connections between two statements, outside the pool.
//!
//! The pool asks the server about a connection before it takes it back, which costs each statement a round trip, and
//! then hands out the one that has been idle longest, whose session may have no plan of the statement yet. A connection
//! that has answered is kept here for the next statement instead, the last one first. One that was taken more than a
//! minute ago goes back, so that the pool's limit on age holds; so does one that has answered when the pool has no
//! other for a caller that waits there.

use std::{
    sync::{Arc, Mutex, OnceLock},
    time::{Duration, Instant},
};

use sqlx::{Connection as _, PgConnection, PgPool, Postgres, pool::PoolConnection, postgres::PgConnectOptions};

use crate::{database, error::Result, lock::lock};

/// How long a connection stays away from its pool.
const KEPT: Duration = Duration::from_secs(60);

/// For how long after an answer a connection is taken to be alive.
const ALIVE: Duration = Duration::from_secs(1);

/// How long a server may take to answer whether it is alive.
const ANSWER: Duration = Duration::from_secs(1);

/// A connection out of the pool.
#[derive(Debug)]
pub(crate) struct Connection {
    inner: PoolConnection<Postgres>,
    /// Where its pool led when it was taken.
    server: Arc<PgConnectOptions>,
    taken: Instant,
    answered: Instant,
}

impl Connection {
    /// For statements.
    pub(crate) fn get(&mut self) -> &mut PgConnection {
        &mut self.inner
    }

    /// Whether the server still answers; asks it only after a while.
    async fn is_alive(&mut self) -> bool {
        self.answered.elapsed() < ALIVE || matches!(tokio::time::timeout(ANSWER, self.inner.ping()).await, Ok(Ok(())))
    }

    /// Closes the connection: an answer that is still under way must reach no other caller.
    pub(crate) fn discard(self) {
        drop(self.inner.detach());
    }
}

#[derive(Debug, Default)]
struct State {
    free: Vec<Connection>,
    /// Callers at the pool.
    waiting: usize,
}

/// The connections that wait for their next statement.
#[derive(Debug, Default)]
pub(super) struct Connections {
    state: Mutex<State>,
    watched: OnceLock<()>,
    /// The pools above their own, the topmost first: it names the server, and these connections end with any of them.
    leaders: Vec<PgPool>,
}

impl Connections {
    /// Those of a pool below `pool`, which has these.
    pub(super) fn below(&self, pool: &PgPool) -> Self {
        let mut connections = Self::default();
        connections.leaders = [self.leaders.as_slice(), std::slice::from_ref(pool)].concat();
        connections
    }

    /// The connection that was used last, else one of the pool; no later than the pool's own limit.
    pub(super) async fn take(self: &Arc<Self>, pool: &PgPool) -> Result<Connection> {
        let patience = pool.options().get_acquire_timeout();
        tokio::time::timeout(patience, self.take_one(pool)).await.map_err(|_| sqlx::Error::PoolTimedOut)?
    }

    async fn take_one(self: &Arc<Self>, pool: &PgPool) -> Result<Connection> {
        if self.leaders.iter().any(PgPool::is_closed) {
            return Err(sqlx::Error::PoolClosed.into());
        }
        if let Some((topmost, between)) = self.leaders.split_first() {
            let server = topmost.connect_options();
            // Those between may be idle, and the listener copies their server.
            for led in between.iter().chain([pool]) {
                database::redirect(led, &server);
            }
        }
        let server = pool.connect_options();
        while let Some(mut connection) = self.free_or_wait() {
            if Arc::ptr_eq(&connection.server, &server) && connection.is_alive().await {
                return Ok(connection);
            }
            connection.discard();
            // The others have probably failed too.
            self.discard_free();
        }
        let _waiting = Waiting(self);
        self.watched.get_or_init(|| self.give_back_at_close(pool));
        let inner = pool.acquire().await?;
        let now = Instant::now();
        Ok(Connection { inner, server, taken: now, answered: now })
    }

    /// A free connection, or else counts its caller as waiting.
    fn free_or_wait(&self) -> Option<Connection> {
        let mut state = lock(&self.state);
        while let Some(connection) = state.free.pop() {
            if connection.taken.elapsed() < KEPT {
                return Some(connection);
            }
        }
        state.waiting += 1;
        None
    }

    /// Keeps a connection that has answered, unless a caller waits at the pool, or one that came by another way may
    /// wait there.
    pub(super) fn give(&self, mut connection: Connection, pool: &PgPool) {
        connection.answered = Instant::now();
        let mut state = lock(&self.state);
        let has_more = pool.num_idle() > 0 || pool.size() < pool.options().get_max_connections();
        if state.waiting == 0 && has_more && !pool.is_closed() {
            state.free.push(connection);
        }
    }

    /// Gives all free connections back to the pool.
    pub(super) fn give_back(&self) {
        lock(&self.state).free.clear();
    }

    /// `PgPool::close` waits for every connection, so those kept here go back when it begins.
    fn give_back_at_close(self: &Arc<Self>, pool: &PgPool) {
        let (closed, connections) = (pool.close_event(), Arc::downgrade(self));
        tokio::spawn(async move {
            closed.await;
            if let Some(connections) = connections.upgrade() {
                connections.give_back();
            }
        });
    }

    /// How many connections wait for their next statement.
    pub(super) fn free(&self) -> usize {
        lock(&self.state).free.len()
    }

    fn discard_free(&self) {
        for connection in lock(&self.state).free.drain(..) {
            connection.discard();
        }
    }
}

impl Drop for Connections {
    fn drop(&mut self) {
        // Giving them back to the pool would need a runtime.
        self.discard_free();
    }
}

/// A caller at the pool, however its wait ends.
struct Waiting<'a>(&'a Connections);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        lock(&self.0.state).waiting -= 1;
    }
}
