-- installation_now: Which database this is at present: what a dump does not take along.
create or replace function tidegate_internal.installation_now(
  out system_identifier bigint, out database_oid oid, out table_oid oid
)
  language plpgsql stable as $$
begin
  select c.system_identifier, d.oid, 'tidegate.installation'::regclass
  into system_identifier, database_oid, table_oid
  from pg_control_system() as c, pg_database as d
  where d.datname = current_database();
end;
$$;
