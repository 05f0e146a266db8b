-- quota_leave: Requests that are in no queue any more do not count at the gates of their kind and submitter.
create or replace function tidegate_internal.quota_leave(p_ids uuid[])
  returns void language plpgsql as $$
declare
  v_gates text[];
begin
  -- Locked in the order in which a new quota removes the usage of an earlier one.
  with counted as materialized (
    select m.gate, m.request_id
    from tidegate.quota_usage as m
    where m.request_id = any(p_ids)
    order by m.request_id
    for update
  ), gone as (
    delete from tidegate.quota_usage as m using counted as c where m.gate = c.gate and m.request_id = c.request_id
    returning m.gate
  )
  select array_agg(distinct g.gate order by g.gate) into v_gates from gone as g;
  perform tidegate_internal.gate_evaluate(g.gate, 'too_many_requests') from unnest(v_gates) as g(gate);
end;
$$;
