//! What `tidegate-fhevm` does on a chain.
