//! Is the reference that of the program? `make reference` writes what these tests compare.

use std::{collections::BTreeSet, env, fs};

use tidegate::internals::schema;

use super::tidy::{files, git, root};
use crate::support::TestDatabase;

const BEGINNING: &str = "\
# Lists from the database

`make reference` writes this page from a migrated database, and a test compares them. `psql` shows the same, with all
columns: `\\df+ tidegate.*`, `\\dv+ tidegate.*`, `\\d+ tidegate.kind`.
";

const SETTINGS: &str = "
## Settings

By their documented names, as `tidegate config` takes them ([how](configuration.md#change-limits-while-it-runs)). `QUEUE`,
`KIND` and `STAGE` stand for a name. Defaults are those of a new row; a kind with another deadline comes with
[others](policies.md#what-a-kind-comes-with). Quotas have the settings of a gate, under names such as
`kind KIND.high_water`.

| name | unit | default | meaning |
|---|---|---|---|
";

/// The example has one kind with both stages; the others differ in nothing but their names.
const SETTINGS_ROWS: &str = r"
select format('| `%s` | %s | %s | %s |', s.name, s.unit, s.defaults, s.comment)
from (
  select
    n.name, coalesce(c.unit, '') as unit, c.comment, min(c.ordinality) as ordinality,
    case when count(distinct coalesce(c.default_value, '')) > 1
      then string_agg(
        format('%s: %s', split_part(c.name, '.', 2), coalesce(c.default_value, 'none')), ', ' order by c.name
      )
      else coalesce(min(c.default_value), 'none') end as defaults
  from (select c.*, row_number() over () as ordinality from tidegate.config as c) as c
  cross join lateral (
    select regexp_replace(regexp_replace(regexp_replace(
      c.name, '^(readiness|tx)\.', 'QUEUE.'), '^public_decrypt', 'KIND'), '^KIND\.(readiness|tx)\.', 'KIND.STAGE.')
  ) as n (name)
  where c.name !~ '^(direct|input_proof|user_decrypt)'
  group by n.name, c.unit, c.comment
) as s
order by s.ordinality";

const FUNCTIONS: &str = "
## Functions

Of schema `tidegate`, for the [roles](install.md#roles) that may call them; `tidegate_admin` may call all.

| function | roles | does |
|---|---|---|
";

const FUNCTIONS_ROWS: &str = "
select format('| `%s(%s)` | %s | %s |', p.proname, pg_get_function_arguments(p.oid), r.roles,
  split_part(obj_description(p.oid, 'pg_proc'), E'\\n\\n', 1))
from pg_proc as p
cross join lateral (
  select string_agg(role, ', ' order by role)
  from unnest(array['admin', 'api', 'node', 'reader', 'worker']) as role
  where has_function_privilege('tidegate_' || role, p.oid, 'execute')
    and (role <> 'node' or not has_function_privilege('tidegate_api', p.oid, 'execute')
      and not has_function_privilege('tidegate_reader', p.oid, 'execute'))
    and (role <> 'admin' or not has_function_privilege('tidegate_api', p.oid, 'execute')
      and not has_function_privilege('tidegate_reader', p.oid, 'execute')
      and not has_function_privilege('tidegate_worker', p.oid, 'execute'))
) as r (roles)
where p.pronamespace = 'tidegate'::regnamespace and r.roles is not null
order by p.proname, p.oid::regprocedure::text";

const VIEWS: &str = "
## Views

| view | shows |
|---|---|
";

const VIEWS_ROWS: &str = "
select format('| `%s` | %s |', c.relname, split_part(obj_description(c.oid, 'pg_class'), E'\\n\\n', 1))
from pg_class as c
where c.relnamespace = 'tidegate'::regnamespace and c.relkind = 'v'
order by c.relname";

const INVARIANTS: &str = "
## Invariants

What `tidegate doctor` checks; [doctor](maintenance.md#doctor) has what to do about a violation.

| invariant | holds when |
|---|---|
";

const INVARIANTS_ROWS: &str = "select format('| `%s` | %s |', name, rule) from tidegate.invariant";

#[tokio::test(flavor = "multi_thread")]
async fn the_lists_from_the_database_are_those_of_the_database() {
    let database = TestDatabase::new().await;
    let mut page = BEGINNING.to_owned();
    for (beginning, rows) in
        [(SETTINGS, SETTINGS_ROWS), (FUNCTIONS, FUNCTIONS_ROWS), (VIEWS, VIEWS_ROWS), (INVARIANTS, INVARIANTS_ROWS)]
    {
        let rows: Vec<String> = sqlx::query_scalar(rows).fetch_all(&database.pool).await.unwrap();
        assert!(rows.len() > 20, "{beginning}: {} rows", rows.len());
        page += beginning;
        for row in rows {
            page += &format!("{}\n", row.replace('\n', " ").replace('<', "\\<"));
        }
    }
    let path = root().join("docs/database.md");
    match env::var("TIDEGATE_REFERENCE").as_deref() {
        Ok("write") => fs::write(path, page).unwrap(),
        _ => assert_eq!(fs::read_to_string(path).unwrap(), page, "run `make reference`"),
    }
}

/// `migrate` refuses to put the functions of an earlier build in the place of those of a later one, so each change of the
/// SQL that is committed is a build.
#[test]
fn the_build_has_a_number_of_its_own() {
    let path = root().join("src/schema/build");
    let fingerprint = schema::fingerprint();
    if env::var("TIDEGATE_REFERENCE").as_deref() == Ok("write") {
        let committed = git(&["show", "HEAD:src/schema/build"]);
        let (number, of) = committed.trim().split_once(' ').unwrap_or(("0", ""));
        let number: i32 = number.parse().unwrap();
        let build = if of == fingerprint { number } else { number + 1 };
        fs::write(path, format!("{build} {fingerprint}\n")).unwrap();
        return;
    }
    let build = format!("{} {fingerprint}\n", schema::build());
    assert_eq!(fs::read_to_string(path).unwrap(), build, "the SQL has changed: run `make reference`");
}

/// The words in code font in the first column of the table below this header.
fn listed(page: &str, header: &str) -> BTreeSet<String> {
    let page = fs::read_to_string(root().join("docs").join(page)).unwrap();
    let (_, table) = page.split_once(header).unwrap();
    let rows = table.lines().skip(1).map_while(|row| row.strip_prefix("| ")?.split(" | ").next());
    rows.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

async fn names(query: &str) -> BTreeSet<String> {
    let database = TestDatabase::new().await;
    let names: Vec<String> = sqlx::query_scalar(query).fetch_all(&database.pool).await.unwrap();
    names.into_iter().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_maintenance_page_has_what_to_do_about_each_violation() {
    let listed = listed("maintenance.md", "| violation | what to do |\n");
    let is_listed = |name: &String| {
        let is = |listed: &String| match listed.strip_suffix('…') {
            Some(beginning) => name.starts_with(beginning),
            None => name == listed,
        };
        listed.iter().any(is)
    };
    let names = names("select name from tidegate.invariant").await;
    let missing: Vec<_> = names.iter().filter(|name| !is_listed(name)).collect();
    assert!(names.len() > 50 && missing.is_empty(), "{missing:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_http_page_has_each_cause_that_ends_a_request() {
    let causes = "select cause from tidegate.transition_rule where to_status in ('failure', 'timed_out')";
    let (causes, listed) = (names(causes).await, listed("http.md", "| code | means |\n"));
    let missing: Vec<_> = causes.difference(&listed).collect();
    assert!(causes.len() > 10 && missing.is_empty(), "{missing:?}");
}

#[test]
fn the_pages_have_each_reason_of_explain_and_each_sqlstate() {
    let explain = include_str!("../../sql/request/explain.sql");
    let comment = explain.lines().map_while(|line| line.strip_prefix("--"));
    let codes = comment.filter_map(|line| line.strip_prefix("   ")?.split("  ").next());
    let reasons: BTreeSet<_> = codes.flat_map(|codes| codes.split(", ")).map(str::to_owned).collect();
    assert_eq!(listed("requests.md", "| reason | what to do |\n"), reasons);

    let sql = [files("sql", "sql"), files("migrations", "sql")].concat();
    let raised = sql.iter().flat_map(|(_, text)| text.match_indices("'TG").map(|(at, _)| &text[at + 1..at + 6]));
    // TG999 is raised and caught in one function. (TG000 would catch every code that begins with TG.)
    let raised: BTreeSet<_> = raised.filter(|code| *code != "TG999").map(str::to_owned).collect();
    assert_eq!(listed("sql.md", "| code | means | what to do |\n"), raised);
}
