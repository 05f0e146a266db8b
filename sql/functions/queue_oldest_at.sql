-- tidegate.queue_oldest_at: since when the message at the head of a queue has been in it; null: the queue is empty
create or replace function tidegate.queue_oldest_at(queue text)
  returns timestamptz
  language plpgsql
  stable
  security definer
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_at timestamptz;
begin
  if to_regclass(tidegate.queue_table(queue_oldest_at.queue)) is not null then
    execute format('select m.enqueued_at from %s as m order by m.msg_id limit 1', tidegate.queue_table(queue_oldest_at.queue))
    into v_at;
  end if;
  return v_at;
end;
$$;
