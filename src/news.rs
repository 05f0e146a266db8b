//! Which requests have moved: told by the processes that move them, heard by those where somebody waits.
//!
//! News are hints, and cost something: every NOTIFY takes a cluster-wide lock at commit, and a fleet moves tens of
//! thousands of requests a second. So they are told only while they are wanted:
//!
//! 1. A node where somebody waits asks for them on the channel `tidegate_watch` ([`Waiters`]): for requests that end,
//!    or for every move when somebody follows one. It asks again every few seconds, as long as anybody waits.
//! 2. Whoever hears that announces what it moves on the channel `tidegate_moved` ([`Teller`]), for a while: after the
//!    commit, in transactions of their own, a few milliseconds' worth together, and no more than a bounded number.
//! 3. A node looks for itself about once a second, in one query for all that it waits for. That finds what nobody
//!    announced: settles by SQL, time-outs, whatever was lost or too much.

mod teller;
mod waiters;

pub use self::{
    teller::Teller,
    waiters::{Waiter, Waiters, Waiting},
};

/// Where nodes ask for news; the payload is [`ENDED`] or [`MOVED`].
const WATCH_CHANNEL: &str = "tidegate_watch";

/// Where news are told; the payload is [`ENDED`] or [`MOVED`], then ids, separated by spaces.
const MOVED_CHANNEL: &str = "tidegate_moved";

const ENDED: &str = "ended";
const MOVED: &str = "moved";
