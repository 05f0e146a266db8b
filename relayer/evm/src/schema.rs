//! Wallets, their transactions, and how far chains were read: the schema `evm`.

use tidegate::Migrations;

/// The files of a folder, each by its name.
macro_rules! files {
    ($folder:literal: $($name:literal),+) => {
        [$(($name, include_str!(concat!("../", $folder, "/", $name, ".sql")))),+]
    };
}

const TABLES: [(&str, &str); 3] = files!("migrations": "V1__wallets", "V2__watcher", "V3__keeper");

/// In the order in which they are applied.
const FUNCTIONS: [(&str, &str); 38] = files!(
    "sql": "cluster", "wallet_lock_key", "wallet_adopt", "wallet_load", "wallet_list", "wallet_unfund",
    "allocation_begin", "allocation_insert", "slots", "note_sent", "note_mined", "cursor_read", "cursor_start",
    "cursor_blocks", "cursor_move", "mined_after", "unmine", "keeper_begin", "keeper_holds", "keeper_wallet",
    "keeper_open", "keeper_raw", "keeper_sign", "keeper_reopen", "keeper_unsettled", "keeper_settle", "keeper_off",
    "keeper_fund", "keeper_adopt", "wallet_overview", "wallet_attempts", "wallet_turn", "resync_slot",
    "resync_insert", "resync_lose", "resync_reopen", "resync_end", "functions"
);

/// What `Tidegate::migrate_with` applies for this crate.
#[must_use]
pub fn migrations() -> Migrations {
    let tables = TABLES.into_iter();
    let tables = tables.fold(Migrations::new("evm"), |all, (name, sql)| all.file(name, sql));
    FUNCTIONS.into_iter().fold(tables, |all, (name, sql)| all.function(name, sql))
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, path::Path};

    #[test]
    fn every_file_of_sql_is_applied() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        for (folder, files) in [("migrations", &super::TABLES[..]), ("sql", &super::FUNCTIONS)] {
            let there = root.join(folder).read_dir().unwrap();
            let there: BTreeSet<_> = there.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
            let applied: BTreeSet<_> = files.iter().map(|(name, _)| format!("{name}.sql")).collect();
            assert_eq!(applied, there, "{folder}");
        }
    }
}
