//! The options of a node that a program runs beside routes of its own.

use std::sync::Arc;

use axum::http::request::Parts;
use sqlx::PgPool;
use tidegate::internals::{
    database::{self, PoolSettings},
    error::StoreError,
};

use super::{
    LISTENER_NAME,
    metrics::exporter::Exporter,
    options::{ConnectionOptions, HttpOptions},
};

/// Finds the API key that a call shows.
pub(crate) type Credentials = Arc<dyn Fn(&Parts) -> Option<String> + Send + Sync>;

/// Which calls need an API key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Keys {
    /// All, once a key was created. Until then programs on the same machine may do everything, so listen on loopback.
    #[default]
    OnceCreated,
    /// None of the program's own calls: what stands in front of the program admits its callers. `/v1` needs keys.
    Off,
    /// Of the program's own calls those that show one, which must be known; the others are anonymous. `/v1` needs keys.
    Optional,
    /// All, wherever the program listens.
    Required,
}

/// How a [`Node`](crate::Node) works.
#[derive(Clone, Default)]
pub struct NodeOptions {
    pub(crate) http: HttpOptions,
    pub(crate) connections: ConnectionOptions,
    pub(crate) keys: Keys,
    pub(crate) credentials: Option<Credentials>,
    pub(crate) webhooks: Option<usize>,
    pub(crate) listen: Option<PgPool>,
    pub(crate) exporter: Exporter,
}

impl NodeOptions {
    /// The limits of calls. The body limit is that of `/v1`: the program's routes have their own.
    #[must_use]
    pub fn http(mut self, options: HttpOptions) -> Self {
        self.http = options;
        self
    }

    /// The limits of connections, for [`Node::serve`](crate::Node::serve).
    #[must_use]
    pub fn connections(mut self, options: ConnectionOptions) -> Self {
        self.connections = options;
        self
    }

    /// Which calls need an API key.
    #[must_use]
    pub fn keys(mut self, keys: Keys) -> Self {
        self.keys = keys;
        self
    }

    /// Where calls to the program's own routes show their API key; by default, and in `/v1` always, it is
    /// `Authorization: Bearer …`. A key from a cookie comes from web pages of other sites, too.
    #[must_use]
    pub fn credentials(mut self, find: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static) -> Self {
        self.credentials = Some(Arc::new(find));
        self
    }

    /// The most webhooks that the node delivers at once; 0: none.
    #[must_use]
    pub fn webhooks(mut self, at_once: usize) -> Self {
        self.webhooks = Some(at_once);
        self
    }

    /// Where the node counts: by default with a recorder of its own.
    #[must_use]
    pub fn exporter(mut self, exporter: Exporter) -> Self {
        self.exporter = exporter;
        self
    }

    /// Receives notifications from the database at this URL, when the node's own connections go through a pooler in
    /// transaction mode. Called in a runtime.
    ///
    /// # Errors
    ///
    /// The URL cannot be read.
    pub fn listen_url(mut self, url: &str) -> Result<Self, StoreError> {
        let settings = PoolSettings {
            // The database counts nodes by this name.
            application_name: LISTENER_NAME.to_owned(),
            ..PoolSettings::default()
        };
        self.listen = Some(database::connect_to_listen(url, &settings)?);
        Ok(self)
    }
}
