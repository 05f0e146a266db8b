//! Moves of requests: announced by the processes that cause them, received by the nodes whose callers wait for them.
//!
//! Announcements are hints, and cost something: every NOTIFY takes a cluster-wide lock at commit, and a fleet moves
//! tens of thousands of requests a second. So they are made only on demand:
//!
//! 1. A node with waiting callers asks for announcements on the channel `tidegate_watch` ([`Waiters`]): for requests
//!    that end, or for every move when a stream follows one. It repeats that every few seconds while callers wait.
//! 2. A process that receives this announces its moves on the channel `tidegate_moved` ([`Announcer`]), for a limited
//!    time: after the commit, in separate transactions for some milliseconds' moves each, up to a number of ids.
//! 3. A node polls about once a second, in one query for all requests that it waits for. That finds the moves without
//!    announcement: settles by SQL, time-outs, lost notifications, moves beyond the limit.

mod announcer;
mod waiters;

pub use self::{
    announcer::Announcer,
    waiters::{Waiter, Waiters, Waiting},
};

/// Where nodes ask for announcements; the payload is [`ENDED`] or [`MOVED`].
const WATCH_CHANNEL: &str = "tidegate_watch";

/// Where moves are announced; the payload is [`ENDED`] or [`MOVED`], then ids, separated by spaces.
const MOVED_CHANNEL: &str = "tidegate_moved";

const ENDED: &str = "ended";
const MOVED: &str = "moved";
