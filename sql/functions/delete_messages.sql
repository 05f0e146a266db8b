-- tidegate.delete_messages: removes messages from a queue; with `p_drained`, counts them as served by it
create or replace function tidegate.delete_messages(p_queue text, p_msg_ids bigint[], p_drained boolean)
  returns void
  language plpgsql
as $$
begin
  if coalesce(cardinality(p_msg_ids), 0) = 0 then
    return;
  end if;

  execute format('delete from %s where msg_id = any($1)', tidegate.queue_table(p_queue)) using p_msg_ids;

  if p_drained then
    insert into tidegate.queue_drain (queue, drained) values (p_queue, cardinality(p_msg_ids));
  end if;
end;
$$;
