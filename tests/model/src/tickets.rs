//! The gate that counts by tickets, modelled at the granularity of single statements.
//!
//! A submission draws the number of its message and is in if that number is at most the offset, which it read before,
//! plus the high mark. The offset says how many numbers are known to be dead; a refresh finds that out from the last number,
//! the registrations of open transactions and the live messages. A transaction registers before it draws: `nextval` locks
//! its sequence until the transaction ends, which stands for one number, and what goes beyond it is registered by advisory
//! locks.

mod check;
mod perform;
mod scene;
mod state;
mod steps;
