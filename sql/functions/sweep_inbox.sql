-- tidegate.sweep_inbox: applies early responses whose request awaits one by now; marks those whose request has ended
--
-- A safety net: receipts apply their own early responses. Returns how many responses it applied.
create or replace function tidegate.sweep_inbox(batch integer default 1000)
  returns bigint
  language plpgsql
  security definer
  set search_path = pg_catalog, pg_temp
  set jit = off
  set plan_cache_mode = force_generic_plan
as $$
declare
  v_ids uuid[];
begin
  perform tidegate.lock_references(array(
    select i.reference
    from tidegate.response_inbox as i
    join tidegate.request_reference as f on f.reference = i.reference
    where not i.late and i.request_id is null
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
    where not i.late and r.req_status not in ('queued', 'processing', 'tx_in_flight')
    order by i.id
    limit batch
  ) as addressed;
  if v_ids is null then
    return 0;
  end if;

  perform from (select 1 from tidegate.request as r where r.id = any(v_ids) order by r.id for update) as locked;
  return tidegate.apply_inbox(v_ids);
end;
$$;
