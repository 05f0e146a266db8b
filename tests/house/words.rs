//! Does the project use the words of its glossary? The tables of `docs/glossary.md` say which it does not use.

use std::fs;

use super::tidy::{files, root};

/// How often the whole project may use one of the words that name nothing ("whoever", …).
const BANNED_MAX: usize = 20;

/// The first cells of the rows below a heading of the glossary.
fn first_cells(glossary: &str, heading: &str) -> Vec<String> {
    let (_, section) = glossary.split_once(heading).expect(heading);
    let rows = section.lines().skip_while(|line| !line.starts_with("|---"));
    rows.skip(1)
        .map_while(|row| row.strip_prefix('|')?.split('|').next())
        .map(str::to_owned)
        .collect()
}

/// The parts of cells between two of these marks.
fn quoted(cells: &[String], mark: char) -> Vec<String> {
    let parts = cells.iter().flat_map(|cell| cell.split(mark).skip(1).step_by(2));
    parts.map(str::to_lowercase).collect()
}

/// How often a text has a word or phrase, whole.
fn occurrences(text: &str, word: &str) -> usize {
    let is_end = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric() && c != '_');
    text.match_indices(word)
        .filter(|(at, _)| is_end(text[..*at].chars().next_back()) && is_end(text[at + word.len()..].chars().next()))
        .count()
}

/// Everything that people read, in lower case and with single spaces, so that a phrase is found across lines.
fn texts() -> Vec<(String, String)> {
    let below = [
        ("src", "rs"),
        ("workers", "rs"),
        ("policy", "rs"),
        ("tests", "rs"),
        ("benches", "rs"),
        ("sql", "sql"),
        ("migrations", "sql"),
        ("docs", "md"),
    ];
    let mut texts: Vec<_> = below
        .into_iter()
        .flat_map(|(folder, ending)| files(folder, ending))
        .filter(|(name, _)| name != "docs/glossary.md" && name != "tests/house/words.rs")
        .collect();
    for name in ["README.md", "Makefile", "Dockerfile", "docker-compose.yml"] {
        texts.push((name.to_owned(), fs::read_to_string(root().join(name)).unwrap()));
    }
    let one_line = |text: &str| {
        let text = text.to_lowercase();
        let words = text
            .split_whitespace()
            .filter(|word| !["//", "///", "//!", "--", "#"].contains(word));
        words.collect::<Vec<_>>().join(" ")
    };
    texts.into_iter().map(|(name, text)| (name, one_line(&text))).collect()
}

#[test]
fn names_and_sentences_use_the_words_of_the_glossary() {
    let glossary = fs::read_to_string(root().join("docs/glossary.md")).unwrap();
    let replaced = first_cells(&glossary, "\n## Words that go\n");
    let banned = first_cells(&glossary, "\n## Words that we do not use\n");
    let names = quoted(&[replaced, banned.clone()].concat(), '`');
    let words = quoted(&banned, '"');
    assert!(names.len() > 8 && words.len() > 3, "{names:?}, {words:?}");

    let texts = texts();
    let found = |word: &str| -> Vec<String> {
        let counts = texts.iter().map(|(name, text)| (name, occurrences(text, word)));
        counts
            .filter(|(_, count)| *count > 0)
            .map(|(name, count)| format!("{name}: {count} × {word}"))
            .collect()
    };
    let old: Vec<_> = names.iter().flat_map(|name| found(name)).collect();
    assert!(old.is_empty(), "names that the glossary has replaced: {old:#?}");
    let count: usize = texts
        .iter()
        .map(|(_, text)| words.iter().map(|word| occurrences(text, word)).sum::<usize>())
        .sum();
    let found: Vec<_> = words.iter().flat_map(|word| found(word)).collect();
    assert!(count <= BANNED_MAX, "{count} words that name nothing: {found:#?}");
}
