//! Leases as rows, modelled at the granularity of single statements and single row locks.
//!
//! A claim moves messages out of the queue into a lease row, and the rows of their requests name the lease. Everything that
//! ends a hold looks for rows that name its lease, and locks them in the order of their ids; what is put back gets its
//! message in the same transaction. A statement takes its snapshot when it begins, waits for the locks of others, and then
//! looks again at the newest version of a row; a row that does not match any more stays locked all the same.

mod check;
mod perform;
mod scene;
mod state;
mod steps;
