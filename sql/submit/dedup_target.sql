-- dedup_target: The request that a stored idempotency key stands for at an instant; null: the key is free.
--
-- It is the newest for which the key stands (see `key_stands`), of the request that it was accepted with, and those
-- that this was redriven as.
create or replace function tidegate_internal.dedup_target(p_key tidegate.dedup, p_now timestamptz)
  returns uuid language plpgsql stable as $$
declare
  v_id     uuid := p_key.request_id;
  v_stands boolean;
  v_failed boolean;
  v_target uuid;
  v_mark   uuid;
begin
  -- Links written by hand may lead round in a circle: it is left at a request that a mark was set at, which moves on
  -- after 1, 2, 4, … steps.
  for v_step in 1 .. 2147483647 loop
    exit when v_id = v_mark;
    v_mark := case when v_step & (v_step - 1) = 0 then v_id else v_mark end;
    select tidegate_internal.key_stands(r, p_key, p_now), r.req_status in ('failure', 'timed_out')
    into v_stands, v_failed
    from tidegate.request as r
    where r.id = v_id;
    if v_stands then
      v_target := v_id;
    end if;
    exit when v_failed is not true;
    select v.redriven_as into v_id from tidegate.redrive as v where v.request_id = v_id;
    exit when v_id is null;
  end loop;
  return v_target;
end;
$$;
