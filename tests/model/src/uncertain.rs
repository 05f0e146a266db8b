//! What is known of sends that may have been executed, and what follows for the idempotency key, a transaction a step.
//!
//! There is one key, under which a caller submits whenever it is free. Requests are accepted with it, or redriven. An
//! attempt makes one call, or two with a hedge. A call is under way until it arrives, also when its attempt is over: the
//! downstream executes it, refuses it, or never gets it. A state has what the engine knows, and what is true.

mod check;
mod perform;
mod scene;
mod state;
mod steps;
