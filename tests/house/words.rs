//! Does the project use the words of its glossary? The tables of `docs/glossary.md` say which it does not use.

use std::fs;

use super::tidy::{files, root};

/// The number of times that the project may use banned words, all together.
const BANNED_MAX: usize = 20;

/// The first cells of the table below this header of the glossary.
fn first_cells(glossary: &str, header: &str) -> Vec<String> {
    let (_, rows) = glossary.split_once(header).expect(header);
    let cells = rows.lines().skip(2);
    cells.map_while(|row| row.strip_prefix('|')?.split('|').next()).map(|cell| cell.trim().to_owned()).collect()
}

/// How often a text has a word or phrase, whole.
fn occurrences(text: &str, word: &str) -> usize {
    let is_end = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric() && c != '_');
    text.match_indices(word)
        .filter(|(at, _)| is_end(text[..*at].chars().next_back()) && is_end(text[at + word.len()..].chars().next()))
        .count()
}

/// All code and prose, with single spaces, so that a phrase is found across lines.
fn texts() -> Vec<(String, String)> {
    let below = [
        ("src", "rs"),
        ("workers", "rs"),
        ("relayer", "rs"),
        ("node", "rs"),
        ("program", "rs"),
        ("policy", "rs"),
        ("tests", "rs"),
        ("benches", "rs"),
        ("examples", "rs"),
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
        let words = text.split_whitespace().filter(|word| !["//", "///", "//!", "--", "#"].contains(word));
        words.collect::<Vec<_>>().join(" ")
    };
    texts.into_iter().map(|(name, text)| (name, one_line(&text))).collect()
}

#[test]
fn names_and_sentences_use_the_words_of_the_glossary() {
    let glossary = fs::read_to_string(root().join("docs/glossary.md")).unwrap();
    let words = first_cells(&glossary, "| banned | write instead |");
    let names: Vec<_> = first_cells(&glossary, "| replaced name | name now |")
        .iter()
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .map(str::to_owned)
        .collect();
    assert!(names.len() > 20 && words.len() > 10, "{names:?}, {words:?}");

    let texts = texts();
    let old = found(&texts, &names);
    assert!(old.is_empty(), "names that the glossary has replaced: {old:#?}");
    let lower_case: Vec<_> = texts.iter().map(|(name, text)| (name.clone(), text.to_lowercase())).collect();
    let banned = found(&lower_case, &words);
    let count: usize = banned.iter().map(|(_, _, count)| count).sum();
    assert!(count <= BANNED_MAX, "{count} banned words: {banned:#?}");
}

/// Each file and word that occurs in it, with how often.
fn found<'a>(texts: &'a [(String, String)], words: &'a [String]) -> Vec<(&'a str, &'a str, usize)> {
    let pairs = texts.iter().flat_map(|(name, text)| words.iter().map(move |word| (name, text, word)));
    pairs
        .map(|(name, text, word)| (name.as_str(), word.as_str(), occurrences(text, word)))
        .filter(|(_, _, count)| *count > 0)
        .collect()
}
