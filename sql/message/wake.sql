-- wake: Notifies the workers of a queue that it has messages to claim; a hint.
--
-- For a transaction of its own: a NOTIFY takes a cluster-wide lock at commit. A hint only: workers poll as well.
create or replace function tidegate.wake(queue text)
  returns void language plpgsql security definer as $$
begin
  perform pg_notify('tidegate_queue', wake.queue);
end;
$$;
select tidegate_internal.allow('wake', '{api,worker,admin}');
