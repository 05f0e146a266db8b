-- try_each: Does to requests what a duty has to do, together; those that it fails for are recorded and passed over.
-- Returns what the action returns.
--
-- `p_action` is a query: $1 are requests, $2 is the part of `p_more` that belongs to them, and its result is an array
-- of requests. A foreign key or a trigger of an application may refuse one of them: the action is rolled back, and done
-- again for each half, until that request is alone. It is tried again after a minute, and then after as long as it has
-- been refused, an hour at most. An error that says nothing of requests (no connection, a deadlock, a full disk, no
-- writes) is raised again.
create or replace function tidegate_internal.try_each(
  p_duty text, p_ids uuid[], p_action text, p_more text[] default null
)
  returns uuid[] language plpgsql as $$
declare
  v_now   constant timestamptz := tidegate.clock();
  v_half  constant integer := cardinality(p_ids) / 2;
  v_state text;
  v_error text;
  v_done  uuid[];
begin
  begin
    execute p_action into v_done using p_ids, p_more;
    delete from tidegate.passed_over as n where n.request_id = any(p_ids) and n.duty = p_duty;
    return coalesce(v_done, '{}');
  exception when others then
    get stacked diagnostics v_state = returned_sqlstate, v_error = message_text;
    if v_state ~ '^(08|25|40|53|57|58)' or v_state = '55P03' then
      raise;
    end if;
  end;

  if v_half > 0 then
    return tidegate_internal.try_each(p_duty, p_ids[:v_half], p_action, p_more[:v_half])
      || tidegate_internal.try_each(p_duty, p_ids[v_half + 1:], p_action, p_more[v_half + 1:]);
  end if;
  insert into tidegate.passed_over as n (request_id, duty, since, retry_at, error)
  values (p_ids[1], p_duty, v_now, v_now + interval '1 minute', v_error)
  on conflict (request_id, duty) do update
  set retry_at = v_now + least(greatest(v_now - n.since, interval '1 minute'), interval '1 hour'), error = v_error;
  return '{}';
end;
$$;
