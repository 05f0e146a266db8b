//! Does each formula stand in one place? The table is in `docs/architecture.md`.

use std::{collections::BTreeSet, fs};

use super::tidy::{files, root};

/// Code without comments and spaces; SQL also without casts, qualifiers and the prefixes of variables. A formula that was copied
/// into another function looks the same then.
fn bare(code: &str, is_sql: bool) -> String {
    let mut words = Vec::new();
    for line in code.lines() {
        let line = line.trim_start();
        if line.starts_with("--") || line.starts_with("//") {
            continue;
        }
        let mut word = String::new();
        for character in line.chars().chain(['\n']) {
            if character.is_ascii_alphanumeric() || character == '_' {
                word.push(character);
                continue;
            }
            if !word.is_empty() {
                words.push(std::mem::take(&mut word));
            }
            if !character.is_whitespace() {
                words.push(character.to_string());
            }
        }
    }
    if !is_sql {
        return words.concat();
    }
    let mut bare = String::new();
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        let names_a_thing = word.starts_with(|first: char| first.is_ascii_alphabetic());
        if word == ":" && words.next_if(|next| *next == ":").is_some() {
            // The type of the cast.
            words.next();
        } else if names_a_thing && words.next_if(|next| *next == ".").is_some() {
            // The qualifier of the next word.
        } else {
            let word = word.strip_prefix("v_").unwrap_or(word);
            bare.push_str(if word == "p_drop" { word } else { word.strip_prefix("p_").unwrap_or(word) });
        }
    }
    bare
}

#[test]
fn each_formula_has_the_homes_that_the_map_names() {
    let map = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let (_, table) = map.split_once("| formula | home | recognised by |\n").unwrap();
    let (table, _) = table.split_once("\n\n").unwrap();
    let sources: Vec<_> =
        [("sql", "sql"), ("src", "rs"), ("node/src", "rs"), ("policy/src", "rs"), ("workers/src", "rs")]
            .into_iter()
            .flat_map(|(below, ending)| files(below, ending))
            .filter(|(name, _)| !name.contains("tests"))
            .map(|(name, text)| {
                let code = bare(&text, name.ends_with(".sql"));
                (name, code)
            })
            .collect();

    let mut formulas = 0;
    for row in table.lines().skip(1) {
        let cells: Vec<_> = row.trim_matches('|').split(" | ").collect();
        let [formula, home, sign] = cells[..] else {
            panic!("{row}");
        };
        let home = home.trim().trim_matches('`');
        let sign = bare(sign.trim().trim_matches('`'), home.ends_with(".sql"));
        let homes: BTreeSet<_> =
            sources.iter().filter(|(_, code)| code.contains(&sign)).map(|(name, _)| name.as_str()).collect();
        assert_eq!(homes, BTreeSet::from([home]), "{formula}: {sign}");
        formulas += 1;
    }
    assert!(formulas >= 20, "{formulas}");
}

#[test]
fn a_copy_under_other_names_is_found() {
    let copy = "v_x := p_policy.base_ms\n  * power(v_f.factor::float8, n); -- base_ms * power(factor";
    let sign = bare("base_ms * power(factor", true);
    assert!(bare(copy, true).contains(&sign));
    assert!(!bare(&format!("-- {copy}"), true).starts_with(&sign));
}
