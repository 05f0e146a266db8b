//! The SQL that a build contains, and what it says about rights.

use include_dir::{Dir, include_dir};

static SQL: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/sql");

/// A file below `sql/`: its path there, and its text.
pub(crate) type File = (&'static str, &'static str);

/// All that `migrate` applies.
pub(crate) fn all() -> Vec<File> {
    below(&SQL)
}

fn below(directory: &'static Dir<'static>) -> Vec<File> {
    let files = directory.files().filter_map(|file| {
        let path = file.path().to_str()?;
        Some((path, file.contents_utf8()?))
    });
    let folders = directory.dirs().filter(|folder| !folder.path().ends_with("queries"));
    files.chain(folders.flat_map(below)).collect()
}

/// The roles that may call a function of schema `tidegate`, as its file allows it; none for another function.
pub(crate) fn roles_that_call(function: &str) -> Vec<String> {
    let allows = format!("select tidegate_internal.allow('{function}', '{{");
    let roles = all().into_iter().find_map(|(_, sql)| {
        let (_, after) = sql.split_once(&allows)?;
        Some(after.split_once('}')?.0)
    });
    let names = roles.into_iter().flat_map(|roles| roles.split(','));
    names.map(|role| format!("tidegate_{}", role.trim())).collect()
}

/// Whether the role `tidegate_admin` may change a table of schema `tidegate`.
pub(crate) fn admin_changes(table: &str) -> bool {
    let grants = all().into_iter().find(|(path, _)| *path == "grants.sql");
    let tables = grants.and_then(|(_, sql)| {
        let (_, after) = sql.split_once("grant insert, update, delete on ")?;
        Some(after.split_once(" to tidegate_admin")?.0)
    });
    let mut tables = tables.into_iter().flat_map(|tables| tables.split(','));
    tables.any(|name| name.trim().strip_prefix("tidegate.") == Some(table))
}
