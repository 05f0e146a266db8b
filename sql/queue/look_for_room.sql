-- look_for_room: refreshes the offset of a queue whose numbers have run out, until there is room for `p_count`, or certainly none
--
-- Returns what `queue_numbers` tells then. Submissions that are open at this moment take room; most end within milliseconds, and
-- then it shows whether they have filled the gate. Looks again a few times while there are some, and no longer.
create or replace function tidegate_internal.look_for_room(
  p_queue text, p_high_water bigint, p_count integer, out dead bigint, out last bigint
)
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_looks constant integer := 5;
  v_pause constant interval := '4 milliseconds';
begin
  select k.dead, k.last into look_for_room.dead, look_for_room.last from tidegate_internal.queue_numbers(p_queue) as k;
  for v_look in 1 .. v_looks loop
    perform tidegate_internal.refresh_offset(p_queue, true, dead);
    select k.dead, k.last into look_for_room.dead, look_for_room.last from tidegate_internal.queue_numbers(p_queue) as k;
    exit when last + p_count <= dead + p_high_water or v_look = v_looks or tidegate_internal.open_draws(p_queue) = 0;
    perform pg_sleep_for(v_pause);
  end loop;
end;
$$;

comment on function tidegate_internal.look_for_room is
  'Refreshes the offset of a queue whose numbers have run out, until it has room or certainly none.';
