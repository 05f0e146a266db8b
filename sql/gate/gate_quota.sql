-- gate_quota: Trigger on gate: a new quota counts its requests that are in queues already; a closed one that is removed
-- opens.
--
-- Of the messages of each queue it reads up to ten thousand at once; the rest come with the first round of
-- `quota_reconcile`, which begins anew. Those requests stay in their queues until this commits.
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

  -- Usage of an earlier quota of this name. All of it: that of a request which ends in a transaction that saw no quota,
  -- would stay. Locked in the order in which requests leave.
  with earlier as materialized (
    select m.request_id from tidegate.quota_usage as m where m.gate = new.name order by m.request_id for update
  )
  delete from tidegate.quota_usage as m using earlier as e where m.gate = new.name and m.request_id = e.request_id;
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
