-- announce: Notifies the nodes which requests ended and which only moved; a hint; returns the number of notifications.
--
-- For a transaction of its own, after the one that moved them: a NOTIFY takes a cluster-wide lock at commit. A payload
-- holds 200 ids, because it has less than 8000 bytes; of each list, ids beyond 10000 are left out.
create or replace function tidegate.announce(ended uuid[], moved uuid[] default '{}')
  returns bigint language plpgsql security definer as $$
begin
  return (
    select count(pg_notify('tidegate_moved', n.payload))
    from (
      select n.event || ' ' || string_agg(n.id::text, ' ') as payload
      from (
        select 'ended' as event, e.id, e.place from unnest(announce.ended) with ordinality as e(id, place)
        union all
        select 'moved', m.id, m.place from unnest(announce.moved) with ordinality as m(id, place)
      ) as n
      where n.id is not null and n.place <= 10000
      group by n.event, (n.place - 1) / 200
    ) as n
  );
end;
$$;
select tidegate_internal.allow('announce', '{api,worker,admin}');
