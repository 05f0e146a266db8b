//! What the pages share.

use std::sync::Arc;

use rand::{TryRngCore, rngs::OsRng};
use tidegate::internals::store::Store;

use super::{examinations::Examinations, failures::Failures, looks::Looks, work::Jobs};
use crate::state::{node::Node, places::Places};

/// Connections of the pages, made when they are first used: neither callers nor `/v1/admin` wait for what operators
/// look at.
const CONNECTIONS: u32 = 2;

/// Calls of pages at once, beside streams.
const CALLS: usize = 32;

/// Live pages at once.
const STREAMS: usize = 200;

/// What a visitor without a session may do, once there are API keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Visitors {
    /// Sign in.
    #[default]
    SignIn,
    /// See all but payloads and responses.
    Read,
}

/// How the pages present themselves.
#[derive(Debug, Clone, Default)]
pub struct PageOptions {
    /// The name of the installation, such as `production`.
    pub instance: Option<String>,
    /// Its colour: red, orange, green, blue or purple.
    pub colour: Option<String>,
    /// What visitors may do.
    pub visitors: Visitors,
}

/// What the pages share.
pub(super) struct Ui {
    pub(super) node: Node,
    pub(super) store: Store,
    pub(super) options: PageOptions,
    pub(super) looks: Looks,
    pub(super) jobs: Jobs,
    pub(super) examinations: Arc<Examinations>,
    pub(super) failures: Failures,
    pub(super) streams: Places,
    pub(super) calls: Places,
    /// Seals the forms of those who need no key.
    pub(super) secret: String,
}

impl Ui {
    pub(super) fn new(node: &Node, options: PageOptions) -> Self {
        let mut secret = [0_u8; 32];
        if let Err(error) = OsRng.try_fill_bytes(&mut secret) {
            tracing::error!(%error, "no random numbers: forms without a session are refused");
        }
        let store = node.store.with_own_pool(CONNECTIONS);
        Self {
            looks: Looks::new(store.clone()),
            store,
            node: node.clone(),
            options,
            jobs: Jobs::default(),
            examinations: Arc::default(),
            failures: Failures::default(),
            streams: Places::new(STREAMS),
            calls: Places::new(CALLS),
            secret: secret.iter().map(|byte| format!("{byte:02x}")).collect(),
        }
    }
}
