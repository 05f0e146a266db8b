-- queue_room: for how many more messages a queue's gate has room, as far as `p_count`; null: for any number
--
-- What open draws have announced is not free, except at a soft gate, which counts what it sees. Refreshes the offset when it
-- says less than is asked for.
create or replace function tidegate_internal.queue_room(p_queue text, p_high_water bigint, p_count integer, p_soft boolean)
  returns bigint
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_numbers record;
begin
  if p_high_water is null then
    return null;
  end if;
  select * into v_numbers from tidegate_internal.look_for_room(p_queue, p_high_water, p_count, true);
  return case
    when p_soft and v_numbers.last + p_count > v_numbers.dead + p_high_water
      then (select greatest(0, p_high_water - c.depth) from tidegate_internal.queue_count(p_queue, p_high_water::integer) as c)
    else greatest(0, v_numbers.dead + p_high_water - v_numbers.last)
  end;
end;
$$;

comment on function tidegate_internal.queue_room is 'For how many more messages a queue''s gate has room.';
