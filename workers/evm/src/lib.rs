//! Contract calls from any number of wallets: one transaction per request, through crashes, lying endpoints, stuck fees
//! and reorganisations of the chain.

pub mod checker;
