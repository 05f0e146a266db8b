//! Do the alert rules work? Each names metrics that exist, a page of the documents that exists, and has an example.

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::{links::anchors, tidy::root};

const RULES: &str = include_str!("../../deploy/prometheus/alerts.yml");
const EXAMPLES: &str = include_str!("../../deploy/prometheus/alerts_test.yml");
/// The pages with tables of metrics: those of nodes and workers, those of `tidegate doctor --textfile`.
pub(super) const PAGES: [&str; 2] =
    [include_str!("../../docs/monitoring.md"), include_str!("../../docs/maintenance.md")];

/// What follows `key` in each line that begins with it.
pub(super) fn values<'a>(text: &'a str, key: &'a str) -> impl Iterator<Item = &'a str> {
    text.lines().filter_map(move |line| line.trim().strip_prefix(key))
}

#[test]
fn alert_rules_name_metrics_of_the_tables_in_the_documents() {
    let known: BTreeSet<_> =
        PAGES.iter().flat_map(|page| values(page, "| `")).filter_map(|row| row.split('`').next()).collect();
    let named: BTreeSet<_> = RULES
        .lines()
        .filter(|line| !line.trim_start().starts_with('#') && !line.contains("name:"))
        .flat_map(|line| line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'))
        .filter(|word| word.starts_with("tidegate_"))
        .collect();

    assert!(named.len() > 15, "{named:?}");
    assert!(named.is_subset(&known), "no such metric: {:?}", named.difference(&known));
}

#[test]
fn each_alert_names_a_part_of_the_documents() {
    let pages: Vec<_> = values(RULES, "page: ").collect();
    assert_eq!(pages.len(), values(RULES, "- alert: ").count());
    for page in pages {
        let (file, anchor) = page.split_once('#').unwrap();
        let text = fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{page}: {error}"));
        assert!(anchors(&text).contains(anchor), "{page}: no such heading");
    }
}

#[test]
fn each_alert_fires_in_an_example_and_none_for_a_healthy_fleet() {
    for alert in values(RULES, "- alert: ") {
        assert!(EXAMPLES.contains(&format!("alertname=\"{alert}\"")), "{alert} has no example");
    }
    with_promtool(&root().join("deploy/prometheus"), "alerts_test.yml");
}

/// Runs a file of examples with promtool. Without the program they are not checked.
pub(super) fn with_promtool(folder: &Path, examples: &str) {
    // `make setup-tests` puts it beside the test programs on Debian.
    let beside = env::current_exe().unwrap().ancestors().nth(3).map(PathBuf::from).unwrap();
    let promtool = [beside.join("promtool/usr/bin/promtool"), PathBuf::from("promtool")];
    let mut tries = promtool
        .iter()
        .map(|program| Command::new(program).args(["test", "rules", examples]).current_dir(folder).output());
    let Some(output) = tries.find_map(Result::ok) else {
        eprintln!("promtool is missing: the expressions are not checked");
        return;
    };
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{stdout}{stderr}");
}
