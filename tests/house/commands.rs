//! Do the command lines of the documents parse, and does the Makefile have their targets?

use std::fs;

use clap::Parser;
use tidegate_cli::cli::Cli;

use super::tidy::{files, root};

/// The lines of the blocks of commands, a continued line as one.
fn lines(document: &str) -> Vec<String> {
    let blocks = document.split("\n```sh\n").skip(1);
    let blocks = blocks.map(|rest| rest.split("\n```").next().unwrap().replace("\\\n", " "));
    blocks.flat_map(|block| block.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// The words of the first command of a line, as a shell splits them.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in line.chars() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, ' ') => words.extend(word.take()),
            (None, '|' | '&' | '>' | ';' | ')') => break,
            (None, '#') if word.is_none() => break,
            (None, _) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[test]
fn the_command_lines_of_the_documents_parse() {
    let makefile = fs::read_to_string(root().join("Makefile")).unwrap();
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let documents = files("docs", "md").into_iter().chain([("README.md".to_owned(), readme)]);
    let (mut commands, mut targets) = (0, 0);
    for (name, text) in documents {
        for line in lines(&text) {
            let line = line.replace("target/release/tidegate ", "tidegate ");
            // A job id that the shell fills in.
            let line = ["\"$id\"", "\"$job\"", "\"${job##*/}\""]
                .iter()
                .fold(line, |line, variable| line.replace(variable, &uuid::Uuid::nil().to_string()));
            for (at, _) in line.match_indices("tidegate ") {
                if at == 0 || ["$(", "&& ", "until "].iter().any(|before| line[..at].ends_with(before)) {
                    let parsed = Cli::try_parse_from(words(&line[at..]));
                    parsed.unwrap_or_else(|error| panic!("{name}: {line}\n{error}"));
                    commands += 1;
                }
            }
            if let [make, target, ..] = &words(&line)[..]
                && make == "make"
            {
                assert!(makefile.contains(&format!("\n{target}: ")), "{name}: {line}: no such target");
                targets += 1;
            }
        }
    }
    assert!(commands > 60 && targets > 10, "{commands} commands, {targets} targets");
}
