-- sweep_inbox: Maintenance: applies early responses in response_inbox or marks them late; returns how many it applied.
--
-- A safety net: receipts apply their own early responses. So one call reads the next `batch` of them only, and the next
-- call goes on from there; `everything` reads all. A response under a reference that no request has is deleted, and
-- counted, once it is older than the longest deadline of a request: no receipt can bring its reference any more.
create or replace function tidegate.sweep_inbox(batch integer default 1000, everything boolean default false)
  returns bigint language plpgsql security definer
  set plan_cache_mode = force_generic_plan
as $$
declare
  v_from  bigint := coalesce(pg_sequence_last_value('tidegate.inbox_cursor'), 0);
  v_to    bigint;
  v_slice record;
  v_ids   uuid[];
begin
  if everything then
    v_from := -1;
    v_to := 9223372036854775807;
  else
    select count(*) as found, max(s.id) as last into v_slice
    from (
      select i.id from tidegate.response_inbox as i where not i.late and i.id > v_from order by i.id limit batch
    ) as s;
    v_to := v_slice.last;
    -- After the last slice the next call goes on from the beginning.
    perform setval('tidegate.inbox_cursor', case v_slice.found when batch then v_to else 0 end)
    where v_from > 0 or v_slice.found = batch;
    if v_to is null then
      return 0;
    end if;
  end if;

  with gone as (
    delete from tidegate.response_inbox as i
    where not i.late and i.id > v_from and i.id <= v_to and i.request_id is null
      and i.received_at < tidegate.clock() - tidegate_internal.longest_deadline()
      and not exists (select from tidegate.request_reference as f where f.reference = i.reference)
    returning 1
  )
  update tidegate.inbox_total as t
  set expired = t.expired + g.responses
  from (select count(*) as responses from gone) as g
  where g.responses > 0;

  perform tidegate_internal.lock_names('reference', array(
    select i.reference
    from tidegate.response_inbox as i
    join tidegate.request_reference as f on f.reference = i.reference
    where not i.late and i.request_id is null and i.id > v_from and i.id <= v_to
    order by i.id
    limit batch
  ));

  -- Only requests that await a response or have ended: the others' responses stay early, and must keep neither this
  -- sweep from later ones nor, by a lock on their rows, a claim or a settle waiting.
  select array_agg(distinct addressed.id) into v_ids
  from (
    select r.id
    from tidegate.response_inbox as i
    left join tidegate.request_reference as f on f.reference = i.reference
    join tidegate.request as r on r.id = coalesce(i.request_id, f.request_id)
    where not i.late and i.id > v_from and i.id <= v_to
      and r.req_status not in ('queued', 'processing', 'tx_in_flight')
      and not tidegate_internal.is_passed_over(r.id, 'sweep_inbox')
    order by i.id
    limit batch
  ) as addressed;
  if v_ids is null then
    return 0;
  end if;

  perform from (select 1 from tidegate.request as r where r.id = any(v_ids) order by r.id for update) as locked;
  -- An entry for each response that was applied.
  return cardinality(tidegate_internal.try_each(
    'sweep_inbox', v_ids, 'select array_fill($1[1], array[tidegate_internal.apply_inbox($1)::integer])'
  ));
end;
$$;
select tidegate_internal.allow('sweep_inbox', '{api,worker,admin}');
