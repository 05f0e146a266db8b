-- announce: Tells the nodes which requests ended and which only moved; a hint; returns the number of notifications.
--
-- For a transaction of its own, after the one that moved them: a NOTIFY takes a cluster-wide lock at commit. A payload
-- holds 200 ids, because it has less than 8000 bytes; of each list, ids beyond 10000 are left out. Returns how many
-- notifications it sent.
create or replace function tidegate.announce(ended uuid[], moved uuid[] default '{}')
  returns bigint
  language sql
  security definer
  set search_path = pg_catalog, pg_temp
as $$
  select count(pg_notify('tidegate_moved', n.payload))
  from (
    select news.what || ' ' || string_agg(news.id::text, ' ') as payload
    from (
      select 'ended' as what, e.id, e.place from unnest(announce.ended) with ordinality as e(id, place)
      union all
      select 'moved', m.id, m.place from unnest(announce.moved) with ordinality as m(id, place)
    ) as news
    where news.id is not null and news.place <= 10000
    group by news.what, (news.place - 1) / 200
  ) as n;
$$;
select tidegate_internal.allow('announce', '{api,worker,admin}');
