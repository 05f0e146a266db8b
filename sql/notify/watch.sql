-- watch: Asks the processes that end requests, or with moves also those that move them, to announce them for a while; a
-- hint.
--
-- For a transaction of its own: a NOTIFY takes a cluster-wide lock at commit. A hint only: nodes with waiters poll as
-- well.
create or replace function tidegate.watch(moves boolean default false)
  returns void language plpgsql security definer as $$
begin
  perform pg_notify('tidegate_watch', case when watch.moves then 'moved' else 'ended' end);
end;
$$;
select tidegate_internal.allow('watch', '{api,worker,admin}');
