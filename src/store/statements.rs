//! The statements of a file of `sql/queries`: each begins with its name in a comment, after an empty line, and has none.

/// The statement of this name, with its comment. A name that the file does not have stops the compiler.
pub(super) const fn find(file: &'static str, name: &str) -> &'static str {
    let mut rest = file;
    loop {
        let (statement, others) = split(rest);
        if has_name(statement.as_bytes(), name.as_bytes()) {
            return statement;
        }
        assert!(!others.is_empty(), "the file of statements has none of this name");
        rest = others;
    }
}

/// The first statement, and those after it.
const fn split(file: &'static str) -> (&'static str, &'static str) {
    let bytes = file.as_bytes();
    let mut at = 0;
    while at + 1 < bytes.len() {
        if bytes[at] == b'\n' && bytes[at + 1] == b'\n' {
            return (file.split_at(at).0, file.split_at(at + 2).1);
        }
        at += 1;
    }
    (file, "")
}

/// Whether a statement begins with `-- name`, and then a colon or the end of the line.
const fn has_name(statement: &[u8], name: &[u8]) -> bool {
    let begins_at = "-- ".len();
    let ends_at = begins_at + name.len();
    if statement.len() <= ends_at || !matches!(statement[ends_at], b':' | b'\n') {
        return false;
    }
    let mut at = 0;
    while at < name.len() {
        if statement[begins_at + at] != name[at] {
            return false;
        }
        at += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::find;

    const FILE: &str = "-- one: $1 id\nselect $1;\n\n-- one_more\nselect 2;\n";

    #[test]
    fn a_statement_is_found_by_its_whole_name() {
        assert_eq!(find(FILE, "one"), "-- one: $1 id\nselect $1;");
        assert_eq!(find(FILE, "one_more"), "-- one_more\nselect 2;\n");
    }

    #[test]
    #[should_panic(expected = "none of this name")]
    fn a_name_that_only_begins_like_one_is_none() {
        find(FILE, "on");
    }
}
