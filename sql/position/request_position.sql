-- request_position: How many waiting messages stand before a request's; 0: next, or held; null: in no queue, or
-- unknown.
--
-- Null when the request is in no queue, or unknown. Exact while the queue is quiet: deep in a busy one, what was
-- cancelled or came due in the last seconds may be missing from it (see `waiting_before`). Slow where maintenance has
-- not run lately.
create or replace function tidegate.request_position(id uuid)
  returns bigint language plpgsql stable security definer as $$
declare
  v_now constant timestamptz := tidegate.clock();
begin
  return (
    select case when l.held then 0 when l.held is not null or w.vt is not null then w.waiting end
    from tidegate.request as r
    cross join lateral (
      select bool_or(tidegate.is_held(c.until, c.lease_ms, v_now)) as held
      from tidegate.claim as c
      where c.token = r.lease and r.id = any(c.ids)
    ) as l
    -- Nothing is counted for a held one.
    left join lateral tidegate_internal.waiting_before(
      case when l.held is not true then r.queue end, array[r.msg_id], null, v_now
    ) as w on true
    where r.id = request_position.id
  );
end;
$$;
select tidegate_internal.allow('request_position', '{reader,api,worker,admin}');
