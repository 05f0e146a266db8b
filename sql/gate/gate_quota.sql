-- gate_quota: Trigger on gate, for quotas: counts the requests in queues for a new quota, and opens a closed quota that
-- is removed.
--
-- It counts the held requests and up to 10,000 messages of each queue; `quota_reconcile`, whose round is restarted,
-- counts the rest. The counted requests are locked, so that none leaves its queue before this commits, and the
-- transaction that ends one finds its usage.
create or replace function tidegate_internal.gate_quota()
  returns trigger language plpgsql security definer as $$
declare
  v_batch constant integer := 10000;
  v_queue text;
begin
  if coalesce(new.queue, old.queue) is not null then
    return null;
  elsif tg_op = 'DELETE' then
    if old.state = 'too_many_requests' then
      old.depth := tidegate_internal.gate_depth(old);
      old.state := 'accepting';
      perform tidegate_internal.gate_change(old, 'removed', true);
    end if;
    return null;
  end if;

  -- All usage of an earlier quota of this name goes. A row that stayed would keep its request from being locked below,
  -- and a transaction whose snapshot lacks the new quota would end that request without deleting the row. Locked by
  -- request id, as in `quota_leave`.
  with earlier as materialized (
    select u.request_id from tidegate.quota_usage as u where u.gate = new.name order by u.request_id for update
  )
  delete from tidegate.quota_usage as u using earlier as e where u.gate = new.name and u.request_id = e.request_id;
  for v_queue in select q.name from tidegate.queue as q order by q.name loop
    perform tidegate_internal.quota_usage_add(v_queue, 0, v_batch, new.name);
  end loop;
  update tidegate.gate_round as r set queue = '', msg_id = 0, is_new = true;
  perform tidegate_internal.gate_evaluate(new.name);
  return null;
end;
$$;

create or replace trigger gate_quota
  after insert or delete on tidegate.gate
  for each row execute function tidegate_internal.gate_quota();
