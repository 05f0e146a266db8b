-- gate_enter: Adds to what a submission has found at caps what it finds at the gate of its queue (see `queue_room`).
create or replace function tidegate_internal.gate_enter(
  p_caps       tidegate.admission,
  p_gate       text,
  p_queue      text,
  p_high_water bigint,
  p_count      integer,
  p_strict     boolean
)
  returns tidegate.admission
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_found record;
begin
  select * into v_found from tidegate_internal.queue_room(p_queue, p_high_water, p_count, p_strict);
  p_caps.room := least(p_caps.room, v_found.room);
  p_caps.counted := p_caps.counted || p_gate;
  p_caps.depths := p_caps.depths || v_found.depth;
  return p_caps;
end;
$$;
