-- require_fair_queue: The fair queue of this name.
--
-- Raises TG005 for an unknown queue, TG007 for a fifo queue.
create or replace function tidegate_internal.require_fair_queue(p_queue text)
  returns tidegate.queue language plpgsql stable as $$
declare
  v_queue constant tidegate.queue := tidegate_internal.require_queue(p_queue);
begin
  if v_queue.fair_by is null then
    raise exception using errcode = 'TG007', message = format('queue "%s" is fifo: it has no turns', p_queue);
  end if;
  return v_queue;
end;
$$;
