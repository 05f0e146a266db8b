//! Does the SQL in the documents still work? The session of `docs/sql.md` must answer what is printed there.

use std::fs;

use sqlx::{PgConnection, Row, ValueRef, postgres::PgRow};
use tidegate::internals::schema;

use super::tidy::root;
use crate::support::TestDatabase;

const DOCUMENT: &str = include_str!("../../docs/sql.md");

/// One ```` ```sql ```` block: its statements, the SQLSTATE its last one is to fail with, and the tables printed below.
#[derive(Debug)]
struct Block {
    line: usize,
    statements: Vec<String>,
    fails: Option<String>,
    tables: Vec<Table>,
}

/// What a statement answered: the names of its columns, then its rows, as `psql` prints them.
type Table = Vec<Vec<String>>;

#[tokio::test(flavor = "multi_thread")]
async fn the_session_in_the_sql_document_answers_what_is_printed_there() {
    let database = TestDatabase::empty().await;
    schema::migrate(&database.url).await.unwrap();
    let mut session = database.session().await;
    let blocks = blocks(DOCUMENT);
    assert!(blocks.len() > 50, "only {} blocks found", blocks.len());

    for block in &blocks {
        let answers = run(&mut session, block).await;
        assert_eq!(
            answers, block.tables,
            "docs/sql.md, the block at line {}: (what came, what is printed)",
            block.line
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sql_in_the_pages_for_operators_runs() {
    let pages = operators_pages();
    let count: usize = pages.iter().map(|(_, page)| blocks(page).len()).sum();
    assert!(pages.len() >= 9 && count > 20, "only {count} blocks found in {} pages", pages.len());

    for (name, page) in &pages {
        println!("docs/{name}");
        let database = TestDatabase::new().await;
        let mut session = database.session().await;
        for block in &blocks(page) {
            run(&mut session, block).await;
        }
    }
}

/// The pages that `docs/SUMMARY.md` has below the one for operators, with their names.
fn operators_pages() -> Vec<(String, String)> {
    let folder = root().join("docs");
    let summary = fs::read_to_string(folder.join("SUMMARY.md")).unwrap();
    let (_, below) = summary.split_once("](operations.md)\n").unwrap();
    let names = below.lines().map_while(|line| line.strip_prefix("    - ")?.split_once("](")?.1.strip_suffix(')'));
    names.map(|name| (name.to_owned(), fs::read_to_string(folder.join(name)).unwrap())).collect()
}

/// Runs a block, a statement at a time as `psql` would; the answers that have rows.
async fn run(session: &mut PgConnection, block: &Block) -> Vec<Table> {
    let mut answers = Vec::new();
    for (number, statement) in block.statements.iter().enumerate() {
        let is_last = number + 1 == block.statements.len();
        let answer = sqlx::raw_sql(statement).fetch_all(&mut *session).await;
        match (answer, &block.fails) {
            (Ok(_), Some(code)) if is_last => {
                panic!("line {}: should fail with {code}: {statement}", block.line)
            }
            (Ok(rows), _) if rows.is_empty() => {}
            (Ok(rows), _) => answers.push(table(&rows)),
            (Err(error), Some(code)) if is_last => {
                let said = error.as_database_error().and_then(|error| error.code());
                assert_eq!(said.as_deref(), Some(code.as_str()), "line {}: {error}", block.line);
            }
            (Err(error), _) => panic!("line {}: {error}: {statement}", block.line),
        }
    }
    answers
}

fn table(rows: &[PgRow]) -> Table {
    let names = rows[0].columns().iter().map(|column| sqlx::Column::name(column).to_owned());
    let cells = rows.iter().map(|row| {
        (0..row.len())
            .map(|at| {
                let value = row.try_get_raw(at).unwrap();
                if value.is_null() { String::new() } else { value.as_str().unwrap().to_owned() }
            })
            .collect()
    });
    std::iter::once(names.collect()).chain(cells).collect()
}

/// The document's blocks, in order; a ```` ```text ```` block belongs to the one before it.
fn blocks(document: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut lines = document.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let fence = line.trim();
        if fence != "```sql" && fence != "```text" {
            continue;
        }
        let body: Vec<&str> = lines.by_ref().map(|(_, line)| line).take_while(|line| line.trim() != "```").collect();
        if fence == "```sql" {
            blocks.push(Block {
                line: number + 1,
                fails: body[0].strip_prefix("-- fails: ").map(str::to_owned),
                statements: statements(&body),
                tables: Vec::new(),
            });
        } else {
            let block = blocks.last_mut().expect("answers follow a question");
            block.tables = printed(&body);
        }
    }
    blocks
}

/// A statement ends with the line that ends with a semicolon.
fn statements(body: &[&str]) -> Vec<String> {
    let mut statements = Vec::new();
    let mut statement = String::new();
    for line in body.iter().filter(|line| !line.starts_with("--")) {
        statement.push_str(line);
        statement.push('\n');
        if line.ends_with(';') {
            statements.push(std::mem::take(&mut statement));
        }
    }
    assert_eq!(statement.trim(), "", "a statement without an end");
    statements
}

/// The tables with rows among what `psql` printed: a line of names, a rule, rows, and how many.
fn printed(body: &[&str]) -> Vec<Table> {
    let cells = |line: &str| -> Vec<String> { line.split('|').map(|cell| cell.trim().to_owned()).collect() };
    let mut tables = Vec::new();
    for (at, line) in body.iter().enumerate() {
        if !line.starts_with("--") || line.chars().any(|c| c != '-' && c != '+') {
            continue;
        }
        let mut table = vec![cells(body[at - 1])];
        table.extend(body[at + 1..].iter().take_while(|line| !line.starts_with('(')).map(|line| cells(line)));
        if table.len() > 1 {
            tables.push(table);
        }
    }
    tables
}
