//! Connections between two statements, outside the pool.
//!
//! The pool asks the server about a connection before it takes it back, which costs each statement a round trip. A connection
//! that has just answered is kept here for the next statement instead; at most for a second, so that the pool's limits on
//! idle time and age hold, and never while a caller waits at the pool.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use sqlx::{PgConnection, PgPool, Postgres, pool::PoolConnection};

use crate::error::StoreError;

/// How long a connection stays away from its pool.
const KEPT: Duration = Duration::from_secs(1);

/// A connection out of the pool, and since when.
#[derive(Debug)]
pub(crate) struct Connection {
    inner: PoolConnection<Postgres>,
    since: Instant,
}

impl Connection {
    /// For statements.
    pub(crate) fn get(&mut self) -> &mut PgConnection {
        &mut self.inner
    }

    /// Closes the connection: what it still brings must reach no other caller.
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
pub(super) struct Connections(Mutex<State>);

impl Connections {
    /// The connection that was used last, else one of the pool.
    pub(super) async fn take(&self, pool: &PgPool) -> Result<Connection, StoreError> {
        if let Some(connection) = self.free_or_wait() {
            return Ok(connection);
        }
        let _waiting = Waiting(self);
        Ok(Connection {
            inner: pool.acquire().await?,
            since: Instant::now(),
        })
    }

    /// A free connection, or else counts its caller as waiting.
    fn free_or_wait(&self) -> Option<Connection> {
        let mut state = self.state();
        while let Some(connection) = state.free.pop() {
            if connection.since.elapsed() < KEPT {
                return Some(connection);
            }
        }
        state.waiting += 1;
        None
    }

    /// Keeps a connection that has answered, unless a caller waits at the pool.
    pub(super) fn give(&self, connection: Connection) {
        let mut state = self.state();
        if state.waiting == 0 {
            state.free.push(connection);
        }
    }

    /// Gives all free connections back to the pool.
    pub(super) fn give_back(&self) {
        self.state().free.clear();
    }

    /// How many connections wait for their next statement.
    pub(super) fn free(&self) -> usize {
        self.state().free.len()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Connections {
    fn drop(&mut self) {
        // Giving them back to the pool would need a runtime.
        for connection in self.state().free.drain(..) {
            connection.discard();
        }
    }
}

/// A caller at the pool, however its wait ends.
struct Waiting<'a>(&'a Connections);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.state().waiting -= 1;
    }
}
