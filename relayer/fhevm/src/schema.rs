//! Which request a response of the gateway belongs to, and the key URL: the schema `fhevm`.

use tidegate::Migrations;

/// What `Tidegate::migrate_with` applies for this crate, after [`tidegate_evm::migrations`].
#[must_use]
pub fn migrations() -> Migrations {
    Migrations::new("fhevm")
        .file("V1__references", include_str!("../migrations/V1__references.sql"))
        .file("V2__key_url", include_str!("../migrations/V2__key_url.sql"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    #[test]
    fn every_file_of_sql_is_applied() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let folders = ["migrations", "sql"].map(|folder| root.join(folder)).into_iter();
        for folder in folders.filter(|folder| folder.exists()) {
            for file in folder.read_dir().unwrap() {
                let path = file.unwrap().path();
                let path = path.strip_prefix(root).unwrap().to_str().unwrap();
                let applied = format!("include_str!(\"../{path}\")");
                assert!(include_str!("schema.rs").contains(&applied), "{path}");
            }
        }
    }
}
