//! The comments of the database's objects: `migrate` makes them from the comments of the SQL that it applies.
//!
//! A block of comment lines that begins with `-- SORT NAME: TEXT` describes an object (with `-- NAME: TEXT`, a function,
//! procedure or view that the file makes); its text ends with the paragraph. In the block of a table,
//! type or view, lines `--   COLUMN: TEXT` describe columns; a text goes on in lines that are indented further.

/// A file's SQL, and behind it the statements that make its comments. Names without one are of `schema`, or of its inner
/// one.
pub(super) fn added_to(sql: &str, schema: &str) -> String {
    let mut comments: Vec<(String, String)> = Vec::new();
    let mut object = None;
    let mut goes_on = false;
    for line in sql.lines() {
        let Some(line) = line.strip_prefix("--") else {
            (object, goes_on) = (None, false);
            continue;
        };
        let indent = line.len() - line.trim_start().len();
        let (name, text) = line.trim_start().split_once(": ").unwrap_or_default();
        let described = match (&object, indent) {
            (None, 1) => {
                object = Some(object_of(name, sql, schema));
                object.clone().flatten()
            }
            (Some(Some(object)), 3) => column_of(object, name),
            _ => None,
        };
        goes_on = described.is_some() || goes_on && indent > 0;
        if let Some(described) = described {
            comments.push((described, text.to_owned()));
        } else if let Some((_, text)) = comments.last_mut().filter(|_| goes_on) {
            *text = format!("{text} {}", line.trim_start());
        }
    }
    let statement =
        |(object, text): (String, String)| format!("comment on {object} is '{}';", text.replace('\'', "''"));
    let comments: String = comments.into_iter().map(statement).collect();
    [sql, &comments].join("\n;")
}

/// `SORT SCHEMA.NAME`, if the beginning of a block names an object.
fn object_of(name: &str, sql: &str, schema: &str) -> Option<String> {
    let made = |sort: &str, name: &str| {
        ["", "_internal"].into_iter().find_map(|inner| {
            let object = format!("{sort} {schema}{inner}.{name}");
            let code = sql.split(&format!("create or replace {object}")).nth(1)?;
            code.starts_with(['(', ' ']).then_some(object)
        })
    };
    match name.split_once(' ') {
        Some(("schema", _)) => Some(name.to_owned()),
        Some((sort @ ("table" | "type" | "index" | "function"), name)) => {
            Some(made(sort, name).unwrap_or_else(|| format!("{sort} {schema}.{name}")))
        }
        Some(_) => None,
        None => ["function", "procedure", "view"].into_iter().find_map(|sort| made(sort, name)),
    }
}

/// `column SCHEMA.OBJECT.NAME`, if the object has columns.
fn column_of(object: &str, name: &str) -> Option<String> {
    let (sort, object) = object.split_once(' ')?;
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    (is_name && matches!(sort, "table" | "type" | "view")).then(|| format!("column {object}.{name}"))
}
