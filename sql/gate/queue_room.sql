-- queue_room: How many more messages a queue's gate admits, and how many requests the queue holds.
--
-- By the numbers that were drawn, less those known to be dead: never fewer than the messages. While they leave room for
-- `p_count`, nothing is counted, and `depth` is null. Else the queue is counted, and more numbers are known to be dead.
--
-- `p_strict`: numbers that open transactions have registered take room. Most of them end within milliseconds, so while
-- these take the room that is asked for, the queue is counted again, for 16 ms at most. Without it, only messages that
-- the caller sees take room, and it waits for nothing.
create or replace function tidegate_internal.queue_room(
  p_queue text, p_high_water bigint, p_count integer, p_strict boolean,
  out room bigint, out depth bigint
)
  language plpgsql as $$
declare
  v_counts_max constant integer := 5;
  v_pause      constant interval := '4 milliseconds';
  v_numbers    record;
begin
  for v_count_no in 0 .. v_counts_max loop
    if v_count_no > 0 then
      depth := tidegate_internal.refresh_offset(p_queue, p_strict, v_numbers.dead);
    end if;
    select * into v_numbers from tidegate_internal.queue_numbers(p_queue);
    room := greatest(0, v_numbers.dead + p_high_water - v_numbers.last);
    exit when room >= p_count;
    if v_count_no > 0 then
      exit when not p_strict or v_count_no = v_counts_max or room >= p_high_water - depth;
      perform pg_sleep_for(v_pause);
    end if;
  end loop;
  -- By the numbers fewer are left, if others have counted since.
  if p_strict and depth is not null and room > 0 then
    depth := least(depth, p_high_water - room);
  end if;
  if not p_strict and room < p_count then
    depth := coalesce(depth, tidegate_internal.queue_depth(p_queue, p_high_water::integer + 1));
    room := greatest(0, p_high_water - depth);
  end if;
end;
$$;
