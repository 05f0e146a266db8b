//! What the API of one process keeps in memory, and shares among its calls. It knows nothing of routes and answers.

pub(crate) mod access;
pub(crate) mod gates;
pub(crate) mod grouping;
pub(crate) mod metrics;
pub(crate) mod node;
pub(crate) mod node_options;
pub(crate) mod options;
pub(crate) mod origin;
pub(crate) mod outlooks;
pub(crate) mod places;
pub(crate) mod responder;
mod statistics;
pub(crate) mod streams;

/// The application name of a node's listening connection: `tidegate.gate_copy` counts the nodes by it, because they
/// share the room behind a gate.
pub const LISTENER_NAME: &str = "tidegate-api-listener";
