-- look_for_room: what `queue_numbers` tells, refreshed if by that there is no room for `p_count`
--
-- Submissions that are open at this moment take room; most end within milliseconds, and then it shows whether they have filled
-- the gate. So a patient caller looks again while there are some, for 16 ms at most, even if it has drawn numbers itself
-- earlier in its transaction. A caller that is not patient waits for no other's count and looks once.
create or replace function tidegate_internal.look_for_room(
  p_queue text, p_high_water bigint, p_count integer, p_patient boolean, out dead bigint, out last bigint
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
    exit when last + p_count <= dead + p_high_water;
    if v_look > 1 then
      exit when not p_patient or tidegate_internal.open_draws(p_queue) = 0;
      perform pg_sleep_for(v_pause);
    end if;
    perform tidegate_internal.refresh_offset(p_queue, p_patient, dead);
    select k.dead, k.last into look_for_room.dead, look_for_room.last from tidegate_internal.queue_numbers(p_queue) as k;
  end loop;
end;
$$;

comment on function tidegate_internal.look_for_room is
  'The last number of a queue and how many are dead, counted again if they leave no room.';
