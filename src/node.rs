//! An HTTP API of a program's own, served by a node of Tidegate beside `/v1`.
//!
//! [`Tidegate::node`](crate::Tidegate::node) makes a [`Node`]. The program merges [`Node::router`] with its routes, which
//! answer errors in their own form and limit bodies as they like, and hands the result to [`Node::serve`].

#[cfg(feature = "cli")]
mod args;
mod parts;

use std::io;

use axum::Router;
use tokio::{net::TcpListener, task::JoinSet};
use tokio_util::sync::CancellationToken;

#[cfg(feature = "cli")]
#[doc(hidden)]
pub use self::args::NodeArgs;
use self::parts::{part, together};
pub use crate::{
    api_key::Scope,
    http::{Caller, ConnectionOptions, HttpOptions, Keys, Node, NodeOptions, Permit, Refusal},
    shutdown::on_signal,
    store::{Admission, SameKey, Submission},
    telemetry::metrics::Metrics,
};
use crate::{
    database,
    http::{LISTENER_NAME, serve_within},
    listener, maintenance, webhook,
};

impl Node {
    /// Serves `router` until `stop`, together with the work of a node: notifications, maintenance, webhooks. Then takes
    /// no new connections, and returns when the calls under way are finished.
    ///
    /// # Errors
    ///
    /// When the listener is beyond loopback and the options leave open who needs a key ([`Keys::OnceCreated`]); when a
    /// part of the node has ended by itself: without it, the node would report that it is healthy and not be. `stop` is
    /// cancelled then.
    pub async fn serve(&self, listener: TcpListener, router: Router, stop: CancellationToken) -> io::Result<()> {
        if self.options.keys == Keys::OnceCreated && !listener.local_addr()?.ip().is_loopback() {
            return Err(io::Error::other(
                "this node may serve callers without keys, so it serves loopback only: set `NodeOptions::keys`",
            ));
        }
        let served = serve_within(listener, router, &self.options.connections, stop.clone());
        together(served, self.parts(&stop), &stop).await
    }

    /// The work of a node without a server, until `stop`: for a program that accepts connections itself.
    ///
    /// # Errors
    ///
    /// As [`serve`](Self::serve).
    pub async fn run(&self, stop: CancellationToken) -> io::Result<()> {
        let stopped = async {
            stop.cancelled().await;
            Ok(())
        };
        together(stopped, self.parts(&stop), &stop).await
    }

    fn parts(&self, stop: &CancellationToken) -> JoinSet<&'static str> {
        let own_pool = || database::own_pool(self.store.pool(), 1, Some(LISTENER_NAME));
        let pool = self.options.listen.clone().unwrap_or_else(own_pool);
        let listening = listener::listen(pool, self.store.clone(), self.subscribers(), stop.clone());
        let mut parts = JoinSet::new();
        parts.spawn(part("maintenance", maintenance::run(self.store.clone(), stop.clone())));
        parts.spawn(part("the listener", listening));
        let mut options = webhook::Options::default();
        options.concurrency = self.options.webhooks.unwrap_or(options.concurrency);
        if options.concurrency > 0 {
            let delivering = webhook::run(self.store.clone(), options, stop.clone());
            parts.spawn(part("the delivery of webhooks", delivering));
        }
        parts
    }
}
