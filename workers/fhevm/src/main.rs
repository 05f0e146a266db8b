//! The program `tidegate-fhevm`.

fn main() {}
