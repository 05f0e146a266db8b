-- tidegate.look_at_drained: `look_at_gate` for the gate of a queue that messages have left, if it is closed
create or replace function tidegate.look_at_drained(p_queue text)
  returns void
  language plpgsql
as $$
begin
  if exists (
    select from tidegate.gate as g where g.queue = p_queue and g.state = 'too_many_requests' and not g.forced
  ) then
    perform tidegate.look_at_gate(p_queue);
  end if;
end;
$$;
