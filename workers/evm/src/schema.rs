//! Schema `evm`.

/// A file of SQL, by its name.
macro_rules! sql {
    ($($folder:literal: $($name:literal),+;)+) => {
        [$($((concat!($folder, "/", $name), include_str!(concat!("../", $folder, "/", $name, ".sql")))),+),+]
    };
}

const FILES: [(&str, &str); 14] = sql! {
    "migrations": "V1__wallets", "V2__watcher";
    "sql": "cluster", "wallet_lock_key", "wallet_adopt", "wallet_load", "wallet_list", "wallet_unfund", "allocation_begin",
        "allocation_insert", "slots", "note_sent", "note_mined", "functions";
};

/// All of its SQL, for an empty database.
#[must_use]
pub fn sql() -> String {
    let files = FILES.iter().map(|(_, sql)| *sql);
    ["create schema evm;\n"].into_iter().chain(files).collect()
}
