-- kinds_watermark: The number from which a claim for some kinds searches for their messages.
create or replace function tidegate_internal.kinds_watermark(p_queue text, p_kinds text[])
  returns bigint language plpgsql stable as $$
declare
  v_epoch constant bigint := coalesce(pg_sequence_last_value(tidegate_internal.queue_counter(p_queue, 'epoch')), 0);
begin
  return (
    select min(coalesce(m.mark, 0))
    from tidegate.kind as k
    left join tidegate.kind_watermark as m on m.queue = p_queue and m.kind = k.name and m.epoch = v_epoch
    where k.name = any(p_kinds)
  );
end;
$$;
