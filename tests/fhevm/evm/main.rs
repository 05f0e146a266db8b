//! What `tidegate-evm` does on a chain.

mod anvil;
