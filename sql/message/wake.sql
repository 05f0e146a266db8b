-- wake: Notifies the workers of a queue that it has messages to claim; a hint.
--
-- For a transaction of its own: a NOTIFY takes a cluster-wide lock at commit. A hint only: workers poll as well.
create or replace function tidegate.wake(queue text)
  returns void language sql security definer
return pg_notify('tidegate_queue', wake.queue);
select tidegate_internal.allow('wake', '{api,worker,admin}');
