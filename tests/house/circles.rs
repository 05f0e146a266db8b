//! Is there an order in which the modules can be read? No module depends on one that depends on it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use super::tidy::{PACKAGES, SOURCES, files, root};

type Path<'a> = Vec<&'a str>;

/// What a module itself has, beside the modules inside it.
const ITSELF: &str = "itself";

/// For each folder of modules, which of its modules use which others of it. A module counts with those inside it, and the
/// module of the folder counts among them as [`ITSELF`], but for what it only passes on (`pub use`).
fn uses<'a>(sources: &'a [(String, String)]) -> BTreeMap<Path<'a>, BTreeMap<&'a str, BTreeSet<&'a str>>> {
    let crate_of = Crate(sources.iter().map(|(name, text)| (module(name), Module::read(text))).collect());
    let mut uses = BTreeMap::<_, BTreeMap<_, BTreeSet<_>>>::new();
    for (from, module) in &crate_of.0 {
        for path in &module.uses {
            let Some(path) = absolute(from, path) else {
                continue;
            };
            let to = crate_of.home(&path, 0);
            let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
            let (one, other) = (from.get(common), to.get(common));
            if one != other {
                let folder = uses.entry(from[..common].to_vec()).or_default();
                folder.entry(*one.unwrap_or(&ITSELF)).or_default().insert(*other.unwrap_or(&ITSELF));
            }
        }
    }
    uses
}

/// The uses of one module.
struct Module<'a> {
    code: &'a str,
    uses: Vec<Path<'a>>,
    passes_on: Vec<Path<'a>>,
}

struct Crate<'a>(BTreeMap<Path<'a>, Module<'a>>);

impl<'a> Crate<'a> {
    /// The module that has what a path leads to, also when others pass it on.
    fn home(&self, path: &[&'a str], hops: usize) -> Path<'a> {
        let mut to = path.to_vec();
        while !to.is_empty() && !self.0.contains_key(&to) {
            to.pop();
        }
        let (Some(item), Some(module)) = (path.get(to.len()), self.0.get(&to)) else {
            return to;
        };
        if hops > 4 || module.has(item) {
            return to;
        }
        for passed in module.passes_on.iter().filter_map(|passed| absolute(&to, passed)) {
            let is_it = passed.last() == Some(item);
            let (module, names) =
                if is_it { (&passed[..], &[][..]) } else { (&passed[..passed.len() - 1], &[*item][..]) };
            if !is_it && passed.last() != Some(&"*") {
                continue;
            }
            let home = self.home(&[module, names].concat(), hops + 1);
            if home != to && self.0.get(&home).is_some_and(|module| module.has(item)) {
                return home;
            }
        }
        to
    }
}

impl<'a> Module<'a> {
    /// Its unit tests are no part of it.
    fn read(text: &'a str) -> Self {
        let code = text.split("#[cfg(test)]").next().unwrap();
        let (mut uses, mut passes_on) = (Vec::new(), Vec::new());
        let mut rest = code;
        while let Some(at) = ["crate::", "super::", "self::"].iter().filter_map(|start| rest.find(start)).min() {
            let (before, line) = (&rest[..at], rest[..at].rsplit('\n').next().unwrap());
            let is_word = before.ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
            if is_word || line.contains("//") || line.ends_with("pub(in ") {
                rest = &rest[at + 6..];
            } else {
                let is_passed_on = line.trim_start().starts_with("pub") && line.ends_with("use ");
                rest = paths(&rest[at..], &[], if is_passed_on { &mut passes_on } else { &mut uses });
            }
        }
        Self { code, uses, passes_on }
    }

    /// Whether it defines this.
    fn has(&self, item: &str) -> bool {
        let defines = ["struct ", "enum ", "fn ", "trait ", "type ", "const ", "static ", "macro_rules! "];
        self.code.match_indices(item).any(|(at, _)| {
            let after = self.code[at + item.len()..].chars().next();
            defines.iter().any(|define| self.code[..at].ends_with(define))
                && after.is_none_or(|c| !c.is_alphanumeric() && c != '_')
        })
    }
}

/// `src/http/poll.rs` is `http`, `poll`; `src/lib.rs` is the crate.
fn module(file: &str) -> Path<'_> {
    let (_, path) = file.split_once("src/").unwrap();
    path.trim_end_matches(".rs").split('/').filter(|name| *name != "lib").collect()
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

/// Reads a path or a tree of paths, each behind `before`; what follows it.
fn paths<'a>(mut text: &'a str, before: &[&'a str], found: &mut Vec<Path<'a>>) -> &'a str {
    let mut path = before.to_vec();
    loop {
        if let Some(list) = text.strip_prefix('{') {
            text = list.trim_start();
            while !text.is_empty() && !text.starts_with('}') {
                text = paths(text, &path, found);
                let end = text.find([',', '}']).unwrap_or(text.len());
                text = text[end..].trim_start_matches(',').trim_start();
            }
            return text.strip_prefix('}').unwrap_or(text);
        }
        let is_all = text.starts_with('*');
        let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
        let end = if is_all { 1 } else { end };
        match &text[..end] {
            "" => {}
            // `Thing::{self}`
            "self" if !path.is_empty() => {}
            word => path.push(word),
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
    for package in SOURCES {
        let sources = files(package, "rs");
        modules += sources.len();
        for (folder, mut uses) in uses(&sources) {
            // The methods of the relayer's types are in files inside theirs.
            if package.starts_with("relayer/") {
                uses.remove(ITSELF);
            }
            let circle = circle(&uses);
            assert!(circle.is_empty(), "in {folder:?}: {circle:#?}");
        }
    }
    assert!(modules > 150, "{modules}");
}

#[test]
fn the_map_says_what_each_module_uses() {
    let document = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    for package in PACKAGES {
        let sources = files(package, "rs");
        let uses = uses(&sources);
        let (_, rows) = document.split_once(&format!("| `{package}/…` | does | uses |\n")).unwrap();
        for row in rows.lines().skip(1).take_while(|line| !line.is_empty()) {
            let cells: Vec<_> = row.trim_matches('|').split(" | ").collect();
            let words = |at: usize| cells[at].split('`').skip(1).step_by(2).collect::<BTreeSet<_>>();
            let modules = words(0);
            let used = modules.iter().filter_map(|module| uses[&vec![]].get(module)).flatten().copied();
            let used: BTreeSet<_> = used.filter(|used| !modules.contains(used)).collect();
            assert_eq!(words(cells.len() - 1), used, "{package}: {modules:?}");
        }
    }
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
        source("g", "pub use self::h::*;\nmod h;\nuse self::i::Other;\npub struct Own;"),
        source("g/h", "pub struct Passed;"),
        source("g/i", "use super::Passed;\npub struct Other;"),
        source("g/j", "use super::Own;"),
        source("k", "use self::l::Below;\npub struct Own;"),
        source("k/l", "use super::Own;\npub struct Below;"),
    ];
    let uses = uses(&sources);
    let of = |folder: &[&str]| circle(&uses[folder]).into_keys().collect::<Vec<_>>();
    assert_eq!(of(&[]), ["a", "b", "c", "d"], "a leads into the circle");
    assert!(of(&["d"]).is_empty());
    assert!(of(&["g"]).is_empty(), "what a folder passes on is not its own: {:?}", uses[&vec!["g"]]);
    assert_eq!(of(&["k"]), [ITSELF, "l"], "a module and one inside it");
}
