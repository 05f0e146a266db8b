//! House rules that a program can check.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use tidegate::internals::schema;

pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Every file below a directory of the project with this ending, with its text.
pub(super) fn files(below: &str, ending: &str) -> Vec<(String, String)> {
    fn walk(directory: &Path, ending: &str, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, ending, found);
            } else if path.extension().is_some_and(|extension| extension == ending) {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(&root().join(below), ending, &mut found);
    found.sort();
    assert!(!found.is_empty(), "no .{ending} below {below}");
    found
        .into_iter()
        .map(|path| {
            let name = path.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
            (name, fs::read_to_string(path).unwrap())
        })
        .collect()
}

/// The sources of the crates.
pub(super) const SOURCES: [&str; 8] = [
    "src",
    "node/src",
    "program/src",
    "policy/src",
    "workers/src",
    "relayer/evm/src",
    "relayer/fhevm/src",
    "relayer/stand_ins/src",
];

/// The packages that are Tidegate itself, lowest first: each depends on those before it only.
pub(super) const PACKAGES: [&str; 3] = ["src", "node/src", "program/src"];

/// The most characters in a line.
const WIDTH_MAX: usize = 120;

/// The statements of Rust: the module of the store, the name, the text.
fn queries() -> Vec<(String, String, String)> {
    let files = files("sql/queries", "sql").into_iter().map(|(name, text)| {
        let module = Path::new(&name).file_stem().unwrap().to_string_lossy().into_owned();
        (module, text)
    });
    let statements = files.flat_map(|(module, text)| {
        let statements = text.trim_end().split("\n\n").map(str::to_owned).collect::<Vec<_>>();
        statements.into_iter().map(move |statement| (module.clone(), statement))
    });
    let named = statements.map(|(module, statement)| {
        let name = statement.strip_prefix("-- ").and_then(|rest| rest.split([':', '\n']).next());
        let name = name.unwrap_or_else(|| panic!("in {module}: {statement} has no name")).to_owned();
        (module, name, statement)
    });
    named.collect()
}

#[test]
fn every_sql_file_is_applied_and_every_statement_asked() {
    let applied: BTreeSet<_> = schema::sql_files().into_iter().map(|(path, _)| format!("sql/{path}")).collect();
    for (name, _) in files("sql", "sql").into_iter().filter(|(name, _)| !name.starts_with("sql/queries/")) {
        assert!(applied.contains(&name), "{name} is used by nothing");
    }
    let mut names = BTreeSet::new();
    for (module, name, _) in queries() {
        let text = fs::read_to_string(root().join(format!("src/store/{module}.rs"))).unwrap();
        let is_used = text.contains(&format!("\"{name}\"(")) || text.contains(&format!("statement!(\"{name}\")"));
        assert!(is_used, "{name} of {module} is used by nothing");
        assert!(names.insert(name.clone()), "there are two statements {name}");
    }
    assert!(names.len() > 100, "{}", names.len());
}

/// The files of objects: all but those that tell of tables, or fill one.
fn objects() -> Vec<(String, String)> {
    files("sql", "sql")
        .into_iter()
        .filter(|(name, text)| name.matches('/').count() == 2 && text.contains("create or replace "))
        .filter(|(name, _)| !name.starts_with("sql/queries/"))
        .collect()
}

#[test]
fn an_object_stands_in_a_file_of_its_name_that_begins_with_its_comment() {
    let mut places = BTreeMap::new();
    for (name, text) in objects() {
        let object = Path::new(&name).file_stem().unwrap().to_str().unwrap();
        assert!(text.starts_with(&format!("-- {object}: ")), "{name} begins with `-- {object}: …`");
        // A view is for who may read tables; a function for the roles that its file allows it to.
        let is_view = text.contains("\ncreate or replace view ");
        let is_allowed = text.contains("\nselect tidegate_internal.allow('");
        let schema = if is_view || is_allowed { "tidegate" } else { "tidegate_internal" };
        let own = ["function", "procedure", "view"]
            .into_iter()
            .find(|what| {
                text.lines().any(|line| {
                    let made = format!("create or replace {what} {schema}.{object}");
                    line.strip_prefix(&made).is_some_and(|rest| rest.starts_with(['(', ' ']))
                })
            })
            .unwrap_or_else(|| panic!("{name} makes no {schema}.{object}"));
        assert!(
            !text.contains(&format!("\ncomment on {own} {schema}.{object} ")),
            "{name}: `migrate` makes its first paragraph the comment of the {own}"
        );
        // A file with triggers has the functions that they call.
        if !text.contains("execute function") {
            let made = text.matches("\ncreate or replace ").count();
            assert_eq!(made, 1, "{name} makes {schema}.{object} and nothing else");
        }
        if let Some(other) = places.insert(object.to_owned(), name.clone()) {
            panic!("{other} and {name} have the same name");
        }
    }
    assert!(places.len() > 200, "{}", places.len());
}

#[test]
fn no_function_depends_on_how_a_session_reads_backslashes() {
    for (name, text) in objects() {
        // A view is read once, by `migrate`.
        if text.contains("\ncreate or replace view ") {
            continue;
        }
        for line in text.lines().filter(|line| line.contains('\\')) {
            assert!(line.contains("E'"), "{name}: a backslash outside of E'…': {line}");
        }
        if text.contains("\ncreate or replace procedure ") {
            assert_eq!(
                text.matches("set_config('search_path', 'pg_catalog, pg_temp', true)").count(),
                text.matches(" commit;").count() + 1,
                "{name}: at its beginning and after each commit"
            );
        }
    }
}

#[test]
fn only_the_store_asks_and_rust_never_writes_a_table() {
    for (name, text) in PACKAGES.iter().chain(&["workers/src"]).flat_map(|package| files(package, "rs")) {
        let store = name.starts_with("src/store");
        assert!(store || !text.contains("sql/queries/"), "{name} asks past the store");
        // The migrating driver notes what it has applied; everything else moves through functions.
        if !name.starts_with("src/schema") {
            for word in ["insert into ", "update tidegate.", "delete from ", "truncate "] {
                assert!(!text.contains(word), "{name} writes a table: {word}");
            }
        }
    }
    for (_, name, text) in queries() {
        for word in ["insert into ", "update tidegate.", "delete from ", "truncate "] {
            assert!(!text.contains(word), "{name} writes a table: {word}");
        }
        let says = text.starts_with(&format!("-- {name}: ")) || !text.contains('$');
        assert!(says, "{name} does not say what its parameters are");
    }
}

#[test]
fn programs_print_through_what_survives_a_closed_pipe() {
    for (name, text) in SOURCES.iter().flat_map(|sources| files(sources, "rs")) {
        let is_program =
            !["test", "examples", "benches", "stand_ins", "build.rs"].iter().any(|part| name.contains(part));
        for (number, line) in text.lines().enumerate().filter(|_| is_program) {
            let code = line.split("//").next().unwrap();
            let panics = ["println!", "eprintln!", "print!(", "eprint!("].iter().any(|print| {
                code.match_indices(print)
                    .any(|(at, _)| !code[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_'))
            });
            assert!(!panics, "{name}:{}: use logs::print_out or print_err", number + 1);
        }
    }
}

#[test]
fn vocabulary_depends_on_nothing_and_workers_depend_on_the_engine() {
    for name in ["src/request.rs", "src/stage.rs"] {
        let text = fs::read_to_string(root().join(name)).unwrap();
        for word in ["sqlx::", "crate::store"] {
            assert!(!text.contains(word), "{name} knows {word}");
        }
    }
    for (name, text) in files("policy/src", "rs") {
        for word in ["SystemTime", "chrono", "rand::rng()"] {
            let mut code = text.lines().filter(|line| !line.starts_with("//!"));
            assert!(!code.any(|line| line.contains(word)), "{name} is not pure: {word}");
        }
    }
    // A chain is a worker's matter, and fhEVM is not the wallets'.
    for (sources, ending) in
        PACKAGES.map(|package| (package, "rs")).into_iter().chain([("sql", "sql"), ("migrations", "sql")])
    {
        for (name, text) in files(sources, ending) {
            let mut words = text.split(|c: char| !c.is_alphanumeric());
            let found = words.find(|word| ["evm", "fhevm", "wallet", "calldata"].contains(word));
            assert_eq!(found, None, "{name} knows a chain");
        }
    }
    for (name, text) in [files("relayer/evm", "rs"), files("relayer/evm", "sql")].concat() {
        let text = text.to_lowercase();
        assert!(!text.contains("fhevm"), "{name} knows what the calls are for");
    }
    // TLS, several hosts and passwords are dealt with in one place.
    let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
    assert!(!lock.contains("\"tokio-postgres\""), "there is a second driver for PostgreSQL");
}

#[test]
fn sql_is_lower_case_schema_qualified_and_within_the_margin() {
    for (name, text) in [files("sql", "sql"), files("migrations", "sql"), files("relayer", "sql")].concat() {
        for (number, line) in text.lines().enumerate() {
            let place = format!("{name}:{}", number + 1);
            assert!(line.chars().count() <= WIDTH_MAX, "{place} is longer than {WIDTH_MAX} characters");
            assert!(line == line.trim_end(), "{place} ends in spaces");
            assert!(!line.contains('\t'), "{place} has a tab");
            let code = line.split("--").next().unwrap();
            for word in ["SELECT ", "INSERT ", "UPDATE ", "DELETE ", "CREATE ", "WHERE "] {
                assert!(!code.contains(word), "{place}: {word}in capitals");
            }
        }
        assert!(
            !text.contains("enable_")
                || text.contains("\n  -- A plan that is kept may have been made for empty tables: "),
            "{name} bends the planner"
        );
    }
}

/// `cargo fmt` leaves what is in `html!` as it is.
#[test]
fn templates_of_pages_are_within_the_margin() {
    for (name, text) in files("node/src/ui", "rs") {
        for (number, line) in text.lines().enumerate() {
            let place = format!("{name}:{}", number + 1);
            assert!(line.chars().count() <= WIDTH_MAX, "{place} is longer than {WIDTH_MAX} characters");
        }
    }
}

#[test]
fn sql_reads_the_time_through_one_function() {
    for (name, text) in [files("sql", "sql"), files("migrations", "sql"), files("relayer", "sql")].concat() {
        let code: String =
            text.lines().filter(|line| !line.trim_start().starts_with("--")).flat_map(|line| [line, "\n"]).collect();
        // `tidegate.clock` itself, which tests replace.
        let code = code.replace("\nreturn clock_timestamp();", "");
        for clock in ["clock_timestamp", " now()", "(now()", "current_timestamp", "transaction_timestamp"] {
            assert!(!code.contains(clock), "{name} reads {clock}");
        }
        // The time of the snapshot that an invariant is checked in.
        assert!(
            name.starts_with("sql/invariant/") || !code.contains("statement_timestamp"),
            "{name} reads statement_timestamp"
        );
    }
}

/// The folders and modules of a directory, by name.
fn rooms(below: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(root().join(below)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names
        .filter_map(|name| match name.split_once('.') {
            None => Some(name),
            Some((module, "rs")) => Some(module.to_owned()),
            Some(_) => None,
        })
        .filter(|name| !["lib", "main"].contains(&name.as_str()))
        .collect()
}

#[test]
fn the_map_shows_every_room() {
    let document = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let of = |table: &str| -> BTreeSet<String> {
        let (_, rows) = document.split_once(&format!("| `{table}/…` |")).unwrap();
        let rows = rows.lines().take_while(|line| !line.is_empty());
        let first_cells = rows.filter_map(|row| row.split('|').nth(1));
        first_cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
    };
    assert_eq!(of("sql"), rooms("sql"));
    for package in PACKAGES {
        assert_eq!(of(package), rooms(package));
    }
    let subjects = of("sql");
    let others = rooms("tests").into_iter().filter(|room| !subjects.contains(room));
    assert_eq!(of("tests"), others.collect());
}

/// What git prints; nothing where there is no repository.
pub fn git(arguments: &[&str]) -> String {
    let output = Command::new("git").arg("-C").arg(root()).args(arguments).output();
    output.map_or_else(|_| String::new(), |output| String::from_utf8(output.stdout).unwrap())
}

/// The migrations that a release has are part of every database that it made.
#[test]
fn migrations_of_a_release_stay_as_they_are() {
    for tag in git(&["tag", "--list", "v*"]).lines() {
        let changed = git(&["diff", "--name-status", "--no-renames", tag, "--", "migrations"]);
        let changed: Vec<_> = changed.lines().filter(|line| !line.starts_with('A')).collect();
        assert!(changed.is_empty(), "since {tag}: {changed:?}; add a migration instead");
    }
}

/// `tests/summary` shows this line beside a failure.
#[test]
fn a_file_of_tests_begins_with_what_it_promises() {
    for (name, text) in files("tests", "rs") {
        let has_tests = text.contains("#[test]") || text.contains("#[tokio::test");
        assert!(!has_tests || text.starts_with("//! "), "{name} begins with `//! …`");
    }
}

#[test]
fn files_are_rooms_not_halls() {
    let rust = SOURCES.iter().flat_map(|sources| files(sources, "rs"));
    for (name, text) in rust.chain(files("sql", "sql")) {
        let lines = text.lines().count();
        assert!(lines <= 400, "{name} has {lines} lines: split it");
    }
}

#[test]
fn every_query_can_be_prepared_by_the_database_it_is_for() {
    // A query that misspells a column fails here, not in production.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        use sqlx::Executor;
        let database = crate::support::TestDatabase::new().await;
        for (_, name, text) in queries() {
            if let Err(error) = database.pool.prepare(&text).await {
                panic!("{name}: {error}");
            }
        }
    });
}
