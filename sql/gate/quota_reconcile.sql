-- quota_reconcile: One step round all messages and all members, so that caps count what is in queues, and nothing else;
-- a maintenance duty.
--
-- Returns whether to go on at once: until the first time round after a cap was made. One step a second is enough after
-- that, because submissions and ends keep the count. A submission that began before the cap was made is found here.
create or replace function tidegate.quota_reconcile(batch integer default 5000)
  returns boolean
  language plpgsql
  security definer
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_round  tidegate.gate_round;
  v_queue  text;
  v_member record;
begin
  if not exists (select from tidegate.gate as g where g.queue is null)
    and not exists (select from tidegate.quota_usage as m) then
    return false;
  end if;
  select * into v_round from tidegate.gate_round as r for no key update skip locked;
  if not found then
    return false;
  end if;

  select min(q.name) into v_queue from tidegate.queue as q where q.name >= v_round.queue;
  if v_queue is not null then
    v_round.msg_id := tidegate_internal.quota_usage_add(
      v_queue, case when v_queue = v_round.queue then v_round.msg_id else 0 end, quota_reconcile.batch
    );
    if v_round.msg_id is null then
      select min(q.name) into v_queue from tidegate.queue as q where q.name > v_queue;
    end if;
  end if;
  select * into v_member
  from tidegate_internal.quota_usage_remove(v_round.gate, v_round.request_id, quota_reconcile.batch);
  update tidegate.gate_round as r
  set
    queue = coalesce(v_queue, ''), msg_id = coalesce(v_round.msg_id, 0),
    gate = case when v_member.looked_at = quota_reconcile.batch then v_member.gate else '' end,
    request_id = case
      when v_member.looked_at = quota_reconcile.batch then v_member.request_id
      else '00000000-0000-0000-0000-000000000000'
    end,
    is_new = v_round.is_new and v_queue is not null;
  return v_round.is_new and v_queue is not null;
end;
$$;
select tidegate_internal.allow('quota_reconcile', '{api,worker,admin}');
