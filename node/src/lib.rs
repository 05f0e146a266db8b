//! The HTTP API of Tidegate, as a part of a program: by itself, or beside routes of the program's own.
//!
//! [`Node::new`] makes a node. The program merges [`Node::router`] with its routes, which answer errors in their own form
//! and limit bodies as they like, and hands the result to [`Node::serve`]. `examples/http_gateway.rs` does that.

mod api;
mod args;
mod file_limit;
mod parts;
mod state;
mod ui;
pub mod webhook;

use std::io;

use axum::Router;
use tidegate::{
    Tidegate,
    internals::{database, listener, maintenance},
};
use tokio::{net::TcpListener, task::JoinSet};
use tokio_util::sync::CancellationToken;

use self::parts::{part, together};
pub use self::state::{
    access::{Caller, Refusal},
    metrics::exporter::Exporter,
    node::Node,
    node_options::{Keys, NodeOptions},
    options::{ConnectionOptions, HttpOptions},
    places::Permit,
};
pub use self::ui::{PageOptions, Visitors};
pub use tidegate::internals::{
    api_key::Scope,
    shutdown::on_signal,
    store::{Admission, SameKey, Submission},
};

/// Outside the interface: for Tidegate's own programs, tests and benchmarks. It may change in any version.
#[doc(hidden)]
pub mod internals {
    pub use crate::{
        api::{
            metrics::metrics_router,
            problem::Problem,
            routes::document,
            server::{serve, serve_within},
            traced,
        },
        args::NodeArgs,
        state::{LISTENER_NAME, metrics::overview::Overview},
    };
}

impl Node {
    /// A node of the HTTP API on this database. Called in a runtime.
    #[must_use]
    pub fn new(tidegate: &Tidegate, options: NodeOptions) -> Self {
        let options = match (&options.listen, tidegate.url()) {
            (None, Some(url)) => options.clone().listen_url(url).unwrap_or(options),
            _ => options,
        };
        Self::of_store(tidegate.store().clone(), options)
    }

    /// As [`new`](Self::new), over a store.
    #[doc(hidden)]
    #[must_use]
    pub fn of_store(store: tidegate::internals::store::Store, options: NodeOptions) -> Self {
        Self::over(store, options, api::routes::paths())
    }

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
        let served = api::server::serve_within(listener, router, &self.options.connections, stop.clone());
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
        let own_pool = || database::own_pool(self.store.pool(), 1, Some(state::LISTENER_NAME));
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
