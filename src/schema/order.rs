//! The order in which the files below `sql/` are applied: a file comes after those that it needs.

use std::collections::{BTreeMap, BTreeSet};

use crate::sql_files::File;

/// The files by path, each behind those that it needs. Files with triggers come late, because writers of their tables
/// wait from the first one on until everything is applied; those that are in no folder come last, because they apply to
/// all objects.
pub(super) fn in_order(mut files: Vec<File>) -> Vec<File> {
    files.sort_by_cached_key(|(path, sql)| (!path.contains('/'), sql.contains("execute function"), *path));
    let read: Vec<_> = files.iter().map(|(_, sql)| Read::of(sql)).collect();
    let mut homes = BTreeMap::new();
    for (place, read) in read.iter().enumerate() {
        homes.extend(read.made.iter().map(|name| (name.as_str(), place)));
    }
    let mut order = Vec::new();
    let mut seen = BTreeSet::new();
    for place in 0..files.len() {
        visit(place, &read, &homes, &mut seen, &mut order);
    }
    order.into_iter().map(|place| files[place]).collect()
}

/// The names, with their schemas, of the functions, procedures and views that a file of `schema` makes.
pub(super) fn made_by(sql: &str, schema: &str) -> Vec<String> {
    let code = without_bodies(sql);
    let made = code.split("create or replace ").skip(1).filter_map(|statement| {
        let mut words = statement.split_whitespace();
        words.next().filter(|sort| matches!(*sort, "function" | "procedure" | "view"))?;
        let name = words.next()?.split('(').next()?;
        let (of, _) = name.split_once('.')?;
        (of.strip_suffix("_internal").unwrap_or(of) == schema).then(|| name.to_owned())
    });
    made.collect()
}

fn visit(
    place: usize,
    read: &[Read],
    homes: &BTreeMap<&str, usize>,
    seen: &mut BTreeSet<usize>,
    order: &mut Vec<usize>,
) {
    if !seen.insert(place) {
        return;
    }
    for name in &read[place].named {
        if let Some(&home) = homes.get(name.as_str()) {
            visit(home, read, homes, seen, order);
        }
    }
    order.push(place);
}

/// The names that PostgreSQL resolves when it applies a file: not those in bodies between dollar signs.
struct Read {
    /// The functions, procedures and views that the file makes.
    made: Vec<String>,
    /// Everything of Tidegate's schemas that it names.
    named: BTreeSet<String>,
}

impl Read {
    /// Takes each name after `tidegate.` or `tidegate_internal.`; no two objects share one.
    fn of(sql: &str) -> Self {
        let code = without_bodies(sql);
        let (mut made, mut named) = (Vec::new(), BTreeSet::new());
        let schemas = code.split("tidegate");
        for (before, after) in schemas.clone().zip(schemas.skip(1)) {
            let Some(after) = after.strip_prefix("_internal").unwrap_or(after).strip_prefix('.') else {
                continue;
            };
            let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let name = &after[..end.unwrap_or(after.len())];
            let words = before.rsplit_once("create or replace ").map(|(_, words)| words);
            if matches!(words, Some("function " | "procedure " | "view ")) {
                made.push(name.to_owned());
            }
            named.insert(name.to_owned());
        }
        Self { made, named }
    }
}

/// The text without comments, literals and bodies between dollar signs.
fn without_bodies(sql: &str) -> String {
    let mut code = String::new();
    let mut rest = sql;
    while let Some(at) = rest.find(['-', '\'', '$']) {
        let (before, from) = rest.split_at(at);
        code.push_str(before);
        let end = if from.starts_with("--") {
            from.find('\n')
        } else if let Some(literal) = from.strip_prefix('\'') {
            literal.find('\'').map(|end| end + 2)
        } else if let Some(tag) = dollar_tag(from) {
            from[tag.len()..].find(tag).map(|end| end + 2 * tag.len())
        } else {
            code.push_str(&from[..1]);
            Some(1)
        };
        rest = end.map_or("", |end| &from[end..]);
    }
    code + rest
}

/// `$$`, `$q$` or the like, if the text begins with one.
fn dollar_tag(text: &str) -> Option<&str> {
    let name = text.strip_prefix('$')?;
    let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
    name[end..].starts_with('$').then(|| &text[..end + 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(files: Vec<File>) -> Vec<&'static str> {
        in_order(files).into_iter().map(|(path, _)| path).collect()
    }

    #[test]
    fn a_file_comes_after_those_that_it_needs() {
        let files = "all.sql: revoke execute on all routines in schema tidegate from public
            a/guard.sql: create or replace trigger guard execute function tidegate_internal.z()
            a/first.sql: create or replace view tidegate.first as select tidegate.later()
            b/later.sql: create or replace function tidegate.later() return tidegate_internal.z()
            c/z.sql: create or replace function tidegate_internal.z() as $$ tidegate.late $$
            e/never.sql: create or replace function tidegate.never(a text default 'it''s') return tidegate.late()";
        let late = "-- after tidegate.never\ncreate or replace function tidegate.late() as $q$ $$ $q$";
        let files = files.lines().map(|file| file.trim().split_once(": ").unwrap());

        let order = paths(files.chain([("d/late.sql", late)]).collect()).join(" ");

        assert_eq!(order, "c/z.sql b/later.sql a/first.sql d/late.sql e/never.sql a/guard.sql all.sql");
    }

    #[test]
    fn a_new_function_is_one_file_with_its_comment_and_its_grant() {
        let added = (
            "eta/added.sql",
            "-- added: one more
             create or replace function tidegate.added() return tidegate.is_held(now(), 1, now());
             comment on function tidegate.added is 'One more.';
             select tidegate_internal.allow('added', '{reader}');",
        );
        let mut files = crate::sql_files::all();
        files.push(added);
        let order = paths(files);
        let place = |wanted| order.iter().position(|path| *path == wanted).unwrap();
        for before in ["access/allow.sql", "claim/is_held.sql"] {
            assert!(place(before) < place("eta/added.sql"), "{before}");
        }
        for after in ["request/request_guard.sql", "grants.sql"] {
            assert!(place("eta/added.sql") < place(after), "{after}");
        }
    }

    #[test]
    fn functions_that_call_each_other_are_in_any_order() {
        let files = vec![
            ("a/x.sql", "create or replace function tidegate.x() return tidegate.y()"),
            ("a/y.sql", "create or replace function tidegate.y() return tidegate.x()"),
        ];
        assert_eq!(paths(files).len(), 2);
    }
}
