-- queue_depth: How many messages a queue holds, whatever their state; beyond some thousands, those that wait.
create or replace function tidegate_internal.queue_depth(p_queue text, p_counted integer default 4000)
  returns bigint language plpgsql stable as $$
declare
  v_depth bigint := (select c.depth from tidegate_internal.queue_count(p_queue, p_counted) as c);
begin
  if v_depth >= p_counted then
    v_depth := greatest(v_depth, (
      select w.waiting from tidegate_internal.waiting_before(p_queue, array[null::bigint], p_counted) as w
    ));
  end if;
  return v_depth;
end;
$$;
