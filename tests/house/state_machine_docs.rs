//! Does `docs/state-machine.md` draw the machine that the database runs?

use std::collections::BTreeSet;

use crate::support::TestDatabase;

const DOCUMENT: &str = include_str!("../../docs/state-machine.md");

/// A flow, the statuses before and after, and the cause. The status before an entry is `[*]`, as mermaid writes it.
type Edge = (String, String, String, String);

#[tokio::test(flavor = "multi_thread")]
async fn the_diagrams_draw_exactly_the_rules() {
    let database = TestDatabase::uninitialised().await;
    let rules: BTreeSet<Edge> = sqlx::query_as(
        "select flow::text, coalesce(from_status::text, '[*]'), to_status::text, cause from tidegate.transition_rule",
    )
    .fetch_all(&database.pool)
    .await
    .unwrap()
    .into_iter()
    .collect();

    let drawn = edges();

    let missing: Vec<_> = rules.difference(&drawn).collect();
    let invented: Vec<_> = drawn.difference(&rules).collect();
    assert!(missing.is_empty(), "rules that no diagram draws: {missing:#?}");
    assert!(invented.is_empty(), "drawn, but in no rule: {invented:#?}");
    assert!(!rules.is_empty());
}

#[test]
fn each_diagram_ends_in_the_terminal_statuses() {
    for flow in ["decrypt", "proof", "direct"] {
        let ends: BTreeSet<&str> = diagram_lines()
            .filter(|(of, _)| of == flow)
            .filter_map(|(_, line)| line.strip_suffix(" --> [*]"))
            .collect();
        assert_eq!(ends, BTreeSet::from(["completed", "failure", "timed_out"]), "{flow}");
    }
}

/// The labelled arrows of all diagrams: `from --> to: cause, cause`.
fn edges() -> BTreeSet<Edge> {
    let mut edges = BTreeSet::new();
    for (flow, line) in diagram_lines() {
        let Some((from, rest)) = line.split_once(" --> ") else {
            continue;
        };
        let Some((to, causes)) = rest.split_once(": ") else {
            assert_eq!(rest, "[*]", "an arrow without a cause: {line}");
            continue;
        };
        for cause in causes.split(", ") {
            let edge = (flow.clone(), from.to_owned(), to.to_owned(), cause.to_owned());
            assert!(edges.insert(edge), "{flow}: drawn twice: {line}");
        }
    }
    edges
}

/// The lines of the mermaid diagrams, each with the flow that its diagram names in `%% flow: …`.
fn diagram_lines() -> impl Iterator<Item = (String, &'static str)> {
    DOCUMENT.split("```mermaid\n").skip(1).flat_map(|after| {
        let diagram = after.split("```").next().unwrap_or_default();
        let flow =
            diagram.lines().find_map(|line| line.trim().strip_prefix("%% flow: ")).expect("a diagram names its flow");
        diagram.lines().map(move |line| (flow.to_owned(), line.trim()))
    })
}
