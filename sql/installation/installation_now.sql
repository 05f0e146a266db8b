-- installation_now: Which database this is at present: what a dump does not take along.
create or replace function tidegate_internal.installation_now(
  out system_identifier bigint, out database_oid oid, out table_oid oid
)
  language sql stable
return (
  (select c.system_identifier from pg_control_system() as c),
  (select d.oid from pg_database as d where d.datname = current_database()),
  'tidegate.installation'::regclass::oid
);
