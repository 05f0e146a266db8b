-- watch: Asks whoever ends requests, or with moves also whoever moves them, to announce them for a while; a hint.
--
-- With `moves`, every change of status is asked for. For a transaction of its own: a NOTIFY takes a cluster-wide lock
-- at commit. A hint only: whoever waits looks as well.
create or replace function tidegate.watch(moves boolean default false)
  returns void
  language sql
  security definer
  set search_path = pg_catalog, pg_temp
as $$
  select pg_notify('tidegate_watch', case when watch.moves then 'moved' else 'ended' end);
$$;
select tidegate_internal.allow('watch', '{api,worker,admin}');
