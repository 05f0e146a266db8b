//! Is a function read on a screen or two (80 lines of Rust, 120 of SQL), a file of tests in one sitting (400 lines)?

use std::collections::BTreeSet;

use super::tidy::{SOURCES, files};

const RUST_MAX: usize = 80;
const SQL_MAX: usize = 120;

/// How many lines a Rust file below `tests/` may have.
const TESTS_MAX: usize = 400;

/// SQL functions that are longer, and why.
const LONGER: [(&str, &str); 11] = [
    ("contract_observe", "a list: what each type of assertion asks"),
    ("explain_waiting", "a list: what each reason to wait says"),
    ("invariants_of_queues", "a list: one entry an invariant"),
    ("invariants_of_requests", "a list: one entry an invariant"),
    ("recover", "one pass over the rows of a batch"),
    ("redrive", "one pass over the rows of a batch"),
    ("request_history", "what follows from a step: only a trigger sees the new rows"),
    ("settle_receipt", "one transition, for every flow"),
    ("settle_retry", "one judgement of each send, and what follows from it"),
    ("submit", "callers wait for each; a call within costs as much as a statement"),
    ("submit_requests", "one transition: gates, keys, messages, rows, places"),
];

/// The names and lengths of functions: each begins with a line that `name` knows and ends with a line `end`, indented as
/// it begins.
fn lengths<'a>(text: &'a str, name: impl Fn(&'a str) -> Option<&'a str>, end: &str) -> Vec<(&'a str, usize)> {
    let lines: Vec<_> = text.lines().collect();
    let indent = |line: &str| line.len() - line.trim_start().len();
    let functions = lines.iter().enumerate().filter_map(|(from, line)| {
        let name = name(line.trim_start())?;
        let ends = |other: &&str| other.trim_start() == end && indent(other) == indent(line);
        let length = lines[from..].iter().position(ends)? + 1;
        Some((name, length))
    });
    functions.collect()
}

/// The word that begins a text.
fn word(text: &str) -> &str {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap()
}

fn rust_function(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("fn ")?;
    let words = ["pub", "pub(super)", "pub(crate)", "const", "async"];
    let all_known = before.split_whitespace().all(|word| words.contains(&word) || word.starts_with("pub(in"));
    // Not one that is only declared, or written on one line.
    (all_known && !line.ends_with([';', '}'])).then(|| word(after))
}

fn sql_function(line: &str) -> Option<&str> {
    let (_, after) = ["function", "procedure"]
        .iter()
        .find_map(|what| line.strip_prefix(&format!("create or replace {what} ")))?
        .split_once('.')?;
    Some(word(after))
}

#[test]
fn a_function_is_short_or_says_why_it_is_not() {
    let mut count = 0;
    for (name, text) in SOURCES.map(|sources| files(sources, "rs")).concat() {
        for (function, length) in lengths(&text, rust_function, "}") {
            assert!(length <= RUST_MAX, "{name}: {function} has {length} lines");
            count += 1;
        }
    }
    assert!(count > 1000, "{count} functions of Rust");

    let mut long = BTreeSet::new();
    let mut count = 0;
    for (_, text) in files("sql", "sql") {
        for (function, length) in lengths(&text, sql_function, "$$;") {
            count += 1;
            if length > SQL_MAX {
                long.insert(function.to_owned());
            }
        }
    }
    assert!(count > 150, "{count} functions of SQL");
    assert_eq!(long, LONGER.map(|(name, _)| name.to_owned()).into());
}

/// The files that are too long to be read in one sitting, with their lengths.
fn too_long(files: &[(String, String)]) -> Vec<(&str, usize)> {
    let lengths = files.iter().map(|(name, text)| (name.as_str(), text.lines().count()));
    lengths.filter(|(_, lines)| *lines > TESTS_MAX).collect()
}

#[test]
fn a_file_of_tests_is_read_in_one_sitting() {
    let made = [TESTS_MAX, TESTS_MAX + 1].map(|lines| (format!("{lines}.rs"), "\n".repeat(lines)));
    assert_eq!(too_long(&made), [("401.rs", 401)]);

    let files = files("tests", "rs");
    assert!(files.len() > 300, "{} files", files.len());
    let too_long = too_long(&files);
    assert!(too_long.is_empty(), "split these along their subjects: {too_long:?}");
}
