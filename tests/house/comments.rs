//! Does the database explain itself? Every object of its schemas has a comment.

use sqlx::Row;

use crate::support::TestDatabase;

/// Everything that is to have a comment, with the one it has. The history's partitions by day are made by maintenance
/// and explained by their parent; a primary key explains itself.
const OBJECTS: &str = r"
with relation as (
  select c.oid, c.relname, c.relkind
  from pg_class as c
  where c.relnamespace = 'tidegate'::regnamespace and c.relname !~ '^stored_event_\d{4}_\d\d_\d\d'
)
select 'schema' as what, n.nspname::text as name, obj_description(n.oid, 'pg_namespace') as comment
from pg_namespace as n
where n.nspname in ('tidegate', 'tidegate_internal')
union all
select
  case r.relkind when 'v' then 'view' when 'i' then 'index' else 'table' end, r.relname,
  obj_description(r.oid, 'pg_class')
from relation as r
where r.relkind in ('r', 'p', 'v', 'm', 'i')
  and not exists (select from pg_index as i where i.indexrelid = r.oid and i.indisprimary)
union all
select 'column', r.relname || '.' || a.attname, col_description(r.oid, a.attnum)
from relation as r
join pg_attribute as a on a.attrelid = r.oid and a.attnum > 0 and not a.attisdropped
where r.relkind in ('r', 'p', 'v', 'm', 'c')
union all
select
  case p.prokind when 'p' then 'procedure' else 'function' end, p.oid::regprocedure::text,
  obj_description(p.oid, 'pg_proc')
from pg_proc as p
where p.pronamespace in ('tidegate'::regnamespace, 'tidegate_internal'::regnamespace)
union all
select 'type', t.typname, obj_description(t.oid, 'pg_type')
from pg_type as t
left join pg_class as c on c.oid = t.typrelid
where t.typnamespace = 'tidegate'::regnamespace and t.typcategory <> 'A' and (t.typrelid = 0 or c.relkind = 'c')
order by 1, 2
";

#[tokio::test(flavor = "multi_thread")]
async fn every_object_has_a_comment() {
    let database = TestDatabase::uninitialised().await;

    let objects = sqlx::query(OBJECTS).fetch_all(&database.pool).await.unwrap();
    let name = |row: &sqlx::postgres::PgRow| format!("{} {}", row.get::<String, _>(0), row.get::<String, _>(1));
    let without: Vec<String> = objects
        .iter()
        .filter(|row| row.get::<Option<String>, _>(2).is_none_or(|said| said.trim().is_empty()))
        .map(name)
        .collect();

    assert!(without.is_empty(), "{} without a comment: {without:#?}", without.len());
    // The list itself is whole: one of each sort is on it.
    for known in ["table request", "column request.id", "view queue_overview", "type lease", "column lease.token"] {
        assert!(objects.iter().any(|row| name(row) == known), "{known}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_enum_comment_names_its_values() {
    let database = TestDatabase::uninitialised().await;

    let unnamed: Vec<String> = sqlx::query_scalar(
        "select t.typname || '.' || e.enumlabel
         from pg_type as t
         join pg_enum as e on e.enumtypid = t.oid
         where t.typnamespace = 'tidegate'::regnamespace
           and coalesce(obj_description(t.oid, 'pg_type'), '') !~ ('\\m' || e.enumlabel || ' \\(')",
    )
    .fetch_all(&database.pool)
    .await
    .unwrap();

    assert!(unnamed.is_empty(), "values that their type's comment does not explain: {unnamed:?}");
}
