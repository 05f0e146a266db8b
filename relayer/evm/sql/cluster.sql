-- cluster: Which PostgreSQL cluster this is, and on which timeline it writes.
--
-- The timeline of the log that is being written: the control file has the former one until the first checkpoint after
-- a promotion.
create or replace function evm.cluster(out system_identifier bigint, out timeline_id integer)
  language sql volatile
  as $$
    select c.system_identifier, ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer
    from pg_control_system() as c
  $$;
