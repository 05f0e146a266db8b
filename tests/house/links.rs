//! Do the links of the documents lead to a document and a heading, and does the manual have every document?

use std::{collections::BTreeSet, fs, path::Path};

use super::tidy::{files, root};

/// The addresses of the headings of a document, as mdBook and GitHub make them.
pub(super) fn anchors(document: &str) -> BTreeSet<String> {
    let headings = prose(document).filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let text = line.trim_start_matches('#').trim().to_lowercase();
            let kept = text.chars().filter(|c| c.is_alphanumeric() || " _-".contains(*c));
            kept.collect::<String>().replace(' ', "-")
        })
        .collect()
}

/// The lines outside of blocks of code.
fn prose(document: &str) -> impl Iterator<Item = &str> {
    let is_fence = |line: &str| line.trim_start().starts_with("```");
    let fences: Vec<_> = document.lines().filter(|line| is_fence(line)).collect();
    assert!(fences.len() % 2 == 0, "a block has no end, or prose begins with a fence: {fences:?}");
    let mut is_code = false;
    document.lines().filter(move |line| {
        let is_fence = is_fence(line);
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// The targets of a document's links, but for addresses of other sites.
fn links(document: &str) -> Vec<String> {
    let text = prose(document).collect::<Vec<_>>().join("\n");
    let targets = text.split("](").skip(1).map(|rest| rest.split(')').next().unwrap());
    let own = targets.filter(|target| !target.contains("://"));
    own.map(str::to_owned).collect()
}

#[test]
fn each_link_leads_to_a_file_and_a_heading() {
    let readme = |name: &str| (name.to_owned(), fs::read_to_string(root().join(name)).unwrap());
    let mut documents = [files("docs", "md"), files("benches", "md")].concat();
    documents.extend([readme("README.md"), readme("CHANGELOG.md")]);
    let mut count = 0;
    for (name, text) in &documents {
        for link in links(text) {
            let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
            assert!(
                !name.starts_with("docs/") || !path.starts_with("../"),
                "{name} links to {link}, which the manual lacks"
            );
            let target = match path {
                "" => root().join(name),
                path => root().join(Path::new(name).parent().unwrap()).join(path),
            };
            // A picture is no text.
            let found = fs::read(&target).unwrap_or_else(|error| panic!("{name}: {link}: {error}"));
            assert!(
                anchor.is_empty() || anchors(&String::from_utf8_lossy(&found)).contains(anchor),
                "{name} links to {link}, and there is no such heading"
            );
            count += 1;
        }
    }
    assert!(count > 200, "only {count} links were found");
}

#[test]
fn the_manual_has_every_document() {
    let summary = fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    let listed: BTreeSet<_> = links(&summary).into_iter().collect();
    let documents = files("docs", "md").into_iter();
    let names: BTreeSet<_> = documents
        .map(|(name, _)| name.trim_start_matches("docs/").to_owned())
        .filter(|name| name != "SUMMARY.md")
        .collect();
    assert_eq!(listed, names);
}

#[test]
fn each_difference_from_a_source_has_a_test_that_shows_it() {
    let page = fs::read_to_string(root().join("docs/sources.md")).unwrap();
    let tests: String = files("tests", "rs").into_iter().map(|(_, text)| text).collect();
    let mut rows = 0;
    for table in page.split("| it says | Tidegate | because | shown by |\n").skip(1) {
        for row in table.lines().skip(1).take_while(|line| line.starts_with('|')) {
            let test = row.trim_end_matches(" |").rsplit("| ").next().unwrap().trim_matches('`');
            assert!(tests.contains(&format!("fn {test}(")), "no test is called as in: {row}");
            rows += 1;
        }
    }
    assert!(rows >= 35, "{rows}");
}
