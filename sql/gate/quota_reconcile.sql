-- quota_reconcile: Maintenance duty: compares some messages and some quota usage, so that quotas count the requests in
-- queues, and nothing else.
--
-- Returns whether to go on at once: until the end of the first round after a quota was made. One step a second is
-- enough after that, because submissions and ends keep the count. A submission that began before the quota was made is
-- found here.
create or replace function tidegate.quota_reconcile(batch integer default 5000)
  returns boolean language plpgsql security definer as $$
declare
  v_round tidegate.gate_round;
  v_queue text;
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
  -- Usage goes with its request. Left to find here is that of quotas which are gone, and of requests that were ended in
  -- a transaction that did not see the quota yet.
  with batch as materialized (
    select u.gate, u.request_id
    from tidegate.quota_usage as u
    where (u.gate, u.request_id) > (v_round.gate, v_round.request_id)
    order by u.gate, u.request_id
    limit quota_reconcile.batch
  ), stale as materialized (
    select u.gate, u.request_id
    from batch as b
    join tidegate.quota_usage as u on u.gate = b.gate and u.request_id = b.request_id
    where not exists (
      select from tidegate.request as r
      join tidegate.gate as g on g.kind = r.kind or g.submitter = r.submitter
      where r.id = u.request_id and g.name = u.gate and r.req_status in ('queued', 'processing', 'tx_in_flight')
    )
    for update of u skip locked
  ), gone as (
    delete from tidegate.quota_usage as u using stale as s where u.gate = s.gate and u.request_id = s.request_id
  )
  select b.gate, b.request_id into v_round.gate, v_round.request_id
  from batch as b
  order by b.gate, b.request_id
  offset quota_reconcile.batch - 1;
  update tidegate.gate_round as r
  set
    queue = coalesce(v_queue, ''), msg_id = coalesce(v_round.msg_id, 0), gate = coalesce(v_round.gate, ''),
    request_id = coalesce(v_round.request_id, '00000000-0000-0000-0000-000000000000'),
    is_new = v_round.is_new and v_queue is not null;
  return v_round.is_new and v_queue is not null;
end;
$$;
select tidegate_internal.allow('quota_reconcile', '{api,worker,admin}');
