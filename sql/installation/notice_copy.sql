-- notice_copy: Quarantines a database that is a copy of the one that was recorded, and records one that is not known
-- yet; returns since when and why it is quarantined, no row if it is not.
--
-- Programs call it at their start and every ten seconds. A copy is a database of another cluster, or another one of
-- the same cluster: restored from a dump, made from a template, or replicated. So is what pg_upgrade makes: adopt it.
-- A copy of a whole cluster's files cannot be told from its original after a failover.
create or replace function tidegate.notice_copy()
  returns table (quarantined_at timestamptz, because text) language plpgsql security definer as $$
begin
  if not current_setting('transaction_read_only')::boolean then
    update tidegate.installation as i
    set
      (system_identifier, database_oid, table_oid) = (n.system_identifier, n.database_oid, n.table_oid)
    from tidegate_internal.installation_now() as n
    where i.table_oid is null;
    update tidegate.installation as i
    set
      quarantined_at = tidegate.clock(),
      quarantined_because = format('it is a copy: it was database %s of cluster %s, and is database %s of cluster %s',
        i.database_oid, i.system_identifier, n.database_oid, n.system_identifier)
    from tidegate_internal.installation_now() as n
    where i.quarantined_at is null
      and (i.system_identifier, i.database_oid, i.table_oid) is distinct from
        (n.system_identifier, n.database_oid, n.table_oid);
  end if;
  return query select s.since, s.because from tidegate.quarantine_state as s;
end;
$$;
select tidegate_internal.allow('notice_copy', '{api,worker,admin}');
