-- dedup_target: The request that a key now stands for: the one it was accepted with, or the one that this was redriven
-- as.
--
-- Null when that has failed or timed out, too, or is gone: then the key stands for none.
create or replace function tidegate_internal.dedup_target(p_id uuid)
  returns uuid language plpgsql stable as $$
declare
  v_id     uuid := p_id;
  v_failed boolean;
begin
  -- Bounded: links written by hand may lead round in a circle.
  for v_step in 1 .. 1000 loop
    select r.req_status in ('failure', 'timed_out') into v_failed from tidegate.request as r where r.id = v_id;
    if not v_failed then
      return v_id;
    end if;
    select v.redriven_as into v_id from tidegate.redrive as v where v.request_id = v_id;
    if v_id is null then
      return null;
    end if;
  end loop;
  return null;
end;
$$;
