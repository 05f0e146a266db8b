-- The build of the schema, and what `migrate` has made.

alter table tidegate.schema_state
  add column build   integer not null default 0,
  add column objects jsonb not null default '{}';
