-- queue_room: for how many more messages a queue's gate has room, and how many it holds
--
-- Goes by numbers, which tell exactly or too little: `room` may be less than it is while it is at least `p_count`. Only when they
-- tell less, the queue is counted: then `depth` is how many messages it holds.
--
-- `p_strict`: what open draws have announced is not free. Most of them end within milliseconds, so while they take the room that
-- is asked for, it is counted again, for 16 ms at most. Else only what the caller sees takes room, and it waits for nothing.
create or replace function tidegate_internal.queue_room(
  p_queue      text,
  p_high_water bigint,
  p_count      integer,
  p_strict     boolean,
  out room     bigint,
  out depth    bigint
)
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_looks   constant integer := 5;
  v_pause   constant interval := '4 milliseconds';
  v_numbers record;
begin
  for v_look in 0 .. v_looks loop
    if v_look > 0 then
      depth := tidegate_internal.refresh_offset(p_queue, p_strict, v_numbers.dead);
    end if;
    select * into v_numbers from tidegate_internal.queue_numbers(p_queue);
    room := greatest(0, v_numbers.dead + p_high_water - v_numbers.last);
    exit when room >= p_count;
    if v_look > 0 then
      exit when not p_strict or room >= p_high_water - depth;
      perform pg_sleep_for(v_pause);
    end if;
  end loop;
  if not p_strict and room < p_count then
    depth := coalesce(depth, tidegate_internal.queue_depth(p_queue, p_high_water::integer + 1));
    room := greatest(0, p_high_water - depth);
  end if;
end;
$$;

comment on function tidegate_internal.queue_room is
  'For how many more messages a queue''s gate has room, and how many it holds.';
