//! Connections between two statements, outside the pool.
//!
//! The pool asks the server about a connection before it takes it back, which costs each statement a round trip, and then hands out
//! the one that has been idle longest, whose session may have no plan of the statement yet. A connection that has answered is kept
//! here for the next statement instead, the last one first. The pool gets it back after a minute, so that its limit on age holds, and
//! at once while a caller waits at the pool.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use sqlx::{Connection as _, PgConnection, PgPool, Postgres, pool::PoolConnection};

use crate::error::StoreError;

/// How long a connection stays away from its pool.
const KEPT: Duration = Duration::from_secs(60);

/// For how long after an answer a connection is taken to be alive.
const ALIVE: Duration = Duration::from_secs(1);

/// A connection out of the pool.
#[derive(Debug)]
pub(crate) struct Connection {
    inner: PoolConnection<Postgres>,
    taken: Instant,
    answered: Instant,
}

impl Connection {
    /// For statements.
    pub(crate) fn get(&mut self) -> &mut PgConnection {
        &mut self.inner
    }

    /// Whether the server still answers; asks it only after a while.
    async fn is_alive(&mut self, patience: Duration) -> bool {
        self.answered.elapsed() < ALIVE
            || matches!(
                tokio::time::timeout(patience, self.inner.ping()).await,
                Ok(Ok(()))
            )
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
        while let Some(mut connection) = self.free_or_wait() {
            if connection
                .is_alive(pool.options().get_acquire_timeout())
                .await
            {
                return Ok(connection);
            }
            connection.discard();
        }
        let _waiting = Waiting(self);
        let inner = pool.acquire().await?;
        let now = Instant::now();
        Ok(Connection {
            inner,
            taken: now,
            answered: now,
        })
    }

    /// A free connection, or else counts its caller as waiting.
    fn free_or_wait(&self) -> Option<Connection> {
        let mut state = self.state();
        while let Some(connection) = state.free.pop() {
            if connection.taken.elapsed() < KEPT {
                return Some(connection);
            }
        }
        state.waiting += 1;
        None
    }

    /// Keeps a connection that has answered, unless a caller waits at the pool.
    pub(super) fn give(&self, mut connection: Connection) {
        connection.answered = Instant::now();
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
