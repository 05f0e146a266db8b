-- require_queue: The row of a queue that serves the given stage, else TG005.
--
-- Raises TG005 for an unknown queue, and for one that serves the other stage.
create or replace function tidegate_internal.require_queue(p_queue text, p_stage tidegate.stage default null)
  returns tidegate.queue language plpgsql stable as $$
declare
  v_queue tidegate.queue;
begin
  select * into v_queue from tidegate.queue as q where q.name = p_queue;
  if not found then
    raise exception using errcode = 'TG005', message = format('there is no queue "%s"', p_queue),
      hint = tidegate_internal.did_you_mean(p_queue, array(select q.name from tidegate.queue as q order by q.name))
        || '`tidegate status` shows the queues, or select name, stage from tidegate.queue';
  end if;
  if v_queue.stage <> p_stage then
    raise exception using errcode = 'TG005',
      message = format('queue "%s" serves the %s stage, not the %s stage', p_queue, v_queue.stage, p_stage);
  end if;
  return v_queue;
end;
$$;
