//! A second description of the transactions on requests, apart from the engine: in every order, with workers that crash,
//! leases that run out, and messages that come late, twice or never.
//!
//! Two smaller models, `tickets` and `leases`, look below a transaction: at its statements, their snapshots and its locks.
//! A third, `uncertain`, follows an idempotency key through sends that may have been executed.
//!
//! Nothing here is used by the programs. The tests let `stateright` walk through every state of the model and hold the
//! properties against each; then they break the model in ways in which the engine could be broken, and see that it is
//! noticed. `docs/reliability.md` says what the model covers and what it leaves out.

#[cfg(test)]
mod check;
#[cfg(test)]
mod leases;
#[cfg(test)]
mod perform;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod rank;
#[cfg(test)]
mod rules;
#[cfg(test)]
mod scene;
#[cfg(test)]
mod search;
#[cfg(test)]
mod state;
#[cfg(test)]
mod steps;
#[cfg(test)]
mod tickets;
#[cfg(test)]
mod transactions;
#[cfg(test)]
mod uncertain;
