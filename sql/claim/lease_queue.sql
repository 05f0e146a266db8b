-- lease_queue: The one queue that leases name; null without any.
--
-- Raises TG007 when they name more than one, and TG005 when there is no such queue.
create or replace function tidegate_internal.lease_queue(p_leases tidegate.lease[])
  returns text language plpgsql stable as $$
declare
  v_first text;
  v_last  text;
begin
  select min(l.queue), max(l.queue) into v_first, v_last from unnest(p_leases) as l;
  if v_first <> v_last then
    raise exception using errcode = 'TG007', message = 'the leases of one call must all name the same queue',
      hint = 'make a call for the leases of each queue';
  end if;
  if v_first is not null and not exists (select from tidegate.queue as q where q.name = v_first) then
    perform tidegate_internal.require_queue(v_first);
  end if;
  return v_first;
end;
$$;
