//! What every handler of the API gets.

use std::sync::Arc;

use axum::body::Bytes;
use tidegate::{
    internals::store::Store,
    request::{RequestId, Status},
};

use crate::state::{node::Node, streams::Streams};

/// The state of the handlers.
#[derive(Clone)]
pub(super) struct Api {
    /// The node's store; for the calls of operators, the one with their own connections.
    pub(super) store: Store,
    pub(super) node: Node,
    pub(super) streams: Arc<Streams>,
    /// The API's document, as text.
    pub(super) document: Bytes,
}

impl Api {
    /// Reports the move of a request by a call, to waiters here and on other nodes.
    pub(super) fn moved(&self, id: RequestId, status: Status) {
        self.node.moved(id, status);
    }
}
