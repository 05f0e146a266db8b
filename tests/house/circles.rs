//! Is there an order in which the modules can be read? No module depends on one that depends on it.

use std::collections::{BTreeMap, BTreeSet};

use super::tidy::{SOURCES, files};

type Path<'a> = Vec<&'a str>;

/// For each folder of modules, which of its modules use which others of it; a module counts with those inside it.
fn uses<'a>(sources: &'a [(String, String)]) -> BTreeMap<Path<'a>, BTreeMap<&'a str, BTreeSet<&'a str>>> {
    let modules: BTreeMap<Path<'a>, &str> = sources.iter().map(|(name, text)| (module(name), text.as_str())).collect();
    let mut uses = BTreeMap::<_, BTreeMap<_, BTreeSet<_>>>::new();
    for (from, text) in &modules {
        for path in paths(text) {
            let Some(mut to) = absolute(from, &path) else {
                continue;
            };
            while !to.is_empty() && !modules.contains_key(&to) {
                to.pop();
            }
            let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
            if let (Some(one), Some(other)) = (from.get(common), to.get(common)) {
                let folder = uses.entry(from[..common].to_vec()).or_default();
                folder.entry(*one).or_default().insert(*other);
            }
        }
    }
    uses
}

/// `src/http/poll.rs` is `http`, `poll`.
fn module(file: &str) -> Path<'_> {
    let (_, path) = file.split_once("src/").unwrap();
    path.trim_end_matches(".rs").split('/').collect()
}

/// Where a path leads that is written in a module; nowhere from `std` and other crates.
fn absolute<'a>(from: &[&'a str], path: &[&'a str]) -> Option<Path<'a>> {
    let ups = path.iter().take_while(|word| **word == "super").count();
    match *path.first()? {
        "crate" => Some(path[1..].to_vec()),
        "self" => Some([from, &path[1..]].concat()),
        _ => Some([from.get(..from.len().checked_sub(ups)?)?, &path[ups..]].concat()),
    }
}

/// The paths within the crate that a module writes, in its imports and elsewhere; its unit tests are no part of it.
fn paths(text: &str) -> Vec<Path<'_>> {
    let text = text.split("#[cfg(test)]").next().unwrap();
    let mut found = Vec::new();
    for line in text.split_inclusive(';') {
        let mut rest = line;
        while let Some(at) = ["crate::", "super::", "self::"].iter().filter_map(|start| rest.find(start)).min() {
            let is_word = rest[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
            let comment = rest[..at].rsplit('\n').next().unwrap().contains("//");
            if is_word || comment {
                rest = &rest[at + 6..];
            } else {
                rest = read(&rest[at..], &[], &mut found);
            }
        }
    }
    found
}

/// Reads a path or a tree of paths, each behind `before`; what follows it.
fn read<'a>(mut text: &'a str, before: &[&'a str], found: &mut Vec<Path<'a>>) -> &'a str {
    let mut path = before.to_vec();
    loop {
        if let Some(list) = text.strip_prefix('{') {
            text = list.trim_start();
            while !text.is_empty() && !text.starts_with('}') {
                text = read(text, &path, found);
                let end = text.find([',', '}']).unwrap_or(text.len());
                text = text[end..].trim_start_matches(',').trim_start();
            }
            return text.strip_prefix('}').unwrap_or(text);
        }
        let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
        if end > 0 {
            path.push(&text[..end]);
        }
        text = &text[end..];
        let Some(rest) = text.strip_prefix("::") else {
            found.push(path);
            return text;
        };
        text = rest;
    }
}

/// The modules that are in a circle, or lead into one: those left when each is gone that uses none of the others left.
fn circle<'a>(uses: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
    let mut left = uses.clone();
    loop {
        let there: BTreeSet<_> = left.keys().copied().collect();
        let before = left.len();
        left.retain(|_, used| !used.is_disjoint(&there));
        if left.len() == before {
            return left;
        }
    }
}

#[test]
fn no_modules_use_each_other_in_a_circle() {
    let mut modules = 0;
    for crate_of in SOURCES {
        let sources = files(crate_of, "rs");
        modules += sources.len();
        for (folder, uses) in uses(&sources) {
            let circle = circle(&uses);
            assert!(circle.is_empty(), "in {folder:?}: {circle:#?}");
        }
    }
    assert!(modules > 150, "{modules}");
}

#[test]
fn a_circle_is_found_however_it_is_written() {
    let source = |name: &str, text: &str| (format!("src/{name}.rs"), text.to_owned());
    let sources = [
        source("a", "use crate::{b::{self, Thing}, c};"),
        source("b", "// use crate::a;\nuse std::fmt;"),
        source("b/inner", "fn f() { super::super::c::g(); }"),
        source("c", "use crate::d::*;\n#[cfg(test)]\nmod tests { use crate::a; }"),
        source("d", "fn f() -> self::e::E { todo() }"),
        source("d/e", "use crate::b::inner as i;"),
        source("d/f", "use super::e;"),
    ];
    let uses = uses(&sources);
    let of = |folder: &[&str]| circle(&uses[folder]).into_keys().collect::<Vec<_>>();
    assert_eq!(of(&[]), ["a", "b", "c", "d"], "a leads into the circle");
    assert!(of(&["d"]).is_empty());
}
