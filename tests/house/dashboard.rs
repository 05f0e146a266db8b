//! Does the dashboard for Grafana show what there is? Its expressions name metrics and labels that exist and return
//! samples, and each panel has a unit and a description, which ends with a page of the documents.

use std::{collections::BTreeSet, fs};

use serde_json::{Value, json};

use super::{
    alerts::{PAGES, values, with_promtool},
    links::anchors,
    tidy::root,
};

const DASHBOARD: &str = include_str!("../../deploy/grafana/tidegate.json");
/// Labels that Prometheus adds to each sample.
const ADDED: [&str; 2] = ["job", "instance"];
/// The units of Grafana that the panels have. It shows one that it does not know as it is written.
const UNITS: [&str; 6] = ["none", "short", "percentunit", "s", "reqps", "cps"];
/// The words that have a list of labels after them.
const GROUPS: [&str; 6] = ["by", "without", "on", "ignoring", "group_left", "group_right"];
/// Other words of expressions that no bracket follows.
const WORDS: [&str; 9] = ["sum", "max", "min", "count", "and", "or", "unless", "bool", "offset"];

/// A metric, as a table of the documents lists it.
struct Metric {
    name: &'static str,
    form: &'static str,
    labels: Vec<&'static str>,
    meaning: &'static str,
}

/// What is between backticks.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

fn known() -> Vec<Metric> {
    let rows = PAGES.iter().flat_map(|page| values(page, "| "));
    let metrics = rows.filter_map(|row| {
        let cells: Vec<_> = row.trim_end_matches('|').splitn(4, '|').map(str::trim).collect();
        let &[name, form @ ("counter" | "gauge" | "histogram"), labels, meaning] = &*cells else { return None };
        Some(Metric { name: name.trim_matches('`'), form, labels: quoted(labels), meaning })
    });
    metrics.collect()
}

impl Metric {
    /// The names of its samples, and the labels of each.
    fn samples(&self) -> Vec<(String, Vec<&'static str>)> {
        let (name, labels) = (self.name, &self.labels);
        if self.form != "histogram" {
            return vec![(name.to_owned(), labels.clone())];
        }
        let with_bounds = [&**labels, &["le"]].concat();
        [("bucket", with_bounds), ("sum", labels.clone()), ("count", labels.clone())]
            .map(|(part, labels)| (format!("{name}_{part}"), labels))
            .into()
    }

    /// Values of one of its labels: those that its meaning lists, if they are fixed.
    fn values(&self, label: &str) -> Vec<&'static str> {
        match label {
            "kind" => vec!["direct"],
            "stage" => vec!["readiness", "tx"],
            "route" => vec!["/v1/{kind}"],
            "method" => vec!["GET", "POST"],
            "status" => vec!["202", "503", "queued", "completed"],
            "quantile" => vec!["0.5", "0.99"],
            "le" => vec!["1", "5", "+Inf"],
            "queue" | "version" | "gate" | "duty" | "invariant" => vec!["tx"],
            _ => quoted(self.meaning),
        }
    }

    /// Its samples over an hour and a half, from this process.
    fn series(&self, job: &str, instance: &str) -> Vec<Value> {
        let mut series = Vec::new();
        for (name, labels) in self.samples() {
            let mut sets = vec![format!("job=\"{job}\", instance=\"{instance}\"")];
            for label in &labels {
                let with = |set: &String| {
                    let values = self.values(label).into_iter();
                    values.map(|value| format!("{set}, {label}=\"{value}\"")).collect::<Vec<_>>()
                };
                sets = sets.iter().flat_map(with).collect();
            }
            let values = if self.form == "gauge" { "1x90" } else { "0+60x90" };
            series.extend(sets.iter().map(|set| json!({"series": format!("{name}{{{set}}}"), "values": values})));
        }
        series
    }
}

fn dashboard() -> Value {
    serde_json::from_str(DASHBOARD).unwrap()
}

fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], |list| list)
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Rows and panels, those in rows too.
fn panels(below: &Value) -> Vec<&Value> {
    list(below, "/panels").iter().flat_map(|panel| [vec![panel], panels(panel)].concat()).collect()
}

/// The expressions of all panels, as for a choice of all jobs, instances, kinds and queues, with their legends.
fn expressions(dashboard: &Value) -> Vec<(String, &str)> {
    let targets = panels(dashboard).into_iter().flat_map(|panel| list(panel, "/targets"));
    targets.map(|target| (chosen(dashboard, text(target, "/expr")), text(target, "/legendFormat"))).collect()
}

/// An expression with a value in the place of each variable.
fn chosen(dashboard: &Value, expression: &str) -> String {
    let mut chosen = expression.replace("[$__rate_interval]", "[5m]");
    for variable in list(dashboard, "/templating/list") {
        chosen = chosen.replace(&format!("${}\"", text(variable, "/name")), ".*\"");
    }
    assert!(!chosen.contains('$'), "no such variable: {expression}");
    chosen
}

/// Words, texts in quotes, and signs.
fn tokens(expression: &str) -> Vec<&str> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || "_:.".contains(c);
    let mut tokens = Vec::new();
    let mut rest = expression.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => rest[1..].find('"').unwrap() + 2,
            _ if is_word(first) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            _ => first.len_utf8(),
        };
        let (token, after) = rest.split_at(length);
        tokens.push(token);
        rest = after.trim_start();
    }
    tokens
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
}

/// The samples that an expression names, with the labels that it restricts, and the labels that it groups by.
fn named(expression: &str) -> (Vec<(&str, Vec<&str>)>, Vec<&str>) {
    let tokens = tokens(expression);
    let (mut samples, mut groups) = (Vec::new(), Vec::new());
    let mut at = 0;
    while at < tokens.len() {
        let (word, next) = (tokens[at], tokens.get(at + 1).copied().unwrap_or_default());
        at += 1;
        let bracket = match (word, next) {
            (_, "{") if is_name(word) => "}",
            (_, "(") if GROUPS.contains(&word) => ")",
            _ => {
                if is_name(word) && next != "(" && !WORDS.contains(&word) {
                    samples.push((word, vec![]));
                }
                continue;
            }
        };
        let inside = tokens[at..].iter().copied().take_while(|token| *token != bracket);
        let labels: Vec<_> = inside.clone().filter(|token| is_name(token)).collect();
        at += inside.count();
        if bracket == "}" {
            samples.push((word, labels));
        } else {
            groups.extend(labels);
        }
    }
    (samples, groups)
}

/// Fails for a metric or a label that does not exist.
fn check_names(known: &[Metric], expression: &str, (samples, groups): (Vec<(&str, Vec<&str>)>, Vec<&str>)) {
    let mut all = BTreeSet::from(ADDED);
    assert!(!samples.is_empty(), "no metric: {expression}");
    for (name, labels) in samples {
        let mut known = known.iter().flat_map(Metric::samples);
        let (_, has) = known.find(|(known, _)| known == name).unwrap_or_else(|| panic!("no {name}: {expression}"));
        for label in labels {
            assert!(has.contains(&label) || ADDED.contains(&label), "{name} has no {label}: {expression}");
        }
        all.extend(has);
    }
    for label in groups {
        assert!(all.contains(label), "nothing has {label}: {expression}");
    }
}

#[test]
fn expressions_name_metrics_and_labels_of_the_tables_in_the_documents() {
    let (known, dashboard) = (known(), dashboard());
    assert!(known.len() > 60, "{}", known.len());

    let expressions = expressions(&dashboard);
    assert!(expressions.len() > 50, "{}", expressions.len());
    for (expression, _) in &expressions {
        check_names(&known, expression, named(expression));
    }
    for variable in list(&dashboard, "/templating/list").iter().filter(|variable| text(variable, "/type") == "query") {
        let query = chosen(&dashboard, text(variable, "/query/query"));
        let arguments = query.strip_prefix("label_values(").and_then(|rest| rest.strip_suffix(')'));
        let (metric, label) = arguments.and_then(|arguments| arguments.rsplit_once(", ")).unwrap();
        let (samples, _) = named(metric);
        check_names(&known, &query, (samples, vec![label]));
        let name = text(variable, "/name");
        assert!(DASHBOARD.contains(&format!("=~\\\"${name}\\\"")), "nothing depends on {name}");
    }
}

#[test]
fn panels_have_ids_of_their_own_units_and_descriptions() {
    let dashboard = dashboard();
    let mut ids = BTreeSet::new();
    for panel in panels(&dashboard) {
        let title = text(panel, "/title");
        assert!(!title.is_empty() && ids.insert(panel["id"].as_u64().unwrap()), "the id of {title} is there twice");
        if text(panel, "/type") == "row" {
            continue;
        }
        let unit = text(panel, "/fieldConfig/defaults/unit");
        assert!(UNITS.contains(&unit), "{title}: the unit {unit:?}");
        assert_eq!(text(panel, "/datasource/uid"), "${datasource}", "{title}");
        assert!(!list(panel, "/targets").is_empty(), "{title} shows nothing");
        // What it means and what to do, then where the documents go on.
        let (says, page) = text(panel, "/description").rsplit_once("\n\n").unwrap_or_default();
        assert!(says.ends_with('.'), "{title} has no description");
        let (file, anchor) = page.split_once('#').unwrap_or((page, ""));
        let document = fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{title}: {page}: {error}"));
        assert!(anchor.is_empty() || anchors(&document).contains(anchor), "{title}: {page}: no such heading");
    }
}

/// The metrics that each node reads from the database, so that each has the figures of the whole fleet.
fn read_from_the_database() -> Vec<&'static str> {
    let readers = [
        include_str!("../../node/src/state/metrics/overview.rs"),
        include_str!("../../node/src/state/metrics/stages.rs"),
        include_str!("../../node/src/state/metrics/eta_quality.rs"),
    ];
    let used: BTreeSet<_> =
        readers.iter().flat_map(|text| text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')).collect();
    let catalogue = include_str!("../../src/metrics/catalogue.rs").lines();
    let read = catalogue.filter_map(|line| {
        let (id, rest) = line.trim().split_once(" = ")?;
        // Whether the database answers is a figure of the node.
        rest.split('"').nth(1).filter(|_| used.contains(id) && id != "DATABASE_UP")
    });
    read.collect()
}

/// What an expression returns when each metric has samples for more than an hour.
fn example(expression: &str, labels: &str, value: u8) -> Value {
    json!({"expr": expression, "eval_time": "80m", "exp_samples": [{"labels": labels, "value": value}]})
}

/// Examples for promtool: each expression has samples where each metric has some, they have the labels of its legend, and
/// figures of the fleet are the same with one node and with two.
fn examples(dashboard: &Value) -> Value {
    let known = known();
    let nodes = [("one", "a"), ("two", "a"), ("two", "b")];
    let series: Vec<_> =
        nodes.iter().flat_map(|(job, node)| known.iter().flat_map(|metric| metric.series(job, node))).collect();
    let fleet = read_from_the_database();
    assert!(fleet.len() > 40, "{fleet:?}");
    let mut tests = Vec::new();
    for (expression, legend) in expressions(dashboard) {
        let labels = legend.split("{{").skip(1).filter_map(|rest| rest.split("}}").next());
        for (label, is) in labels.map(|label| (label, ".+")).chain([("", "")]) {
            let shown = format!("label_replace(({expression}), \"seen\", \"yes\", \"{label}\", \"{is}\")");
            tests.push(example(&format!("count by (seen) ({shown}) > bool 0"), "{seen=\"yes\"}", 1));
        }
        let is_of = |name: &str| fleet.iter().any(|metric| name.starts_with(metric));
        if named(&expression).0.iter().all(|(name, _)| is_of(name)) {
            let [one, two] = ["one", "two"].map(|job| expression.replace("job=~\".*\"", &format!("job=\"{job}\"")));
            tests.push(example(&format!("count(({two}) == ({one})) - count({two})"), "{}", 0));
        }
    }
    json!({"evaluation_interval": "1m", "tests": [{"interval": "1m", "input_series": series, "promql_expr_test": tests}]})
}

#[test]
fn each_expression_returns_samples_with_the_labels_of_its_legend_and_counts_the_fleet_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("dashboard_test.yml");
    // JSON is YAML.
    fs::write(&file, examples(&dashboard()).to_string()).unwrap();
    with_promtool(folder.path(), "dashboard_test.yml");
}
